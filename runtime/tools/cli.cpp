#include "runtime/tools/cli.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "runtime/base/guarded.h"
#include "runtime/base/temporary.h"
#include "runtime/base/text.h"

namespace aipu::tools {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 all went well; 1 the model, a file or the machine is at fault; 2 the command line is; 3 aipu is "
    "(please report it).";

void say(std::string_view name, std::string_view message) {
  std::fflush(stdout);
  try {
    std::fprintf(stderr, "%s: %s\n", std::string(name).c_str(), printable_message(message).c_str());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%.*s: out of memory\n", static_cast<int>(name.size()), name.data());
  }
}

std::terminate_handler otherwise;

// For the time before and after main(), where nobody catches.
[[noreturn]] void end_without_memory() {
  try {
    if (const auto error = std::current_exception(); error != nullptr) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
    std::_Exit(kFailed);
  } catch (...) {  // is for the handler there was
  }
  otherwise();
  std::abort();
}

// Before the constructors of all static objects.
__attribute__((constructor(101))) void set_terminate_handler() { otherwise = std::set_terminate(&end_without_memory); }

template <typename T>
bool parse(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

CLI::Validator check(std::string type, const std::function<bool(const std::string&)>& fits, const std::string& wanted) {
  return CLI::Validator(
      [=](std::string& text) {
        return fits(text) ? std::string() : str_cat("expected ", wanted, ", found '", text, "'");
      },
      std::move(type));
}

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

}  // namespace

Tool::Tool(std::string name, const std::string& what, const std::string& example)
    : app(what, name), name_(std::move(name)) {
  app.set_version_flag("--version", str_cat(name_, " ", version()), "print the version and exit");
  app.set_help_flag("-h,--help", "print this and exit");
  app.footer(str_cat("\nExample: ", name_, " ", example, "\n", kExitCodes));
  app.get_formatter()->column_width(34);
}

void Tool::warn(std::string_view message) const { say(name_, str_cat("warning: ", message)); }

int Tool::fail(const Status& status) const {
  say(name_, status.message());
  return status.code() == ErrorCode::kInternal ? kOurFault : kFailed;
}

int Tool::fail_usage(std::string_view message) const {
  say(name_, message);
  return kUsage;
}

int Tool::run(int argc, char** argv, const std::function<int()>& body) {
  int code = kOurFault;
  try {
    handle_ending_signals();
    code = parse_and_run(argc, argv, body);
  } catch (...) {
    code = fail(current_exception_status());
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code == 0)
    code = fail(io_error(str_cat("cannot write the standard output: ", std::strerror(errno))));
  return code;
}

int Tool::parse_and_run(int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& error) {
    return fail_usage(error.what());
  }
  return body();
}

void print(std::string_view text) {
  const std::string safe = printable(text, Lines::kMany);
  std::fwrite(safe.data(), 1, safe.size(), stdout);
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  const auto fits = [=](const std::string& text) {
    int64_t value = 0;
    return parse(text, &value) && value >= least && value <= most;
  };
  return check("", fits, str_cat("a whole number from ", least, " to ", most));
}

CLI::Validator seed_number() {
  const auto fits = [](const std::string& text) {
    uint64_t value = 0;
    return parse(text, &value);
  };
  return check("", fits, "a whole number from 0 to 2^64-1");
}

CLI::Validator positive_number(double most) {
  const auto fits = [=](const std::string& text) {
    double value = 0;
    return parse(text, &value) && value > 0 && value <= most;
  };
  return check("", fits, str_cat("a number above 0, up to ", number_text(most)));
}

CLI::Validator tolerance_number() {
  const auto fits = [](const std::string& text) {
    double value = 0;
    return parse(text, &value) && value >= 0 && std::isfinite(value);
  };
  return check("", fits, "a number from 0 on");
}

CLI::Option* add_threads(CLI::App& app, int& threads) {
  return app.add_option("--threads", threads, "threads for kernels; 0: one per CPU")
      ->check(whole_number(0, 1024))
      ->type_name("N");
}

void warn_of_threads(const Tool& tool, int threads) {
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (cpus > 0 && threads > cpus)
    tool.warn(str_cat("--threads ", threads, ": this machine has ", cpus, cpus == 1 ? " CPU" : " CPUs",
                      ", the rest is left out"));
}

CLI::Option* add_entry(CLI::App& app, std::string& entry) {
  return app
      .add_option("--entry", entry,
                  "of a file with several models the one to run (aipudump lists them); default: the "
                  "first")
      ->type_name("NAME");
}

void warn_of_null(const Tool& tool, std::string_view backend) {
  if (backend == "null") tool.warn("--backend null computes nothing: the outputs mean nothing");
}

Status no_cycles(std::string_view target, std::string_view backend) {
  return invalid_argument(str_cat("--cycles: back end '", backend, "' has no timing model of '", target,
                                  "'; convert the model with --target X2_1204"));
}

}  // namespace aipu::tools
