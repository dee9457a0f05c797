#include "runtime/executor/string_pool.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/base/hash.h"

namespace aipu::runtime {
namespace {

constexpr size_t kFirstChunk = size_t{1} << 12, kFirstSlots = 64, kMostStrings = size_t{1} << 31;

uint64_t hash_of(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))).low; }

}  // namespace

StringPool::StringPool(const fb::Model& root) {
  const auto file = items(root.string_pool());
  grow_slots(std::max<size_t>(kFirstSlots, size_t{4} * file.size()));
  const auto take = [&](std::string_view text) {
    const uint64_t hash = hash_of(text);
    add(text, hash, slot_of(text, hash));
  };
  if (file.size() == 0) take("");
  for (uint32_t i = 0; i < file.size(); ++i) take(runtime::text(file[i]));
  of_file_ = entries_.size();
}

// The slot of a string, or the free one where it belongs.
size_t StringPool::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot] != 0) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && entry.text == text) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

// Strings are put in by their numbers, so that the last one of a run of slots is the last one that came: reset() takes
// them out the other way round.
void StringPool::grow_slots(size_t count) {
  size_t size = kFirstSlots;
  while (size < count) size *= 2;
  bytes_ += static_cast<int64_t>((size - slots_.size()) * sizeof(uint32_t));
  slots_.assign(size, 0);
  for (size_t i = 0; i < entries_.size(); ++i)
    slots_[slot_of(entries_[i].text, entries_[i].hash)] = static_cast<uint32_t>(i + 1);
}

void StringPool::add(std::string_view text, uint64_t hash, size_t slot) {
  const size_t before = entries_.capacity();
  entries_.push_back({text, hash});
  bytes_ += static_cast<int64_t>((entries_.capacity() - before) * sizeof(Entry));
  slots_[slot] = static_cast<uint32_t>(entries_.size());
}

void StringPool::reset() {
  while (entries_.size() > of_file_) {
    const Entry& last = entries_.back();
    slots_[slot_of(last.text, last.hash)] = 0;
    entries_.pop_back();
  }
  chunk_ = used_ = 0;
}

std::optional<std::string_view> StringPool::text(int64_t number) const {
  if (number < 0 || static_cast<uint64_t>(number) >= entries_.size()) return std::nullopt;
  return entries_[static_cast<size_t>(number)].text;
}

std::string_view StringPool::keep(std::string_view text) {
  while (chunk_ < chunks_.size() && chunks_[chunk_].size - used_ < text.size()) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t twice = chunks_.empty() ? kFirstChunk : 2 * chunks_.back().size;
    const size_t size = std::max(twice, text.size());
    chunks_.push_back({std::make_unique<char[]>(size), size});
    bytes_ += static_cast<int64_t>(size);
  }
  char* to = chunks_[chunk_].memory.get() + used_;
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  used_ += text.size();
  return {to, text.size()};
}

int64_t StringPool::growth(size_t bytes) const {
  size_t most = 0;
  if (entries_.size() == entries_.capacity()) most += std::max<size_t>(1, entries_.size()) * sizeof(Entry);
  if (2 * (entries_.size() + 1) > slots_.size()) most += slots_.size() * sizeof(uint32_t);
  const bool fits = chunk_ < chunks_.size() && chunks_[chunk_].size - used_ >= bytes;
  if (!fits) most += std::max(bytes, chunks_.empty() ? kFirstChunk : 2 * chunks_.back().size);
  return static_cast<int64_t>(most);
}

Result<int64_t> StringPool::intern(std::string_view text) {
  const uint64_t hash = hash_of(text);
  size_t slot = slot_of(text, hash);
  if (slots_[slot] != 0) return int64_t{slots_[slot]} - 1;
  if (entries_.size() >= kMostStrings) return out_of_range("a run cannot have more than 2147483648 different strings");
  if (2 * (entries_.size() + 1) > slots_.size()) {
    grow_slots(2 * slots_.size());
    slot = slot_of(text, hash);
  }
  add(keep(text), hash, slot);
  return static_cast<int64_t>(entries_.size()) - 1;
}

}  // namespace aipu::runtime
