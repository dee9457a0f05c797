#include "gbuilder/plugin_loader.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "kernels/script_op/script_plugin.h"
#include "runtime/base/input_file.h"

namespace aipu::gbuilder {

namespace {

// What dlopen() takes for the same library by its name must be the same file: it would hand out the old one.
Status check_unchanged(const std::string& file) {
  struct Version {
    dev_t device;
    ino_t inode;
    int64_t seconds, nanoseconds;
    bool operator==(const Version&) const = default;
  };
  static std::mutex mutex;
  static std::map<std::string, Version>* const loaded = new std::map<std::string, Version>();
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return not_found("no such file");
  const Version version{status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  const std::lock_guard lock(mutex);
  if (loaded->try_emplace(file, version).first->second == version) return {};
  return invalid_argument(
      "the file has changed since this process loaded it, and a loaded library cannot be replaced: start a new "
      "process");
}

std::string export_name(int version) { return str_cat("aipu_register_plugin_v", version); }

void* exported(void* handle, int version) { return ::dlsym(handle, export_name(version).c_str()); }

Status missing_export(void* handle) {
  for (int version = 1; version < kernels::kPluginInterfaceVersion; ++version) {
    if (exported(handle, version) == nullptr) continue;
    return invalid_argument(str_cat("it was built for version ", version, " of the plugin interface, this is version ",
                                    kernels::kPluginInterfaceVersion,
                                    ": build it again as kernels/ADDING_AN_OP.md says"));
  }
  return invalid_argument(str_cat("it does not export ", export_name(kernels::kPluginInterfaceVersion)));
}

}  // namespace

Status load_plugin(const std::string& path, kernels::PluginRegistry& registry) {
  // dlopen() searches the library path for names without a slash, and built-in kernel templates have such names; a
  // plugin is a file.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  if (::access(file.c_str(), R_OK) != 0) return not_found(str_cat("plugin '", path, "': no such file"));
  if (path.ends_with(".py")) {
    kernels::PluginLibrary library(registry);
    return kernels::register_script_operators(file, library);
  }
  AIPU_RETURN_IF_ERROR(check_regular_file(file).context(str_cat("plugin '", path, "'")));
  for (const char* extension : {".cpp", ".cc", ".c", ".h"}) {
    if (path.ends_with(extension))
      return invalid_argument(str_cat("plugin '", path, "' is source; build a shared library of it and name that"));
  }
  if (Status status = check_unchanged(std::filesystem::absolute(file).lexically_normal().string()); !status.ok())
    return std::move(status).context(str_cat("plugin '", path, "'"));
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return invalid_argument(str_cat("plugin '", path, "': ", ::dlerror()));
  using Register = Status (*)(kernels::PluginLibrary&);
  const auto register_plugin = reinterpret_cast<Register>(exported(handle, kernels::kPluginInterfaceVersion));
  if (register_plugin == nullptr) {
    Status status = missing_export(handle);
    ::dlclose(handle);
    return std::move(status).context(str_cat("plugin '", path, "'"));
  }
  kernels::PluginLibrary library(registry);
  return register_plugin(library).context(str_cat("plugin '", path, "'"));
}

}  // namespace aipu::gbuilder
