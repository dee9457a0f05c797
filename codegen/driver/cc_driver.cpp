#include "codegen/driver/cc_driver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "codegen/driver/code_generator.h"
#include "codegen/driver/kernel_cache.h"
#include "codegen/driver/kernel_text.h"
#include "codegen/native_c/translation_unit.h"
#include "runtime/abi/kernel_abi.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/parallel.h"
#include "runtime/base/temporary.h"

extern char** environ;

namespace aipu::tir {
namespace {

namespace fs = std::filesystem;

// A unit is closed once it has this much C: with gcc about 0.1-0.3 s of compile time. It does not depend on the number
// of jobs, so that the bytes of the result do not either.
constexpr size_t kUnitBytes = 24 * 1024;

struct Compiler {
  std::string path;
  std::string identity;  // path, version line, size and date of the program: a part of every cache key
  bool is_clang = false;
  bool lacks_cpp = false;
};

struct Unit {
  std::string text;
  std::vector<const KernelSource*> kernels;
  std::vector<std::byte> object;
  bool compiled = false;
};

Result<std::vector<std::byte>> read_bytes(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::read(path));
  return std::vector<std::byte>(file.bytes().begin(), file.bytes().end());
}

// Messages in English, no include paths from outside, temporary files where they are removed with the others.
std::vector<std::string> child_environment(const std::string& directory) {
  std::vector<std::string> environment = {"LC_ALL=C", "TMPDIR=" + directory};
  for (char** e = environ; *e != nullptr; e++) {
    const std::string_view entry = *e;
    const bool drop = entry.starts_with("LC_ALL=") || entry.starts_with("TMPDIR=") || entry.starts_with("CPATH=") ||
                      entry.starts_with("CPLUS_INCLUDE_PATH=") || entry.starts_with("LIBRARY_PATH=") ||
                      entry.starts_with("GCC_EXEC_PREFIX=") || entry.starts_with("COMPILER_PATH=");
    if (!drop) environment.emplace_back(entry);
  }
  return environment;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// posix_spawn with the program's output (stdout and stderr) in `output`; 0 or an error number.
int spawn(const std::vector<std::string>& command, const std::string& directory, int output,
          const posix_spawnattr_t& attributes, pid_t* process) {
  const std::vector<std::string> environment = child_environment(directory);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  const int error = ::posix_spawn(process, command[0].c_str(), &actions, &attributes, pointers(command).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

struct RunResult {
  int code = 0;  // exit code, 128 + signal
  std::string output;
};

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

// Runs a program in `directory`; an error if it cannot be started. Its output comes through a pipe: when the disk is
// full there is still something to say.
Result<RunResult> run(const std::vector<std::string>& command, const std::string& directory) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return io_error(fmt::format("cannot start '{}': {}", command[0], std::strerror(errno)));
  auto child = ChildProcess::start(command[0], [&](const posix_spawnattr_t& attributes, pid_t* process) {
    return spawn(command, directory, ends[1], attributes, process);
  });
  ::close(ends[1]);
  RunResult result;
  if (child.ok()) result.output = read_all(ends[0]);
  ::close(ends[0]);
  if (!child.ok()) return child.status();
  AIPU_ASSIGN_OR_RETURN(result.code, child->wait());
  return result;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* variable = std::getenv("PATH");
  std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const size_t end = path.find(':');
    std::string candidate = fmt::format("{}/{}", path.substr(0, end), name);
    struct stat info;
    if (::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
    if (end == std::string_view::npos) return "";
    path.remove_prefix(end + 1);
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The first error of a compiler's output, without the temporary path.
std::string first_error(const std::string& output) {
  size_t at = output.find("error: ");
  if (at == std::string::npos) at = output.find("undefined reference");
  if (at == std::string::npos) return first_line(output);
  const size_t begin = output.rfind('\n', at);
  return first_line(output.substr(begin == std::string::npos ? 0 : begin + 1));
}

// The line of a program's output that says what it ran out of: memory, disk, file descriptors, processes. "" if it
// failed for another reason.
std::string exhausted_line(const RunResult& result) {
  constexpr std::string_view kPhrases[] = {
      "No space left on device", "Disk quota exceeded",      "File too large",
      "Too many open files",     "Cannot allocate memory",   "Resource temporarily unavailable",
      "out of memory",           "memory exhausted",         "std::bad_alloc",
      "failed to map segment",   "signal terminated program"};
  for (const std::string_view phrase : kPhrases) {
    const size_t at = result.output.find(phrase);
    if (at == std::string::npos) continue;
    const size_t before = result.output.rfind('\n', at);
    return first_line(result.output.substr(before == std::string::npos ? 0 : before + 1));
  }
  return result.code == 128 + SIGKILL || result.code == 128 + SIGXFSZ ? "it was killed" : "";
}

// Our C does not fail to compile, unless there is a bug; a machine can fail.
Status compiler_failure(const std::string& what, const RunResult& result) {
  const std::string exhausted = exhausted_line(result);
  const std::string text = fmt::format("{} failed with exit code {}: {}", what, result.code,
                                       exhausted.empty() ? first_error(result.output) : exhausted);
  if (exhausted.empty()) return internal_error(text);
  return io_error(text +
                  "; the machine ran out of memory, disk space in the temporary folder (TMPDIR), descriptors "
                  "or processes; fewer --jobs need less");
}

// Where to look for a compiler for one kind of CPU.
struct CompilerChoice {
  std::string variable;            // of the environment, which says it
  std::vector<std::string> names;  // of programs, in this order, unless it does
  std::string package;             // what to install
};

CompilerChoice compilers_for(const std::string& machine) {
  if (machine == kThisMachine) return {"AIPU_CC", {"gcc", "cc", "clang", "g++", "c++", "clang++"}, "g++ or clang"};
  // A variable of its own: one that names this machine's compiler says nothing about others.
  std::string capitals = machine;
  std::transform(capitals.begin(), capitals.end(), capitals.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return {
      "AIPU_CC_" + capitals,
      {machine + "-linux-gnu-gcc", machine + "-linux-gnu-g++"},
      fmt::format("a cross compiler (Debian's gcc and g++-{}-linux-gnu)", machine == "x86_64" ? "x86-64" : machine)};
}

// What is at `path`. Its `--version` costs a few milliseconds, so a process asks each program once.
Result<Compiler> ask_compiler(const std::string& path) {
  Compiler compiler;
  compiler.path = fs::absolute(path).string();
  std::error_code ignored;
  const fs::path real = fs::canonical(compiler.path, ignored);
  struct stat info = {};
  ::stat(compiler.path.c_str(), &info);
  const std::string program =
      fmt::format("{} {} {}.{}", real.string(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  struct Answer {
    std::string version;
    bool lacks_cpp = false;
  };
  static std::mutex mutex;
  static std::map<std::string, Answer> answers;
  const std::lock_guard lock(mutex);
  Answer& known = answers[compiler.path + " " + program];
  if (known.version.empty()) {
    AIPU_ASSIGN_OR_RETURN(const RunResult answer, run({compiler.path, "--version"}, "/"));
    if (answer.code != 0) {
      if (!exhausted_line(answer).empty()) return compiler_failure(compiler.path + " --version", answer);
      return invalid_argument(fmt::format("{} --version failed; is it a C compiler?", compiler.path));
    }
    // gcc is there without its part for C++ where nobody has installed g++; it answers with a path if it has it.
    AIPU_ASSIGN_OR_RETURN(const RunResult part, run({compiler.path, "-print-prog-name=cc1plus"}, "/"));
    known.version = first_line(answer.output);
    if (known.version.empty()) known.version = "unknown";
    known.lacks_cpp =
        known.version.find("clang") == std::string::npos && part.code == 0 && first_line(part.output) == "cc1plus";
  }
  compiler.identity = fmt::format("{} {}", program, known.version);
  compiler.is_clang = known.version.find("clang") != std::string::npos;
  compiler.lacks_cpp = known.lacks_cpp;
  return compiler;
}

Result<Compiler> find_compiler(const std::string& wanted, const std::string& machine) {
  CompilerChoice choice = compilers_for(machine);
  const char* variable = std::getenv(choice.variable.c_str());
  const bool named = !wanted.empty() || (variable != nullptr && *variable != '\0');
  if (named) choice.names = {!wanted.empty() ? wanted : variable};
  std::string without_cpp;
  for (const std::string& candidate : choice.names) {
    const std::string path = find_program(candidate);
    if (path.empty()) continue;
    AIPU_ASSIGN_OR_RETURN(Compiler compiler, ask_compiler(path));
    if (!compiler.lacks_cpp) return compiler;
    if (without_cpp.empty()) without_cpp = compiler.path;
  }
  if (!without_cpp.empty()) {
    return not_found(fmt::format("the C compiler {} has no part for C++ (cc1plus), which kernels take; install {}",
                                 without_cpp, choice.package));
  }
  if (named) {
    return not_found(fmt::format("C compiler '{}' not found (from {}); install {}", choice.names[0],
                                 wanted.empty() ? "$" + choice.variable : "the options", choice.package));
  }
  return not_found(fmt::format("no C compiler for {} found in PATH (looked for {}); install {}, or set {}", machine,
                               fmt::join(choice.names, ", "), choice.package, choice.variable));
}

std::vector<std::string> compile_flags(const Compiler& compiler, const Target& target, const CompileOptions& options) {
  std::vector<std::string> flags = {"-x", "c++", "-std=gnu++17", "-O2"};
  if (compiler.is_clang)
    flags.push_back("-fno-unroll-loops");  // a third less compile time, half the code, the same speed
  else
    flags.push_back("-fvect-cost-model=dynamic");  // gcc 12's -O2 leaves loops with a run-time trip count scalar
  flags.insert(flags.end(), target.compiler_flags.begin(), target.compiler_flags.end());
  for (const char* flag : {"-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
                           "-fno-strict-aliasing", "-fsigned-char", "-fPIC", "-fvisibility=hidden", "-fno-exceptions",
                           "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fno-plt",
                           "-fno-builtin", "-nostdinc", "-I.", "-w"}) {
    flags.push_back(flag);
  }
  flags.insert(flags.end(), options.extra_flags.begin(), options.extra_flags.end());
  return flags;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\n';
  return text;
}

// The line of the unit that the compiler complains about: in its first error, else the first place in the unit that it
// mentions (the text where a template or macro of the prelude was used). 0: none.
long error_line(const std::string& output, const std::string& source) {
  const std::string message = first_error(output);
  for (const std::string& text : {message, output}) {
    for (size_t at = text.find(source + ":"); at != std::string::npos; at = text.find(source + ":", at + 1)) {
      char* end = nullptr;
      const long line = std::strtol(text.c_str() + at + source.size() + 1, &end, 10);
      // "In file included from unit0.cpp:1:" has no column.
      if (line > 0 && end[0] == ':' && end[1] >= '0' && end[1] <= '9') return line;
    }
  }
  return 0;
}

// Which kernel a line of a unit is in: the last one that starts before.
std::string kernel_at(const Unit& unit, long line) {
  if (unit.kernels.empty()) return "the module table";
  std::string found = unit.kernels.front()->symbol;
  size_t position = 0;
  for (long current = 1; current < line && position < unit.text.size(); current++) {
    const size_t end = unit.text.find('\n', position);
    const std::string_view text = std::string_view(unit.text).substr(position, end - position);
    if (text.starts_with("// kernel ")) found = text.substr(10);
    if (end == std::string::npos) break;
    position = end + 1;
  }
  return "kernel " + found;
}

struct CompilerRun {
  const Compiler& compiler;
  const std::vector<std::string>& flags;
  const CodeGenerator& generator;
  const Target& target;
  const std::string& directory;
};

Result<RunResult> run_compiler(const CompilerRun& with, const std::string& text, const std::string& source,
                               const std::string& object) {
  AIPU_RETURN_IF_ERROR(write_file_atomically(with.directory + "/" + source, text, Sync::kNo));
  std::vector<std::string> command = {with.compiler.path};
  command.insert(command.end(), with.flags.begin(), with.flags.end());
  for (const std::string& argument : {std::string("-c"), source, std::string("-o"), object})
    command.push_back(argument);
  return run(command, with.directory);
}

// The first "FILE:LINE" of a compiler's output whose file is named in a #line of the text; "" if there is none.
std::string kernel_line(const std::string& output, const std::string& text) {
  std::set<std::string> files;
  for (size_t at = text.find("\n#line "); at != std::string::npos; at = text.find("\n#line ", at + 1)) {
    const size_t open = text.find('"', at) + 1;
    files.insert(text.substr(open, text.find("\"\n", open) - open));
  }
  files.erase("generated");
  size_t first = std::string::npos;
  std::string found;
  for (const std::string& file : files) {
    // "FILE: In function" has no line.
    for (size_t at = output.find(file + ":"); at < first; at = output.find(file + ":", at + 1)) {
      const size_t line = at + file.size() + 1, end = output.find_first_not_of("0123456789", line);
      if (end == line) continue;
      first = at;
      found = output.substr(at, end - at);
      break;
    }
  }
  return found;
}

// Adds the kernel's line to what the compiler says of a unit, by having it read the unit once more with #line marks.
void find_kernel_line(const CompilerRun& with, const Unit& unit, const std::string& object, RunResult& refused) {
  std::string text = unit_header();
  for (const KernelSource* kernel : unit.kernels) {
    auto marked = with.generator.print_kernel(*kernel, with.target, /*line_marks=*/true);
    if (!marked.ok()) return;
    text += marked->c;
  }
  const auto again = run_compiler(with, text, "marked_" + object + ".cpp", object);
  if (!again.ok() || again->code == 0 || !exhausted_line(*again).empty()) return;
  const std::string message = first_error(again->output), place = kernel_line(again->output, text);
  if (place.empty()) return;
  // An error in a template of the prelude is followed by who used it.
  refused.output = kernel_line(message, text).empty() ? fmt::format("{}: {}", place, message) : message;
}

Status compile_unit(Unit& unit, size_t index, const CompilerRun& with) {
  const std::string source = fmt::format("unit{}.cpp", index), object = fmt::format("unit{}.o", index);
  AIPU_ASSIGN_OR_RETURN(RunResult result, run_compiler(with, unit.text, source, object));
  if (result.code != 0) {
    const std::string where = kernel_at(unit, error_line(result.output, source));
    if (exhausted_line(result).empty() && !unit.kernels.empty()) find_kernel_line(with, unit, object, result);
    return compiler_failure(fmt::format("{}: {}", where, with.compiler.path), result);
  }
  AIPU_ASSIGN_OR_RETURN(unit.object, read_bytes(with.directory + "/" + object));
  unit.compiled = true;
  return {};
}

Result<std::vector<std::byte>> link(const std::vector<Unit>& units, const Compiler& compiler,
                                    const std::string& directory) {
  // No startup files and no C++ library: a module needs libc at most. libm only for the fused multiply-add of doubles
  // on CPUs without one.
  std::vector<std::string> command = {compiler.path,
                                      "-shared",
                                      "-nostartfiles",
                                      "-nodefaultlibs",
                                      "-Wl,--build-id=none",
                                      "-Wl,-z,noexecstack",
                                      "-Wl,-z,now",
                                      "-Wl,--as-needed",
                                      "-o",
                                      "module.so"};
  for (size_t i = 0; i < units.size(); i++) {
    const std::string object = fmt::format("unit{}.o", i);
    if (!units[i].compiled)
      AIPU_RETURN_IF_ERROR(write_file_atomically(directory + "/" + object, units[i].object, Sync::kNo));
    command.push_back(object);
  }
  for (const char* library : {"-lgcc", "-lm", "-lc"}) command.push_back(library);
  AIPU_ASSIGN_OR_RETURN(const RunResult result, run(command, directory));
  if (result.code != 0) return compiler_failure(fmt::format("linking the kernels: {}", compiler.path), result);
  return read_bytes(directory + "/module.so");
}

}  // namespace

Result<CompiledModule> compile_kernels(std::span<const KernelSource> kernels, const Target& target,
                                       const CompileOptions& options) {
  AIPU_ASSIGN_OR_RETURN(const CodeGenerator* generator, find_code_generator(target.codegen));
  return generator->compile(kernels, target, options);
}

Result<CompiledModule> compile_units(const CodeGenerator& generator, std::span<const KernelSource> kernels,
                                     const Target& target, const CompileOptions& options) {
  std::vector<Unit> units;
  std::vector<KernelText> printed;
  std::set<std::string> symbols;
  for (const KernelSource& kernel : kernels) {
    if (!symbols.insert(kernel.symbol).second)
      return internal_error(fmt::format("two kernels are called {}", kernel.symbol));
    auto text = generator.print_kernel(kernel, target, /*line_marks=*/false);
    if (!text.ok()) return std::move(text).status().context(fmt::format("kernel {}", kernel.symbol));
    if (units.empty() || units.back().text.size() + text->c.size() > kUnitBytes)
      units.push_back({unit_header(), {}, {}, false});
    units.back().text += fmt::format("// kernel {}\n{}\n", kernel.symbol, text->c);
    units.back().kernels.push_back(&kernel);
    printed.push_back(std::move(*text));
    printed.back().c.clear();
  }
  if (units.size() == 1)
    units[0].text += print_module_table(printed, false);
  else
    units.push_back({"#include <compass/kernel_abi.h>\n\n" + print_module_table(printed, true), {}, {}, false});

  CompiledModule result;
  result.translation_units = static_cast<int>(units.size());
  for (const Unit& unit : units) result.c_code += unit.text + "\n";
  if (!options.object.empty()) {
    result.shared_object = options.object;
    return result;
  }

  AIPU_ASSIGN_OR_RETURN(const Compiler compiler, find_compiler(options.compiler, target.machine));
  const std::vector<std::string> flags = compile_flags(compiler, target, options);
  const std::string prelude_text = generator.prelude(target);
  const std::string common = fmt::format("abi {}\n{}\n{}\n{}\n", AIPU_KERNEL_ABI_VERSION, compiler.identity,
                                         join(flags), hash_text(prelude_text).hex());
  const KernelCache cache = options.use_cache ? KernelCache(options.cache_dir) : KernelCache();
  std::vector<std::string> keys;
  std::string module_key = "module\n" + common;
  for (const Unit& unit : units) {
    keys.push_back(hash_text("unit\n" + common + unit.text).hex());
    module_key += keys.back();
  }
  module_key = hash_text(module_key).hex();
  result.shared_object = cache.get(module_key);
  if (!result.shared_object.empty()) return result;

  AIPU_ASSIGN_OR_RETURN(const Temporary directory, Temporary::create_folder("aipu-cc"));
  AIPU_RETURN_IF_ERROR(make_folder(directory.path() + "/compass"));
  AIPU_RETURN_IF_ERROR(write_file_atomically(directory.path() + "/compass/dsl.h", prelude_text, Sync::kNo));
  AIPU_RETURN_IF_ERROR(write_file_atomically(directory.path() + "/compass/kernel_abi.h", kernel_abi_text(), Sync::kNo));

  std::vector<size_t> missing;
  for (size_t i = 0; i < units.size(); i++) {
    units[i].object = cache.get(keys[i]);
    if (units[i].object.empty()) missing.push_back(i);
  }
  // The largest first: the last one to finish decides.
  std::stable_sort(missing.begin(), missing.end(),
                   [&](size_t a, size_t b) { return units[a].text.size() > units[b].text.size(); });
  std::vector<Status> failures(units.size());
  size_t done = 0, total = 0;
  for (const size_t index : missing) total += units[index].kernels.size();
  std::mutex mutex;
  bool stopped = false;
  const auto go_on = [&](size_t compiled_now) {
    const std::lock_guard lock(mutex);
    done += compiled_now;
    if (!stopped && options.progress) stopped = !options.progress(done, total);
    return !stopped;
  };
  parallel_for(missing.size(), options.jobs, [&](size_t i) {
    if (!go_on(0)) return;
    const size_t index = missing[i];
    failures[index] = compile_unit(units[index], index, {compiler, flags, generator, target, directory.path()});
    if (failures[index].ok()) cache.put(keys[index], units[index].object);
    go_on(units[index].kernels.size());
  });
  if (stopped) return invalid_argument("the compilation was ended by its caller");
  for (const Status& failure : failures) AIPU_RETURN_IF_ERROR(Status(failure));
  result.compiled_units = static_cast<int>(missing.size());

  AIPU_ASSIGN_OR_RETURN(result.shared_object, link(units, compiler, directory.path()));
  cache.put(module_key, result.shared_object);
  return result;
}

}  // namespace aipu::tir
