#include "codegen/driver/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"

namespace aipu::tir {
namespace {

constexpr size_t kHeaderBytes = 13 + 32 + 1;

std::string header(std::span<const std::byte> content) {
  return fmt::format("aipu-cache 1 {}\n", hash_bytes(content).hex());
}

std::string default_directory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (!variable("AIPU_CACHE_DIR").empty()) return variable("AIPU_CACHE_DIR");
  if (!variable("XDG_CACHE_HOME").empty()) return variable("XDG_CACHE_HOME") + "/aipu";
  return variable("HOME").empty() ? "" : variable("HOME") + "/.cache/aipu";
}

bool is_own(const struct stat& info) { return info.st_uid == ::geteuid() && (info.st_mode & 022) == 0; }

std::string why_not_own(const std::string& path, const struct stat& info) {
  if (!S_ISDIR(info.st_mode)) return fmt::format("'{}' is not a folder", path);
  if (info.st_uid != ::geteuid())
    return fmt::format("'{}' belongs to another user (number {}, this is {})", path, info.st_uid, ::geteuid());
  if (!is_own(info)) return fmt::format("others may write to '{}' (chmod go-w takes that away)", path);
  return "";
}

// Makes the folder if it is not there, for this user alone; "" if it is this user's alone.
std::string own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fmt::format("'{}' cannot be made: {}", path, std::strerror(errno));
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return fmt::format("'{}' cannot be used: {}", path, std::strerror(errno));
  return why_not_own(path, info);
}

struct Descriptor {
  explicit Descriptor(int descriptor) : number(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int number;
};

bool read_all(int descriptor, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

KernelCache::KernelCache(const std::string& directory)
    : directory_(directory.empty() ? default_directory() : directory) {
  if (directory_.empty()) return;
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
  const size_t slash = directory_.find_last_of('/');
  Status status;
  if (slash != std::string::npos && slash > 0) status = make_folder(directory_.substr(0, slash));
  const std::string problem = status.ok() ? own_folder(directory_) : status.message();
  if (problem.empty()) return;
  problem_ = fmt::format("no kernel cache: {}; AIPU_CACHE_DIR may name another folder", problem);
  directory_.clear();
}

std::vector<std::byte> KernelCache::get(const std::string& key) const {
  if (directory_.empty()) return {};
  // What is looked at is what is read, whatever happens to the names meanwhile.
  const Descriptor parent(::open(folder(key).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info = {};
  if (::fstat(parent.number, &info) != 0 || !is_own(info)) return {};
  const Descriptor file(::openat(parent.number, key.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (::fstat(file.number, &info) != 0 || !S_ISREG(info.st_mode) || !is_own(info)) return {};
  const size_t size = static_cast<size_t>(info.st_size);
  if (size <= kHeaderBytes) return {};
  std::vector<std::byte> head(kHeaderBytes), content(size - kHeaderBytes);
  if (!read_all(file.number, head) || !read_all(file.number, content)) return {};
  const std::string expected = header(content);
  return std::memcmp(head.data(), expected.data(), kHeaderBytes) == 0 ? content : std::vector<std::byte>();
}

void KernelCache::put(const std::string& key, std::span<const std::byte> content) const {
  if (directory_.empty() || !own_folder(folder(key)).empty()) return;
  const std::string path = folder(key) + "/" + key;
  struct stat entry = {};
  // What was not ours to read is not ours to write through either: a link, somebody else's file.
  if (::lstat(path.c_str(), &entry) == 0 && (!S_ISREG(entry.st_mode) || !is_own(entry)) && ::unlink(path.c_str()) != 0)
    return;
  // A damaged entry is noticed by its hash.
  auto file = AtomicFile::create(path, Sync::kNo);
  if (!file.ok()) return;
  const std::string head = header(content);
  Status status = file->write(std::as_bytes(std::span(head)));
  if (status.ok()) status = file->write(content);
  if (status.ok()) status = file->commit();
}

}  // namespace aipu::tir
