#include "runtime/signature/signature.h"

#include <cstring>
#include <memory>

#include "runtime/backends/own_folders.h"
#include "runtime/base/file.h"
#include "runtime/signature/signature_api.h"

namespace aipu::runtime {
namespace {

static_assert(kSignerKeyBytes == AIPU_SIGNATURE_KEY_BYTES && kSignatureBytes == AIPU_SIGNATURE_BYTES);

Result<const aipu_signature_library*> find_library() {
  AIPU_ASSIGN_OR_RETURN(void* const symbol, own_function("libaipu_signature.so", AIPU_SIGNATURE_SYMBOL, "signatures"));
  const aipu_signature_library* table = reinterpret_cast<aipu_signature_function>(symbol)();
  if (table == nullptr || table->api_version != AIPU_SIGNATURE_API_VERSION)
    return unsupported("libaipu_signature.so is not the library of signatures of this runtime's version");
  return table;
}

Status key_error(std::string_view name, const char* what) { return invalid_argument(str_cat(name, ": ", what)); }

struct PrivateKey {
  PrivateKey() = default;
  PrivateKey(const PrivateKey&) = delete;
  PrivateKey& operator=(const PrivateKey&) = delete;
  ~PrivateKey() {
    if (library != nullptr) library->forget(secret.data(), secret.size());
  }

  const aipu_signature_library* library = nullptr;
  std::array<uint8_t, 64> secret = {};
  std::array<uint8_t, kSignerKeyBytes> open = {};
};

Result<SignatureBlock> sign(const PrivateKey& key, std::span<const std::byte> bytes) {
  std::array<uint8_t, kSignatureBytes> signature = {};
  if (const char* wrong = key.library->sign(key.secret.data(), bytes.data(), bytes.size(), signature.data());
      wrong != nullptr)
    return internal_error(str_cat("signing: ", wrong));
  SignatureBlock block;
  std::memcpy(block.data(), key.open.data(), kSignerKeyBytes);
  std::memcpy(block.data() + kSignerKeyBytes, signature.data(), kSignatureBytes);
  std::memcpy(block.data() + kSignerKeyBytes + kSignatureBytes, kSignatureMark, sizeof kSignatureMark);
  return block;
}

}  // namespace

Status check_signature(std::span<const std::byte> file, std::string_view trusted_key) {
  AIPU_ASSIGN_OR_RETURN(const aipu_signature_library* library, find_library());
  const bool is_text = trusted_key.find("-----BEGIN") != std::string_view::npos;
  std::string pem(trusted_key);
  if (!is_text) {
    AIPU_ASSIGN_OR_RETURN(pem, read_text_file(pem));
  }
  std::array<uint8_t, kSignerKeyBytes> key = {};
  if (const char* wrong = library->read_public_key(pem.data(), pem.size(), key.data()); wrong != nullptr)
    return key_error(is_text ? "the trusted key" : str_cat("trusted key '", trusted_key, "'"), wrong);
  const auto block = signature_block(file);
  if (block.empty())
    return invalid_model("the file is not signed, but a trusted key is given; sign it with aipugb --sign KEY");
  const auto* signature = reinterpret_cast<const uint8_t*>(block.data()) + kSignerKeyBytes;
  const auto content = without_signature(file);
  if (library->is_signed(key.data(), content.data(), content.size(), signature) == 1) return {};
  if (std::memcmp(key.data(), block.data(), key.size()) != 0)
    return invalid_model("the file is signed by another key than the trusted one");
  return invalid_model("the file's signature does not fit: somebody has changed the file after it was signed");
}

Result<FileSigner> file_signer(const std::string& key_path) {
  const auto key = std::make_shared<PrivateKey>();
  AIPU_ASSIGN_OR_RETURN(key->library, find_library());
  AIPU_ASSIGN_OR_RETURN(std::string pem, read_text_file(key_path));
  const char* wrong = key->library->read_private_key(pem.data(), pem.size(), key->secret.data(), key->open.data());
  key->library->forget(pem.data(), pem.size());
  if (wrong != nullptr) return key_error(str_cat("key '", key_path, "'"), wrong);
  return FileSigner([key](std::span<const std::byte> bytes) { return sign(*key, bytes); });
}

}  // namespace aipu::runtime
