/* Uses the C API from C; called by api_test.cpp. Returns 0, or the line of the first thing that went wrong. */
#include <string.h>

#include "runtime/aipu.h"

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

/* Every function refuses null with a message that names the argument. */
static int refuse_null(aipu_model* model, aipu_session* session, const void* bytes, size_t size) {
  aipu_model* no_model = NULL;
  aipu_tensor_info info;
  aipu_session* no_session = NULL;
  aipu_tensor tensor;
  const float x[4] = {1, 2, 3, 4};
  CHECK(aipu_model_load(NULL, NULL, &no_model) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "argument 'path' is null") != NULL);
  CHECK(aipu_model_load("x", NULL, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_load_with(NULL, NULL, &no_model) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_load_with("x", NULL, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_load_bytes(NULL, size, NULL, &no_model) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_load_bytes(bytes, size, NULL, NULL) == AIPU_INVALID_ARGUMENT);
  aipu_model_retain(NULL);
  CHECK(aipu_model_input_count(NULL) == 0 && aipu_model_output_count(NULL) == 0);
  CHECK(strstr(aipu_last_error(), "argument 'model' is null") != NULL);
  CHECK(aipu_model_input(NULL, 0, &info) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_input(model, 0, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_output(NULL, 0, &info) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_output(model, 0, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_create(NULL, 1, &no_session) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_create(model, 1, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_create(model, -1, &no_session) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_input(NULL, 0, AIPU_FLOAT32, NULL, 0, x) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, NULL, 2, x) == AIPU_INVALID_ARGUMENT);
  const int64_t shape[2] = {1, 4};
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 2, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_output(NULL, 0, NULL, 0) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_bind_output(session, 0, NULL, 0) == AIPU_OK); /* the session's own memory */
  CHECK(aipu_session_prepare(NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_run(NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_output(NULL, 0, &tensor) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_output(session, 0, NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(no_model == NULL && no_session == NULL);
  return 0;
}

static int load_with_options(const char* path) {
  aipu_load_options options;
  aipu_model* model = NULL;
  memset(&options, 0, sizeof options);
  CHECK(aipu_model_load_with(path, &options, &model) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "set them to sizeof(aipu_load_options)") != NULL);
  options.struct_bytes = sizeof options;
  options.copy = 1;
  options.verify_all = 1;
  options.backend = "nonesuch";
  CHECK(aipu_model_load_with(path, &options, &model) == AIPU_NOT_FOUND);
  options.backend = NULL;
  CHECK(aipu_model_load_with(path, &options, &model) == AIPU_OK);
  aipu_model_release(model);
  CHECK(aipu_model_load_with(path, NULL, &model) == AIPU_OK);
  aipu_model_release(model);
  /* A caller of a later version: fields that are not known here may not say anything. */
  struct {
    aipu_load_options known;
    long later;
  } longer;
  memset(&longer, 0, sizeof longer);
  longer.known.struct_bytes = sizeof longer;
  CHECK(aipu_model_load_with(path, &longer.known, &model) == AIPU_OK);
  aipu_model_release(model);
  longer.later = 1;
  CHECK(aipu_model_load_with(path, &longer.known, &model) == AIPU_UNSUPPORTED);
  return 0;
}

static void read_two(void* argument, int64_t* values) {
  int64_t* const calls = argument;
  values[0] = ++*calls;
  values[1] = 10 * *calls;
}

static void keep_y(void* argument, const char* name, const char* origin, const aipu_tensor* value) {
  if (strcmp(name, "y") == 0 && origin != NULL && value->rank == 2 && value->size_bytes == 4 * sizeof(float))
    *(float*)argument = ((const float*)value->data)[3];
}

/* Two sessions take turns on the threads of a pool that its owner has given back; what a session says of itself; the
 * counters of the caller's in a profile. */
static int use_session_options(const void* bytes, size_t size) {
  aipu_load_options load;
  aipu_session_options options;
  aipu_model* model = NULL;
  aipu_pool* pool = NULL;
  aipu_session *first = NULL, *second = NULL, *refused = NULL;
  aipu_profile_row row;
  aipu_tensor y;
  const float x[4] = {1, 2, 3, 4};
  const int64_t shape[2] = {1, 4};
  int64_t calls = 0;
  float last_y = 0;
  uint32_t count = 0;
  memset(&load, 0, sizeof load);
  load.struct_bytes = sizeof load;
  CHECK(aipu_model_load_bytes_with(NULL, size, &load, &model) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_model_load_bytes_with(bytes, size, &load, NULL) == AIPU_INVALID_ARGUMENT);
  load.only_safe_backends = 1; /* native code is none of these */
  CHECK(aipu_model_load_bytes_with(bytes, size, &load, &model) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "does not contain what kernels do") != NULL);
  load.only_safe_backends = 0;
  load.in_place = 1;
  CHECK(aipu_model_load_bytes_with(bytes, size, &load, &model) == AIPU_OK);
  CHECK(aipu_check_backend("nonesuch", aipu_model_target(model)) == AIPU_NOT_FOUND);
  CHECK(aipu_check_backend(aipu_model_backend(model), aipu_model_target(model)) == AIPU_OK);
  CHECK(aipu_check_backend(NULL, "x") == AIPU_INVALID_ARGUMENT && aipu_check_backend("x", NULL) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_pool_create(1, NULL) == AIPU_INVALID_ARGUMENT && aipu_pool_create(-1, &pool) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_pool_create(1, &pool) == AIPU_OK);
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.threads = 64; /* not looked at */
  options.pool = pool;
  options.plan_cache = -1;
  CHECK(aipu_session_create_with(model, &options, &refused) == AIPU_INVALID_ARGUMENT);
  options.plan_cache = 1;
  options.profile = 1;
  options.counter_count = AIPU_MOST_COUNTERS + 1;
  CHECK(aipu_session_create_with(model, &options, &refused) == AIPU_INVALID_ARGUMENT);
  options.counter_count = 2;
  CHECK(aipu_session_create_with(model, &options, &refused) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "argument 'read_counters' is null") != NULL);
  options.read_counters = read_two;
  options.counter_argument = &calls;
  CHECK(aipu_session_create_with(model, &options, &first) == AIPU_OK);
  options.inspect = keep_y;
  options.inspect_argument = &last_y;
  options.overlap = 1;
  CHECK(aipu_session_create_with(model, &options, &refused) == AIPU_INVALID_ARGUMENT);
  options.overlap = 0;
  CHECK(aipu_session_create_with(model, &options, &second) == AIPU_OK);
  aipu_pool_release(pool);
  aipu_pool_release(NULL);
  aipu_model_release(model);
  CHECK(aipu_session_threads(first) == 1 && aipu_session_threads(NULL) == 0);
  CHECK(aipu_session_is_idle(first) == 1 && aipu_session_is_idle(NULL) == 0);
  CHECK(aipu_session_arena_bytes(first) == 0 && aipu_session_arena_bytes(NULL) == 0);
  CHECK(aipu_session_bind_input(first, 0, AIPU_FLOAT32, shape, 2, x) == AIPU_OK);
  CHECK(aipu_session_bind_input(second, 0, AIPU_FLOAT32, shape, 2, x) == AIPU_OK);
  CHECK(aipu_session_run(first) == AIPU_OK && aipu_session_run(second) == AIPU_OK);
  CHECK(aipu_session_arena_bytes(first) > 0);
  CHECK(aipu_session_output(second, 0, &y) == AIPU_OK && ((const float*)y.data)[3] == 16);
  CHECK(aipu_session_profile(first, &count) == AIPU_OK && count == 3);
  memset(&row, 0, sizeof row);
  row.struct_bytes = sizeof row;
  CHECK(aipu_session_profile_row(first, 0, &row) == AIPU_OK && row.lanes == 1 && row.wait_count == 0);
  CHECK(row.count_count == 2 && row.counts[0] == 1 && row.counts[1] == 10);
  CHECK(aipu_session_profile_row(first, 2, &row) == AIPU_OK && row.wait_count == 1 && row.waits[0] == 1); /* the copy */
  CHECK(last_y == 16);
  CHECK(calls == 2 * 2 * 3); /* before and after each of three commands, twice */
  aipu_session_release(first);
  aipu_session_release(second);
  return 0;
}

static void count_done(void* argument, const aipu_run* run) {
  if (aipu_run_is_done(run)) ++*(int*)argument;
}

static int use_async(const void* bytes, size_t size) {
  aipu_model* model = NULL;
  aipu_session* session = NULL;
  CHECK(aipu_model_load_bytes(bytes, size, NULL, &model) == AIPU_OK);
  CHECK(aipu_session_create(model, 1, &session) == AIPU_OK);
  aipu_model_release(model);
  const float x[4] = {1, 2, 3, 4};
  float given[4] = {0};
  const int64_t shape[2] = {1, 4}, wrong[2] = {1, 5};
  const aipu_tensor input = {AIPU_FLOAT32, 2, shape, x, sizeof x};
  const aipu_tensor wrong_input = {AIPU_FLOAT32, 2, wrong, x, sizeof x};
  const aipu_output_memory output = {given, sizeof given};
  aipu_run_options options;
  aipu_run *own = NULL, *into = NULL, *bad = NULL;
  aipu_tensor y;
  int done = 0, called = 0;
  memset(&options, 0, sizeof options);
  CHECK(aipu_session_run_async(session, NULL, &own) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_run_async(session, &options, &own) == AIPU_INVALID_ARGUMENT); /* no struct_bytes */
  options.struct_bytes = sizeof options;
  CHECK(aipu_session_run_async(session, &options, &own) == AIPU_INVALID_ARGUMENT); /* no inputs */
  options.input_count = 1;
  CHECK(aipu_session_run_async(session, &options, &own) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "argument 'inputs' is null") != NULL);
  options.inputs = &input;
  options.done = count_done;
  options.argument = &called;
  CHECK(aipu_session_run_async(session, &options, &own) == AIPU_OK);
  options.outputs = &output;
  options.output_count = 1;
  CHECK(aipu_session_run_async(session, &options, &into) == AIPU_OK);
  CHECK(aipu_session_run_async(session, &options, NULL) == AIPU_OK); /* the callback is enough */
  options.inputs = &wrong_input;
  CHECK(aipu_session_run_async(session, &options, &bad) == AIPU_OK);
  CHECK(aipu_run_wait(bad) == AIPU_INVALID_ARGUMENT);
  CHECK(strstr(aipu_last_error(), "axis 1: expected 4, found 5") != NULL);
  CHECK(aipu_run_output(bad, 0, &y) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_run_is_done(own) == 1 && aipu_run_wait(own) == AIPU_OK && aipu_run_is_done(NULL) == 0);
  CHECK(aipu_run_wait_for(into, 60, &done) == AIPU_OK && done == 1);
  CHECK(aipu_run_wait_for(bad, 60, &done) == AIPU_INVALID_ARGUMENT && done == 1);
  aipu_session_release(session);
  CHECK(called == 4);
  CHECK(aipu_run_output(own, 0, &y) == AIPU_OK && y.size_bytes == sizeof x && y.rank == 2 && y.shape[1] == 4);
  CHECK(((const float*)y.data)[3] == 16);
  CHECK(aipu_run_output(into, 0, &y) == AIPU_OK && y.data == given && given[0] == 4);
  CHECK(aipu_run_wait(NULL) == AIPU_INVALID_ARGUMENT);
  aipu_run_release(own);
  aipu_run_release(into);
  aipu_run_release(bad);
  aipu_run_release(NULL);
  return 0;
}

int use_c_api(const void* bytes, size_t size, const char* path) {
  const int async_line = use_async(bytes, size);
  if (async_line != 0) return async_line;
  const int pool_line = use_session_options(bytes, size);
  if (pool_line != 0) return pool_line;
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
  x[0] = 5; /* a bind stays, and reads what is there when it runs */
  CHECK(aipu_session_run(session) == AIPU_OK && mine[0] == 20);
  aipu_model* other = NULL;
  CHECK(aipu_model_load_bytes(bytes, size, NULL, &other) == AIPU_OK);
  const int wrong_line = refuse_null(other, session, bytes, size);
  if (wrong_line != 0) return wrong_line;
  aipu_model_release(other);
  const int options_line = load_with_options(path);
  if (options_line != 0) return options_line;
  aipu_session_release(session);
  aipu_session_release(NULL);
  CHECK(aipu_model_load_bytes(bytes, size, NULL, &model) == AIPU_OK);
  aipu_session_options limits = {0};
  CHECK(aipu_session_create_with(model, &limits, &session) == AIPU_INVALID_ARGUMENT); /* no struct_bytes */
  limits.struct_bytes = sizeof limits;
  limits.threads = 1;
  limits.run_memory_limit_bytes = -1;
  CHECK(aipu_session_create_with(model, &limits, &session) == AIPU_INVALID_ARGUMENT);
  limits.run_memory_limit_bytes = 0;
  limits.overlap = 1;
  CHECK(aipu_session_create_with(model, &limits, &session) == AIPU_OK);
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 2, x) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_OK);
  aipu_session_release(session);
  limits.struct_bytes = offsetof(aipu_session_options, overlap); /* a program of before there was any */
  limits.run_memory_limit_bytes = 1;
  CHECK(aipu_session_create_with(model, &limits, &session) == AIPU_OK);
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 2, x) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_OUT_OF_RANGE);
  CHECK(strstr(aipu_last_error(), "--run-memory-limit") != NULL);
  aipu_session_release(session);
  aipu_model_release(model);
  aipu_model_release(NULL);
  return 0;
}

/* Data without a result is the error of one run. */
int use_faulty_model(const void* bytes, size_t size) {
  aipu_model* model = NULL;
  aipu_session* session = NULL;
  CHECK(aipu_model_load_bytes(bytes, size, NULL, &model) == AIPU_OK);
  CHECK(aipu_session_create(model, 2, &session) == AIPU_OK);
  float x[4] = {1, 2, -9, 4};
  const int64_t shape[2] = {1, 4};
  aipu_tensor y;
  CHECK(aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 2, x) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_INVALID_ARGUMENT);
  CHECK(strcmp(aipu_last_error(), "'root {value}' (Sqrt): a root of -9 at 2, -9") == 0);
  x[2] = 9;
  CHECK(aipu_session_run(session) == AIPU_OK);
  CHECK(aipu_session_output(session, 0, &y) == AIPU_OK && ((const float*)y.data)[2] == 9);
  aipu_session_release(session);
  aipu_model_release(model);
  return 0;
}

/* The same functions, with the model in a sandbox: y = 3 * x. */
int use_sandbox(const char* path) {
  aipu_load_options load;
  aipu_session_options options;
  aipu_model* model = NULL;
  aipu_session* session = NULL;
  aipu_tensor y;
  int32_t x[3] = {1, 2, 3};
  int32_t bound[3] = {0, 0, 0};
  const int64_t shape[1] = {3};
  memset(&load, 0, sizeof load);
  load.struct_bytes = sizeof load;
  load.sandbox = 1;
  load.backend = "native";
  CHECK(aipu_model_load_with(path, &load, &model) == AIPU_INVALID_ARGUMENT);
  load.backend = NULL;
  CHECK(aipu_model_load_with("nonesuch", &load, &model) == AIPU_IO);
  CHECK(aipu_model_load_with(path, &load, &model) == AIPU_OK);
  CHECK(strcmp(aipu_model_warning(model), "") == 0);
  CHECK(strcmp(aipu_model_warning(NULL), "") == 0);
  CHECK(aipu_model_input_count(model) == 1 && aipu_model_output_count(model) == 1);
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.run_time_limit_seconds = 30;
  CHECK(aipu_session_create_with(model, &options, &session) == AIPU_OK);
  CHECK(aipu_session_bind_input(session, 0, AIPU_INT32, shape, 1, x) == AIPU_OK);
  CHECK(aipu_session_prepare(session) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_OK);
  CHECK(aipu_session_output(session, 0, &y) == AIPU_OK);
  CHECK(y.size_bytes == sizeof x && y.rank == 1 && y.shape[0] == 3);
  CHECK(((const int32_t*)y.data)[0] == 3 && ((const int32_t*)y.data)[2] == 9);
  CHECK(aipu_session_bind_output(session, 0, bound, sizeof bound) == AIPU_OK);
  CHECK(aipu_session_run(session) == AIPU_OK);
  CHECK(bound[1] == 6);
  aipu_session_release(session);
  aipu_model_release(model);
  return 0;
}
