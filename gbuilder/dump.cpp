#include "gbuilder/dump.h"

#include <filesystem>

#include "runtime/base/file.h"

namespace aipu::gbuilder {

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return io_error(str_cat("cannot make the folder '", path, "': ", error.message()));
  return {};
}

void Dumper::write(const std::string& name, std::string_view text) {
  if (folder_.empty() || !status_.ok()) return;
  const std::filesystem::path path = std::filesystem::path(folder_) / name;
  status_ = make_folder(path.parent_path().string());
  if (status_.ok()) status_ = write_file_atomically(path.string(), text);
}

}  // namespace aipu::gbuilder
