// libaipu_signature.so (signature_api.h), by libsodium.
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "runtime/signature/signature_api.h"

namespace {

static_assert(AIPU_SIGNATURE_KEY_BYTES == crypto_sign_ed25519_PUBLICKEYBYTES);
static_assert(AIPU_SIGNATURE_BYTES == crypto_sign_ed25519_BYTES);

// RFC 8410: what stands before the 32 bytes of a key in DER.
constexpr std::array<uint8_t, 12> kPublicHead = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
constexpr std::array<uint8_t, 16> kPrivateHead = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                                  0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

// The 32 bytes behind `head` in the PEM block with this label.
bool read_pem(std::string_view text, std::string_view begin, std::string_view end, std::span<const uint8_t> head,
              uint8_t* key) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return false;
  text.remove_prefix(from + begin.size());
  const size_t to = text.find(end);
  if (to == std::string_view::npos) return false;
  text = text.substr(0, to);
  std::array<uint8_t, 64> der = {};
  size_t size = 0;
  const bool decoded = sodium_base642bin(der.data(), der.size(), text.data(), text.size(), " \t\r\n", &size, nullptr,
                                         sodium_base64_VARIANT_ORIGINAL) == 0;
  const bool fits =
      decoded && size == head.size() + AIPU_SIGNATURE_KEY_BYTES && std::equal(head.begin(), head.end(), der.begin());
  if (fits) std::memcpy(key, der.data() + head.size(), AIPU_SIGNATURE_KEY_BYTES);
  sodium_memzero(der.data(), der.size());
  return fits;
}

const char* read_public_key(const char* pem, size_t pem_bytes, uint8_t* public_key) {
  const std::string_view text(pem, pem_bytes);
  if (read_pem(text, "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----", kPublicHead, public_key)) return nullptr;
  if (text.find("PRIVATE KEY-----") != std::string_view::npos)
    return "it is a private key, which belongs to nobody but the signer; the public one is wanted";
  return "it is no public Ed25519 key in PEM (openssl pkey -in key.pem -pubout)";
}

const char* read_private_key(const char* pem, size_t pem_bytes, uint8_t* secret, uint8_t* public_key) {
  const std::string_view text(pem, pem_bytes);
  std::array<uint8_t, AIPU_SIGNATURE_KEY_BYTES> seed = {};
  if (!read_pem(text, "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", kPrivateHead, seed.data())) {
    if (text.find("ENCRYPTED PRIVATE KEY-----") != std::string_view::npos)
      return "it is encrypted; openssl pkey -in KEY -out FILE decrypts it";
    return "it is no private Ed25519 key in PEM (openssl genpkey -algorithm ed25519)";
  }
  crypto_sign_ed25519_seed_keypair(public_key, secret, seed.data());
  sodium_memzero(seed.data(), seed.size());
  return nullptr;
}

const char* sign(const uint8_t* secret, const void* bytes, size_t size, uint8_t* signature) {
  const auto* message = static_cast<const unsigned char*>(bytes);
  return crypto_sign_ed25519_detached(signature, nullptr, message, size, secret) == 0 ? nullptr : "libsodium failed";
}

int is_signed(const uint8_t* public_key, const void* bytes, size_t size, const uint8_t* signature) {
  const auto* message = static_cast<const unsigned char*>(bytes);
  return crypto_sign_ed25519_verify_detached(signature, message, size, public_key) == 0 ? 1 : 0;
}

void forget(void* secret, size_t size) { sodium_memzero(secret, size); }

constexpr aipu_signature_library kLibrary = {
    AIPU_SIGNATURE_API_VERSION, &read_public_key, &read_private_key, &sign, &is_signed, &forget};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_signature_library* aipu_signature_v1() {
  return sodium_init() >= 0 ? &kLibrary : nullptr;
}
