// What a program would leave behind if a signal ended it: temporary files and folders, and processes at work in them.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace aipu {

// A file or folder that is removed, a folder with all that is in it, unless release() was called before.
class Temporary {
 public:
  Temporary() = default;
  // Takes charge of what is there, or will be.
  explicit Temporary(std::string path);
  Temporary(Temporary&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary();

  // A new folder of this user alone below $TMPDIR (else /tmp), PREFIX-XXXXXX.
  static Result<Temporary> create_folder(std::string_view prefix);

  const std::string& path() const { return path_; }  // "" once released
  // Instead of what this one had, which must be none.
  void take(Temporary&& other) { path_.swap(other.path_); }
  void release();

 private:
  std::string path_;
};

// A child process and all that it starts, ended by the signal that ends this one. `start` spawns it with the attributes
// that it is given, and returns 0 and the process, or an error number. By them the child blocks no signal, and leads a
// process group of its own, so that its children can be ended with it; without handle_ending_signals() it stays in the
// group of its parent.
class ChildProcess {
 public:
  using Start = std::function<int(const posix_spawnattr_t& attributes, pid_t* process)>;
  static Result<ChildProcess> start(std::string_view what, const Start& start);
  // Exit code, or 128 + signal. Once.
  Result<int> wait();

 private:
  ChildProcess(std::string what, pid_t process) : what_(std::move(what)), process_(process) {}
  std::string what_;
  pid_t process_;
};

// For main(), before there is a second thread: SIGINT, SIGTERM and SIGHUP remove what is temporary, end child processes
// and then the program, as they would have done without. (A thread waits for them; a library must not do this.) Writes
// beyond a file size limit become errors instead of a signal.
void handle_ending_signals();

}  // namespace aipu
