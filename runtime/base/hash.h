// The content hash used for constants, kernels, the kernel cache and the sections of aipu.bin: XXH3, 128 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace aipu {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  std::string hex() const;  // 32 lower-case digits
};

Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_text(std::string_view text);

// The same hash, fed piece by piece: a section that is never in memory as a whole.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(std::span<const std::byte> bytes);
  Hash128 digest() const;

 private:
  void* state_;
};

}  // namespace aipu
