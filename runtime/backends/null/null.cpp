// The null back end: accepts every model and computes nothing. It shows what a back end consists of, and measures what
// the runtime itself costs.
//
// To write a back end, start from this file:
//  1. load(): look at the model (target, kernels, native module or TIR) and prepare what all sessions share. Refuse
//     here what cannot work, with a message that says why and what to do. Keep the pointers that you need: they stay
//     valid until unload().
//  2. open(): per-session state, such as local memories. `services` outlives the session; its run() gives you the
//     session's threads.
//  3. launch(): run one kernel to its end on at most max_tecs TECs. `words` are the arguments as in kernel_abi.h,
//     `extents` how far each pointer reaches.
//  4. Declare in `capabilities` what holds, add the library to runtime/CMakeLists.txt under the name
//     aipu_backend_<name>, and its name to the list in tests/runtime/conformance_test.cpp.
#include "runtime/backends/backend_api.h"

namespace {

int load(const aipu_backend_model*, void** module, aipu_backend_error*) {
  static char shared;  // a module without state still needs an address that is not null
  *module = &shared;
  return 0;
}
void unload(void*) {}

int open(void*, const aipu_backend_services*, void** session, aipu_backend_error*) {
  static char shared;
  *session = &shared;
  return 0;
}
void close(void*) {}

int launch(void*, const aipu_backend_launch*, aipu_backend_error*) { return 0; }
uint32_t tec_count(void*) { return 1; }

constexpr aipu_backend kBackend = {AIPU_BACKEND_API_VERSION,
                                   sizeof(aipu_backend),
                                   "null",
                                   "computes nothing",
                                   AIPU_BACKEND_FAULTS,  // there is nobody to report one
                                   &load,
                                   &unload,
                                   &open,
                                   &close,
                                   &launch,
                                   &tec_count};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) { return &kBackend; }
