#include "runtime/base/seal.h"

#include <cstring>

namespace aipu {

std::array<std::byte, kSealBytes> make_seal(std::span<const std::byte> size_prefixed_root, uint64_t file_size_bytes) {
  const Hash128 hash = hash_bytes(size_prefixed_root);
  std::array<std::byte, kSealBytes> seal = {};
  std::memcpy(seal.data(), "AIPUSEAL", 8);
  size_t position = 8;
  for (const uint64_t word : {file_size_bytes, hash.high, hash.low}) {
    for (int shift = 0; shift < 64; shift += 8) seal[position++] = static_cast<std::byte>(word >> shift);
  }
  return seal;
}

}  // namespace aipu
