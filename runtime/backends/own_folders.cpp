#include "runtime/backends/own_folders.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

namespace aipu::runtime {
namespace {

std::string folder_of_this_code() {
  Dl_info info = {};
  if (::dladdr(reinterpret_cast<const void*>(&folder_of_this_code), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.find_last_of('/');
  if (slash != std::string::npos) return path.substr(0, slash);
  // A program found through PATH: its name alone says nothing.
  std::string buffer(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (length <= 0) return {};
  buffer.resize(static_cast<size_t>(length));
  const size_t last = buffer.find_last_of('/');
  return last == std::string::npos ? std::string() : buffer.substr(0, last);
}

}  // namespace

std::vector<std::string> own_folders() {
  const std::string own = folder_of_this_code();
  if (own.empty()) return {};
  std::vector<std::string> folders = {own};
  // AIPU_PRIVATE_FOLDER is where the files are installed, from the prefix on, such as lib/aipu.
  for (const char* beside : {
           "/aipu",                              // from the library in its folder
           "/../lib",                            // from a program of a build
           "/../" AIPU_PRIVATE_FOLDER,           // from a program
           "/../../../../" AIPU_PRIVATE_FOLDER,  // from the package in lib/python3/dist-packages/aipu
           "/lib/aipu",                          // from the package of a wheel, which is the prefix itself
       }) {
    struct stat status = {};
    const std::string folder = own + beside;
    if (::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) folders.push_back(folder);
  }
  return folders;
}

Result<void*> own_function(const char* file, const char* symbol, std::string_view what) {
  std::string places;
  for (const std::string& folder : own_folders()) {
    const std::string path = str_cat(folder, "/", file);
    places += (places.empty() ? "" : ", ") + folder;
    if (::access(path.c_str(), R_OK) != 0) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return io_error(str_cat("cannot load what ", what, " need: ", ::dlerror()));
    if (void* function = ::dlsym(library, symbol); function != nullptr) return function;
    ::dlclose(library);
    return unsupported(str_cat("'", path, "' is not the library for ", what, " of this runtime's version"));
  }
  return unsupported(str_cat(what, " need ", file, ", which was not installed: it is in none of: ", places));
}

}  // namespace aipu::runtime
