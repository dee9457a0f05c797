#include "codegen/compass_c/cc_driver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "codegen/compass_c/translation_unit.h"
#include "runtime/abi/kernel_abi.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/parallel.h"

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
};

struct Unit {
  std::string text;
  std::vector<std::string> kernels;  // for messages
  std::vector<std::byte> object;
  bool compiled = false;
};

class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> create() {
    const char* base = std::getenv("TMPDIR");
    std::string path = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/aipu-cc-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr)
      return io_error(fmt::format("{}: cannot make a temporary directory: {}", path, std::strerror(errno)));
    TemporaryDirectory directory;
    directory.path_ = path;
    return directory;
  }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory() = default;
  std::string path_;
};

Result<std::vector<std::byte>> read_bytes(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return std::vector<std::byte>(file.bytes().begin(), file.bytes().end());
}

// Runs a program in `directory` with its output (stdout and stderr) in `output_file`; returns its exit code, 128 +
// signal, or an error if it cannot be started.
Result<int> run(const std::vector<std::string>& command, const std::string& directory, const std::string& output_file) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  // Messages in English and no include paths from outside.
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; e++) {
    const std::string_view entry = *e;
    const bool drop = entry.starts_with("LC_ALL=") || entry.starts_with("CPATH=") ||
                      entry.starts_with("CPLUS_INCLUDE_PATH=") || entry.starts_with("LIBRARY_PATH=") ||
                      entry.starts_with("GCC_EXEC_PREFIX=") || entry.starts_with("COMPILER_PATH=");
    if (!drop) environment.push_back(*e);
  }
  char locale[] = "LC_ALL=C";
  environment.push_back(locale);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return io_error(fmt::format("{}: cannot be started: {}", command[0], std::strerror(error)));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return io_error(fmt::format("{}: waiting failed: {}", command[0], std::strerror(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* variable = std::getenv("PATH");
  std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const size_t end = path.find(':');
    const std::string candidate = fmt::format("{}/{}", path.substr(0, end), name);
    struct stat info;
    if (::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
    if (end == std::string_view::npos) return "";
    path.remove_prefix(end + 1);
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Result<Compiler> find_compiler(const std::string& wanted) {
  std::vector<std::string> names;
  const char* variable = std::getenv("AIPU_CC");
  if (!wanted.empty())
    names = {wanted};
  else if (variable != nullptr && *variable != '\0')
    names = {variable};
  else
    names = {"gcc", "cc", "clang", "g++", "c++", "clang++"};
  std::string path, name;
  for (const std::string& candidate : names) {
    path = find_program(candidate);
    name = candidate;
    if (!path.empty()) break;
  }
  if (path.empty()) {
    if (names.size() == 1)
      return not_found(fmt::format("C compiler '{}' not found (from {}); install gcc or clang", names[0],
                                   wanted.empty() ? "$AIPU_CC" : "the options"));
    return not_found("no C compiler found in PATH (looked for gcc, cc, clang); install gcc or clang, or set AIPU_CC");
  }
  Compiler compiler;
  compiler.path = fs::absolute(path).string();

  // `--version` costs a few milliseconds, so a process asks each program once.
  std::error_code ignored;
  const fs::path real = fs::canonical(compiler.path, ignored);
  struct stat info = {};
  ::stat(compiler.path.c_str(), &info);
  const std::string program =
      fmt::format("{} {} {}.{}", real.string(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  static std::mutex mutex;
  static std::map<std::string, std::string> versions;
  const std::lock_guard lock(mutex);
  std::string& version = versions[compiler.path + " " + program];
  if (version.empty()) {
    AIPU_ASSIGN_OR_RETURN(const TemporaryDirectory directory, TemporaryDirectory::create());
    const std::string output = directory.path() + "/version";
    AIPU_ASSIGN_OR_RETURN(const int code, run({compiler.path, "--version"}, directory.path(), output));
    auto text = read_text_file(output);
    if (code != 0 || !text.ok())
      return invalid_argument(fmt::format("{} --version failed; is it a C compiler?", compiler.path));
    version = first_line(*text);
    if (version.empty()) version = "unknown";
  }
  compiler.identity = fmt::format("{} {}", program, version);
  compiler.is_clang = version.find("clang") != std::string::npos;
  return compiler;
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

// ---- the cache: DIR/xx/<key>, a file of a header line "aipu-cache 1 <hash of the rest>\n" and the bytes ----

class Cache {
 public:
  explicit Cache(const CompileOptions& options) {
    if (!options.use_cache) return;
    const auto variable = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    if (!options.cache_dir.empty())
      directory_ = options.cache_dir;
    else if (!variable("AIPU_CACHE_DIR").empty())
      directory_ = variable("AIPU_CACHE_DIR");
    else if (!variable("XDG_CACHE_HOME").empty())
      directory_ = variable("XDG_CACHE_HOME") + "/aipu";
    else if (!variable("HOME").empty())
      directory_ = variable("HOME") + "/.cache/aipu";
  }

  // Empty when there is no such entry or it is damaged.
  std::vector<std::byte> get(const std::string& key) const {
    if (directory_.empty() || ::access(path(key).c_str(), R_OK) != 0) return {};
    auto file = MappedFile::open(path(key));
    if (!file.ok()) return {};
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.size() <= kHeaderBytes) return {};
    const std::span<const std::byte> content = bytes.subspan(kHeaderBytes);
    const std::string expected = header(content);
    if (std::memcmp(bytes.data(), expected.data(), kHeaderBytes) != 0) return {};
    return {content.begin(), content.end()};
  }

  // A cache that cannot be written costs time, not results.
  void put(const std::string& key, std::span<const std::byte> content) const {
    if (directory_.empty()) return;
    std::error_code error;
    fs::create_directories(fs::path(path(key)).parent_path(), error);
    if (error) return;
    // Threads of one process must not share the temporary name either.
    std::string temporary = path(key) + ".XXXXXX";
    const int descriptor = ::mkstemp(temporary.data());
    if (descriptor < 0) return;
    const std::string head = header(content);
    const bool written =
        write_all(descriptor, head.data(), head.size()) && write_all(descriptor, content.data(), content.size());
    const bool closed = ::close(descriptor) == 0;
    if (!written || !closed || ::rename(temporary.c_str(), path(key).c_str()) != 0) ::unlink(temporary.c_str());
  }

 private:
  static constexpr size_t kHeaderBytes = 13 + 32 + 1;
  static std::string header(std::span<const std::byte> content) {
    return fmt::format("aipu-cache 1 {}\n", hash_bytes(content).hex());
  }
  static bool write_all(int descriptor, const void* data, size_t size) {
    const char* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::write(descriptor, bytes, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }
  std::string path(const std::string& key) const { return fmt::format("{}/{}/{}", directory_, key.substr(0, 2), key); }

  std::string directory_;
};

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\n';
  return text;
}

// The first error of a compiler's output, without the temporary path.
std::string first_error(const std::string& output) {
  size_t at = output.find("error: ");
  if (at == std::string::npos) at = output.find("undefined reference");
  if (at == std::string::npos) return first_line(output);
  const size_t begin = output.rfind('\n', at);
  return first_line(output.substr(begin == std::string::npos ? 0 : begin + 1));
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
  std::string found = unit.kernels.front();
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

Status compile_unit(Unit& unit, size_t index, const Compiler& compiler, const std::vector<std::string>& flags,
                    const std::string& directory) {
  const std::string source = fmt::format("unit{}.cpp", index), object = fmt::format("unit{}.o", index);
  AIPU_RETURN_IF_ERROR(write_file_atomically(directory + "/" + source, std::string_view(unit.text)));
  std::vector<std::string> command = {compiler.path};
  command.insert(command.end(), flags.begin(), flags.end());
  for (const std::string& argument : {std::string("-c"), source, std::string("-o"), object})
    command.push_back(argument);
  const std::string log = fmt::format("{}/unit{}.log", directory, index);
  AIPU_ASSIGN_OR_RETURN(const int code, run(command, directory, log));
  if (code != 0) {
    auto output = read_text_file(log);
    const std::string text = output.ok() ? *output : "";
    return internal_error(fmt::format("{}: {} failed with exit code {}: {}", kernel_at(unit, error_line(text, source)),
                                      compiler.path, code, first_error(text)));
  }
  AIPU_ASSIGN_OR_RETURN(unit.object, read_bytes(directory + "/" + object));
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
      AIPU_RETURN_IF_ERROR(write_file_atomically(directory + "/" + object, std::span(units[i].object)));
    command.push_back(object);
  }
  for (const char* library : {"-lgcc", "-lm", "-lc"}) command.push_back(library);
  const std::string log = directory + "/link.log";
  AIPU_ASSIGN_OR_RETURN(const int code, run(command, directory, log));
  if (code != 0) {
    auto output = read_text_file(log);
    return internal_error(
        fmt::format("linking the kernels with {} failed: {}", compiler.path, output.ok() ? first_error(*output) : ""));
  }
  return read_bytes(directory + "/module.so");
}

}  // namespace

Result<CompiledModule> compile_kernels(std::span<const KernelSource> kernels, const Target& target,
                                       const CompileOptions& options) {
  std::vector<Unit> units;
  std::vector<KernelText> printed;
  std::set<std::string> symbols;
  for (const KernelSource& kernel : kernels) {
    if (!symbols.insert(kernel.symbol).second)
      return internal_error(fmt::format("two kernels are called {}", kernel.symbol));
    auto text = print_kernel(kernel, target);
    if (!text.ok()) return std::move(text).status().context(fmt::format("kernel {}", kernel.symbol));
    if (units.empty() || units.back().text.size() + text->c.size() > kUnitBytes)
      units.push_back({unit_header(), {}, {}, false});
    units.back().text += fmt::format("// kernel {}\n{}\n", kernel.symbol, text->c);
    units.back().kernels.push_back(kernel.symbol);
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

  AIPU_ASSIGN_OR_RETURN(const Compiler compiler, find_compiler(options.compiler));
  const std::vector<std::string> flags = compile_flags(compiler, target, options);
  const std::string prelude_text = prelude(target);
  const std::string common = fmt::format("abi {}\n{}\n{}\n{}\n", AIPU_KERNEL_ABI_VERSION, compiler.identity,
                                         join(flags), hash_text(prelude_text).hex());
  const Cache cache(options);
  std::vector<std::string> keys;
  std::string module_key = "module\n" + common;
  for (const Unit& unit : units) {
    keys.push_back(hash_text("unit\n" + common + unit.text).hex());
    module_key += keys.back();
  }
  module_key = hash_text(module_key).hex();
  result.shared_object = cache.get(module_key);
  if (!result.shared_object.empty()) return result;

  AIPU_ASSIGN_OR_RETURN(const TemporaryDirectory directory, TemporaryDirectory::create());
  std::error_code error;
  fs::create_directory(directory.path() + "/compass", error);
  if (error) return io_error(fmt::format("{}: {}", directory.path(), error.message()));
  AIPU_RETURN_IF_ERROR(write_file_atomically(directory.path() + "/compass/dsl.h", std::string_view(prelude_text)));
  AIPU_RETURN_IF_ERROR(write_file_atomically(directory.path() + "/compass/kernel_abi.h", kernel_abi_text()));

  std::vector<size_t> missing;
  for (size_t i = 0; i < units.size(); i++) {
    units[i].object = cache.get(keys[i]);
    if (units[i].object.empty()) missing.push_back(i);
  }
  // The largest first: the last one to finish decides.
  std::stable_sort(missing.begin(), missing.end(),
                   [&](size_t a, size_t b) { return units[a].text.size() > units[b].text.size(); });
  std::vector<Status> failures(units.size());
  parallel_for(missing.size(), options.jobs, [&](size_t i) {
    const size_t index = missing[i];
    failures[index] = compile_unit(units[index], index, compiler, flags, directory.path());
    if (failures[index].ok()) cache.put(keys[index], units[index].object);
  });
  for (const Status& failure : failures) AIPU_RETURN_IF_ERROR(Status(failure));
  result.compiled_units = static_cast<int>(missing.size());

  AIPU_ASSIGN_OR_RETURN(result.shared_object, link(units, compiler, directory.path()));
  cache.put(module_key, result.shared_object);
  return result;
}

}  // namespace aipu::tir
