#include "gbuilder/file/dump.h"

#include <filesystem>

#include "runtime/base/file.h"

namespace aipu::gbuilder {

void Dumper::write(const std::string& name, std::string_view text) {
  if (folder_.empty() || !status_.ok()) return;
  const std::filesystem::path path = std::filesystem::path(folder_) / name;
  status_ = make_folder(path.parent_path().string());
  if (status_.ok()) status_ = write_file_atomically(path.string(), text, Sync::kNo);
}

}  // namespace aipu::gbuilder
