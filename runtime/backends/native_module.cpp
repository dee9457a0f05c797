#include "runtime/backends/native_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <unordered_map>
#include <utility>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#else
#include "runtime/base/tile_permission.h"
#endif

namespace aipu::runtime {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Features of the CPU as Linux names them, with a space on either side of each.
#if defined(__aarch64__)
// Asked of the kernel: an emulator's /proc/cpuinfo is the one of the machine that it runs on.
std::string cpu_features() {
  struct Feature {
    std::string_view name;
    unsigned long set, bit;
  };
  constexpr Feature kKnown[] = {
      {"asimd", AT_HWCAP, HWCAP_ASIMD}, {"asimddp", AT_HWCAP, HWCAP_ASIMDDP}, {"bf16", AT_HWCAP2, HWCAP2_BF16}};
  std::string features = " ";
  for (const Feature& feature : kKnown)
    if ((::getauxval(feature.set) & feature.bit) != 0) features += str_cat(feature.name, " ");
  return features;
}
constexpr std::string_view kWidely = "aarch64-neon";  // a target that every CPU of this kind runs
#else
std::string cpu_features() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) return line.substr(colon + 1) + " ";
  }
  return {};
}
constexpr std::string_view kWidely = "host-avx2 or host-baseline";
#endif

// Whether the system, too, lets this process use what its CPU has.
bool is_permitted(std::string_view feature) {
#if defined(__x86_64__)
  return feature != "amx_tile" || may_use_tiles();
#else
  return !feature.empty();
#endif
}

Status check_cpu(const aipu_backend_model& model) {
  if (model.required_cpu_feature_count == 0) return {};
  const std::string features = cpu_features();
  if (features.empty()) return {};  // no /proc here: an illegal instruction is the worst that can come
  std::string missing;
  for (uint32_t i = 0; i < model.required_cpu_feature_count; ++i) {
    const std::string_view feature = model.required_cpu_features[i];
    if (features.find(str_cat(" ", feature, " ")) == std::string::npos || !is_permitted(feature))
      missing += str_cat(missing.empty() ? "" : ", ", feature);
  }
  if (missing.empty()) return {};
  return unsupported(str_cat("the model is compiled for ", model.target, ", but this CPU lacks ", missing,
                             "; convert it on this machine, or with --target ", kWidely, ", or use --backend interp"));
}

// What the dynamic linker takes for granted: that the file has the bytes that its headers speak of. (It maps them, and
// would die of SIGBUS.)
Status check_elf(const void* bytes, size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header || std::memcmp(bytes, ELFMAG, SELFMAG) != 0)
    return invalid_model("the native module is not an ELF file");
  std::memcpy(&header, bytes, sizeof header);
#if defined(__x86_64__)
  constexpr auto kMachine = EM_X86_64;
#elif defined(__aarch64__)
  constexpr auto kMachine = EM_AARCH64;
#else
  const auto kMachine = header.e_machine;
#endif
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN || header.e_machine != kMachine) {
    return unsupported(
        "the native module is not a shared object for this kind of CPU; convert the model on this machine, or use "
        "--backend interp");
  }
  const auto inside = [&](uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; };
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      !inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) {
    return invalid_model("the native module's program headers are outside of it");
  }
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, static_cast<const char*>(bytes) + header.e_phoff + i * sizeof segment, sizeof segment);
    if ((segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) && !inside(segment.p_offset, segment.p_filesz)) {
      return invalid_model("the native module is cut off: it lacks bytes that its program headers speak of");
    }
  }
  return {};
}

Status write_all(int descriptor, const void* bytes, size_t size) {
  const char* position = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(descriptor, position, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return io_error(str_cat("cannot write the kernels: ", std::strerror(errno)));
    position += written;
    size -= static_cast<size_t>(written);
  }
  return {};
}

struct TemporaryFile {
  ~TemporaryFile() {
    ::close(descriptor);
    ::unlink(path);
  }
  const char* path;
  int descriptor;
};

}  // namespace

Status NativeModule::open(const void* bytes, size_t size) {
  AIPU_RETURN_IF_ERROR(check_elf(bytes, size));
  std::string first_failure;
  descriptor_ = ::memfd_create("aipu_kernels", MFD_CLOEXEC);
  if (descriptor_ >= 0) {
    AIPU_RETURN_IF_ERROR(write_all(descriptor_, bytes, size));
    library_ = ::dlopen(str_cat("/proc/self/fd/", descriptor_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return {};
    first_failure = ::dlerror();
    ::close(std::exchange(descriptor_, -1));
  } else {
    first_failure = std::strerror(errno);
  }
  // Hardened systems refuse executable memfds: a file that only this user can read, gone as soon as it is mapped.
  const char* folder = std::getenv("TMPDIR");
  std::string path = str_cat(folder != nullptr && *folder != '\0' ? folder : "/tmp", "/aipu_kernels_XXXXXX");
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0)
    return io_error(str_cat("cannot load the kernels: ", one_line(first_failure), "; and cannot create '", path,
                            "': ", std::strerror(errno)));
  const TemporaryFile temporary = {path.c_str(), file};
  AIPU_RETURN_IF_ERROR(write_all(file, bytes, size));
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return invalid_model(str_cat("cannot load the kernels: ", one_line(::dlerror())));
  return {};
}

Status NativeModule::resolve(const aipu_backend_model& model) {
  const auto function = reinterpret_cast<aipu_kernel_module_function>(::dlsym(library_, AIPU_KERNEL_MODULE_SYMBOL));
  if (function == nullptr) return invalid_model("the native module does not export " AIPU_KERNEL_MODULE_SYMBOL);
  const aipu_kernel_module* module = function();
  if (module == nullptr || !is_kernel_abi_version(module->abi_version) ||
      module->struct_bytes != sizeof(aipu_kernel_info)) {
    return unsupported(str_cat("the kernels were compiled for another version of the kernel ABI than ",
                               AIPU_KERNEL_ABI_VERSION, "; convert the model again"));
  }
  std::unordered_map<std::string_view, const aipu_kernel_info*> by_name;
  for (unsigned int i = 0; i < module->kernel_count; ++i) by_name.emplace(module->kernels[i].name, &module->kernels[i]);
  entries_.reserve(model.kernel_count);
  for (uint32_t i = 0; i < model.kernel_count; ++i) {
    const aipu_backend_kernel& wanted = model.kernels[i];
    const auto found = by_name.find(wanted.name);
    if (found == by_name.end()) return invalid_model(str_cat("the native module has no kernel '", wanted.name, "'"));
    const aipu_kernel_info& kernel = *found->second;
    if (kernel.argument_count != wanted.argument_count || kernel.lsram_bytes > wanted.lsram_bytes ||
        kernel.shared_bytes > wanted.shared_bytes || (kernel.uses_barrier != 0) != (wanted.uses_barrier != 0)) {
      return invalid_model(
          str_cat("kernel '", wanted.name, "' of the native module is not the one that the tables describe"));
    }
    entries_.push_back(kernel.entry);
  }
  return {};
}

Result<NativeModule> NativeModule::load(const aipu_backend_model& model) {
  NativeModule module;
  if (model.kernel_count == 0) return module;
  AIPU_RETURN_IF_ERROR(check_cpu(model));
  AIPU_RETURN_IF_ERROR(module.open(model.native_module, model.native_module_bytes));
  AIPU_RETURN_IF_ERROR(module.resolve(model));
  return module;
}

NativeModule::NativeModule(NativeModule&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      entries_(std::move(other.entries_)) {}

NativeModule::~NativeModule() {
  if (library_ != nullptr) ::dlclose(library_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

int report(const Status& status, aipu_backend_error* error) {
  std::snprintf(error->message, sizeof error->message, "%s", status.message().c_str());
  return static_cast<int>(status.code());
}

}  // namespace aipu::runtime
