#include <algorithm>

#include "runtime/engines/copy_rows.h"
#include "runtime/engines/engine.h"

namespace aipu::runtime {
namespace {

// Below this much a copy is done before another thread could help.
constexpr int64_t kBytesPerWorker = 256 << 10;

struct SharedCopy {
  RowCopy copy;
  uint32_t parts;
};

void copy_part(void* argument, uint32_t part) {
  const SharedCopy& shared = *static_cast<const SharedCopy*>(argument);
  shared.copy.run_part(part, shared.parts);
}

}  // namespace

uint32_t run_dma(WorkerPool* pool, const Call& call) {
  const unsigned long long* words = call.words;
  RowCopy copy = {reinterpret_cast<std::byte*>(words[0]), reinterpret_cast<const std::byte*>(words[1]),
                  static_cast<int64_t>(words[2]),         static_cast<int64_t>(words[3]),
                  static_cast<int64_t>(words[4]),         static_cast<int64_t>(words[5])};
  // An output in the memory of an input needs no copy of that.
  if (copy.times == 0 || (words[0] == words[1] && words[4] == words[5])) return 1;
  if (call.step.overlaps) {
    copy.run_in_order();
    return 1;
  }
  copy.join_rows();
  const int64_t bytes = copy.width * copy.times;
  auto parts =
      static_cast<uint32_t>(std::clamp<int64_t>(bytes / kBytesPerWorker, 1, pool == nullptr ? 1 : pool->size()));
  if (copy.times > 1) parts = static_cast<uint32_t>(std::min<int64_t>(parts, copy.times));
  SharedCopy shared = {copy, parts};
  if (parts == 1) {
    copy_part(&shared, 0);
  } else {
    pool->run_independent(parts, &copy_part, &shared);
  }
  return parts;
}

}  // namespace aipu::runtime
