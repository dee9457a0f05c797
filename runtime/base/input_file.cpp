#include "runtime/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace aipu {
namespace {

Status cannot(std::string_view action, const std::string& path) {
  const std::string text = str_cat("cannot ", action, " '", path, "': ", std::strerror(errno));
  return errno == ENOMEM ? out_of_range(text) : io_error(text);
}

Status check_kind(mode_t mode, const std::string& path) {
  if (S_ISREG(mode)) return {};
  const std::string_view kind = S_ISDIR(mode)    ? "a folder"
                                : S_ISFIFO(mode) ? "a FIFO"
                                : S_ISSOCK(mode) ? "a socket"
                                : S_ISCHR(mode)  ? "a character device"
                                : S_ISBLK(mode)  ? "a block device"
                                                 : "something else";
  return io_error(str_cat("cannot read '", path, "': not a regular file, but ", kind));
}

}  // namespace

Status check_regular_file(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return cannot("open", path);
  return check_kind(info.st_mode, path);
}

Result<InputFile> InputFile::open(const std::string& path) {
  AIPU_RETURN_IF_ERROR(check_regular_file(path));
  InputFile file;
  file.path_ = path;
  // Another file may have the name by now: O_NONBLOCK does not wait for the writer of a FIFO.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.descriptor_ < 0) return cannot("open", path);
  struct stat info = {};
  if (::fstat(file.descriptor_, &info) != 0) return cannot("read", path);
  AIPU_RETURN_IF_ERROR(check_kind(info.st_mode, path));
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status InputFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  constexpr size_t kAtOnce = size_t{1} << 30;  // Linux reads less than 2 GiB by one call
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), std::min(to.size(), kAtOnce), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return cannot("read", path_);
    }
    if (got == 0) return io_error(str_cat("cannot read '", path_, "': it has become shorter while it was being read"));
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace aipu
