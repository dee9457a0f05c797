#include "runtime/backends/backend_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/backends/own_folders.h"
#include "runtime/base/input_file.h"

namespace aipu::runtime {
namespace {

std::vector<std::string> search_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("AIPU_BACKEND_PATH"); path != nullptr) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t colon = rest.find(':');
      if (const auto piece = rest.substr(0, colon); !piece.empty()) folders.emplace_back(piece);
      rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    }
  }
  for (std::string& folder : own_folders()) folders.push_back(std::move(folder));
  return folders;
}

// Those of versions that this runtime knows.
BackendLibrary tables_of(void* library) {
  BackendLibrary tables;
  const auto driver = reinterpret_cast<aipu_device_function>(::dlsym(library, AIPU_DEVICE_SYMBOL));
  tables.driver = driver == nullptr ? nullptr : driver();
  if (tables.driver != nullptr && (tables.driver->api_version != AIPU_DEVICE_API_VERSION ||
                                   tables.driver->struct_bytes < sizeof(aipu_device_driver)))
    tables.driver = nullptr;
  if (tables.driver != nullptr) return tables;
  const auto backend = reinterpret_cast<aipu_backend_function>(::dlsym(library, AIPU_BACKEND_SYMBOL));
  tables.backend = backend == nullptr ? nullptr : backend();
  if (tables.backend != nullptr && (tables.backend->api_version != AIPU_BACKEND_API_VERSION ||
                                    tables.backend->struct_bytes < offsetof(aipu_backend, launch_alone)))
    tables.backend = nullptr;
  return tables;
}

}  // namespace

Result<BackendLibrary> find_library(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, BackendLibrary, std::less<>> loaded;
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(name); known != loaded.end()) return known->second;

  if (name.empty() ||
      !std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; })) {
    return invalid_argument(
        str_cat("'", name, "' is not a name of a back end; known are native, sim, interp and null"));
  }
  const std::string file = str_cat("libaipu_backend_", name, ".so");
  const auto folders = search_folders();
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + file;
    if (::access(path.c_str(), R_OK) != 0) continue;
    AIPU_RETURN_IF_ERROR(check_regular_file(path).context(str_cat("back end '", name, "'")));
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return io_error(str_cat("cannot load the back end '", name, "': ", ::dlerror()));
    const BackendLibrary tables = tables_of(library);
    if (tables.backend == nullptr && tables.driver == nullptr) {
      ::dlclose(library);
      return unsupported(str_cat("'", path, "' is not a back end of this runtime's versions (",
                                 AIPU_BACKEND_API_VERSION, ", ", AIPU_DEVICE_API_VERSION, ")"));
    }
    loaded.emplace(name, tables);
    return tables;
  }
  std::string places;
  for (const std::string& folder : folders) places += (places.empty() ? "" : ", ") + folder;
  return not_found(str_cat("no back end '", name, "': ", file, " is in none of: ", places, "; set AIPU_BACKEND_PATH"));
}

Result<const aipu_backend*> find_backend(std::string_view name) {
  AIPU_ASSIGN_OR_RETURN(const BackendLibrary library, find_library(name));
  if (library.backend == nullptr) return unsupported(str_cat("back end '", name, "' is not of version 1"));
  return library.backend;
}

// For files from before they said so, of which there are these targets; "" for others.
static std::string_view backend_of_old_file(std::string_view target) {
  return target.substr(0, 4) == "host" ? "host" : target.substr(0, 1) == "X" ? "x2" : "";
}

Result<std::string> backend_for_target(std::string_view requested, std::string_view target, std::string_view said) {
  const std::string_view natural = said.empty() ? backend_of_old_file(target) : said;
  if (requested.empty()) {
    if (natural.empty())
      return unsupported(str_cat("the model is compiled for '", target, "', which no back end here can run"));
    return std::string(natural);
  }
  if (requested == "native") {
    if (natural != "host")
      return invalid_argument(
          str_cat("the model is compiled for '", target, "' and cannot run natively; use --backend ",
                  natural == "x2" || natural.empty() ? "sim" : natural, ", or convert it with --target host"));
    return std::string("host");
  }
  if (requested == "sim") {
    if (natural != "x2")
      return invalid_argument(str_cat("the model is compiled for '", target,
                                      "', not for the simulated X2_1204; convert it with --target X2_1204"));
    return std::string("x2");
  }
  return std::string(requested);
}

}  // namespace aipu::runtime
