/* The contract between generated kernels and whoever runs them. Plain C, depends on nothing, included by the
 * generated C, the runtime's back ends and the interpreter. Versioned like a file format: AIPU_KERNEL_ABI_VERSION
 * changes when any struct does.
 *
 * A kernel runs once per TEC (tensor engine core), concurrently. On the host a TEC is a worker thread. */
#ifndef AIPU_RUNTIME_ABI_KERNEL_ABI_H_
#define AIPU_RUNTIME_ABI_KERNEL_ABI_H_

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_KERNEL_ABI_VERSION 2u
/* A module none of whose kernels reports faults says version 1: it does not touch what version 2 added. */
#define AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS 1u

/* What a kernel reports about data that it cannot compute with, such as an index outside of an axis. The first TEC to
 * report sets `code` from 0 by an atomic compare-exchange and then the rest; read it when the launch is done. */
typedef struct aipu_fault_record {
  long long code; /* 0: no fault; else 1 + the code that the kernel gave */
  long long value;
  long long limit;
} aipu_fault_record;

/* The code of a kernel that takes a parameter not to be negative and is given one that is: `value` is that, `limit` 0.
 * Any other code is the model's, which has words for it. */
#define AIPU_FAULT_NEGATIVE_PARAMETER 0x7fffffff

static inline void aipu_report_fault(aipu_fault_record* fault, int code, long long value, long long limit) {
  long long none = 0;
  if (!__atomic_compare_exchange_n(&fault->code, &none, 1 + (long long)code, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return;
  fault->value = value;
  fault->limit = limit;
}

/* What one TEC sees. Filled by the back end, valid during one call. */
typedef struct aipu_tec_context {
  int tec_id; /* 0 .. tec_count-1 */
  int tec_count;
  unsigned char* lsram;     /* this TEC's local memory, 64-byte aligned, or null when lsram_size is 0 */
  unsigned int lsram_size;  /* bytes */
  unsigned char* shared;    /* memory shared by the TECs of one launch, 64-byte aligned, or null */
  unsigned int shared_size; /* bytes */
  /* Waits until all TECs of the launch have called it. */
  void (*barrier)(const struct aipu_tec_context* self);
  /* Writes `size` bytes of text to the user's output. */
  void (*print)(const struct aipu_tec_context* self, const char* text, unsigned long size);
  void* backend; /* private to the back end */
  /* Version 2. Never null for a module of that version. */
  aipu_fault_record* fault;
} aipu_tec_context;

/* One 64-bit word per kernel parameter, in order: the address of a pointer parameter; the low bits of a scalar
 * parameter (a float as its 32-bit pattern, a double as its 64-bit pattern, integers sign- or zero-extended). */
typedef void (*aipu_kernel_entry)(const aipu_tec_context* context, const unsigned long long* arguments);

typedef struct aipu_kernel_info {
  const char* name;
  aipu_kernel_entry entry;
  unsigned int argument_count;
  unsigned int lsram_bytes;  /* needed per TEC */
  unsigned int shared_bytes; /* needed per launch */
  unsigned int uses_barrier; /* 1: all TECs must run concurrently */
} aipu_kernel_info;

typedef struct aipu_kernel_module {
  unsigned int abi_version;  /* AIPU_KERNEL_ABI_VERSION, or AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS */
  unsigned int struct_bytes; /* sizeof(aipu_kernel_info) */
  unsigned int kernel_count;
  const aipu_kernel_info* kernels;
} aipu_kernel_module;

/* The one symbol a kernel module exports: const aipu_kernel_module* aipu_kernel_module_v1(void); */
#define AIPU_KERNEL_MODULE_SYMBOL "aipu_kernel_module_v1"
typedef const aipu_kernel_module* (*aipu_kernel_module_function)(void);

#ifdef __cplusplus
}
constexpr bool is_kernel_abi_version(unsigned int version) {
  return version == AIPU_KERNEL_ABI_VERSION || version == AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS;
}
static_assert(sizeof(aipu_tec_context) == 72, "the kernel ABI fixes this layout");
static_assert(sizeof(aipu_kernel_info) == 32, "the kernel ABI fixes this layout");
#endif

#endif /* AIPU_RUNTIME_ABI_KERNEL_ABI_H_ */
