/* What a back end is to the runtime: a shared library libaipu_backend_<name>.so that exports one function
 * returning a table of functions. Plain C.
 *
 * The runtime looks for the library in the directories of $AIPU_BACKEND_PATH (colon-separated), then beside
 * itself, then in ../lib of that place. Rules for implementers (runtime/backends/null is a documented skeleton;
 * tests/runtime/conformance_test.cpp is the suite that every back end passes):
 *  - No exception may leave a function. Errors are returned by a code and a one-line message in the caller's
 *    buffer.
 *  - load() is called once per model, open() once per session. A loaded module is used by many sessions at a time,
 *    an opened one by one thread at a time.
 *  - launch() returns when the kernel is done. It must not allocate or call the operating system in the usual
 *    case.
 *  - Structs are only ever appended to; compare struct_bytes before using a field that is not in version 1. */
#ifndef AIPU_RUNTIME_BACKENDS_BACKEND_API_H_
#define AIPU_RUNTIME_BACKENDS_BACKEND_API_H_

#include <stddef.h>
#include <stdint.h>

#include "runtime/abi/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_BACKEND_API_VERSION 1u

/* code: 0 is success, else one of the aipu_status values of runtime/aipu.h. */
typedef struct aipu_backend_error {
  char message[512]; /* zero-terminated, one line */
} aipu_backend_error;

typedef struct aipu_backend_kernel {
  const char* name;
  uint32_t argument_count;
  const uint8_t* pointer_arguments; /* per argument: 1 if it is a pointer */
  uint32_t lsram_bytes;
  uint32_t shared_bytes;
  uint32_t uses_barrier;
  const char* tir; /* lowered TIR as text, not zero-terminated; null if the file has none */
  size_t tir_bytes;
} aipu_backend_kernel;

/* The executable side of a model. Everything pointed at stays valid until unload(). */
typedef struct aipu_backend_model {
  const char* target;
  uint32_t tec_count; /* 0: as many as there are workers */
  const char* const* required_cpu_features;
  uint32_t required_cpu_feature_count;
  const void* native_module; /* ELF shared object (kernel_abi.h); null if the file has none */
  size_t native_module_bytes;
  const aipu_backend_kernel* kernels;
  uint32_t kernel_count;
  uint32_t struct_bytes;      /* sizeof(aipu_backend_model); undefined from runtimes that had no field below */
  int64_t memory_limit_bytes; /* for what load() allocates; an error if that is not enough */
  int64_t deadline_ns;        /* of CLOCK_MONOTONIC: an error if load() is not done by then; INT64_MAX: none */
  /* Appended. Of the target's timing model, as in the file (Model.cost_figures of aipu.fbs). */
  const double* cost_figures;
  size_t cost_figure_count; /* 0: the file does not say them */
} aipu_backend_model;

/* Services of the runtime for one session. */
typedef struct aipu_backend_services {
  void* self;
  uint32_t worker_count; /* threads that run() can use at once, the caller included */
  uint32_t struct_bytes; /* sizeof(aipu_backend_services); 0 from runtimes that had no field below run_as */
  /* Calls body(argument, 0 .. count-1) concurrently and returns when all are done; count <= worker_count. */
  void (*run)(void* self, uint32_t count, void (*body)(void* argument, uint32_t index), void* argument);
  /* Prints what a kernel prints. */
  void (*print)(void* self, const char* text, size_t size);
  /* Like run(), for bodies that do not wait for each other: calls may also follow each other on the calling
   * thread, which takes over what a worker has not begun when it is through with its own part (a worker that
   * sleeps, or has lost its CPU to another process). */
  void (*run_independent)(void* self, uint32_t count, void (*body)(void* argument, uint32_t index), void* argument);
  /* Appended, for threads of the back end's own: what the calling thread is launching, for a report of a crash in it;
   * and that the calling thread runs that now, or nothing (null) any more. */
  const void* (*running)(void* self);
  void (*run_as)(void* self, const void* running);
} aipu_backend_services;

typedef struct aipu_backend_launch {
  uint32_t kernel;
  uint32_t argument_count;
  const unsigned long long* words; /* as in kernel_abi.h */
  const uint64_t* extents;         /* per argument: bytes of the tensor from the pointer on; 0 for numbers */
  uint32_t max_tecs;               /* >= 1: more TECs than this would have no work */
  uint32_t struct_bytes;           /* sizeof(aipu_backend_launch); 0 from runtimes that had no field below */
  const uint8_t* writable; /* per argument: 1 if the kernel may write there. Constants, inputs of the model and what the
                              command does not list as written are 0, whatever the kernel does. */
  /* Appended. For the context of each TEC (kernel_abi.h); the runtime reads it when launch() has returned. */
  aipu_fault_record* fault;
  int64_t memory_limit_bytes; /* for what the back end allocates for this launch, where kernels say how much that is */
  int64_t deadline_ns;        /* of CLOCK_MONOTONIC: an error soon after it, from back ends that can interrupt a kernel;
                                 INT64_MAX: none */
  /* Appended. Where it is not null: the cycles that the launch would take on the device, to be written by back ends
   * with a timing model (copy_cycles() below). */
  int64_t* cycles;
  int64_t operations; /* arithmetic by the definition of the layer; 0: not counted. Set where `cycles` is. */
  int64_t bytes;      /* of the tensors that are given, each once. Likewise. */
  /* Appended. Set where `cycles` is: what its instructions would take alone, those of the TEC that has most of them,
   * and its DMA transfers, those of one TEC or, where that is more, of all through the memory that they share. A back
   * end that does not know them leaves them as they are. */
  int64_t* compute_cycles;
  int64_t* dma_cycles;
} aipu_backend_launch;

enum {
  AIPU_BACKEND_COMPUTES = 1,      /* outputs have values (the null back end's do not) */
  AIPU_BACKEND_NATIVE = 2,        /* needs the native module */
  AIPU_BACKEND_TIR = 4,           /* needs the TIR of all kernels */
  AIPU_BACKEND_CHECKS_BOUNDS = 8, /* a kernel that leaves its arguments' memory, or writes to what it may only read, is
                                     an error, not undefined */
  AIPU_BACKEND_BARRIERS = 16,     /* kernels with barriers run on several TECs */
  AIPU_BACKEND_FAULTS = 32 /* passes aipu_backend_launch.fault on; needed by models whose kernels report faults */
};

typedef struct aipu_backend {
  uint32_t api_version;  /* AIPU_BACKEND_API_VERSION */
  uint32_t struct_bytes; /* sizeof(aipu_backend) */
  const char* name;
  const char* description;
  uint64_t capabilities;
  int (*load)(const aipu_backend_model* model, void** module, aipu_backend_error* error);
  void (*unload)(void* module);
  int (*open)(void* module, const aipu_backend_services* services, void** session, aipu_backend_error* error);
  void (*close)(void* session);
  int (*launch)(void* session, const aipu_backend_launch* launch, aipu_backend_error* error);
  /* TECs that a launch with enough work uses in this session. */
  uint32_t (*tec_count)(void* session);
  /* Appended. Runs the kernel on the calling thread as the only TEC of its launch, with the local memory of TEC
   * `tec` < tec_count() and shared memory of its own. Calls for different TECs may run at the same time, but not
   * together with launch(). Null or beyond struct_bytes: not offered, and the runtime uses launch() instead. */
  int (*launch_alone)(void* session, const aipu_backend_launch* launch, uint32_t tec, aipu_backend_error* error);
  /* Appended. The cycles that a copy of `rows` rows of `row_bytes` takes on the DMA engine of the device. -1: there is
   * no timing model for what the session runs, and launches are not asked for theirs. Null or beyond struct_bytes: no
   * model at all. */
  int64_t (*copy_cycles)(void* session, int64_t rows, int64_t row_bytes);
} aipu_backend;

/* The one symbol a back end exports: const aipu_backend* aipu_backend_v1(void); */
#define AIPU_BACKEND_SYMBOL "aipu_backend_v1"
typedef const aipu_backend* (*aipu_backend_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* AIPU_RUNTIME_BACKENDS_BACKEND_API_H_ */
