/* The C API of the runtime. Link with -laipu_runtime.
 *
 * Ownership: aipu_model_load() and aipu_session_create() give the caller one reference, to be given back with the
 * matching _release(). Models are reference counted (a session holds one of its own), immutable and may be used by
 * any number of threads. A session has one owner and is used by one thread at a time: a call that comes while another
 * thread is in one is AIPU_INVALID_ARGUMENT. Memory bound to inputs and outputs stays the caller's and has to live
 * until the last run with it. Strings and arrays that functions return
 * belong to the object they were asked of and live as long as it does, unless stated otherwise.
 *
 * Errors: functions return AIPU_OK or what kind of error it was; aipu_last_error() has the message, one line.
 * A null pointer is AIPU_INVALID_ARGUMENT, or a count of 0, unless stated otherwise. Nothing throws.
 *
 *   aipu_model* model;
 *   if (aipu_model_load("net.aipu.bin", NULL, &model) != AIPU_OK) { puts(aipu_last_error()); return 1; }
 *   aipu_session* session;
 *   if (aipu_session_create(model, 0, &session) != AIPU_OK) { puts(aipu_last_error()); return 1; }
 *   aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 4, pixels);
 *   aipu_session_run(session);
 *   aipu_tensor y;
 *   aipu_session_output(session, 0, &y);
 */
#ifndef AIPU_RUNTIME_AIPU_H_
#define AIPU_RUNTIME_AIPU_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_C_API __attribute__((visibility("default")))

typedef enum aipu_status {
  AIPU_OK = 0,
  AIPU_INVALID_ARGUMENT = 1, /* the caller's fault */
  AIPU_INVALID_MODEL = 2,    /* the file is damaged or inconsistent */
  AIPU_UNSUPPORTED = 3,      /* well-formed, but not something this build can do */
  AIPU_NOT_FOUND = 4,
  AIPU_IO = 5,
  AIPU_OUT_OF_RANGE = 6, /* sizes that overflow or exceed a limit */
  AIPU_INTERNAL = 7      /* our bug */
} aipu_status;

/* Element types, numbered as in aipu.bin. Elements of fewer than 8 bits are packed as ONNX packs them: a stream of
 * bits, the first element in the lowest ones of the first byte, filled with zeros to whole bytes. A tensor of n
 * elements has (n * bits + 7) / 8 bytes, at any address. */
typedef enum aipu_dtype {
  AIPU_VOID = 0,
  AIPU_BOOL = 1, /* one byte, 0 or 1 */
  AIPU_INT8 = 2,
  AIPU_UINT8 = 3,
  AIPU_INT16 = 4,
  AIPU_UINT16 = 5,
  AIPU_INT32 = 6,
  AIPU_UINT32 = 7,
  AIPU_INT64 = 8,
  AIPU_UINT64 = 9,
  AIPU_FLOAT16 = 10,
  AIPU_BFLOAT16 = 11,
  AIPU_FLOAT32 = 12,
  AIPU_FLOAT64 = 13,
  AIPU_STRING = 14, /* an aipu_string */
  /* What models store and nobody computes with. */
  AIPU_FLOAT8E4M3FN = 15,
  AIPU_FLOAT8E4M3FNUZ = 16,
  AIPU_FLOAT8E5M2 = 17,
  AIPU_FLOAT8E5M2FNUZ = 18,
  AIPU_FLOAT8E8M0 = 19,
  AIPU_FLOAT6E2M3 = 20, /* packed, like all below but the last */
  AIPU_FLOAT6E3M2 = 21,
  AIPU_FLOAT4E2M1 = 22,
  AIPU_INT4 = 23,
  AIPU_UINT4 = 24,
  AIPU_INT2 = 25,
  AIPU_UINT2 = 26,
  AIPU_COMPLEX64 = 27 /* two floats: real, imaginary */
} aipu_dtype;

/* An element of a tensor of strings: UTF-8 by convention, without a terminator. The texts of an input have to live as
 * long as its data. Those of an output live as long as its data; outputs of strings cannot be bound. */
typedef struct aipu_string {
  const char* data; /* may be null where size is 0 */
  size_t size;
} aipu_string;

typedef struct aipu_model aipu_model;
typedef struct aipu_session aipu_session;
typedef struct aipu_run aipu_run;

/* Describes an input or output of a model. */
typedef struct aipu_tensor_info {
  const char* name;
  aipu_dtype dtype;
  uint32_t rank;
  const int64_t* shape; /* -1 for extents that are not constant */
} aipu_tensor_info;

/* An input or output of the ONNX model that is a sequence, an optional or a map. Its elements are tensors of this
 * model, inputs or outputs number `first` to `first + count - 1`, with the names NAME[0], NAME[1], ... */
typedef enum aipu_list_kind {
  AIPU_SEQUENCE = 0,
  AIPU_OPTIONAL_TENSOR = 1,
  AIPU_OPTIONAL_SEQUENCE = 2,
  AIPU_MAPS = 3, /* a sequence of N maps with the same K keys; two elements: the keys [K], the values [N, K] */
  AIPU_MAP = 4   /* two elements: the keys [K], the values [K] */
} aipu_list_kind;
typedef struct aipu_list_info {
  const char* name;
  int is_input;
  aipu_list_kind kind;
  int is_absent; /* an optional without a value; it has no elements */
  uint32_t first;
  uint32_t count;
} aipu_list_info;

/* A contiguous tensor in C order. */
typedef struct aipu_tensor {
  aipu_dtype dtype;
  uint32_t rank;
  const int64_t* shape;
  const void* data;
  size_t size_bytes;
} aipu_tensor;

/* How to load a model. Set it to zero, then struct_bytes; null for aipu_load_options is all zero. Later versions append
 * fields. */
typedef struct aipu_load_options {
  size_t struct_bytes;        /* sizeof(aipu_load_options) */
  const char* backend;        /* as for aipu_model_load(); null: what the model was compiled for */
  int copy;                   /* not 0: read the file into memory, so that it may change later */
  int verify_all;             /* not 0: check the hashes of large constants too */
  int64_t memory_limit_bytes; /* beyond the file; 0: 1 GiB */
  double time_limit_seconds;  /* 0: none */
  /* Not 0: interpret it in a process of its own for each session, which can do nothing but compute and is killed when
   * its time is over (SECURITY.md). Limits of 0, of sessions too, are 1 GiB, 10 s to load and to plan, and 60 s to run
   * then. Linux; needs the program aipu-sandbox beside the library, in ../bin, or where AIPU_SANDBOX says. */
  int sandbox;
  /* Refuse files that are not signed (aipugb --sign) with the private half of this public key: the path of a PEM file,
   * or the text of one. The file is copied then. Null: no signature is asked for. Needs libaipu_signature.so. */
  const char* trusted_key;
  /* Of a file with several models (aipugb A.onnx B.onnx) the one to load, see aipu_model_entry_name(); null: the first.
   * AIPU_NOT_FOUND where there is none of that name. */
  const char* entry;
  int only_safe_backends; /* not 0: refuse back ends that do not promise memory safety, whatever the kernels do */
  /* Of aipu_model_load_bytes_with(), not 0: use the bytes where they are, if they are aligned to 64 bytes, and have to
   * live as long as the model then; else they are copied. */
  int in_place;
} aipu_load_options;

/* Threads that sessions share: they take turns, run by run. */
typedef struct aipu_pool aipu_pool;

/* How to make a session. Set it to zero, then struct_bytes; null is all zero. Later versions append fields. The limits
 * are for files that are not trusted (SECURITY.md): what goes beyond them is AIPU_OUT_OF_RANGE. Native code is not
 * interrupted when its time is over, only not gone on with. */
typedef struct aipu_session_options {
  size_t struct_bytes;             /* sizeof(aipu_session_options) */
  int threads;                     /* 0: as many as there are CPUs */
  int64_t run_memory_limit_bytes;  /* of what the session allocates; 0: the machine's memory, 1 GiB for interp */
  double run_time_limit_seconds;   /* 0: none */
  int64_t plan_memory_limit_bytes; /* of the plan for the shapes at hand; 0: 1 GiB */
  double plan_time_limit_seconds;  /* 0: none */
  int overlap;                     /* not 0: play copies beside the kernels that they do not wait for */
  int profile; /* not 0: keep a row of each command of all runs, see aipu_session_profile(); not in a sandbox */
  int cycles;  /* not 0: keep virtual time where the back end has a timing model, see aipu_session_cycles(); not with
                  overlap */
  /* Threads of others, for as long as the session lives; null: of its own. `threads` is not looked at then. */
  aipu_pool* pool;
  int plan_cache; /* shapes whose plans are kept; 0: 8 */
  /* Of a profile: counters that are read before and after each command, up to AIPU_MOST_COUNTERS, which only grow. 0:
   * none. aipu_profile_row.counts has what they have counted meanwhile. */
  uint32_t counter_count;
  void (*read_counters)(void* argument, int64_t* values);
  void* counter_argument;
  /* Called after each command by the thread that runs, for each tensor of the model that it has written, in whole or in
   * part; null: nobody looks. `name` is the ONNX model's where there is one, `origin` the nodes that the command
   * computes, empty where the file does not say; all is valid during the call. What fused kernels keep to themselves is
   * never seen, nor are strings; bodies of loops show theirs in every iteration. Commands take turns then, and batches
   * are computed at once. Not with overlap, nor in a sandbox. */
  void (*inspect)(void* argument, const char* name, const char* origin, const aipu_tensor* value);
  void* inspect_argument;
} aipu_session_options;
#define AIPU_MOST_COUNTERS 8

/* One command of a run that was profiled. Texts live until the next aipu_session_profile() of the session, or its end.
 * Set struct_bytes before it is asked for; later versions append fields, which are 0 where the runtime does not know
 * them. */
typedef struct aipu_profile_row {
  size_t struct_bytes; /* sizeof(aipu_profile_row) */
  const char* engine;  /* "tec" (kernels), "dma" (copies), "host" (symbols, checks, loops and branches) */
  const char* name;    /* of the kernel, or what the engine did */
  const char* origin;  /* the nodes of the ONNX model that it came from */
  uint32_t command;    /* its index among those of its engine */
  uint32_t sample;     /* of a batch that is run sample by sample */
  uint32_t lane;       /* which of the threads played the sample that played others at the same time */
  uint32_t threads;
  int64_t start_ns; /* since the first run that is in the profile */
  int64_t duration_ns;
  int64_t operations;   /* arithmetic by the definition of the layer; 0: not counted */
  int64_t bytes;        /* of the tensors it was given, each once */
  int64_t start_cycles; /* in virtual time, since the session's first run */
  int64_t cycles;       /* -1: not kept */
  uint32_t lanes;       /* so many samples at the same time, each by one thread */
  /* Of aipu_session_options.read_counters; 0 where other commands run at the same time. */
  uint32_t count_count;
  const int64_t* counts;
  /* Rows, of commands that had to end before. */
  uint32_t wait_count;
  const uint32_t* waits;
  /* Of `cycles` what the instructions would take alone, and the DMA transfers; -1: not known. */
  int64_t compute_cycles;
  int64_t dma_cycles;
} aipu_profile_row;

/* Memory for an output of a run that is submitted; data null: the run provides it. */
typedef struct aipu_output_memory {
  void* data;
  size_t size_bytes;
} aipu_output_memory;

/* A run to submit. Set it to zero, then struct_bytes. Later versions append fields. */
typedef struct aipu_run_options {
  size_t struct_bytes;       /* sizeof(aipu_run_options) */
  const aipu_tensor* inputs; /* one per input of the model; size_bytes is not looked at */
  uint32_t input_count;
  uint32_t output_count;             /* 0, or as many as the model has */
  const aipu_output_memory* outputs; /* null if there are 0 */
  /* Called when the run is done, whatever became of it, by a thread of the session's; null: nobody. It may submit and
   * release the session, but must not wait for runs. `run` is valid during the call, and not to be released. */
  void (*done)(void* argument, const aipu_run* run);
  void* argument;
} aipu_run_options;

/* From now on a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL) in native code of a kernel prints one line to stderr that names
 * the kernel, before the signal takes the course that it had. Process-wide, for good. */
AIPU_C_API void aipu_enable_crash_reports(void);

/* Message of the last error in this thread; "" if there was none. Valid until the next call that fails in this
 * thread. */
AIPU_C_API const char* aipu_last_error(void);

/* `backend`: "native", "sim", "interp" or a name of a back end library; null: what the model was compiled for. */
AIPU_C_API aipu_status aipu_model_load(const char* path, const char* backend, aipu_model** model);
/* As aipu_model_load(), which maps the file: while the model lives it must be neither cut off nor written over. Replace
 * a file that is served by renaming a new one to its name, or load it with `copy`. */
AIPU_C_API aipu_status aipu_model_load_with(const char* path, const aipu_load_options* options, aipu_model** model);
/* Copies the bytes. */
AIPU_C_API aipu_status aipu_model_load_bytes(const void* bytes, size_t size, const char* backend, aipu_model** model);
AIPU_C_API aipu_status aipu_model_load_bytes_with(const void* bytes, size_t size, const aipu_load_options* options,
                                                  aipu_model** model);
/* AIPU_OK if there is such a back end for models that are compiled for the target; else the error of loading one. */
AIPU_C_API aipu_status aipu_check_backend(const char* backend, const char* target);
AIPU_C_API void aipu_model_retain(aipu_model* model);  /* null is fine */
AIPU_C_API void aipu_model_release(aipu_model* model); /* null is fine */

/* A file may hold several models, which share constants and kernels: what they are asked for by, in the order of the
 * file; of a file with one model, what that is called. The name lives as long as the model, and is "" for what is not
 * there. */
AIPU_C_API uint32_t aipu_model_entry_count(const aipu_model* model);
AIPU_C_API const char* aipu_model_entry_name(const aipu_model* model, uint32_t index);
/* Another model of the file, which is neither read nor checked again: all of them work on one mapping, which goes with
 * the last of them. `entry` null: the first. With a sandbox each has a process of its own. */
AIPU_C_API aipu_status aipu_model_entry_open(const aipu_model* model, const char* entry, aipu_model** opened);

AIPU_C_API uint32_t aipu_model_input_count(const aipu_model* model);
AIPU_C_API uint32_t aipu_model_output_count(const aipu_model* model);
AIPU_C_API aipu_status aipu_model_input(const aipu_model* model, uint32_t index, aipu_tensor_info* info);
AIPU_C_API aipu_status aipu_model_output(const aipu_model* model, uint32_t index, aipu_tensor_info* info);
/* What an axis that is not constant is called; inputs and outputs with the same name there have the same extent. "?"
 * for one without a name, "" for a constant one, and for what is not there. Lives as long as the model. */
AIPU_C_API const char* aipu_model_input_symbol(const aipu_model* model, uint32_t index, uint32_t axis);
AIPU_C_API const char* aipu_model_output_symbol(const aipu_model* model, uint32_t index, uint32_t axis);
/* What the model is called, the target that it was compiled for, and the back end that runs it. They live as long as
 * the model. */
AIPU_C_API const char* aipu_model_name(const aipu_model* model);
AIPU_C_API const char* aipu_model_target(const aipu_model* model);
AIPU_C_API const char* aipu_model_backend(const aipu_model* model);
/* The inputs and outputs of the ONNX model that are no tensors. */
AIPU_C_API uint32_t aipu_model_list_count(const aipu_model* model);
AIPU_C_API aipu_status aipu_model_list(const aipu_model* model, uint32_t index, aipu_list_info* info);
/* What the ONNX model says about itself: its doc_string, "" if there is none, and its metadata_props. Texts live as
 * long as the model. */
AIPU_C_API const char* aipu_model_description(const aipu_model* model);
AIPU_C_API uint32_t aipu_model_metadata_count(const aipu_model* model);
AIPU_C_API aipu_status aipu_model_metadata(const aipu_model* model, uint32_t index, const char** key,
                                           const char** value);
/* One line about a sandbox that contains less than it should on this system; "" if there is nothing to say. */
AIPU_C_API const char* aipu_model_warning(const aipu_model* model);

/* `threads`: 0 for as many as there are CPUs; more than those is cut down. */
AIPU_C_API aipu_status aipu_pool_create(int threads, aipu_pool** pool);
/* Sessions that have it keep it. Null is fine. */
AIPU_C_API void aipu_pool_release(aipu_pool* pool);

/* `threads`: 0 for as many as there are CPUs. */
AIPU_C_API aipu_status aipu_session_create(aipu_model* model, int threads, aipu_session** session);
AIPU_C_API aipu_status aipu_session_create_with(aipu_model* model, const aipu_session_options* options,
                                                aipu_session** session);
AIPU_C_API void aipu_session_release(aipu_session* session); /* null is fine */
/* Threads that kernels are spread over. */
AIPU_C_API int aipu_session_threads(const aipu_session* session);
/* Bytes of memory held for activations in this process. */
AIPU_C_API int64_t aipu_session_arena_bytes(const aipu_session* session);
/* 1: no submitted run is in flight. */
AIPU_C_API int aipu_session_is_idle(const aipu_session* session);

/* The shape is copied, the data is read in place by each run. The element's alignment is needed, no more. A bind
 * stays for all later runs, until the next bind of this input; one that fails leaves the input without a value. A
 * run in which an input has none is AIPU_INVALID_ARGUMENT. */
AIPU_C_API aipu_status aipu_session_bind_input(aipu_session* session, uint32_t index, aipu_dtype dtype,
                                               const int64_t* shape, uint32_t rank, const void* data);
/* Where to put an output, from the next run on: aligned to its elements, and overlapping neither an input nor another
 * output, which run checks. data null: the session provides the memory (which is also the default).
 * The same memory as that of an input of the same size is fine where the file says that the output begins as a copy of
 * this input, which nothing else reads (caches that a step adds rows to): what is new is written then, the rest stays.
 * Elsewhere, and in a sandbox, it is an overlap as any other. */
AIPU_C_API aipu_status aipu_session_bind_output(aipu_session* session, uint32_t index, void* data, size_t size_bytes);
/* Checks shapes and plans memory without running, so that aipu_session_output() knows shapes that do not depend on
 * data. run does it too. */
AIPU_C_API aipu_status aipu_session_prepare(aipu_session* session);
/* Data can be wrong too: an index outside of an axis, a division of integers by zero. AIPU_INVALID_ARGUMENT then, and
 * the message names the node of the ONNX model and the value. After any error outputs have no defined contents (also in
 * memory of the caller's that was bound for them); the session can be run again, and other sessions notice nothing. */
AIPU_C_API aipu_status aipu_session_run(aipu_session* session);
/* Valid until the next bind, prepare or run of this session. */
AIPU_C_API aipu_status aipu_session_output(aipu_session* session, uint32_t index, aipu_tensor* tensor);

/* Takes the rows of all runs since the session was made, or aipu_session_clear_profile(), in the order in which they
 * were played. AIPU_INVALID_ARGUMENT where the session was made without aipu_session_options.profile. */
AIPU_C_API aipu_status aipu_session_profile(aipu_session* session, uint32_t* count);
/* A row of those that aipu_session_profile() took last. */
AIPU_C_API aipu_status aipu_session_profile_row(const aipu_session* session, uint32_t index, aipu_profile_row* row);
AIPU_C_API aipu_status aipu_session_clear_profile(aipu_session* session);
/* The same rows as a file in Chrome's trace format, for ui.perfetto.dev. */
AIPU_C_API aipu_status aipu_session_write_profile(const aipu_session* session, const char* path);
/* What the last run would take on the device that the model is compiled for, by the back end's timing model.
 * AIPU_NOT_FOUND where there is none and before a run, AIPU_INVALID_ARGUMENT without aipu_session_options.cycles. */
AIPU_C_API aipu_status aipu_session_cycles(const aipu_session* session, int64_t* cycles);

/* Puts a run into the session's queue and returns. A thread of the session's own plays the queue, in order. Each run
 * has its own inputs and outputs: shapes are copied, data is read and written until the run is done. Any thread may
 * submit. As long as runs are in flight, the functions above that bind, prepare, run or ask for outputs are
 * AIPU_INVALID_ARGUMENT; afterwards nothing is bound. aipu_session_release() ends runs that have not begun with an
 * error, and waits for the one that has. In a child made by fork() the runs of its parent are lost: waiting says so.
 * `run`: to be given back with aipu_run_release(), before or after its session; null if `done` is enough. */
AIPU_C_API aipu_status aipu_session_run_async(aipu_session* session, const aipu_run_options* options, aipu_run** run);
/* Any number of threads may look at a run. 0 or 1. */
AIPU_C_API int aipu_run_is_done(const aipu_run* run);
/* Waits until it is done, and returns what became of it, as aipu_session_run() does. */
AIPU_C_API aipu_status aipu_run_wait(const aipu_run* run);
/* The same for a limited time. `*done`: 0 if it is not over, which is AIPU_OK. */
AIPU_C_API aipu_status aipu_run_wait_for(const aipu_run* run, double seconds, int* done);
/* Of a run that has succeeded. Valid until the run is released; memory that was given is the caller's. */
AIPU_C_API aipu_status aipu_run_output(const aipu_run* run, uint32_t index, aipu_tensor* tensor);
AIPU_C_API void aipu_run_release(aipu_run* run); /* null is fine */

#ifdef __cplusplus
}
#endif

#endif /* AIPU_RUNTIME_AIPU_H_ */
