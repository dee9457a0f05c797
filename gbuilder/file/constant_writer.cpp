#include "gbuilder/file/constant_writer.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "runtime/base/parallel.h"

namespace aipu::gbuilder {

namespace {

constexpr size_t kChunkBytes = size_t{1} << 19;  // fits a second-level cache
constexpr size_t kBlockBytes = size_t{1} << 19;
constexpr std::byte kZeros[64] = {};

// Some bytes of one constant, and what is between them and those before.
struct Chunk {
  const graph::Constant* constant = nullptr;
  size_t first = 0, size = 0;  // within the constant
  uint64_t offset = 0;         // within the section
  size_t padding = 0;          // zeros in front
};

void collect_constants(const Plan& plan, std::vector<const PlanTensor*>* constants) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.kind == TensorKind::kConstant) constants->push_back(&tensor);
  }
  for (const Plan& body : plan.bodies) collect_constants(body, constants);
}

// By their places; those that several tensors of the plans and their bodies share, once.
std::vector<const PlanTensor*> constants_of(std::span<const Plan* const> plans) {
  std::vector<const PlanTensor*> constants;
  for (const Plan* plan : plans) collect_constants(*plan, &constants);
  const auto place = [](const PlanTensor* tensor) { return tensor->offset_bytes; };
  std::ranges::stable_sort(constants, {}, place);
  // Constants without bytes share the place of the next one.
  std::erase_if(constants, [](const PlanTensor* tensor) {
    return tensor->constant != nullptr && tensor->constant->byte_count() == 0;
  });
  constants.erase(std::unique(constants.begin(), constants.end(),
                              [&](const PlanTensor* a, const PlanTensor* b) { return place(a) == place(b); }),
                  constants.end());
  return constants;
}

// `end`: of the section.
Result<std::vector<Chunk>> cut(std::span<const Plan* const> plans, uint64_t end) {
  std::vector<Chunk> chunks;
  uint64_t position = 0;
  for (const PlanTensor* placed : constants_of(plans)) {
    const PlanTensor& tensor = *placed;
    if (tensor.constant == nullptr || tensor.offset_bytes < position ||
        tensor.offset_bytes - position >= sizeof(kZeros)) {
      return internal_error(str_cat("constant '", tensor.name, "' has no place in the constants section"));
    }
    const graph::Constant& constant = *tensor.constant;
    const size_t size = constant.byte_count(), piece = constant.piece_bytes();
    const size_t step = std::max<size_t>(1, kChunkBytes / piece) * piece;
    for (size_t first = 0; first < size; first += step) {
      const size_t chunk = std::min(step, size - first);
      chunks.push_back({&constant, first, chunk, tensor.offset_bytes + first,
                        static_cast<size_t>(tensor.offset_bytes + first - position)});
      position = tensor.offset_bytes + first + chunk;
    }
  }
  if (end < position || end - position > sizeof(kZeros)) {
    return internal_error("the constants section has another size than its constants");
  }
  return chunks;
}

// Memory of one thread that is kept from chunk to chunk: fresh pages cost more than what is written to them.
struct Scratch {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
  std::span<std::byte> take(size_t needed) {
    if (needed > size) {
      bytes = std::make_unique_for_overwrite<std::byte[]>(needed);
      size = needed;
    }
    return {bytes.get(), needed};
  }
};

// What is appended goes to the file in whole blocks at multiples of their size: Linux then keeps the file in large
// pages, which are cheaper to fill and to map than small ones. (Blocks of 2 MiB would be mapped as huge pages, but in a
// virtual machine that gives its free memory back to the host, memory in pieces as large as that is slow to come by.)
class BlockWriter {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t position = 0;  // in the file
    size_t size = 0;
  };

  BlockWriter(const AtomicFile& file, uint64_t begin) : file_(file) { held_.position = begin; }

  // Blocks that are full are added to `full`, for write(). One call at a time.
  void append(std::span<const std::byte> bytes, std::vector<Block>* full) {
    while (!bytes.empty()) {
      if (held_.bytes == nullptr) held_.bytes = take_memory();
      const size_t room = kBlockBytes - static_cast<size_t>((held_.position + held_.size) % kBlockBytes),
                   size = std::min(room, bytes.size());
      std::memcpy(held_.bytes.get() + held_.size, bytes.data(), size);
      held_.size += size;
      bytes = bytes.subspan(size);
      if (size == room) full->push_back(take_held());
    }
  }
  Block take_held() {
    const uint64_t next = held_.position + held_.size;
    Block block = std::move(held_);
    held_ = {nullptr, next, 0};
    return block;
  }

  // From any thread.
  Status write(Block block) {
    Status status = file_.write_at(block.position, {block.bytes.get(), block.size});
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(block.bytes));
    return status;
  }

 private:
  std::unique_ptr<std::byte[]> take_memory() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
    std::unique_ptr<std::byte[]> bytes = std::move(free_.back());
    free_.pop_back();
    return bytes;
  }

  const AtomicFile& file_;
  Block held_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> free_;
};

// One after the other, in the order of their indices; one that fails passes its turn on as well.
class Turns {
 public:
  class Turn {
   public:
    Turn(Turns& turns, size_t index) : turns_(turns), index_(index) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { pass_on(); }

    void wait() {
      std::unique_lock lock(turns_.mutex_);
      turns_.changed_.wait(lock, [&] { return turns_.next_ >= index_; });
    }
    void pass_on() {
      wait();
      const std::lock_guard lock(turns_.mutex_);
      turns_.next_ = std::max(turns_.next_, index_ + 1);
      turns_.changed_.notify_all();
    }

   private:
    Turns& turns_;
    const size_t index_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;
};

}  // namespace

Result<Hash128> write_constants(std::span<const Plan* const> plans, const AtomicFile& file, uint64_t begin, int jobs) {
  const uint64_t section_bytes = plans.front()->constant_bytes;
  AIPU_ASSIGN_OR_RETURN(const std::vector<Chunk> chunks, cut(plans, section_bytes));
  // Chunks are made, and full blocks written, side by side; in between they are hashed and put together in their order,
  // by the thread whose turn it is.
  Hasher hasher;
  BlockWriter writer(file, begin);
  Turns turns;
  std::mutex mutex;  // of what follows
  Status failure;
  const auto take = [&](std::span<const std::byte> bytes, std::vector<BlockWriter::Block>* full) {
    hasher.update(bytes);
    writer.append(bytes, full);
  };
  const auto write_chunk = [&](size_t index) {
    Turns::Turn turn(turns, index);
    thread_local Scratch scratch;
    const Chunk& chunk = chunks[index];
    std::span<const std::byte> bytes;
    if (chunk.constant->is_deferred()) {
      const std::span<std::byte> made = scratch.take(chunk.size);
      chunk.constant->copy_bytes(chunk.first, made);
      bytes = made;
    } else {
      bytes = chunk.constant->bytes().subspan(chunk.first, chunk.size);
    }
    turn.wait();
    std::vector<BlockWriter::Block> full;
    take(std::span(kZeros, chunk.padding), &full);
    take(bytes, &full);
    turn.pass_on();
    bool failed;
    {
      const std::lock_guard lock(mutex);
      failed = !failure.ok();
    }
    for (BlockWriter::Block& block : full) {
      if (failed) return;
      if (Status status = writer.write(std::move(block)); !status.ok()) {
        const std::lock_guard lock(mutex);
        failure = std::move(status);
        failed = true;
      }
    }
  };
  parallel_for(chunks.size(), jobs, write_chunk);
  AIPU_RETURN_IF_ERROR(std::move(failure));
  const uint64_t end = chunks.empty() ? 0 : chunks.back().offset + chunks.back().size;
  std::vector<BlockWriter::Block> full;
  take(std::span(kZeros, section_bytes - end), &full);
  full.push_back(writer.take_held());
  for (BlockWriter::Block& block : full) AIPU_RETURN_IF_ERROR(writer.write(std::move(block)));
  return hasher.digest();
}

}  // namespace aipu::gbuilder
