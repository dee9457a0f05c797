#include "runtime/tools/dataset.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/base/text.h"

namespace aipu::tools {
namespace {

// One line where the package is missing, or is another Python's.
constexpr const char* kProgram =
    "import sys\n"
    "try:\n"
    "    from aipu.batch.__main__ import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'aipurun: --dataset runs aipu.batch of the Python package aipu, which {sys.executable} cannot '\n"
    "             f'import (AIPU_PYTHON chooses another interpreter): {error}')\n"
    "sys.exit(main(sys.argv[1:]))\n";

// The folder with the package that belongs to this program, of a build, a wheel or a prefix; "" if there is none.
std::string package_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  for (const char* folder : {"../python", "../..", "../lib/python3/dist-packages"}) {
    const auto path = (program.parent_path() / folder).lexically_normal();
    if (std::filesystem::exists(path / "aipu" / "batch" / "__main__.py", error)) return path.string();
  }
  return "";
}

void add_to_python_path(const std::string& folder) {
  const char* before = std::getenv("PYTHONPATH");
  const bool has_one = before != nullptr && *before != '\0';
  setenv("PYTHONPATH", (has_one ? str_cat(folder, ":", before) : folder).c_str(), 1);
}

// Blocked signals stay blocked in the program that takes this one's place; handle_ending_signals() has blocked some.
void unblock_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
}

}  // namespace

Status run_dataset(const DatasetRun& run) {
  const char* chosen = std::getenv("AIPU_PYTHON");
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  if (const std::string folder = package_folder(); !folder.empty()) add_to_python_path(folder);
  std::vector<std::string> words = {python, "-c", kProgram, "-o", run.output};
  words.insert(words.end(), run.options.begin(), run.options.end());
  words.insert(words.end(), {"--", run.model, run.inputs});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  unblock_signals();
  execvp(python.c_str(), arguments.data());
  return invalid_argument(str_cat("--dataset runs aipu.batch of the Python package aipu by '", python,
                                  "', which cannot be started: ", std::strerror(errno),
                                  "; AIPU_PYTHON chooses the interpreter"));
}

}  // namespace aipu::tools
