#include "gbuilder/constant_writer.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "runtime/base/parallel.h"

namespace aipu::gbuilder {

namespace {

constexpr size_t kChunkBytes = size_t{1} << 19;  // fits a second-level cache
constexpr size_t kBlockBytes = size_t{1} << 21;  // a huge page
constexpr std::byte kZeros[64] = {};

// Some bytes of one constant, and what is between them and those before.
struct Chunk {
  const graph::Constant* constant = nullptr;
  size_t first = 0, size = 0;  // within the constant
  uint64_t offset = 0;         // within the section
  size_t padding = 0;          // zeros in front
};

Result<std::vector<Chunk>> cut(const Plan& plan) {
  std::vector<Chunk> chunks;
  uint64_t position = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.kind != TensorKind::kConstant) continue;
    if (tensor.constant == nullptr || tensor.offset_bytes < position || tensor.offset_bytes - position >= sizeof(kZeros)) {
      return internal_error(str_cat("constant '", tensor.name, "' has no place in the constants section"));
    }
    const graph::Constant& constant = *tensor.constant;
    const size_t size = constant.byte_count(), piece = constant.piece_bytes();
    const size_t step = std::max<size_t>(1, kChunkBytes / piece) * piece;
    for (size_t first = 0; first < size; first += step) {
      const size_t chunk = std::min(step, size - first);
      chunks.push_back({&constant, first, chunk, tensor.offset_bytes + first, static_cast<size_t>(tensor.offset_bytes + first - position)});
      position = tensor.offset_bytes + first + chunk;
    }
  }
  if (plan.constant_bytes < position || plan.constant_bytes - position > sizeof(kZeros)) {
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

// What is appended goes to the file in whole blocks at multiples of their size. Linux then keeps the file in pages as large as that, in
// memory and in the tables of whoever maps it: writing takes half as long, and a model's first run has no page faults to speak of.
class BlockWriter {
 public:
  BlockWriter(const AtomicFile& file, uint64_t begin)
      : file_(file), position_(begin), block_(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes)) {}

  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t room = kBlockBytes - static_cast<size_t>((position_ + held_) % kBlockBytes), size = std::min(room, bytes.size());
      std::memcpy(block_.get() + held_, bytes.data(), size);
      held_ += size;
      if (size == room) AIPU_RETURN_IF_ERROR(flush());
      bytes = bytes.subspan(size);
    }
    return {};
  }

  Status flush() {
    AIPU_RETURN_IF_ERROR(file_.write_at(position_, {block_.get(), held_}));
    position_ += held_;
    held_ = 0;
    return {};
  }

 private:
  const AtomicFile& file_;
  uint64_t position_;  // of the first byte that is held
  std::unique_ptr<std::byte[]> block_;
  size_t held_ = 0;
};

}  // namespace

Result<Hash128> write_constants(const Plan& plan, const AtomicFile& file, uint64_t begin, int jobs) {
  AIPU_ASSIGN_OR_RETURN(const std::vector<Chunk> chunks, cut(plan));
  // Chunks are made side by side; what follows is done in their order, by the thread whose turn it is.
  Hasher hasher;
  BlockWriter writer(file, begin);
  Status failure;
  const auto take = [&](std::span<const std::byte> bytes) {
    if (!failure.ok()) return;
    hasher.update(bytes);
    failure = writer.append(bytes);
  };
  std::mutex mutex;
  std::condition_variable turn;
  size_t next = 0;
  const auto write_chunk = [&](size_t index) {
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
    {
      std::unique_lock lock(mutex);
      turn.wait(lock, [&] { return next == index; });
    }
    take(std::span(kZeros, chunk.padding));
    take(bytes);
    {
      const std::lock_guard lock(mutex);
      ++next;
    }
    turn.notify_all();
  };
  parallel_for(chunks.size(), jobs, write_chunk);
  const uint64_t end = chunks.empty() ? 0 : chunks.back().offset + chunks.back().size;
  take(std::span(kZeros, plan.constant_bytes - end));
  AIPU_RETURN_IF_ERROR(std::move(failure));
  AIPU_RETURN_IF_ERROR(writer.flush());
  return hasher.digest();
}

}  // namespace aipu::gbuilder
