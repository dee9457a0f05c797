// Copies in rows, which the engine dma of this process is made of, and those of devices that compute here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace aipu::runtime {

struct RowCopy {
  std::byte* destination;
  const std::byte* source;
  int64_t width, times, destination_stride, source_stride;

  // Both ends are one piece each: as one row. Its size fits, as they are within tensors.
  void join_rows() {
    if (times <= 1 || destination_stride != width || source_stride != width) return;
    width *= times;
    times = 1;
  }

  // For ends that touch: the order of rows is part of the meaning then, as it would be for a loop of memmove.
  void run_in_order() const {
    for (int64_t t = 0; t < times; ++t) {
      std::byte* const to = destination + t * destination_stride;
      const std::byte* const from = source + t * source_stride;
      if (to != from) std::memmove(to, from, static_cast<size_t>(width));
    }
  }

  // Part `part` of `parts`, of as many bytes as the others if there is one row, else of as many rows.
  void run_part(uint32_t part, uint32_t parts) const {
    const auto share = [&](int64_t total, uint32_t index) {
      return total / parts * index + std::min<int64_t>(index, total % parts);
    };
    if (times == 1) {
      const int64_t begin = share(width, part);
      std::memcpy(destination + begin, source + begin, static_cast<size_t>(share(width, part + 1) - begin));
      return;
    }
    const int64_t begin = share(times, part);
    const int64_t end = share(times, part + 1);
    switch (width) {  // single elements and small groups of them are not worth a call each
      case 1:
        return rows<1>(begin, end);
      case 2:
        return rows<2>(begin, end);
      case 4:
        return rows<4>(begin, end);
      case 8:
        return rows<8>(begin, end);
      case 16:
        return rows<16>(begin, end);
      default:
        for (int64_t t = begin; t < end; ++t)
          std::memcpy(destination + t * destination_stride, source + t * source_stride, static_cast<size_t>(width));
    }
  }

 private:
  template <size_t kWidth>
  void rows(int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; ++t)
      std::memcpy(destination + t * destination_stride, source + t * source_stride, kWidth);
  }
};

}  // namespace aipu::runtime
