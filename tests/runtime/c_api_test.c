/* Uses the C API from C; called by api_test.cpp. Returns 0, or the line of the first thing that went wrong. */
#include <string.h>

#include "runtime/aipu.h"

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int use_c_api(const void* bytes, size_t size) {
  aipu_model* model = NULL;
  CHECK(aipu_model_load("/nonexistent.aipu.bin", NULL, &model) == AIPU_IO);
  CHECK(strstr(aipu_last_error(), "/nonexistent.aipu.bin") != NULL);
  CHECK(aipu_model_load_bytes(bytes, size - 1, NULL, &model) == AIPU_INVALID_MODEL);
  CHECK(aipu_model_load_bytes(bytes, size, "nonesuch", &model) == AIPU_NOT_FOUND);
  CHECK(aipu_model_load_bytes(bytes, size, NULL, &model) == AIPU_OK);
  CHECK(aipu_model_input_count(model) == 1 && aipu_model_output_count(model) == 1);
  aipu_tensor_info info;
  CHECK(aipu_model_input(model, 1, &info) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_input(model, 0, &info) == AIPU_OK);
  CHECK(strcmp(info.name, "x") == 0 && info.dtype == AIPU_FLOAT32 && info.rank == 2 && info.shape[0] == -1 && info.shape[1] == 4);

  aipu_session* session = NULL;
  CHECK(aipu_session_create(model, 1, &session) == AIPU_OK);
  aipu_model_retain(model);
  aipu_model_release(model);
  aipu_model_release(model); /* the session keeps what it needs */

  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t shape[2] = {2, 4};
  const int64_t wrong[2] = {2, 5};
  aipu_tensor y;
  CHECK(aipu_session_run(session) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_input(session, 0, AIPU_INT32, shape, 2, x) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, wrong, 2, x) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "axis 1: expected 4, found 5") != NULL);
  CHECK(aipu_session_output(session, 0, &y) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 2, x) == AIPU_OK);
  CHECK(aipu_session_prepare(session) == AIPU_OK);
  CHECK(aipu_session_output(session, 0, &y) == AIPU_OK && y.size_bytes == sizeof x);
  CHECK(aipu_session_run(session) == AIPU_OK);
  CHECK(aipu_session_output(session, 0, &y) == AIPU_OK);
  CHECK(y.dtype == AIPU_FLOAT32 && y.rank == 2 && y.shape[0] == 2 && ((const float*)y.data)[7] == 32);
  float mine[8];
  CHECK(aipu_session_bind_output(session, 0, mine, sizeof mine) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_OK && mine[0] == 4);
  aipu_session_release(session);
  aipu_session_release(NULL);
  aipu_model_release(NULL);
  return 0;
}
