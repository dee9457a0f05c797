#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>

#include "runtime/base/input_file.h"

namespace aipu {
namespace {

Status system_error(std::string_view action, const std::string& path) {
  return io_error(str_cat("cannot ", action, " '", path, "': ", std::strerror(errno)));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const InputFile input, InputFile::open(path));
  MappedFile file;
  file.size_ = static_cast<size_t>(input.size());
  if (file.size_ == 0) return file;
  void* address = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, input.descriptor(), 0);
  if (address == MAP_FAILED) return system_error("map", path);
  file.data_ = static_cast<const std::byte*>(address);
  return file;
}

Result<MappedFile> MappedFile::read(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const InputFile input, InputFile::open(path));
  MappedFile file;
  file.size_ = static_cast<size_t>(input.size());
  if (file.size_ == 0) return file;
  void* address = ::mmap(nullptr, file.size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return out_of_range(str_cat("no memory for the ", file.size_, " bytes of '", path, "'"));
  file.data_ = static_cast<const std::byte*>(address);
  file.prefer_large_pages();
  AIPU_RETURN_IF_ERROR(input.read_at(0, {static_cast<std::byte*>(address), file.size_}));
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefer_large_pages() const {
  constexpr size_t kHugePage = size_t{1} << 21;
  if (size_ >= kHugePage) ::madvise(const_cast<std::byte*>(data_), size_, MADV_HUGEPAGE);
}

void MappedFile::release(std::span<const std::byte> part) const {
  constexpr uintptr_t kPage = 4096;  // where pages are larger, some calls do nothing
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const InputFile input, InputFile::open(path));
  std::string text(static_cast<size_t>(input.size()), '\0');
  AIPU_RETURN_IF_ERROR(input.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

namespace {

// ---- where a path leads -------------------------------------------------------------------------------------------

struct Target {
  std::string path;  // links followed
  bool exists = false, is_file = true;
  bool is_descriptor = false;  // /dev/stdout, /proc/self/fd/3
  struct stat info = {};
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool is_in_proc(const std::string& path) {
  constexpr decltype(std::declval<struct statfs>().f_type) kProc = 0x9fa0;
  struct statfs info = {};
  return ::statfs(folder_of(path).c_str(), &info) == 0 && info.f_type == kProc;
}

Status is_folder_error(const std::string& path) {
  return io_error(str_cat("cannot write '", path, "': it is a folder; name a file in it"));
}

// The links from `path` on, one after the other. The caller has seen by stat() that the system lets us follow them.
Status follow_links(const std::string& path, Target* target) {
  target->path = path;
  for (int i = 0; i < 40; ++i) {
    struct stat info = {};
    if (::lstat(target->path.c_str(), &info) != 0) return errno == ENOENT ? Status() : system_error("write", path);
    if (!S_ISLNK(info.st_mode)) return {};
    // What such a link says is no path.
    if (is_in_proc(target->path)) {
      target->is_descriptor = true;
      return {};
    }
    std::string link(4096, '\0');
    const ssize_t size = ::readlink(target->path.c_str(), link.data(), link.size());
    if (size < 0) return system_error("write", path);
    link.resize(static_cast<size_t>(size));
    target->path = link.starts_with('/') ? link : folder_of(target->path) + "/" + link;
  }
  errno = ELOOP;
  return system_error("write", path);
}

Result<Target> find_target(const std::string& path) {
  if (path.empty()) return invalid_argument("cannot write a file with an empty name");
  Target target;
  target.exists = ::stat(path.c_str(), &target.info) == 0;
  if (!target.exists && errno != ENOENT) return system_error("write", path);
  if (path.back() == '/' || (target.exists && S_ISDIR(target.info.st_mode))) return is_folder_error(path);
  AIPU_RETURN_IF_ERROR(follow_links(path, &target));
  target.is_file = !target.is_descriptor && (!target.exists || S_ISREG(target.info.st_mode));
  if (target.exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) return system_error("write", path);
  return target;
}

// ---- writing ------------------------------------------------------------------------------------------------------

// A file without a name; gone when it is closed.
int open_unnamed(const std::string& folder, mode_t mode) {
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
}

// A name that nobody could have put a link at.
std::string temporary_name(const std::string& target) {
  static std::atomic<uint32_t> serial{std::random_device()()};
  char digits[24];
  std::snprintf(digits, sizeof digits, "%x-%x", static_cast<unsigned>(::getpid()), serial.fetch_add(1));
  return str_cat(folder_of(target), "/.aipu-tmp-", digits);
}

// A reader that has gone is an error like others, not the end of the program.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipeSignal() {
    const int error = errno;
    constexpr timespec kNow = {};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &kNow) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// 0, or the number of the error; of reading, if that was it.
int copy_all(int from, int to) {
  std::vector<std::byte> buffer(size_t{1} << 16);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(from, buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return 0;
    if (!write_all(to, std::span(buffer).first(static_cast<size_t>(count)))) return errno;
    offset += count;
  }
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, Sync sync) {
  AIPU_ASSIGN_OR_RETURN(const Target target, find_target(path));
  AtomicFile file;
  file.path_ = path;
  file.sync_ = sync;
  if (!target.is_file) {
    AIPU_RETURN_IF_ERROR(file.open_device(target.is_descriptor));
    return file;
  }
  file.is_file_ = true;
  AIPU_RETURN_IF_ERROR(file.open_file(target.path));
  if (!target.exists) return file;
  // Who may not give a file away keeps it; then its group bits would speak of another group.
  const bool same_owner = target.info.st_uid == ::geteuid() && target.info.st_gid == ::getegid();
  const bool given = same_owner || ::fchown(file.descriptor_, target.info.st_uid, target.info.st_gid) == 0;
  if (::fchmod(file.descriptor_, target.info.st_mode & (given ? 0777 : 0707)) != 0) return system_error("write", path);
  return file;
}

Status AtomicFile::open_file(const std::string& target) {
  target_ = target;
  // Without a name until it is whole: not even a program that is killed leaves anything. Not all file systems can.
  if (::access("/proc/self/fd", X_OK) == 0) descriptor_ = open_unnamed(folder_of(target), 0666);
  for (int i = 0; i < 100 && descriptor_ < 0; ++i) {
    Temporary temporary(temporary_name(target));
    descriptor_ = ::open(temporary.path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      const int error = errno;
      temporary.release();  // whatever is there is not ours
      errno = error;
      if (error == EEXIST) continue;
      return system_error("write", path_);
    }
    is_named_ = true;
    temporary_.take(std::move(temporary));
  }
  return descriptor_ >= 0 ? Status() : system_error("write", path_);
}

Status AtomicFile::open_device(bool is_descriptor) {
  // What comes through a descriptor of ours belongs behind what went there before.
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (is_descriptor ? O_APPEND : 0);
  const int device = ::open(path_.c_str(), flags);
  if (device < 0) return system_error("write", path_);
  if (!is_descriptor && ::lseek(device, 0, SEEK_CUR) >= 0) {
    descriptor_ = device;
    return {};
  }
  // write_at() is for places in a file: a FIFO gets its bytes when all are there.
  device_ = device;
  const char* base = std::getenv("TMPDIR");
  const std::string folder = base != nullptr && *base != '\0' ? base : "/tmp";
  descriptor_ = open_unnamed(folder, 0600);
  if (descriptor_ < 0) {
    std::string name = folder + "/aipu-XXXXXX";
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ >= 0) ::unlink(name.c_str());
  }
  return descriptor_ >= 0 ? Status() : system_error("write a temporary file in", folder);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      device_(std::exchange(other.device_, -1)),
      sync_(other.sync_),
      is_file_(other.is_file_),
      is_named_(other.is_named_),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (device_ >= 0) ::close(device_);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  const NoBrokenPipeSignal guard;
  return write_all(descriptor_, bytes) ? Status() : system_error("write", path_);
}

Status AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return system_error("write", path_);
    }
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<MappedFile> AtomicFile::written() const {
  struct stat info = {};
  if (::fstat(descriptor_, &info) != 0) return system_error("read back", path_);
  MappedFile file;
  if (info.st_size == 0) return file;
  void* address = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) return system_error("read back", path_);
  file.data_ = static_cast<const std::byte*>(address);
  file.size_ = static_cast<size_t>(info.st_size);
  return file;
}

// An unnamed file cannot take the place of another in one step: it gets a name first.
Status AtomicFile::take_name() {
  for (int i = 0; i < 100 && !is_named_; ++i) {
    Temporary temporary(temporary_name(target_));
    const std::string self = str_cat("/proc/self/fd/", descriptor_);
    is_named_ = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary.path().c_str(), AT_SYMLINK_FOLLOW) == 0;
    const int error = errno;
    if (is_named_) {
      temporary_.take(std::move(temporary));
      break;
    }
    temporary.release();
    errno = error;
    if (error != EEXIST) break;
  }
  return is_named_ ? Status() : system_error("write", path_);
}

Status AtomicFile::commit() {
  if (device_ >= 0) {
    const NoBrokenPipeSignal guard;
    errno = copy_all(descriptor_, device_);
    if (errno != 0) return system_error("write", path_);
    return ::close(std::exchange(device_, -1)) == 0 ? Status() : system_error("write", path_);
  }
  if (is_file_) {
    if (sync_ == Sync::kYes && ::fsync(descriptor_) != 0) return system_error("write", path_);
    AIPU_RETURN_IF_ERROR(take_name());
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) return system_error("write", path_);
  if (!is_file_) return {};
  if (::rename(temporary_.path().c_str(), target_.c_str()) != 0) return system_error("write", path_);
  temporary_.release();
  return {};
}

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes, Sync sync) {
  AIPU_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, sync));
  AIPU_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

Status write_file_atomically(const std::string& path, std::string_view text, Sync sync) {
  return write_file_atomically(path, std::as_bytes(std::span(text)), sync);
}

Status prepare_output(const std::string& path) {
  if (path.empty()) return invalid_argument("cannot write a file with an empty name");
  if (path.back() == '/') return is_folder_error(path);
  AIPU_RETURN_IF_ERROR(make_folder(folder_of(path)));
  AIPU_ASSIGN_OR_RETURN(const Target target, find_target(path));
  if (target.is_file && ::faccessat(AT_FDCWD, folder_of(target.path).c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return system_error("write", path);
  return {};
}

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) return io_error(str_cat("cannot make the folder '", path, "': ", error.message()));
  return {};
}

Result<int> open_scratch(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return system_error("write", path);
  return descriptor;
}

}  // namespace aipu
