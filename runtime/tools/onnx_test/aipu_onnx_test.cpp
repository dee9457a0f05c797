// aipu-onnx-test: runs ONNX backend tests through the whole road: convert, load, run, compare.
//
// Each case has a process of its own, so that a crash or a hang is the failure of that case and of nothing else.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "gbuilder/build.h"
#include "runtime/base/embedded_file.h"
#include "runtime/base/file.h"
#include "runtime/base/temporary.h"
#include "runtime/base/text.h"
#include "runtime/model.h"
#include "runtime/tools/cli.h"
#include "runtime/tools/onnx_test/run_case.h"
#include "runtime/tools/onnx_test/test_data.h"

namespace aipu::tools {

std::span<const EmbeddedFile> contradictions();  // tests/onnx/contradictions.txt

namespace {

using Clock = std::chrono::steady_clock;

struct Options : CaseOptions {
  std::vector<std::string> folders;
  std::string only, json;
  int jobs = 0;
  double timeout = 120;
  bool failures_only = false;
};

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string last_line(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) return {};
  std::string line;
  size_t position = 0;
  while (position < text->size()) {
    const size_t end = std::min(text->find('\n', position), text->size());
    if (end > position) line = text->substr(position, end - position);
    position = end + 1;
  }
  return line.substr(0, 300);
}

struct Child {
  size_t index = 0;
  pid_t process = -1;
  int pipe = -1;
  std::unique_ptr<Temporary> scratch;  // a folder
  std::string answer;
  Clock::time_point deadline;
};

// Cases that are wrong, and why.
std::map<std::string, std::string> known_contradictions() {
  std::map<std::string, std::string> reasons;
  for (const EmbeddedFile& file : contradictions()) {
    std::istringstream lines{std::string(file.text)};
    for (std::string line; std::getline(lines, line);) {
      const size_t space = line.find(' ');
      if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
      reasons[line.substr(0, space)] = line.substr(line.find_first_not_of(' ', space));
    }
  }
  return reasons;
}

class Runner {
 public:
  Runner(const Options& options, std::vector<TestCase> cases)
      : options_(options), cases_(std::move(cases)), results_(cases_.size()) {}

  int run() {
    const size_t jobs =
        static_cast<size_t>(options_.jobs > 0 ? options_.jobs : std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    size_t next = 0;
    while (next < cases_.size() || !children_.empty()) {
      while (children_.size() < jobs && next < cases_.size()) start(next++);
      wait_for_some();
      report_finished();
    }
    report_finished();
    if (options_.json != "-") {
      std::printf("%zu passed, %zu failed, %zu skipped", counts_[0], counts_[1], counts_[2]);
      if (counts_[3] > 0) std::printf(", %zu known contradictions", counts_[3]);
      std::printf("\n");
    }
    return counts_[1] == 0 ? 0 : kFailed;
  }

  std::string json() const {
    std::string text = str_cat("{\n  \"passed\": ", counts_[0], ",\n  \"failed\": ", counts_[1],
                               ",\n  \"skipped\": ", counts_[2], ",\n  \"known\": ", counts_[3], ",\n  \"cases\": [");
    for (size_t i = 0; i < cases_.size(); ++i) {
      text += str_cat(i == 0 ? "\n    " : ",\n    ", "{\"name\": ", json_string(cases_[i].name),
                      ", \"outcome\": ", json_string(kWords[static_cast<size_t>(results_[i]->outcome)]),
                      ", \"reason\": ", json_string(results_[i]->reason), "}");
    }
    return text + "]\n}\n";
  }

 private:
  void start(size_t index) {
    Child child;
    child.index = index;
    auto scratch = Temporary::create_folder("aipu-onnx-test");
    if (!scratch.ok()) {
      results_[index] = CaseResult{Outcome::kFail, scratch.status().message()};
      return;
    }
    child.scratch = std::make_unique<Temporary>(std::move(*scratch));
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      results_[index] = CaseResult{Outcome::kFail, str_cat("cannot start: ", std::strerror(errno))};
      return;
    }
    std::fflush(nullptr);
    child.process = ::fork();
    if (child.process == 0) {
      ::close(ends[0]);
      serve(cases_[index], child.scratch->path(), ends[1]);
    }
    ::close(ends[1]);
    if (child.process < 0) {
      ::close(ends[0]);
      results_[index] = CaseResult{Outcome::kFail, str_cat("cannot start: ", std::strerror(errno))};
      return;
    }
    ::setpgid(child.process, child.process);
    child.pipe = ends[0];
    child.deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout));
    children_.push_back(std::move(child));
  }

  [[noreturn]] void serve(const TestCase& test, const std::string& scratch, int pipe) const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (const auto log = open_scratch(scratch + "/log"); log.ok()) {
      ::dup2(*log, STDOUT_FILENO);
      ::dup2(*log, STDERR_FILENO);
    }
    CaseResult result;
    try {
      result = run_case(test, options_, scratch);
    } catch (const std::exception& error) {
      result = {Outcome::kFail, str_cat("exception: ", error.what())};
    }
    std::string answer(1, "PFS"[static_cast<int>(result.outcome)]);
    answer += one_line(result.reason);
    const char* position = answer.data();
    size_t left = answer.size();
    while (left > 0) {
      const ssize_t written = ::write(pipe, position, left);
      if (written <= 0) break;
      position += written;
      left -= static_cast<size_t>(written);
    }
    ::close(pipe);
    // Sessions are gone; what static destructors would do is not worth the risk of a hang here.
    ::_exit(0);
  }

  void wait_for_some() {
    std::vector<pollfd> polls;
    auto deadline = Clock::now() + std::chrono::hours(1);
    for (const Child& child : children_) {
      polls.push_back({child.pipe, POLLIN, 0});
      deadline = std::min(deadline, child.deadline);
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (::poll(polls.data(), polls.size(), static_cast<int>(std::clamp<int64_t>(wait + 1, 0, 3'600'000))) < 0 &&
        errno != EINTR)
      return;
    for (size_t i = polls.size(); i-- > 0;) {
      Child& child = children_[i];
      bool finished = false;
      if ((polls[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        char buffer[4096];
        const ssize_t count = ::read(child.pipe, buffer, sizeof buffer);
        if (count > 0) {
          child.answer.append(buffer, static_cast<size_t>(count));
        } else if (count == 0 || errno != EINTR) {
          finished = true;
        }
      }
      const bool late = !finished && Clock::now() >= child.deadline;
      if (finished || late) {
        finish(child, late);
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  void finish(Child& child, bool late) {
    // The whole group: a C compiler may be running in it.
    if (late) ::kill(-child.process, SIGKILL);
    int status = 0;
    while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
    }
    ::kill(-child.process, SIGKILL);
    ::close(child.pipe);
    CaseResult result;
    if (late) {
      result = {Outcome::kFail, str_cat("timeout after ", static_cast<int64_t>(options_.timeout), " s")};
    } else if (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0) || child.answer.empty()) {
      const std::string line = last_line(child.scratch->path() + "/log");
      const std::string what = WIFSIGNALED(status)
                                   ? str_cat("signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")
                                   : str_cat("exit code ", WEXITSTATUS(status));
      result = {Outcome::kFail, str_cat("crash: ", what, line.empty() ? "" : ": ", line)};
    } else {
      result = {child.answer[0] == 'P'   ? Outcome::kPass
                : child.answer[0] == 'S' ? Outcome::kSkip
                                         : Outcome::kFail,
                child.answer.substr(1)};
      // Only what the data explain is excused, no crash and no hang.
      const auto known = contradictions_.find(cases_[child.index].name);
      if (result.outcome == Outcome::kFail && known != contradictions_.end())
        result = {Outcome::kKnown, known->second + " (" + result.reason + ")"};
    }
    results_[child.index] = std::move(result);
    child.scratch.reset();
  }

  // In the order of the cases, as far as they are done.
  void report_finished() {
    while (reported_ < results_.size() && results_[reported_]) {
      const CaseResult& result = *results_[reported_];
      ++counts_[static_cast<size_t>(result.outcome)];
      if (options_.json != "-" && (!options_.failures_only || result.outcome == Outcome::kFail)) {
        tools::print(str_cat(kWords[static_cast<size_t>(result.outcome)], " ", printable(cases_[reported_].name),
                             result.reason.empty() ? "" : ": ", printable(result.reason), "\n"));
      }
      ++reported_;
    }
    std::fflush(stdout);
  }

  static constexpr const char* kWords[] = {"PASS", "FAIL", "SKIP", "KNOWN"};

  const Options& options_;
  const std::map<std::string, std::string> contradictions_ = known_contradictions();
  std::vector<TestCase> cases_;
  std::vector<std::optional<CaseResult>> results_;
  std::vector<Child> children_;
  size_t reported_ = 0;
  size_t counts_[4] = {0, 0, 0, 0};
};

void add_options(Tool& tool, Options& options) {
  CLI::App& app = tool.app;
  app.add_option("folders", options.folders,
                 "folders with model.onnx and test_data_set_*, folders of such folders, or light_*.onnx models")
      ->required()
      ->type_name("DIR");
  const char* group = "What to run";
  app.add_option("--target", options.target, "as for aipugb")->type_name("NAME")->capture_default_str()->group(group);
  app.add_option("--backend", options.backend, "native, sim, interp; default: what the target needs")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--runner", options.runner,
                 "run the models by this command, which takes the options of aipurun: \"qemu-aarch64 -L /usr/... "
                 "build/aarch64/bin/aipurun\"")
      ->type_name("COMMAND")
      ->group(group);
  add_list(app, "--plugin", options.plugins, "plugin of a custom op, as for aipugb")->type_name("FILE")->group(group);
  app.add_option("--only", options.only, "run only cases whose name contains this")->type_name("TEXT")->group(group);
  group = "What is right";
  app.add_option("--rtol", options.tolerance.relative, "relative tolerance")
      ->check(tolerance_number())
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  app.add_option("--atol", options.tolerance.absolute, "absolute tolerance")
      ->check(tolerance_number())
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  app.add_option("--timeout", options.timeout, "seconds per case, conversion included")
      ->check(positive_number(1e6))
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(group);
  group = "What to show";
  app.add_flag("--failures", options.failures_only, "print only the cases that fail")->group(group);
  app.add_option("--json", options.json, "write the results to a file; - for the standard output")
      ->type_name("FILE")
      ->group(group);
  group = "How to work";
  app.add_option("--jobs", options.jobs, "cases at a time; 0: one per CPU")
      ->check(whole_number(0, 1024))
      ->type_name("N")
      ->group(group);
  add_threads(app, options.threads)->group(group);
  app.add_flag("--no-cache", options.no_cache, "do not use the kernel cache")->group(group);
}

// What would be the failure of each case.
std::string usage_error(const Options& options) {
  gbuilder::BuildOptions build;
  build.target = options.target;
  if (const Status status = gbuilder::check_options(build); !status.ok()) return status.message();
  if (!options.runner.empty()) {
    if (!options.backend.empty() || options.threads != 0)
      return "--runner runs the models: --backend and --threads are for its command";
  } else if (const Status status = runtime::check_backend(options.backend, options.target); !status.ok())
    return str_cat("--backend ", options.backend, ": ", status.message());
  for (const std::string& plugin : options.plugins) {
    if (::access(plugin.c_str(), F_OK) != 0) return str_cat("--plugin ", plugin, ": no such file");
  }
  return "";
}

int main_body(const Tool& tool, const Options& options) {
  if (const std::string error = usage_error(options); !error.empty()) return tool.fail_usage(error);
  warn_of_threads(tool, options.threads);
  const bool to_file = !options.json.empty() && options.json != "-";
  if (to_file) {
    if (const Status status = prepare_output(options.json); !status.ok()) return tool.fail(status);
  }
  std::vector<TestCase> cases;
  for (const std::string& folder : options.folders) {
    auto found = find_cases(folder);
    if (!found.ok()) return tool.fail(found.status());
    for (TestCase& test : *found) {
      if (test.name.find(options.only) != std::string::npos) cases.push_back(std::move(test));
    }
  }
  if (cases.empty())
    return tool.fail(not_found(options.only.empty() ? "there are no cases in the folders"
                                                    : str_cat("--only: no case has '", options.only, "' in its name")));
  Runner runner(options, std::move(cases));
  const int code = runner.run();
  if (options.json == "-") std::fputs(runner.json().c_str(), stdout);
  if (!to_file) return code;
  const Status status = write_file_atomically(options.json, runner.json());
  return status.ok() ? code : tool.fail(status);
}

}  // namespace
}  // namespace aipu::tools

int main(int argc, char** argv) {
  aipu::tools::Options options;
  aipu::tools::Tool tool("aipu-onnx-test",
                         "Runs ONNX backend tests: converts each model, runs its data sets, compares. Exit code 1 if "
                         "any case fails; cases "
                         "whose data are known to contradict the specification (KNOWN) are none.",
                         "/usr/share/libonnx-testdata/data/node --only test_conv");
  aipu::tools::add_options(tool, options);
  return tool.run(argc, argv, [&] { return aipu::tools::main_body(tool, options); });
}
