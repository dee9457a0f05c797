// Where the signature of an aipu.bin is: its last 104 bytes, behind the seal, are the 32 bytes of the signer's public
// key, the 64 of the Ed25519 signature of everything before them, and "AIPUSIGN". Files without it are not signed.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>

#include "runtime/base/status.h"

namespace aipu {

constexpr size_t kSignerKeyBytes = 32, kSignatureBytes = 64;
constexpr char kSignatureMark[] = {'A', 'I', 'P', 'U', 'S', 'I', 'G', 'N'};
constexpr size_t kSignatureBlockBytes = kSignerKeyBytes + kSignatureBytes + sizeof kSignatureMark;
using SignatureBlock = std::array<std::byte, kSignatureBlockBytes>;

// What is to be written behind the bytes of a file.
using FileSigner = std::function<Result<SignatureBlock>(std::span<const std::byte>)>;

// Empty if the file is not signed.
inline std::span<const std::byte> signature_block(std::span<const std::byte> file) {
  if (file.size() < kSignatureBlockBytes) return {};
  const auto block = file.last(kSignatureBlockBytes);
  const bool marked = std::memcmp(block.last(sizeof kSignatureMark).data(), kSignatureMark, sizeof kSignatureMark) == 0;
  return marked ? block : std::span<const std::byte>();
}

// The file up to its seal.
inline std::span<const std::byte> without_signature(std::span<const std::byte> file) {
  return file.first(file.size() - signature_block(file).size());
}

}  // namespace aipu
