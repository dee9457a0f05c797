/* libaipu_text.so and libaipu_image.so: operations that look into strings and encoded images, for the runtime, which
 * loads a library by its name when a file has an operation of it. Apart from the runtime because they link ICU and RE2,
 * and the libraries of image formats. Files name operations; only the libraries know what there is. Of texts:
 *
 *   StringConcat    (string, string) -> string   one behind the other
 *   NumberToText    (number or bool) -> string   as Cast writes them
 *   TextToNumber    (string) -> number or bool   as Cast reads them
 *   ChangeCase      (string) -> string           texts: LOWER or UPPER, locale
 *   CountPieces     (string) -> int64            texts: delimiter ("": white space); numbers: the most splits, -1: all
 *   SplitPieces     (string[n]) -> string[n * m] the same; rows of m pieces, filled with ""
 *   RegexFullMatch  (string) -> bool             texts: a pattern of RE2
 *   CountTokens     (string) -> int64            texts: a pattern, what fills rows; numbers: letters of the shortest
 *                                                token, 1: tokens are between matches (else they are these), 1:
 *                                                U+0002 and U+0003 around the tokens of an element
 *   FindTokens      (string[n]) -> string[n * m] the same; rows of m tokens, filled
 *   MurmurHash      (string) -> uint32           numbers: the seed; MurmurHash3 of 32 bits
 *
 * Of images, which are bytes as in a file:
 *
 *   ImageSize       (uint8[n]) -> int64[2]           height, width
 *   DecodeImage     (uint8[n]) -> uint8[h * w * c]   texts: RGB, BGR or Grayscale
 */
#ifndef AIPU_RUNTIME_TEXT_TEXT_API_H_
#define AIPU_RUNTIME_TEXT_TEXT_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_TEXT_API_VERSION 1u
#define AIPU_TEXT_SYMBOL "aipu_text_v1"
#define AIPU_IMAGE_SYMBOL "aipu_image_v1"

/* UTF-8, without a terminator; may hold any bytes. */
typedef struct aipu_text {
  const char* data;
  size_t size;
} aipu_text;

/* Strings and their numbers. */
typedef struct aipu_text_pool {
  void* self;
  /* 0: no string has the number. What is given stays valid during the call of run(). */
  int (*text)(void* self, int64_t number, aipu_text* text);
  /* Below 0: there is no room for it, and run() is to return 1; what it says then does not count. */
  int64_t (*number)(void* self, const char* data, size_t size);
} aipu_text_pool;

/* Elements side by side; strings as int64, their numbers. */
typedef struct aipu_text_tensor {
  uint32_t dtype; /* as in aipu.h */
  size_t count;
  void* data;
} aipu_text_tensor;

/* Nothing throws. Messages are one line of at most `message_bytes` with its terminator. */
typedef struct aipu_text_library {
  uint32_t api_version; /* AIPU_TEXT_API_VERSION */
  /* An operation, ready to run; null and a message where there is none of that name or it cannot do what it is told. */
  void* (*open)(const char* name, const aipu_text* texts, size_t text_count, const int64_t* numbers,
                size_t number_count, char* message, size_t message_bytes);
  void (*close)(void* operation);
  /* 0, or 1 and a message. Any number of threads may run one operation, each with a pool of its own. */
  int (*run)(const void* operation, const aipu_text_pool* pool, const aipu_text_tensor* inputs, size_t input_count,
             const aipu_text_tensor* outputs, size_t output_count, char* message, size_t message_bytes);
} aipu_text_library;

typedef const aipu_text_library* (*aipu_text_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* AIPU_RUNTIME_TEXT_TEXT_API_H_ */
