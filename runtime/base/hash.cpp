#include "runtime/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace aipu {

std::string Hash128::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (const uint64_t word : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(word >> shift) & 15u];
  }
  return text;
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

Hash128 hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

}  // namespace aipu
