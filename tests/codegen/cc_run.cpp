#include "tests/codegen/cc_run.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace aipu::tir::testing {

std::string compiler_path(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/bin/"}) {
    const std::string path = folder + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

bool cpu_runs(const Target& target) {
  for (const std::string& feature : target.cpu_features) {
    if (feature == "avx512f" && !__builtin_cpu_supports("avx512f")) return false;
    if (feature == "avx512_vnni" && !__builtin_cpu_supports("avx512vnni")) return false;
    if (feature == "avx512_bf16" && !__builtin_cpu_supports("avx512bf16")) return false;
    if (feature == "amx_tile" && find_target("host")->name != "host-amx") return false;
    if (feature == "avx2" && !__builtin_cpu_supports("avx2")) return false;
  }
  return true;
}

LoadedModule::LoadedModule(std::span<const std::byte> shared_object) {
  const int descriptor = ::memfd_create("kernels", MFD_CLOEXEC);
  if (descriptor < 0 ||
      ::write(descriptor, shared_object.data(), shared_object.size()) != static_cast<ssize_t>(shared_object.size())) {
    error_ = "memfd";
    return;
  }
  handle_ = ::dlopen(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(descriptor);
  if (handle_ == nullptr) {
    error_ = ::dlerror();
    return;
  }
  const auto function = reinterpret_cast<aipu_kernel_module_function>(::dlsym(handle_, AIPU_KERNEL_MODULE_SYMBOL));
  if (function == nullptr) {
    error_ = "no " AIPU_KERNEL_MODULE_SYMBOL;
    return;
  }
  table_ = function();
}

LoadedModule::~LoadedModule() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

const aipu_kernel_info* LoadedModule::find(const std::string& name) const {
  for (unsigned i = 0; table_ != nullptr && i < table_->kernel_count; i++) {
    if (name == table_->kernels[i].name) return &table_->kernels[i];
  }
  return nullptr;
}

std::string LoadedModule::run(const aipu_kernel_info& kernel, const std::vector<uint64_t>& arguments, int tec_count,
                              aipu_fault_record* fault) const {
  struct Memory {
    unsigned char* data;
    explicit Memory(size_t size)
        : data(static_cast<unsigned char*>(std::aligned_alloc(64, (size + 63) / 64 * 64 + 64))) {}
    ~Memory() { std::free(data); }
  };
  std::string printed;
  const Memory shared(kernel.shared_bytes);
  for (int tec = 0; tec < tec_count; tec++) {
    const Memory lsram(kernel.lsram_bytes);
    aipu_tec_context context = {};
    context.tec_id = tec;
    context.tec_count = tec_count;
    context.lsram = lsram.data;
    context.lsram_size = kernel.lsram_bytes;
    context.shared = shared.data;
    context.shared_size = kernel.shared_bytes;
    context.barrier = [](const aipu_tec_context*) {};
    context.print = [](const aipu_tec_context* self, const char* text, unsigned long size) {
      static_cast<std::string*>(self->backend)->append(text, size);
    };
    context.backend = &printed;
    context.fault = fault;
    static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
    kernel.entry(&context, reinterpret_cast<const unsigned long long*>(arguments.data()));
  }
  return printed;
}

}  // namespace aipu::tir::testing
