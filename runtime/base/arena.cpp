#include "runtime/base/arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "runtime/base/checked_math.h"

namespace aipu {
namespace {

// Memory that one request, or a chain of requests that take it over from each other, occupies.
struct Block {
  int64_t size_bytes = 0;
  uint32_t first_use = 0;
  uint32_t last_use = 0;
  int64_t offset = 0;
};

constexpr size_t kMaxBlocksForSecondPass = 4096;

// Best fit in order of time: the free ranges below the high-water mark, by address and by size.
class FreeList {
 public:
  int64_t take(int64_t size) {
    auto fit = by_size_.lower_bound({size, 0});
    if (fit == by_size_.end()) {
      // Nothing fits: extend the last range if it touches the top, else start there.
      int64_t offset = top_;
      if (!by_offset_.empty()) {
        const auto last = std::prev(by_offset_.end());
        if (last->first + last->second == top_) {
          offset = last->first;
          erase(last->first, last->second);
        }
      }
      top_ = offset + size;
      return offset;
    }
    const auto [range_size, offset] = *fit;
    erase(offset, range_size);
    if (range_size > size) insert(offset + size, range_size - size);
    return offset;
  }

  void give_back(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + size == next->first) {
      const int64_t next_size = next->second;
      erase(next->first, next_size);
      size += next_size;
    }
    auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [previous, previous_size] = *std::prev(after);
      if (previous + previous_size == offset) {
        erase(previous, previous_size);
        offset = previous;
        size += previous_size;
      }
    }
    insert(offset, size);
  }

  int64_t top() const { return top_; }

 private:
  void insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void erase(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t top_ = 0;
};

int64_t place_in_time_order(std::vector<Block>& blocks) {
  std::vector<uint32_t> starts(blocks.size());
  std::iota(starts.begin(), starts.end(), 0u);
  std::vector<uint32_t> ends = starts;
  // Among blocks that start together the large ones go first, so that small ones fill what is left.
  std::stable_sort(starts.begin(), starts.end(), [&](uint32_t a, uint32_t b) {
    if (blocks[a].first_use != blocks[b].first_use) return blocks[a].first_use < blocks[b].first_use;
    return blocks[a].size_bytes > blocks[b].size_bytes;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](uint32_t a, uint32_t b) { return blocks[a].last_use < blocks[b].last_use; });

  FreeList free_list;
  size_t ended = 0;
  for (const uint32_t index : starts) {
    Block& block = blocks[index];
    while (ended < ends.size() && blocks[ends[ended]].last_use < block.first_use) {
      const Block& dead = blocks[ends[ended++]];
      free_list.give_back(dead.offset, dead.size_bytes);
    }
    block.offset = free_list.take(block.size_bytes);
  }
  return free_list.top();
}

// Large blocks first, each into the smallest gap between the placed blocks that live at the same time.
int64_t place_in_size_order(std::vector<Block>& blocks) {
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return blocks[a].size_bytes > blocks[b].size_bytes; });

  std::vector<uint32_t> placed;  // by offset
  placed.reserve(blocks.size());
  int64_t top = 0;
  for (const uint32_t index : order) {
    Block& block = blocks[index];
    int64_t best_offset = -1;
    int64_t best_gap = 0;
    int64_t end_of_previous = 0;
    for (const uint32_t other_index : placed) {
      const Block& other = blocks[other_index];
      if (other.last_use < block.first_use || block.last_use < other.first_use) continue;
      const int64_t gap = other.offset - end_of_previous;
      if (gap >= block.size_bytes && (best_offset < 0 || gap < best_gap)) {
        best_offset = end_of_previous;
        best_gap = gap;
      }
      end_of_previous = std::max(end_of_previous, other.offset + other.size_bytes);
    }
    block.offset = best_offset >= 0 ? best_offset : end_of_previous;
    top = std::max(top, block.offset + block.size_bytes);
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), block.offset,
                         [&](int64_t offset, uint32_t other) { return offset < blocks[other].offset; });
    placed.insert(position, index);
  }
  return top;
}

int64_t most_alive_at_once(const std::vector<Block>& blocks) {
  std::vector<std::pair<uint64_t, int64_t>> changes;  // time, bytes; an end counts after its last use
  changes.reserve(blocks.size() * 2);
  for (const Block& block : blocks) {
    changes.emplace_back(block.first_use, block.size_bytes);
    changes.emplace_back(uint64_t{block.last_use} + 1, -block.size_bytes);
  }
  std::sort(changes.begin(), changes.end());  // at equal times the negative ones come first
  int64_t alive = 0;
  int64_t most = 0;
  for (const auto& [time, bytes] : changes) {
    alive += bytes;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

Result<ArenaPlan> solve_arena(std::span<const ArenaRequest> requests) {
  std::vector<Block> blocks;
  blocks.reserve(requests.size());
  std::vector<uint32_t> block_of(requests.size(), ArenaRequest::kNone);
  std::vector<bool> taken_over(requests.size(), false);
  int64_t sum = 0;  // bounds every offset below, so that nothing after this loop can overflow
  for (size_t i = 0; i < requests.size(); ++i) {
    const ArenaRequest& request = requests[i];
    if (request.size_bytes < 0)
      return out_of_range(str_cat("arena request ", i, " has the negative size ", request.size_bytes));
    if (request.first_use > request.last_use) {
      return invalid_argument(str_cat("arena request ", i, " is used last (", request.last_use,
                                      ") before it is used first (", request.first_use, ")"));
    }
    if (request.in_place_of != ArenaRequest::kNone && request.in_place_of >= i) {
      return invalid_argument(
          str_cat("arena request ", i, " is in place of ", request.in_place_of, ", which is not an earlier request"));
    }
    if (request.size_bytes == 0) continue;
    if (request.in_place_of != ArenaRequest::kNone) {
      const ArenaRequest& base = requests[request.in_place_of];
      // base.first_use < request.first_use: two results of one command must not share memory.
      if (base.size_bytes == request.size_bytes && base.first_use < request.first_use &&
          base.last_use == request.first_use && !taken_over[request.in_place_of]) {
        taken_over[request.in_place_of] = true;
        block_of[i] = block_of[request.in_place_of];
        blocks[block_of[i]].last_use = request.last_use;
        continue;
      }
    }
    const auto rounded = checked_add(request.size_bytes, kArenaAlignment - 1);
    const auto new_sum = rounded ? checked_add(sum, *rounded) : std::nullopt;
    if (!new_sum) return out_of_range("the sizes of the arena's tensors overflow 64 bits");
    sum = *new_sum;
    block_of[i] = static_cast<uint32_t>(blocks.size());
    blocks.push_back({*rounded & ~(kArenaAlignment - 1), request.first_use, request.last_use, 0});
  }

  ArenaPlan plan;
  plan.lower_bound_bytes = most_alive_at_once(blocks);
  plan.size_bytes = place_in_time_order(blocks);
  if (plan.size_bytes > plan.lower_bound_bytes && blocks.size() <= kMaxBlocksForSecondPass) {
    std::vector<Block> again = blocks;
    const int64_t size = place_in_size_order(again);
    if (size < plan.size_bytes) {
      plan.size_bytes = size;
      blocks = std::move(again);
    }
  }
  plan.offsets.resize(requests.size(), 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (block_of[i] != ArenaRequest::kNone) plan.offsets[i] = blocks[block_of[i]].offset;
  }
  return plan;
}

}  // namespace aipu
