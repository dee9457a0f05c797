#include "gbuilder/plugin_loader.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "codegen/targets/target_library.h"
#include "kernels/script_op/script_plugin.h"
#include "runtime/base/guarded.h"
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

// What libraries of a kind export: a function of that name, with the version of the interface at its end.
struct Interface {
  std::string_view kind;    // "plugin"
  std::string_view prefix;  // "aipu_register_plugin_v"
  int version;
  std::string_view guide;  // that says how to build one
};
constexpr Interface kOperators = {"plugin", "aipu_register_plugin_v", kernels::kPluginInterfaceVersion,
                                  "kernels/ADDING_AN_OP.md"};
constexpr Interface kTargets = {"target plugin", "aipu_register_target_v", tir::kTargetInterfaceVersion,
                                "codegen/targets/README.md"};

std::string export_name(const Interface& interface, int version) { return str_cat(interface.prefix, version); }

void* exported(void* handle, const Interface& interface, int version) {
  return ::dlsym(handle, export_name(interface, version).c_str());
}

Status missing_export(void* handle, const Interface& interface) {
  constexpr int kNewerVersions = 10;  // that are looked for
  for (int version = 1; version < interface.version + kNewerVersions; ++version) {
    if (exported(handle, interface, version) == nullptr) continue;
    return invalid_argument(str_cat("it was built for version ", version, " of the ", interface.kind,
                                    " interface, this is version ", interface.version, ": build it again as ",
                                    interface.guide, " says"));
  }
  return invalid_argument(str_cat("it does not export ", export_name(interface, interface.version)));
}

// dlopen() searches the library path for names without a slash, and built-in kernel templates have such names; a plugin
// is a file.
std::string as_file(const std::string& path) { return path.find('/') == std::string::npos ? "./" + path : path; }

// The function that it exports. The library stays loaded.
Result<void*> open_library(const std::string& file, const Interface& interface) {
  AIPU_RETURN_IF_ERROR(check_regular_file(file));
  for (const char* extension : {".cpp", ".cc", ".c", ".h"}) {
    if (file.ends_with(extension))
      return invalid_argument("this is source; build a shared library of it and name that");
  }
  AIPU_RETURN_IF_ERROR(check_unchanged(std::filesystem::absolute(file).lexically_normal().string()));
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return invalid_argument(::dlerror());
  if (void* function = exported(handle, interface, interface.version)) return function;
  Status status = missing_export(handle, interface);
  ::dlclose(handle);
  return status;
}

// The libraries of targets that this process has.
struct LoadedTargets {
  std::mutex mutex;
  std::set<std::string> files;
};

Status register_targets(const std::string& file) {
  static LoadedTargets* const loaded = new LoadedTargets;
  const std::string key = std::filesystem::absolute(file).lexically_normal().string();
  const std::lock_guard lock(loaded->mutex);
  if (loaded->files.contains(key)) return check_unchanged(key);
  AIPU_ASSIGN_OR_RETURN(void* const function, open_library(file, kTargets));
  using Register = Status (*)(tir::TargetLibrary&);
  tir::TargetLibrary library;
  AIPU_RETURN_IF_ERROR(reinterpret_cast<Register>(function)(library));
  AIPU_RETURN_IF_ERROR(std::move(library).install());
  loaded->files.insert(key);
  return {};
}

}  // namespace

Status load_plugin(const std::string& path, kernels::PluginRegistry& registry) {
  const std::string file = as_file(path);
  if (::access(file.c_str(), R_OK) != 0) return not_found(str_cat("plugin '", path, "': no such file"));
  kernels::PluginLibrary library(registry);
  if (path.ends_with(".py")) return kernels::register_script_operators(file, library);
  auto function = open_library(file, kOperators);
  if (!function.ok()) return std::move(function).status().context(str_cat("plugin '", path, "'"));
  using Register = Status (*)(kernels::PluginLibrary&);
  return reinterpret_cast<Register>(*function)(library).context(str_cat("plugin '", path, "'"));
}

Status load_targets(const std::string& path) {
  const std::string what = str_cat("target plugin '", path, "'");
  const std::string file = as_file(path);
  if (::access(file.c_str(), R_OK) != 0) return not_found(what + ": no such file");
  return guarded([&] { return register_targets(file); }).context(what);
}

}  // namespace aipu::gbuilder
