/* Devices: version 2 of the interface of back ends, for what has memory and queues of its own. Plain C (C99), depends
 * on nothing. A library libaipu_backend_<name>.so exports one function that returns the table below; it is looked for
 * where libraries of version 1 are (backend_api.h), which go on working. runtime/backends/sample/sample_device.c is a
 * skeleton that works, tests/devices/device_conformance_test.cpp the suite that every device passes.
 *
 * Addresses are numbers of the device's. The runtime adds to them, and never reads or writes behind one.
 *
 * Queues take commands in order. A command begins when the one before it in its queue is done and all events that it
 * waits for have been signalled. Each command signals one event when it is done: (queue, how many commands have been
 * submitted to the queue up to and with it). So events are not made or released, and one that has been signalled stays
 * so. The runtime submits nothing that waits for an event that has not been submitted yet: a device with one thread may
 * do everything within submit().
 *
 * Errors: a function gives 0, or one of the aipu_status values of aipu.h and a line in the caller's buffer. A command
 * that fails stops its queue; what comes after it there, and what waits for an event of it, is not done and fails with
 * it. wait() says so, and names the command. cancel() makes a queue usable again.
 *
 * Rules: no exception leaves a function. All functions may be called by any thread, but for one queue only one thread
 * at a time submits or cancels. What a command points at in the caller's memory stays until its event. Structs are only
 * ever appended to: compare struct_bytes before using a field that is not in this version. */
#ifndef AIPU_RUNTIME_BACKENDS_DEVICE_API_H_
#define AIPU_RUNTIME_BACKENDS_DEVICE_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_DEVICE_API_VERSION 2u

typedef struct aipu_device_error {
  char message[512]; /* zero-terminated, one line */
} aipu_device_error;

/* ---- properties -------------------------------------------------------------------------------------------------- */

typedef struct aipu_device_space {
  const char* name;
  uint64_t bytes;     /* 0: not known */
  uint64_t alignment; /* of what allocate() gives; at least 64 */
  int mappable;       /* not 0: map() works */
} aipu_device_space;

/* What an engine takes. */
enum {
  AIPU_DEVICE_TAKES_LAUNCHES = 1,
  AIPU_DEVICE_TAKES_COPIES = 2,   /* within the device, in rows */
  AIPU_DEVICE_TAKES_TRANSFERS = 4 /* copies in and out */
  /* All engines take fills. */
};

typedef struct aipu_device_engine {
  const char* name;     /* "tec", "dma", ... */
  uint32_t takes;       /* AIPU_DEVICE_TAKES_... */
  uint32_t count;       /* engines of this kind; each queue is played by one of them */
  uint32_t queue_depth; /* commands that a queue holds before submit() waits for room; 0: any number */
} aipu_device_engine;

typedef struct aipu_device_properties {
  uint32_t struct_bytes; /* sizeof(aipu_device_properties), set by the caller */
  uint32_t space_count;
  const aipu_device_space* spaces; /* tensors live in spaces[0] */
  const aipu_device_engine* engines;
  uint32_t engine_count;
  uint32_t cores;
  uint32_t tecs;     /* that a launch with enough work uses; may be known only once a model has been loaded */
  uint32_t reserved; /* 0 */
  uint64_t clock_hz; /* 0: not known */
} aipu_device_properties;

/* ---- code -------------------------------------------------------------------------------------------------------- */

typedef struct aipu_device_kernel {
  const char* name;
  uint32_t argument_count;
  const uint8_t* pointer_arguments; /* per argument: 1 if it is an address */
  uint32_t lsram_bytes;             /* local memory per TEC */
  uint32_t shared_bytes;            /* shared memory per launch */
  uint32_t uses_barrier;
  const char* tir; /* lowered TIR as text, not zero-terminated; null if the file has none */
  size_t tir_bytes;
} aipu_device_kernel;

/* What a model brings. It and everything that it points at stay valid until unload(). */
typedef struct aipu_device_model {
  uint32_t struct_bytes; /* sizeof(aipu_device_model) */
  uint32_t tec_count;    /* 0: any number */
  const char* target;
  const char* const* required_cpu_features;
  uint32_t required_cpu_feature_count;
  uint32_t kernel_count;
  const aipu_device_kernel* kernels;
  const void* native_module; /* what the target's compiler made of the kernels; null if the file has none */
  size_t native_module_bytes;
  int64_t memory_limit_bytes; /* for what load() allocates */
  int64_t deadline_ns;        /* of CLOCK_MONOTONIC: an error if load() is not done by then; INT64_MAX: none */
  /* Appended. Of the target's timing model, as in the file (Model.cost_figures of aipu.fbs). */
  const double* cost_figures;
  size_t cost_figure_count; /* 0: the file does not say them */
} aipu_device_model;

/* ---- commands ---------------------------------------------------------------------------------------------------- */

typedef struct aipu_device_event {
  uint32_t queue;    /* its number, of open_queue() */
  uint32_t reserved; /* 0 */
  uint64_t command;  /* 1 is the first one that was submitted there; 0: signalled already */
} aipu_device_event;

/* When a command began and ended, by clock_ns(). */
typedef struct aipu_device_times {
  int64_t begin_ns, end_ns;
} aipu_device_times;

/* As aipu_fault_record of kernel_abi.h: what a kernel reports about data that it cannot compute with. It has skipped
 * that; the queue goes on. */
typedef struct aipu_device_fault {
  long long code, value, limit;
} aipu_device_fault;

enum {
  AIPU_DEVICE_LAUNCH = 0,
  AIPU_DEVICE_COPY = 1,     /* rows, from `source` to `destination`, within the device */
  AIPU_DEVICE_COPY_IN = 2,  /* `width` bytes from `host_source` to `destination` */
  AIPU_DEVICE_COPY_OUT = 3, /* `width` bytes from `source` to `host_destination` */
  AIPU_DEVICE_FILL = 4      /* `width` bytes of zeros at `destination` */
};

typedef struct aipu_device_command {
  uint32_t kind;
  uint32_t wait_count;
  const aipu_device_event* waits;
  aipu_device_times* times; /* to be filled in before the event; null: nobody asks */

  /* Of a launch. */
  void* module;
  uint32_t kernel;
  uint32_t max_tecs;               /* >= 1: more TECs than this would have no work */
  const unsigned long long* words; /* the arguments, as in kernel_abi.h */
  const uint64_t* extents;         /* per argument: bytes of the tensor from the address on; 0 for numbers */
  const uint8_t* writable;         /* per argument: 1 if the kernel may write there */
  aipu_device_fault* fault;        /* to be filled in before the event where a kernel reports; `code` is 0 before */
  int64_t operations;              /* arithmetic by the definition of the layer; 0: not counted */
  int64_t memory_limit_bytes;      /* for what the device allocates for this launch */
  int64_t deadline_ns;             /* of CLOCK_MONOTONIC; INT64_MAX: none */

  /* Of copies and fills. */
  uint64_t destination, source;
  void* host_destination;
  const void* host_source;
  uint64_t width; /* bytes of a row */
  uint64_t rows;
  int64_t destination_stride, source_stride; /* bytes from a row to the next */
  int overlaps; /* not 0: source and destination touch; row after row then, each as memmove() would */

  /* Appended. A runtime that does not know them submits commands without (command_bytes of submit()). */
  /* Of devices with AIPU_DEVICE_CYCLES: what the command takes there in cycles, whenever it begins, to be filled in
   * before the event. Null: nobody asks; a launch, a copy or a fill says its `module` then. */
  int64_t* cycles;
  int64_t bytes;       /* of the tensors that a launch is given, each once; set where `cycles` is */
  const void* running; /* of a launch: for run_as() of the services */
  /* Of a launch, set where `cycles` is: as in aipu_backend_launch (backend_api.h). */
  int64_t* compute_cycles;
  int64_t* dma_cycles;
} aipu_device_command;

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* What the runtime gives to a device that is opened; stays valid until it is closed. */
typedef struct aipu_device_services {
  uint32_t struct_bytes; /* sizeof(aipu_device_services) */
  uint32_t threads;      /* that the device may use of this machine's, if it computes there; 0: all */
  void* self;
  /* Prints what a kernel prints. */
  void (*print)(void* self, const char* text, size_t size);
  /* Appended. That the calling thread, of this process, runs the kernel of that command (`running`), or nothing (null)
   * any more: for a report of a crash in it. */
  void (*run_as)(void* self, const void* running);
} aipu_device_services;

/* `capabilities`: facts about what the device's kernels are made from and promise. Values as in backend_api.h. */
enum {
  AIPU_DEVICE_COMPUTES = 1,
  AIPU_DEVICE_NATIVE = 2,        /* needs the native module */
  AIPU_DEVICE_TIR = 4,           /* needs the TIR of all kernels */
  AIPU_DEVICE_CHECKS_BOUNDS = 8, /* a kernel that leaves its arguments' memory is an error */
  AIPU_DEVICE_BARRIERS = 16,     /* kernels with barriers run on several TECs */
  AIPU_DEVICE_FAULTS = 32,       /* passes faults on; needed by models whose kernels report them */
  AIPU_DEVICE_CYCLES = 64,       /* has a timing model: says what commands take in cycles */
  AIPU_DEVICE_FORKS = 128        /* memory, modules and queues are parts of this process: a child made by fork() goes on
                                    with copies of them */
};

/* wait(): the time is over, the event has not been signalled. */
#define AIPU_DEVICE_NOT_YET (-1)

typedef struct aipu_device_driver {
  uint32_t api_version;  /* AIPU_DEVICE_API_VERSION */
  uint32_t struct_bytes; /* sizeof(aipu_device_driver) */
  const char* name;
  const char* description;
  uint64_t capabilities;
  const void* self; /* private to the driver */

  /* Devices there are now, numbered from 0. */
  uint32_t (*count)(const struct aipu_device_driver* driver);
  int (*open)(const struct aipu_device_driver* driver, uint32_t number, const aipu_device_services* services,
              void** device, aipu_device_error* error);
  /* Modules, memory and queues are gone by then. */
  void (*close)(void* device);
  /* What is pointed at stays valid until close(). */
  void (*properties)(void* device, aipu_device_properties* properties);

  /* Never address 0; `bytes` > 0. */
  int (*allocate)(void* device, uint32_t space, uint64_t bytes, uint64_t* address, aipu_device_error* error);
  void (*free)(void* device, uint32_t space, uint64_t address);
  /* The same memory as this process sees it, as long as it is allocated; null: it cannot. The function may be null. */
  void* (*map)(void* device, uint32_t space, uint64_t address);

  int (*load)(void* device, const aipu_device_model* model, void** module, aipu_device_error* error);
  /* Queues that launch its kernels are closed by then. */
  void (*unload)(void* device, void* module);

  /* A queue for an engine of properties.engines[engine]. Its number is no other queue's of the device. */
  int (*open_queue)(void* device, uint32_t engine, void** queue, uint32_t* number, aipu_device_error* error);
  /* Cancels it first. */
  void (*close_queue)(void* queue);
  /* `command_bytes`: sizeof(aipu_device_command), from one to the next. The commands and the lists of what they wait
   * for are copied, what else they point at is not. An error: none has been taken. */
  int (*submit)(void* queue, const aipu_device_command* commands, uint32_t count, uint32_t command_bytes,
                aipu_device_error* error);
  /* Waits for an event until `deadline_ns` of CLOCK_MONOTONIC; 0 only looks, INT64_MAX waits for good. 0: it is done;
   * AIPU_DEVICE_NOT_YET; else what became of it, with the command that failed first in `failed`. */
  int (*wait)(void* device, aipu_device_event event, int64_t deadline_ns, aipu_device_event* failed,
              aipu_device_error* error);
  /* Leaves out what has not begun and waits for what has. The queue has no error then, and its numbers go on; an event
   * of what was left out is an error to those who wait for it. */
  void (*cancel)(void* queue);

  /* Of the clock that times are of: now. */
  int64_t (*clock_ns)(void* device);
} aipu_device_driver;

/* The one symbol: const aipu_device_driver* aipu_device_v2(void); */
#define AIPU_DEVICE_SYMBOL "aipu_device_v2"
typedef const aipu_device_driver* (*aipu_device_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* AIPU_RUNTIME_BACKENDS_DEVICE_API_H_ */
