#include "tests/injection/injector.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#if defined(AIPU_BEFORE_THE_SANITIZER)
#define AIPU_REAL(name) __interceptor_##name
#else
#define AIPU_REAL(name) __libc_##name
#endif

extern "C" {
void* AIPU_REAL(malloc)(size_t);
void* AIPU_REAL(calloc)(size_t, size_t);
void* AIPU_REAL(realloc)(void*, size_t);
void* AIPU_REAL(memalign)(size_t, size_t);
}

namespace {

constexpr const char* kNames[AIPU_INJECT_KINDS] = {"allocation", "thread", "mmap",  "open",
                                                   "read",       "write",  "fsync", "rename"};

// Plain atomics: this runs inside malloc, before main and after it.
std::atomic<int> armed_kind{-1};
std::atomic<uint64_t> calls{0};
std::atomic<uint64_t> first_failure{0};
std::atomic<bool> all_after{false};
std::atomic<bool> trace{false};

// A thread's first use of a thread_local of a loaded library takes memory. Without it the C library ends the process:
// there is no error that could be reported, so nothing to test. The same where the sanitizer greets a new thread.
bool for_thread_local_memory() {
  void* frames[8];
  const int count = ::backtrace(frames, 8);
  for (int i = 0; i < count; ++i) {
    Dl_info info = {};
    if (::dladdr(frames[i], &info) == 0 || info.dli_sname == nullptr) continue;
    const std::string_view name = info.dli_sname;
    if (name == "__tls_get_addr" || name == "pthread_getattr_np") return true;
  }
  return false;
}

// So it is where the dynamic linker's table of unique symbols has to grow: entries of 32 bytes.
bool for_unique_symbols(size_t entry_bytes, void* caller) {
  Dl_info info = {};
  return entry_bytes == 32 && armed_kind.load(std::memory_order_relaxed) == AIPU_INJECT_ALLOCATION &&
         ::dladdr(caller, &info) != 0 && info.dli_fname != nullptr && std::strstr(info.dli_fname, "/ld-") != nullptr;
}

bool fails(aipu_inject_kind kind) {
  if (armed_kind.load(std::memory_order_relaxed) != kind) return false;
  const uint64_t call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t first = first_failure.load(std::memory_order_relaxed);
  bool result = first != 0 && (call == first || (call > first && all_after.load(std::memory_order_relaxed)));
  if (result && kind == AIPU_INJECT_ALLOCATION && for_thread_local_memory()) result = false;
  if (result && trace.load(std::memory_order_relaxed)) {
    void* frames[24];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 24), STDERR_FILENO);
  }
  return result;
}

// The function behind ours.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

template <typename Value>
Value refuse(int error, Value value) {
  errno = error;
  return value;
}

void* allocate_aligned(size_t alignment, size_t size) {
  return fails(AIPU_INJECT_ALLOCATION) ? refuse<void*>(ENOMEM, nullptr) : AIPU_REAL(memalign)(alignment, size);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

int open_flags(const char* name, const char* path, int flags, mode_t mode) {
  if (fails(AIPU_INJECT_OPEN)) return refuse(EMFILE, -1);
  return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void aipu_inject_arm(int kind, uint64_t n, int onwards) {
  armed_kind = -1;
  calls = 0;
  first_failure = n;
  all_after = onwards != 0;
  armed_kind = kind;
}

uint64_t aipu_inject_disarm(void) {
  armed_kind = -1;
  return calls.exchange(0);
}

const char* aipu_inject_name(int kind) { return kNames[kind]; }

void* malloc(size_t size) {
  return fails(AIPU_INJECT_ALLOCATION) ? refuse<void*>(ENOMEM, nullptr) : AIPU_REAL(malloc)(size);
}
void* calloc(size_t count, size_t size) {
  if (for_unique_symbols(count, __builtin_return_address(0))) return AIPU_REAL(calloc)(count, size);
  return fails(AIPU_INJECT_ALLOCATION) ? refuse<void*>(ENOMEM, nullptr) : AIPU_REAL(calloc)(count, size);
}
void* realloc(void* old, size_t size) {
  return fails(AIPU_INJECT_ALLOCATION) ? refuse<void*>(ENOMEM, nullptr) : AIPU_REAL(realloc)(old, size);
}
void* memalign(size_t alignment, size_t size) { return allocate_aligned(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return allocate_aligned(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  void* memory = allocate_aligned(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *result = memory;
  return 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (fails(AIPU_INJECT_THREAD)) return EAGAIN;
  return next<decltype(&pthread_create)>("pthread_create")(thread, attributes, body, argument);
}

void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) {
  if (fails(AIPU_INJECT_MMAP)) return refuse(ENOMEM, MAP_FAILED);
  return next<decltype(&mmap)>("mmap")(address, size, protection, flags, descriptor, offset);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_flags("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_flags("open64", path, flags, mode);
}
int mkstemp(char* path) {
  return fails(AIPU_INJECT_OPEN) ? refuse(EMFILE, -1) : next<decltype(&mkstemp)>("mkstemp")(path);
}
int mkostemp(char* path, int flags) {
  return fails(AIPU_INJECT_OPEN) ? refuse(EMFILE, -1) : next<decltype(&mkostemp)>("mkostemp")(path, flags);
}
int memfd_create(const char* name, unsigned flags) noexcept {
  return fails(AIPU_INJECT_OPEN) ? refuse(EMFILE, -1) : next<decltype(&memfd_create)>("memfd_create")(name, flags);
}

ssize_t read(int descriptor, void* bytes, size_t size) {
  return fails(AIPU_INJECT_READ) ? refuse<ssize_t>(EIO, -1) : next<decltype(&read)>("read")(descriptor, bytes, size);
}
ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  if (fails(AIPU_INJECT_READ)) return refuse<ssize_t>(EIO, -1);
  return next<decltype(&pread)>("pread")(descriptor, bytes, size, offset);
}
ssize_t pread64(int descriptor, void* bytes, size_t size, off64_t offset) {
  if (fails(AIPU_INJECT_READ)) return refuse<ssize_t>(EIO, -1);
  return next<decltype(&pread64)>("pread64")(descriptor, bytes, size, offset);
}
ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (fails(AIPU_INJECT_WRITE)) return refuse<ssize_t>(ENOSPC, -1);
  return next<decltype(&write)>("write")(descriptor, bytes, size);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  if (fails(AIPU_INJECT_WRITE)) return refuse<ssize_t>(ENOSPC, -1);
  return next<decltype(&pwrite)>("pwrite")(descriptor, bytes, size, offset);
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t offset) {
  if (fails(AIPU_INJECT_WRITE)) return refuse<ssize_t>(ENOSPC, -1);
  return next<decltype(&pwrite64)>("pwrite64")(descriptor, bytes, size, offset);
}
int fsync(int descriptor) {
  return fails(AIPU_INJECT_FSYNC) ? refuse(EIO, -1) : next<decltype(&fsync)>("fsync")(descriptor);
}
int fdatasync(int descriptor) {
  return fails(AIPU_INJECT_FSYNC) ? refuse(EIO, -1) : next<decltype(&fdatasync)>("fdatasync")(descriptor);
}
int rename(const char* from, const char* to) noexcept {
  return fails(AIPU_INJECT_RENAME) ? refuse(EIO, -1) : next<decltype(&rename)>("rename")(from, to);
}

}  // extern "C"

#if defined(AIPU_BEFORE_THE_SANITIZER)
// What others forget when they fail is not ours: the dynamic linker; a repeated field of Protocol Buffers, which makes
// its new element before it makes room for it.
extern "C" const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() {
  return "leak:_dl_map_object\nleak:_dl_new_object\nleak:google::protobuf::RepeatedPtrField*::Add";
}

// The sanitizer has operators of its own, which do not come by malloc. These do.
void* operator new(size_t size) {
  if (void* memory = malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  if (void* memory = memalign(static_cast<size_t>(alignment), size)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memalign(static_cast<size_t>(alignment), size);
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
void* operator new[](size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memalign(static_cast<size_t>(alignment), size);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { free(memory); }
#endif
#pragma GCC visibility pop

namespace {

char log_path[4096];

// AIPU_INJECT=KIND:N or KIND:N+, for programs that know nothing of this; those that they start are left alone.
__attribute__((constructor)) void arm_from_environment() {
  if (const char* path = std::getenv("AIPU_INJECT_LOG")) std::snprintf(log_path, sizeof log_path, "%s", path);
  void* frame;
  ::backtrace(&frame, 1);  // loads what it needs
  trace = std::getenv("AIPU_INJECT_TRACE") != nullptr;
  const char* text = std::getenv("AIPU_INJECT");
  const char* colon = text == nullptr ? nullptr : std::strchr(text, ':');
  if (colon == nullptr) return;
  int kind = 0;
  const auto length = static_cast<size_t>(colon - text);
  while (kind < AIPU_INJECT_KINDS && (std::strlen(kNames[kind]) != length || std::memcmp(kNames[kind], text, length))) {
    ++kind;
  }
  char* end = nullptr;
  const uint64_t n = std::strtoull(colon + 1, &end, 10);
  const bool onwards = *end == '+';
  for (const char* name : {"LD_PRELOAD", "AIPU_INJECT", "AIPU_INJECT_LOG"}) ::unsetenv(name);
  aipu_inject_arm(kind, n, onwards);
}

__attribute__((destructor)) void write_log() {
  const uint64_t count = aipu_inject_disarm();
  if (log_path[0] == '\0') return;
  char line[32];
  const int size = std::snprintf(line, sizeof line, "%llu\n", static_cast<unsigned long long>(count));
  const auto descriptor =
      static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (descriptor < 0) return;
  ::syscall(SYS_write, descriptor, line, static_cast<size_t>(size));
  ::close(descriptor);
}

}  // namespace
