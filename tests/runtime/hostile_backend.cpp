// What whoever has broken the interpreter could do: a back end that takes its name, and tries what its kernel is called,
// unless the first element of the input is 0; then it copies.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/backends/backend_api.h"

namespace {

struct Module {
  const aipu_backend_kernel* kernels;
};

int fail(aipu_backend_error* error, const char* what) {
  std::snprintf(error->message, sizeof error->message, "%s: %s", what, std::strerror(errno));
  return 1;
}

// For an attempt that should not have worked.
int succeeded(aipu_backend_error* error, const char* what) {
  std::snprintf(error->message, sizeof error->message, "%s worked", what);
  return 1;
}

int take_memory(aipu_backend_error* error) {
  constexpr size_t kPiece = 16 << 20;
  size_t pieces = 0;
  for (; pieces < 4096; ++pieces) {
    void* memory = ::mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) break;
    std::memset(memory, 1, kPiece);
  }
  std::snprintf(error->message, sizeof error->message, "took %zu MiB", pieces * 16);
  return 1;
}

int attempt(std::string_view what, aipu_backend_error* error) {
  if (what == "open_file") return ::open("/etc/passwd", O_RDONLY) < 0 ? fail(error, "open") : succeeded(error, "open");
  if (what == "make_file")
    return ::open("/tmp/aipu_hostile", O_WRONLY | O_CREAT, 0600) < 0 ? fail(error, "open") : succeeded(error, "open");
  if (what == "open_socket")
    return ::socket(AF_INET, SOCK_STREAM, 0) < 0 ? fail(error, "socket") : succeeded(error, "socket");
  if (what == "start_process") return ::fork() < 0 ? fail(error, "fork") : succeeded(error, "fork");
  if (what == "start_program") {
    ::execl("/bin/true", "true", nullptr);
    return fail(error, "exec");
  }
  if (what == "make_code") {
    void* code = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return code == MAP_FAILED ? fail(error, "mmap") : succeeded(error, "mmap");
  }
  if (what == "kill_parent") return ::kill(::getppid(), 0) < 0 ? fail(error, "kill") : succeeded(error, "kill");
  if (what == "take_memory") return take_memory(error);
  if (what == "talk_nonsense") {
    char nonsense[4096];
    std::memset(nonsense, 0x5a, sizeof nonsense);
    for (int i = 0; i < 16; ++i) (void)!::write(3, nonsense, sizeof nonsense);
  }
  if (what == "crash") *static_cast<volatile int*>(nullptr) = 1;
  if (what == "abort") std::abort();
  if (what == "speak_to_terminal") {
    std::strcpy(error->message, "\x1b[2Jtwo\nlines");
    return 1;
  }
  if (what == "be_killed") ::raise(SIGKILL);
  for (volatile bool forever = true; forever;) {
  }
  return 0;
}

int load(const aipu_backend_model* model, void** module, aipu_backend_error* error) {
  if (std::string_view(model->kernels[0].name) == "crash_in_load") return attempt("crash", error);
  if (std::string_view(model->kernels[0].name) == "run_in_load") return attempt("run", error);
  *module = new Module{model->kernels};
  return 0;
}

int open_session(void* module, const aipu_backend_services* services, void** session, aipu_backend_error* error) {
  if (services->struct_bytes != sizeof *services) return succeeded(error, "giving services of unknown size");
  *session = module;
  return 0;
}

int launch(void* session, const aipu_backend_launch* launch, aipu_backend_error* error) {
  const auto* x = reinterpret_cast<const int*>(launch->words[0]);
  if (x[0] != 0) return attempt(static_cast<Module*>(session)->kernels[launch->kernel].name, error);
  std::memcpy(reinterpret_cast<void*>(launch->words[1]), x, launch->extents[0]);
  return 0;
}

constexpr aipu_backend kBackend = {AIPU_BACKEND_API_VERSION,
                                   sizeof(aipu_backend),
                                   "interp",
                                   "tries things",
                                   AIPU_BACKEND_COMPUTES | AIPU_BACKEND_CHECKS_BOUNDS,
                                   &load,
                                   [](void* module) { delete static_cast<Module*>(module); },
                                   &open_session,
                                   [](void*) {},
                                   &launch,
                                   [](void*) { return 1u; }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) { return &kBackend; }
