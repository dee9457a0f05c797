#include "runtime/tools/python_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/base/temporary.h"
#include "runtime/base/text.h"

namespace aipu::tools {
namespace {

// One line where the package is missing, or is another Python's.
std::string script(const PythonProgram& program) {
  return str_cat("import sys\ntry:\n    from ", program.module, ".__main__ import main\nexcept ImportError as error:\n",
                 "    sys.exit(f'", program.tool, ": ", program.asked_by, " runs ", program.module,
                 " of the Python package aipu, which {sys.executable} cannot import (AIPU_PYTHON chooses another "
                 "interpreter): {error}')\nsys.exit(main(sys.argv[1:]))\n");
}

// The folder with the package that belongs to this program, of a build, a wheel or a prefix; "" if there is none.
std::string package_folder(const std::string& module) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  std::string inside = module;
  std::replace(inside.begin(), inside.end(), '.', '/');
  for (const char* folder : {"../python", "../..", "../lib/python3/dist-packages"}) {
    const auto path = (program.parent_path() / folder).lexically_normal();
    if (std::filesystem::exists(path / inside / "__main__.py", error)) return path.string();
  }
  return "";
}

void add_to_python_path(const std::string& folder) {
  const char* before = std::getenv("PYTHONPATH");
  const bool has_one = before != nullptr && *before != '\0';
  setenv("PYTHONPATH", (has_one ? str_cat(folder, ":", before) : folder).c_str(), 1);
}

// The words of the command, and pointers to them as exec takes them. Sets the environment.
struct Command {
  explicit Command(const PythonProgram& program) {
    const char* chosen = std::getenv("AIPU_PYTHON");
    words = {chosen != nullptr && *chosen != '\0' ? chosen : "python3", "-c", script(program)};
    words.insert(words.end(), program.arguments.begin(), program.arguments.end());
    if (const std::string folder = package_folder(program.module); !folder.empty()) add_to_python_path(folder);
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
  }

  std::vector<std::string> words;
  std::vector<char*> pointers;
};

Status cannot_start(const PythonProgram& program, const Command& command, int error) {
  return invalid_argument(str_cat(program.asked_by, " runs ", program.module, " of the Python package aipu by '",
                                  command.words[0], "', which cannot be started: ", std::strerror(error),
                                  "; AIPU_PYTHON chooses the interpreter"));
}

int spawn(Command& command, bool silent, const posix_spawnattr_t& attributes, pid_t* process) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (silent) posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int error =
      ::posix_spawnp(process, command.words[0].c_str(), &actions, &attributes, command.pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Status become(const PythonProgram& program) {
  Command command(program);
  // Blocked signals would stay blocked in it; handle_ending_signals() has blocked some.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  execvp(command.words[0].c_str(), command.pointers.data());
  return cannot_start(program, command, errno);
}

Result<int> run_child(const PythonProgram& program, bool silent) {
  Command command(program);
  int failed = 0;
  auto child = ChildProcess::start(command.words[0], [&](const posix_spawnattr_t& attributes, pid_t* process) {
    failed = spawn(command, silent, attributes, process);
    return failed;
  });
  if (!child.ok()) return failed != 0 ? cannot_start(program, command, failed) : std::move(child).status();
  return child->wait();
}

}  // namespace aipu::tools
