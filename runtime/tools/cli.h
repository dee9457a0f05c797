// What the command-line tools have in common: how they answer, and with which exit code.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "runtime/base/status.h"

namespace aipu::tools {

// 0: all went well.
constexpr int kFailed = 1;    // the model, the files or the machine: an error names what is wrong
constexpr int kUsage = 2;     // the command line makes no sense
constexpr int kOurFault = 3;  // a bug in aipu

// A tool with --help (options in groups, an example, the exit codes) and --version.
class Tool {
 public:
  // `example`: arguments, as the user would type them.
  Tool(std::string name, const std::string& what, const std::string& example);

  CLI::App app;

  // Parses and calls `body`, which returns an exit code. Handles signals, exceptions, and a standard output that cannot
  // be written.
  int run(int argc, char** argv, const std::function<int()>& body);

  // One line each on the standard error, whatever is in it.
  void warn(std::string_view message) const;
  int fail(const Status& status) const;            // returns kFailed or kOurFault
  int fail_usage(std::string_view message) const;  // returns kUsage

 private:
  int parse_and_run(int argc, char** argv, const std::function<int()>& body);
  std::string name_;
};

// Text for the standard output that has names from outside in it; of several lines.
void print(std::string_view text);

// Checks of numbers, which say what is expected.
CLI::Validator whole_number(int64_t least, int64_t most);
CLI::Validator seed_number();
CLI::Validator positive_number(double most);
CLI::Validator tolerance_number();

// An option that may be given several times, a value each.
template <typename T>
CLI::Option* add_list(CLI::App& app, const std::string& names, T& values, const std::string& text) {
  return app.add_option(names, values, text)->take_all()->allow_extra_args(false);
}

// --threads, with a warning of what is more than the machine has (call warn_of_threads() with the value).
CLI::Option* add_threads(CLI::App& app, int& threads);
void warn_of_threads(const Tool& tool, int threads);

// --entry, which model of a file is run.
CLI::Option* add_entry(CLI::App& app, std::string& entry);

// For --backend null, which is for measuring what is around the kernels.
void warn_of_null(const Tool& tool, std::string_view backend);

// For --cycles where there is no model of the device.
Status no_cycles(std::string_view target, std::string_view backend);

// "0.1.0", and the commit where it was built from a checkout.
std::string_view version();

}  // namespace aipu::tools
