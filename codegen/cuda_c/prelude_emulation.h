// CUDA's words for this machine's compiler, behind the prelude of hosts. The threads of a block take turns on one
// thread of the machine: each runs to the next barrier, then the next one does. Blocks are dealt to the TECs.
#define __global__
#define __device__
#define __shared__ static thread_local

struct __cuda_index {
  unsigned int x, y, z;
};
static thread_local __cuda_index threadIdx, blockIdx;

extern "C" {
void* malloc(unsigned long);
void free(void*);
int getcontext(void*);
void makecontext(void*, void (*)(), int, ...);
int swapcontext(void*, const void*);
}

// The beginning of glibc's ucontext_t, and room for the rest.
struct __cuda_context {
  unsigned long flags;
  __cuda_context* link;
  void* stack;
  int stack_flags;
  unsigned long stack_size;
  __attribute__((aligned(16))) unsigned char rest[8192];
};

struct __cuda_thread {
  __cuda_context context;
  __cuda_index index;
  bool done;
};

// What runs a block, while it does.
struct __cuda_block {
  void (*run)(const void*);
  const void* kernel;
  __cuda_context outside;
  __cuda_thread* thread;
};
static thread_local __cuda_block* __cuda_current;

static void __cuda_begin() {
  __cuda_current->run(__cuda_current->kernel);
  __cuda_current->thread->done = true;
}

static void __syncthreads() {
  __cuda_thread* const self = __cuda_current->thread;
  swapcontext(&self->context, &__cuda_current->outside);
}

// Threads in the order x, y, z, as long as one is left.
static void __cuda_take_turns(__cuda_block* block, __cuda_thread* threads, unsigned int count) {
  for (bool left = true; left;) {
    left = false;
    for (unsigned int t = 0; t < count; ++t) {
      if (threads[t].done) continue;
      block->thread = &threads[t];
      threadIdx = threads[t].index;
      swapcontext(&block->outside, &threads[t].context);
      left = left || !threads[t].done;
    }
  }
}

// The grid: extents of blockIdx, then of threadIdx.
template <class Kernel>
static void __cuda_run(int tec, int tecs, const unsigned int (&grid)[6], bool uses_barrier, const Kernel& kernel) {
  const unsigned long blocks = (unsigned long)grid[0] * grid[1] * grid[2];
  const unsigned int count = grid[3] * grid[4] * grid[5];
  const unsigned long stack_bytes = 256 << 10;
  __cuda_block block;
  block.run = [](const void* k) { (*(const Kernel*)k)(); };
  block.kernel = &kernel;
  __cuda_thread* threads = nullptr;
  unsigned char* stacks = nullptr;
  if (uses_barrier) {
    threads = (__cuda_thread*)malloc(count * sizeof(__cuda_thread));
    stacks = (unsigned char*)malloc(count * stack_bytes);
    if (threads == nullptr || stacks == nullptr) __builtin_trap();
  }
  for (unsigned long b = tec; b < blocks; b += tecs) {
    blockIdx = {(unsigned int)(b % grid[0]), (unsigned int)(b / grid[0] % grid[1]),
                (unsigned int)(b / grid[0] / grid[1])};
    for (unsigned int t = 0; t < count; ++t) {
      const __cuda_index index = {t % grid[3], t / grid[3] % grid[4], t / grid[3] / grid[4]};
      if (!uses_barrier) {
        threadIdx = index;
        kernel();
        continue;
      }
      threads[t].index = index;
      threads[t].done = false;
      getcontext(&threads[t].context);
      threads[t].context.stack = stacks + t * stack_bytes;
      threads[t].context.stack_size = stack_bytes;
      threads[t].context.link = &block.outside;
      makecontext(&threads[t].context, __cuda_begin, 0);
    }
    if (uses_barrier) {
      __cuda_current = &block;
      __cuda_take_turns(&block, threads, count);
    }
  }
  free(threads);
  free(stacks);
}
