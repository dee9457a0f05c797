// The seal at the end of aipu.bin: proves that the file is whole and that its root (tables, commands, arguments) is
// what was written. The blobs are covered by the section hashes that the root holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/hash.h"

namespace aipu {

// The last 32 bytes of the file, after the last blob, little endian: "AIPUSEAL", the size of the file in bytes, and the
// halves (high, low) of hash_bytes() of the root with its size prefix and without the padding that follows it.
constexpr size_t kSealBytes = 32;

std::array<std::byte, kSealBytes> make_seal(std::span<const std::byte> size_prefixed_root, uint64_t file_size_bytes);

}  // namespace aipu
