#include <algorithm>
#include <cstring>

#include "runtime/engines/engine.h"

namespace aipu::runtime {
namespace {

// Below this much a copy is done before another thread could help.
constexpr int64_t kBytesPerWorker = 256 << 10;

struct Copy {
  std::byte* destination;
  const std::byte* source;
  int64_t width, times, destination_stride, source_stride;
  uint32_t parts;

  void rows(int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; ++t)
      std::memcpy(destination + t * destination_stride, source + t * source_stride, static_cast<size_t>(width));
  }
};

template <size_t kWidth>
void copy_rows(const Copy& copy, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t)
    std::memcpy(copy.destination + t * copy.destination_stride, copy.source + t * copy.source_stride, kWidth);
}

void copy_part(void* argument, uint32_t part) {
  const Copy& copy = *static_cast<const Copy*>(argument);
  const auto share = [&](int64_t total, uint32_t index) {
    return total / copy.parts * index + std::min<int64_t>(index, total % copy.parts);
  };
  if (copy.times == 1) {
    const int64_t begin = share(copy.width, part);
    const int64_t end = share(copy.width, part + 1);
    std::memcpy(copy.destination + begin, copy.source + begin, static_cast<size_t>(end - begin));
    return;
  }
  const int64_t begin = share(copy.times, part);
  const int64_t end = share(copy.times, part + 1);
  switch (copy.width) {  // single elements and small groups of them are not worth a call each
    case 1:
      return copy_rows<1>(copy, begin, end);
    case 2:
      return copy_rows<2>(copy, begin, end);
    case 4:
      return copy_rows<4>(copy, begin, end);
    case 8:
      return copy_rows<8>(copy, begin, end);
    case 16:
      return copy_rows<16>(copy, begin, end);
    default:
      return copy.rows(begin, end);
  }
}

}  // namespace

uint32_t run_dma(WorkerPool* pool, const Call& call) {
  const unsigned long long* words = call.words;
  Copy copy = {reinterpret_cast<std::byte*>(words[0]),
               reinterpret_cast<const std::byte*>(words[1]),
               static_cast<int64_t>(words[2]),
               static_cast<int64_t>(words[3]),
               static_cast<int64_t>(words[4]),
               static_cast<int64_t>(words[5]),
               1};
  if (copy.times == 0) return 1;
  if (call.step.overlaps) {
    // The order of rows is part of the meaning then, as it would be for a loop of memmove.
    for (int64_t t = 0; t < copy.times; ++t) {
      std::byte* to = copy.destination + t * copy.destination_stride;
      const std::byte* from = copy.source + t * copy.source_stride;
      if (to != from) std::memmove(to, from, static_cast<size_t>(copy.width));
    }
    return 1;
  }
  if (copy.times > 1 && copy.destination_stride == copy.width && copy.source_stride == copy.width) {
    copy.width *= copy.times;  // fits: both ends are within a tensor
    copy.times = 1;
  }
  const int64_t bytes = copy.width * copy.times;
  copy.parts =
      static_cast<uint32_t>(std::clamp<int64_t>(bytes / kBytesPerWorker, 1, pool == nullptr ? 1 : pool->size()));
  if (copy.times > 1) copy.parts = static_cast<uint32_t>(std::min<int64_t>(copy.parts, copy.times));
  if (copy.parts == 1) {
    copy_part(&copy, 0);
  } else {
    pool->run_independent(copy.parts, &copy_part, &copy);
  }
  return copy.parts;
}

}  // namespace aipu::runtime
