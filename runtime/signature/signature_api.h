/* libaipu_signature.so: Ed25519 (RFC 8032) for the runtime and for aipugb, which load it by its name when a signature
 * is to be made or checked. Apart from them because it links libsodium. Keys are PEM, as OpenSSL writes them:
 *
 *   openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pub.pem
 */
#ifndef AIPU_RUNTIME_SIGNATURE_SIGNATURE_API_H_
#define AIPU_RUNTIME_SIGNATURE_SIGNATURE_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_SIGNATURE_API_VERSION 1u
#define AIPU_SIGNATURE_SYMBOL "aipu_signature_v1"

enum { AIPU_SIGNATURE_KEY_BYTES = 32, AIPU_SIGNATURE_BYTES = 64 };

/* Functions return null, or what is wrong: a text that lives as long as the library. Nothing throws; any thread may
 * call. */
typedef struct aipu_signature_library {
  uint32_t api_version; /* AIPU_SIGNATURE_API_VERSION */
  /* The public key in the text of a PEM file: "BEGIN PUBLIC KEY". */
  const char* (*read_public_key)(const char* pem, size_t pem_bytes, uint8_t* public_key);
  /* `secret`: 64 bytes, and the public key, from the text of a PEM file: "BEGIN PRIVATE KEY". */
  const char* (*read_private_key)(const char* pem, size_t pem_bytes, uint8_t* secret, uint8_t* public_key);
  const char* (*sign)(const uint8_t* secret, const void* bytes, size_t size, uint8_t* signature);
  /* 1: it is the signature of the bytes by the owner of the key. */
  int (*is_signed)(const uint8_t* public_key, const void* bytes, size_t size, const uint8_t* signature);
  /* Overwrites what was secret. */
  void (*forget)(void* secret, size_t size);
} aipu_signature_library;

/* Null where libsodium cannot work. */
typedef const aipu_signature_library* (*aipu_signature_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* AIPU_RUNTIME_SIGNATURE_SIGNATURE_API_H_ */
