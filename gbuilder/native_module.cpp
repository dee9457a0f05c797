#include "gbuilder/native_module.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

namespace aipu::gbuilder {

namespace {

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedBytes aligned_bytes(size_t size) {
  return AlignedBytes(static_cast<std::byte*>(::operator new[](size, std::align_val_t{64})));
}

void print_to_stdout(const aipu_tec_context*, const char* text, unsigned long size) {
  std::fwrite(text, 1, size, stdout);
}

}  // namespace

Result<std::unique_ptr<NativeModule>> NativeModule::load(std::span<const std::byte> shared_object) {
  const int descriptor = ::memfd_create("aipu-kernels", MFD_CLOEXEC);
  if (descriptor < 0) return io_error(str_cat("cannot create a file in memory: ", std::strerror(errno)));
  std::unique_ptr<NativeModule> result(new NativeModule());
  Status status;
  for (size_t done = 0; done < shared_object.size() && status.ok();) {
    const ssize_t written = ::write(descriptor, shared_object.data() + done, shared_object.size() - done);
    if (written > 0) done += static_cast<size_t>(written);
    if (written < 0 && errno != EINTR)
      status = io_error(str_cat("cannot write a file in memory: ", std::strerror(errno)));
  }
  if (status.ok()) {
    result->handle_ = ::dlopen(str_cat("/proc/self/fd/", descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (result->handle_ == nullptr) status = io_error(str_cat("cannot load compiled kernels: ", ::dlerror()));
  }
  ::close(descriptor);
  if (!status.ok()) return status;
  const auto function =
      reinterpret_cast<aipu_kernel_module_function>(::dlsym(result->handle_, AIPU_KERNEL_MODULE_SYMBOL));
  result->module_ = function != nullptr ? function() : nullptr;
  if (result->module_ == nullptr || !is_kernel_abi_version(result->module_->abi_version) ||
      result->module_->struct_bytes != sizeof(aipu_kernel_info)) {
    return internal_error("compiled kernels have another ABI than this compiler");
  }
  return result;
}

NativeModule::~NativeModule() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Status NativeModule::run(std::string_view kernel, std::span<const unsigned long long> arguments,
                         aipu_fault_record* fault) const {
  for (unsigned i = 0; i < module_->kernel_count; ++i) {
    const aipu_kernel_info& info = module_->kernels[i];
    if (kernel != info.name) continue;
    if (info.argument_count != arguments.size())
      return internal_error(str_cat("kernel '", kernel, "' takes ", info.argument_count, " arguments"));
    const AlignedBytes lsram = aligned_bytes(info.lsram_bytes), shared = aligned_bytes(info.shared_bytes);
    aipu_tec_context context{};
    context.tec_count = 1;
    context.lsram = info.lsram_bytes > 0 ? reinterpret_cast<unsigned char*>(lsram.get()) : nullptr;
    context.lsram_size = info.lsram_bytes;
    context.shared = info.shared_bytes > 0 ? reinterpret_cast<unsigned char*>(shared.get()) : nullptr;
    context.shared_size = info.shared_bytes;
    context.barrier = [](const aipu_tec_context*) {};
    context.print = print_to_stdout;
    context.fault = fault;
    info.entry(&context, arguments.data());
    return {};
  }
  return internal_error(str_cat("compiled kernels lack '", kernel, "'"));
}

}  // namespace aipu::gbuilder
