// Signed files. A signature stands behind the seal of an aipu.bin (base/signature_block.h) and is Ed25519's of all
// bytes before it. Making and checking one loads libaipu_signature.so (signature_api.h); without it all else works.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/signature_block.h"
#include "runtime/base/status.h"

namespace aipu::runtime {

// Success if the file ends with a signature of the rest of it that was made with the private half of the key: the path
// of a PEM file, or the text of one. kInvalidModel if not; other errors where the key or the library is not there.
Status check_signature(std::span<const std::byte> file, std::string_view trusted_key);

// Signs with the private key in a PEM file, which is read now and overwritten in memory when the last copy of the
// signer goes.
Result<FileSigner> file_signer(const std::string& key_path);

}  // namespace aipu::runtime
