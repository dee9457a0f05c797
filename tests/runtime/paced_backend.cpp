// A device whose pace the test sets: a launch takes as many cycles as its command has operations, a copy one cycle per
// byte. Kernels compute nothing. With AIPU_PACED_NS a launch also takes so many nanoseconds for each operation, in which
// its thread stays awake: machines, virtual ones above all, wake threads up late.
#include <chrono>
#include <cstddef>
#include <cstdlib>

#include "runtime/backends/backend_api.h"

namespace {

char nothing;

int load(const aipu_backend_model*, void** module, aipu_backend_error*) {
  *module = &nothing;
  return 0;
}
void unload(void*) {}
int open(void*, const aipu_backend_services*, void** session, aipu_backend_error*) {
  *session = &nothing;
  return 0;
}
void close(void*) {}
int launch(void*, const aipu_backend_launch* launch, aipu_backend_error*) {
  if (launch->struct_bytes > offsetof(aipu_backend_launch, cycles) && launch->cycles != nullptr)
    *launch->cycles = launch->operations;
  static const char* const pace = std::getenv("AIPU_PACED_NS");
  if (pace == nullptr) return 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::atoll(pace) * launch->operations);
  while (std::chrono::steady_clock::now() < end) {
  }
  return 0;
}
uint32_t tec_count(void*) { return 1; }
int64_t copy_cycles(void*, int64_t rows, int64_t row_bytes) { return rows * row_bytes; }

constexpr aipu_backend kBackend = {AIPU_BACKEND_API_VERSION,
                                   sizeof(aipu_backend),
                                   "paced",
                                   "takes as long as it is told",
                                   AIPU_BACKEND_FAULTS,
                                   &load,
                                   &unload,
                                   &open,
                                   &close,
                                   &launch,
                                   &tec_count,
                                   nullptr,
                                   &copy_cycles};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) { return &kBackend; }
