/* Runs a model of float32 inputs once, each filled with one value, and prints the beginning of each output.
 *
 *   cc run_model.c -o run_model $(pkg-config --cflags --libs aipu)
 *   ./run_model model.aipu.bin 0.5
 */
#include <inttypes.h>
#include <runtime/aipu.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMostRank = 16, kShown = 8 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, aipu_last_error());
  return 1;
}

/* Binds an input of `value` everywhere; extents that the model leaves open are 1. Null: it cannot be, see the message. */
static float* bind(aipu_session* session, const aipu_model* model, uint32_t index, float value) {
  aipu_tensor_info info;
  int64_t shape[kMostRank];
  size_t count = 1;
  size_t i;
  float* data;
  if (aipu_model_input(model, index, &info) != AIPU_OK) return NULL;
  for (i = 0; i < info.rank && i < kMostRank; ++i) {
    shape[i] = info.shape[i] < 0 ? 1 : info.shape[i];
    count *= (size_t)shape[i];
  }
  data = malloc(count > 0 ? count * sizeof *data : sizeof *data);
  if (data == NULL) return NULL;
  for (i = 0; i < count; ++i) data[i] = value;
  if (aipu_session_bind_input(session, index, AIPU_FLOAT32, shape, info.rank, data) == AIPU_OK) return data;
  free(data);
  return NULL;
}

static int print_outputs(aipu_session* session, const aipu_model* model) {
  uint32_t i;
  for (i = 0; i < aipu_model_output_count(model); ++i) {
    aipu_tensor_info info;
    aipu_tensor y;
    size_t k;
    if (aipu_model_output(model, i, &info) != AIPU_OK || aipu_session_output(session, i, &y) != AIPU_OK)
      return fail("output");
    printf("%s [", info.name);
    for (k = 0; k < y.rank; ++k) printf("%s%" PRId64, k > 0 ? "," : "", y.shape[k]);
    printf("]");
    if (y.dtype == AIPU_FLOAT32) {
      for (k = 0; k < y.size_bytes / sizeof(float) && k < kShown; ++k) printf(" %g", ((const float*)y.data)[k]);
    }
    printf("\n");
  }
  return 0;
}

static int run(aipu_model* model, float value) {
  const uint32_t count = aipu_model_input_count(model);
  float** inputs = calloc(count + 1, sizeof *inputs);
  aipu_session* session = NULL;
  uint32_t i;
  int code = 0;
  if (inputs == NULL) return 1;
  if (aipu_session_create(model, 0, &session) != AIPU_OK) code = fail("session");
  for (i = 0; i < count && code == 0; ++i) {
    inputs[i] = bind(session, model, i, value);
    if (inputs[i] == NULL) code = fail("input");
  }
  if (code == 0 && aipu_session_run(session) != AIPU_OK) code = fail("run");
  if (code == 0) code = print_outputs(session, model);
  aipu_session_release(session);
  for (i = 0; i < count; ++i) free(inputs[i]);
  free(inputs);
  return code;
}

int main(int argc, char** argv) {
  aipu_model* model;
  int code;
  if (argc != 3) {
    fprintf(stderr, "usage: run_model MODEL.aipu.bin VALUE\n");
    return 2;
  }
  if (aipu_model_load(argv[1], NULL, &model) != AIPU_OK) return fail("load");
  code = run(model, (float)atof(argv[2]));
  aipu_model_release(model);
  return code;
}
