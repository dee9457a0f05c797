#include "runtime/base/temporary.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace aipu {
namespace {

struct Registry {
  std::mutex mutex;
  std::multiset<std::string> paths;
  std::set<pid_t> children;
  pid_t handler = 0;  // the process whose signals are handled; not a fork of it
};

// Never destroyed: the thread that waits for signals outlives main().
Registry& registry() {
  static auto* const instance = new Registry();
  return *instance;
}

// Listing a folder takes memory, which may be there again when it is asked for once more.
bool remove_path(const std::string& path) noexcept {
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      std::error_code error;
      std::filesystem::remove_all(path, error);
      if (!error) return true;
    } catch (const std::exception&) {  // the same, for what reports no error
    }
  }
  return false;
}

// A folder that others still write to is moved away first, so that they find it no longer.
void remove_busy_path(const std::string& path) {
  const std::string gone = path + ".gone";
  const bool moved = ::rename(path.c_str(), gone.c_str()) == 0;
  // A child that was killed may take a moment to end.
  for (int i = 0; i < 100 && !remove_path(moved ? gone : path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

[[noreturn]] void end_program(int number) {
  Registry& all = registry();
  // Kept: nobody starts a child or makes a folder from here on.
  all.mutex.lock();
  for (const pid_t child : all.children) ::kill(-child, SIGKILL);
  for (const std::string& path : all.paths) remove_busy_path(path);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(number);
  ::_exit(128 + number);
}

}  // namespace

Temporary::Temporary(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.insert(path_);
}

Temporary::~Temporary() {
  if (path_.empty()) return;
  remove_path(path_);
  release();
}

void Temporary::release() {
  const std::lock_guard lock(registry().mutex);
  if (const auto found = registry().paths.find(path_); found != registry().paths.end()) registry().paths.erase(found);
  path_.clear();
}

Result<Temporary> Temporary::create_folder(std::string_view prefix) {
  const char* variable = std::getenv("TMPDIR");
  const std::string base = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  std::string path = str_cat(base, "/", prefix, "-XXXXXX");
  // Under the lock: a signal in between would not find it.
  const std::lock_guard lock(registry().mutex);
  if (::mkdtemp(path.data()) == nullptr) {
    return io_error(str_cat("cannot make a temporary folder in '", base, "': ", std::strerror(errno),
                            "; TMPDIR may name another place"));
  }
  try {
    registry().paths.insert(path);
  } catch (...) {
    ::rmdir(path.c_str());
    throw;
  }
  Temporary folder;
  folder.path_ = std::move(path);
  return folder;
}

namespace {

class SpawnAttributes {
 public:
  explicit SpawnAttributes(bool own_group) {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_,
                               static_cast<short>(POSIX_SPAWN_SETSIGMASK | (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t& get() const { return attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<ChildProcess> ChildProcess::start(std::string_view what, const Start& start) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const bool own_group = all.handler == ::getpid();
  const SpawnAttributes attributes(own_group);
  // All memory beforehand: a child that runs is known, whatever happens.
  std::set<pid_t> known = {0};
  std::string name(what);
  pid_t process = 0;
  if (const int error = start(attributes.get(), &process); error != 0)
    return io_error(str_cat("cannot start '", what, "': ", std::strerror(error)));
  auto node = known.extract(known.begin());
  node.value() = process;
  if (own_group) all.children.insert(std::move(node));
  return ChildProcess(std::move(name), process);
}

Result<int> ChildProcess::wait() {
  // Looks before it reaps: a process that is reaped may share its number with another one.
  siginfo_t info = {};
  while (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return io_error(str_cat("cannot wait for '", what_, "': ", std::strerror(errno)));
  }
  {
    const std::lock_guard lock(registry().mutex);
    registry().children.erase(process_);
  }
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0) {
    if (errno != EINTR) return io_error(str_cat("cannot wait for '", what_, "': ", std::strerror(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void handle_ending_signals() {
  ::signal(SIGXFSZ, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  bool any = false;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    // What the caller has switched off (nohup, a shell's background job) stays off.
    struct sigaction action = {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    sigaddset(&set, number);
    any = true;
  }
  if (!any) return;
  registry().handler = ::getpid();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  try {
    std::thread([set] {
      int number = 0;
      while (::sigwait(&set, &number) != 0) {
      }
      end_program(number);
    }).detach();
  } catch (const std::exception&) {
    // Without the thread they do what they always do.
    registry().handler = 0;
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
}

}  // namespace aipu
