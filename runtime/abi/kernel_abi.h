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

#define AIPU_KERNEL_ABI_VERSION 1u

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
  unsigned int abi_version;  /* AIPU_KERNEL_ABI_VERSION */
  unsigned int struct_bytes; /* sizeof(aipu_kernel_info) */
  unsigned int kernel_count;
  const aipu_kernel_info* kernels;
} aipu_kernel_module;

/* The one symbol a kernel module exports: const aipu_kernel_module* aipu_kernel_module_v1(void); */
#define AIPU_KERNEL_MODULE_SYMBOL "aipu_kernel_module_v1"
typedef const aipu_kernel_module* (*aipu_kernel_module_function)(void);

#ifdef __cplusplus
}
static_assert(sizeof(aipu_tec_context) == 64, "the kernel ABI fixes this layout");
static_assert(sizeof(aipu_kernel_info) == 32, "the kernel ABI fixes this layout");
#endif

#endif /* AIPU_RUNTIME_ABI_KERNEL_ABI_H_ */
