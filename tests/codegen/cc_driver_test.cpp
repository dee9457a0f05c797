#include "codegen/driver/cc_driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/driver/kernel_cache.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/text.h"
#include "tests/codegen/cc_run.h"

namespace aipu::tir::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

KernelSource kernel(const std::string& symbol, const std::string& text, const Target& target) {
  Result<Module> module = parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().message();
  Result<Module> lowered = lower(*module, target);
  EXPECT_TRUE(lowered.ok()) << lowered.status().message();
  return {symbol, *lowered};
}

std::string scale_text(int factor) {
  return fmt::format(R"(func scale(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {{
  for serial i#3: int32 = 0 to n#2 step 1 {{
    store y#1[i#3] = (load(x#0, i#3) * {}.0)
  }}
}}
)",
                     factor);
}

class CcDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "aipu-driver-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    options_.cache_dir = directory_ + "/cache";
    target_ = *find_target("host-baseline");
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::vector<KernelSource> kernels(int count) const {
    std::vector<KernelSource> all;
    for (int i = 0; i < count; i++) all.push_back(kernel(fmt::format("scale_{}", i), scale_text(i + 2), target_));
    return all;
  }
  // Regular files below the cache, sorted.
  std::vector<fs::path> cache_files() const {
    std::vector<fs::path> files;
    if (!fs::exists(options_.cache_dir)) return files;
    for (const auto& entry : fs::recursive_directory_iterator(options_.cache_dir)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  std::string directory_;
  CompileOptions options_;
  Target target_;
};

TEST_F(CcDriver, CompilesAndRuns) {
  const auto sources = kernels(3);
  const Result<CompiledModule> compiled = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_GE(compiled->compiled_units, 1);
  EXPECT_THAT(compiled->c_code, HasSubstr("scale_1"));
  const LoadedModule loaded(compiled->shared_object);
  ASSERT_EQ(loaded.error(), "");
  ASSERT_NE(loaded.table(), nullptr);
  EXPECT_EQ(loaded.table()->abi_version, AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS);
  EXPECT_EQ(loaded.table()->struct_bytes, sizeof(aipu_kernel_info));
  ASSERT_EQ(loaded.table()->kernel_count, 3u);
  const aipu_kernel_info* info = loaded.find("scale_1");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->argument_count, 3u);
  EXPECT_EQ(info->uses_barrier, 0u);
  std::vector<float> x = {1, -2, 0.5f}, y(3);
  loaded.run(*info, {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(y.data()), 3});
  EXPECT_EQ(y, (std::vector<float>{3, -6, 1.5f}));
}

TEST_F(CcDriver, SecondCompilationCompilesNothing) {
  const auto sources = kernels(60);
  const Result<CompiledModule> first = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->compiled_units, first->translation_units);
  EXPECT_GT(first->translation_units, 1);
  const Result<CompiledModule> second = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->compiled_units, 0);
  EXPECT_EQ(second->translation_units, first->translation_units);
  EXPECT_EQ(second->shared_object, first->shared_object);
  EXPECT_EQ(second->c_code, first->c_code);
}

TEST_F(CcDriver, BytesDependOnNeitherJobsNorCacheNorFolder) {
  const auto sources = kernels(60);
  options_.jobs = 1;
  options_.use_cache = false;
  const Result<CompiledModule> one = compile_kernels(sources, target_, options_);
  options_.jobs = 5;
  const Result<CompiledModule> five = compile_kernels(sources, target_, options_);
  options_.use_cache = true;
  const Result<CompiledModule> cached = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(one.ok() && five.ok() && cached.ok());
  EXPECT_EQ(one->shared_object, five->shared_object);
  EXPECT_EQ(one->shared_object, cached->shared_object);
}

TEST_F(CcDriver, AModelThatSharesUnitsReusesThem) {
  auto sources = kernels(60);
  const Result<CompiledModule> first = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(first.ok());
  sources.pop_back();
  const Result<CompiledModule> second = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(second.ok());
  EXPECT_GT(second->compiled_units, 0);
  EXPECT_LT(second->compiled_units, second->translation_units);
}

TEST_F(CcDriver, DamagedCacheEntriesAreCompiledAgain) {
  const auto sources = kernels(2);
  const Result<CompiledModule> first = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(cache_files().size(), 2u);  // the unit and the module
  for (const char* damage : {"flip", "truncate", "empty"}) {
    for (const fs::path& file : cache_files()) {
      std::string text;
      {
        std::ifstream in(file, std::ios::binary);
        text.assign(std::istreambuf_iterator<char>(in), {});
      }
      if (damage == std::string("flip")) text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
      if (damage == std::string("truncate")) text.resize(text.size() - 1);
      if (damage == std::string("empty")) text.clear();
      std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    }
    const Result<CompiledModule> again = compile_kernels(sources, target_, options_);
    ASSERT_TRUE(again.ok()) << damage;
    EXPECT_EQ(again->compiled_units, again->translation_units) << damage;
    EXPECT_EQ(again->shared_object, first->shared_object) << damage;
    const Result<CompiledModule> healed = compile_kernels(sources, target_, options_);
    ASSERT_TRUE(healed.ok());
    EXPECT_EQ(healed->compiled_units, 0) << damage;
  }
}

TEST_F(CcDriver, FlagsAndTargetsHaveTheirOwnEntries) {
  const auto sources = kernels(1);
  ASSERT_TRUE(compile_kernels(sources, target_, options_).ok());
  const Result<CompiledModule> avx2 = compile_kernels(sources, *find_target("host-avx2"), options_);
  ASSERT_TRUE(avx2.ok());
  EXPECT_EQ(avx2->compiled_units, 1);
  options_.extra_flags = {"-O1"};
  const Result<CompiledModule> flags = compile_kernels(sources, target_, options_);
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(flags->compiled_units, 1);
}

TEST_F(CcDriver, ConcurrentCompilationsShareTheCache) {
  const auto sources = kernels(3);
  std::vector<std::thread> threads;
  std::vector<Result<CompiledModule>> results(4, Result<CompiledModule>(internal_error("not run")));
  for (size_t i = 0; i < results.size(); i++)
    threads.emplace_back([&, i] { results[i] = compile_kernels(sources, target_, options_); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->shared_object, results[0]->shared_object);
  }
  EXPECT_EQ(cache_files().size(), 2u);  // no temporary files are left
}

TEST_F(CcDriver, AnUnwritableCacheCostsTimeOnly) {
  std::ofstream(directory_ + "/file") << "not a folder";
  options_.cache_dir = directory_ + "/file/cache";
  const Result<CompiledModule> compiled = compile_kernels(kernels(1), target_, options_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->compiled_units, 1);
}

TEST_F(CcDriver, TheCacheIsMadeForThisUserAlone) {
  ASSERT_TRUE(compile_kernels(kernels(1), target_, options_).ok());
  EXPECT_EQ(fs::status(options_.cache_dir).permissions(), fs::perms::owner_all);
  for (const fs::path& file : cache_files())
    EXPECT_EQ(fs::status(file.parent_path()).permissions(), fs::perms::owner_all);
}

TEST_F(CcDriver, ACacheThatOthersMayWriteIsNotUsed) {
  ASSERT_TRUE(compile_kernels(kernels(1), target_, options_).ok());
  EXPECT_EQ(KernelCache(options_.cache_dir).problem(), "");
  for (const fs::perms perms : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(options_.cache_dir, fs::perms::owner_all | perms);
    EXPECT_EQ(KernelCache(options_.cache_dir).problem(),
              fmt::format("no kernel cache: others may write to '{}' (chmod go-w takes that away); AIPU_CACHE_DIR may "
                          "name another folder",
                          options_.cache_dir));
    const Result<CompiledModule> compiled = compile_kernels(kernels(1), target_, options_);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(compiled->compiled_units, 1);
  }
  fs::permissions(options_.cache_dir, fs::perms::owner_all);
  EXPECT_EQ(compile_kernels(kernels(1), target_, options_)->compiled_units, 0);
}

// A folder that was open once may hold what somebody else has put there.
TEST_F(CcDriver, AnEntryThatOthersMayWriteIsMadeAnew) {
  ASSERT_TRUE(compile_kernels(kernels(1), target_, options_).ok());
  for (const fs::path& file : cache_files()) fs::permissions(file, fs::perms::all);
  EXPECT_EQ(compile_kernels(kernels(1), target_, options_)->compiled_units, 1);
  EXPECT_EQ(compile_kernels(kernels(1), target_, options_)->compiled_units, 0);
  // A link is no entry, wherever it leads.
  for (const fs::path& file : cache_files()) {
    fs::rename(file, directory_ + "/" + file.filename().string());
    fs::create_symlink(directory_ + "/" + file.filename().string(), file);
  }
  EXPECT_EQ(compile_kernels(kernels(1), target_, options_)->compiled_units, 1);
  for (const fs::path& file : cache_files()) EXPECT_FALSE(fs::is_symlink(file));
}

TEST_F(CcDriver, ACacheOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give folders away";
  ASSERT_TRUE(compile_kernels(kernels(1), target_, options_).ok());
  ASSERT_EQ(::chown(options_.cache_dir.c_str(), 65534, 65534), 0);
  EXPECT_THAT(KernelCache(options_.cache_dir).problem(),
              HasSubstr("belongs to another user (number 65534, this is 0)"));
  EXPECT_EQ(compile_kernels(kernels(1), target_, options_)->compiled_units, 1);
}

// What a machine lacks is no bug of ours.
TEST_F(CcDriver, AMachineThatRunsOutIsNamed) {
  options_.compiler = directory_ + "/gcc";
  const std::pair<const char*, ErrorCode> cases[] = {
      {"unit0.cpp:1:1: fatal error: error writing to x.s: No space left on device", ErrorCode::kIo},
      {"cc1plus: out of memory allocating 65536 bytes", ErrorCode::kIo},
      {"gcc: fatal error: Killed signal terminated program cc1plus", ErrorCode::kIo},
      {"as: cannot open: Too many open files", ErrorCode::kIo},
      {"unit0.cpp:1:1: error: expected expression", ErrorCode::kInternal}};
  for (const auto& [text, code] : cases) {
    std::ofstream(options_.compiler) << "#!/bin/sh\n[ \"$1\" = --version ] && echo gcc 1 && exit 0\necho '" << text
                                     << "'\nexit 1\n";
    fs::permissions(options_.compiler, fs::perms::owner_all);
    const Result<CompiledModule> compiled = compile_kernels(kernels(1), target_, options_);
    ASSERT_FALSE(compiled.ok());
    EXPECT_EQ(compiled.status().code(), code) << compiled.status().message();
    EXPECT_THAT(compiled.status().message(), HasSubstr(text));
  }
}

TEST_F(CcDriver, AMissingCompilerIsAClearError) {
  options_.compiler = "/nonexistent/gcc";
  const Result<CompiledModule> compiled = compile_kernels(kernels(1), target_, options_);
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(compiled.status().message(), HasSubstr("'/nonexistent/gcc' not found"));
}

// Debian's package gcc has no part for C++; g++ brings it.
TEST_F(CcDriver, ACompilerWithoutCppIsPassedOver) {
  const auto write_compiler = [&](const std::string& name, const std::string& version, const std::string& otherwise) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\ncase \"$1\" in\n--version) echo '" << version
                        << "' ;;\n-print-prog-name=*) echo cc1plus ;;\n*) " << otherwise << " ;;\nesac\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  };
  const char* path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  const std::string gcc = write_compiler("gcc", "gcc (Debian) 12", "exit 1");
  ::setenv("PATH", directory_.c_str(), 1);
  const auto alone = compile_kernels(kernels(1), target_, options_);
  write_compiler("clang", "Debian clang version 14", "PATH='" + before + "' exec g++ \"$@\" ");
  const auto beside = compile_kernels(kernels(1), target_, options_);
  ::setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(alone.status().message(),
            "the C compiler " + gcc + " has no part for C++ (cc1plus), which kernels take; install g++ or clang");
  EXPECT_TRUE(beside.ok()) << beside.status().message();
}

TEST_F(CcDriver, CodeForAnotherKindOfCpuNeedsItsCompiler) {
  const Target arm = *find_target("aarch64-neon");
  ::setenv("AIPU_CC", "/nonexistent/gcc", 1);  // says nothing about other machines
  ::setenv("AIPU_CC_AARCH64", "/nonexistent/cross", 1);
  const auto named = compile_kernels(kernels(1), arm, options_);
  ::unsetenv("AIPU_CC_AARCH64");
  const char* path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  ::setenv("PATH", directory_.c_str(), 1);
  const auto sought = compile_kernels(kernels(1), arm, options_);
  ::setenv("PATH", before.c_str(), 1);
  ::unsetenv("AIPU_CC");
  ASSERT_FALSE(named.ok());
  EXPECT_THAT(named.status().message(), HasSubstr("'/nonexistent/cross' not found (from $AIPU_CC_AARCH64)"));
  ASSERT_FALSE(sought.ok());
  EXPECT_THAT(sought.status().message(), HasSubstr("no C compiler for aarch64 found in PATH (looked for "
                                                   "aarch64-linux-gnu-gcc, aarch64-linux-gnu-g++)"));
}

TEST_F(CcDriver, ACompilerErrorNamesTheKernel) {
  options_.extra_flags = {"-Daipu_entry_scale_1=1+"};
  const Result<CompiledModule> compiled = compile_kernels(kernels(2), target_, options_);
  ASSERT_FALSE(compiled.ok());
  EXPECT_THAT(compiled.status().message(), HasSubstr("kernel scale_1: "));
  EXPECT_THAT(compiled.status().message(), HasSubstr("error"));
  EXPECT_EQ(compiled.status().message().find('\n'), std::string::npos);
}

TEST_F(CcDriver, ACompilerErrorNamesTheLineOfTheKernel) {
  const std::string text = R"(func marked(x#0: global int32*) -> void {
  store x#0[0] = 1  @"my kernel.py":7:5
  let poisoned#1: int32 = load(x#0, 1)  @"my kernel.py":8:5
  store x#0[2] = poisoned#1  @"my kernel.py":9:5
}
)";
  options_.extra_flags = {"-Dpoisoned=3"};
  for (const char* compiler : {"gcc", "clang"}) {
    options_.compiler = compiler;
    const Result<CompiledModule> compiled =
        compile_kernels(std::vector{kernel("marked", text, target_)}, target_, options_);
    ASSERT_FALSE(compiled.ok());
    if (compiled.status().code() == ErrorCode::kNotFound) continue;  // not installed
    EXPECT_THAT(compiled.status().message(), HasSubstr("kernel marked: "));
    EXPECT_THAT(compiled.status().message(), HasSubstr("my kernel.py:8:"));
    EXPECT_EQ(compiled.status().message().find('\n'), std::string::npos);
  }
}

TEST_F(CcDriver, NoKernelsIsAnEmptyModule) {
  const Result<CompiledModule> compiled = compile_kernels({}, target_, options_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const LoadedModule loaded(compiled->shared_object);
  ASSERT_NE(loaded.table(), nullptr) << loaded.error();
  EXPECT_EQ(loaded.table()->kernel_count, 0u);
}

TEST_F(CcDriver, TecsMemoriesAndBarriersReachTheTable) {
  const std::string text = R"(func sum(x#0: global int32*, y#1: global int32*) -> void {
  alloc local#2: lsram int32* [20]
  alloc all#3: shared int32* [5]
  store local#2[0] = load(x#0, S.get_local_id<int32>())
  store all#3[S.get_local_id<int32>()] = (load(local#2, 0) * S.get_local_size<int32>())
  eval S.barrier<void>()
  store y#1[S.get_local_id<int32>()] = load(all#3, S.get_local_id<int32>())
}
)";
  const Result<CompiledModule> compiled = compile_kernels(std::vector{kernel("sum", text, target_)}, target_, options_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const LoadedModule loaded(compiled->shared_object);
  ASSERT_NE(loaded.table(), nullptr) << loaded.error();
  const aipu_kernel_info& info = *loaded.find("sum");
  EXPECT_EQ(info.lsram_bytes, 80u);
  EXPECT_EQ(info.shared_bytes, 20u);
  EXPECT_EQ(info.uses_barrier, 1u);
  std::vector<int> x = {1, 2, 3}, y(3);
  loaded.run(info, {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(y.data())}, 3);
  EXPECT_EQ(y, (std::vector<int>{3, 6, 9}));
}

// The first report of several TECs, or of one, is kept; the module says that it makes them.
TEST_F(CcDriver, ReportsFaults) {
  const std::string text = R"(func picky(x#1: global int64*) -> void {
  for serial i#2: int32 = 0 to 3 step 1 {
    if (load(x#1, i#2) < 0:int64) {
      eval S.report_fault<void>(4, load(x#1, i#2), 9:int64)
    }
  }
}
)";
  const Result<CompiledModule> compiled =
      compile_kernels(std::vector{kernel("picky", text, target_)}, target_, options_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const LoadedModule loaded(compiled->shared_object);
  ASSERT_NE(loaded.table(), nullptr) << loaded.error();
  EXPECT_EQ(loaded.table()->abi_version, AIPU_KERNEL_ABI_VERSION);
  for (const bool faults : {false, true}) {
    const std::vector<int64_t> x = {5, faults ? INT64_MIN : 6, faults ? -1 : 7};
    aipu_fault_record fault = {};
    loaded.run(*loaded.find("picky"), {reinterpret_cast<uint64_t>(x.data())}, 2, &fault);
    EXPECT_EQ(fault.code, faults ? 5 : 0);
    EXPECT_EQ(fault.value, faults ? INT64_MIN : 0);
    EXPECT_EQ(fault.limit, faults ? 9 : 0);
  }
}

TEST_F(CcDriver, TooMuchLocalMemoryIsAnError) {
  const std::string text = R"(func big(y#1: global int32*) -> void {
  alloc local#2: lsram int32* [20000]
  store y#1[0] = load(local#2, 0)
}
)";
  const Result<CompiledModule> compiled = compile_kernels(std::vector{kernel("big", text, target_)}, target_, options_);
  ASSERT_FALSE(compiled.ok());
  EXPECT_THAT(compiled.status().message(), HasSubstr("needs 80000 bytes of lsram"));
}

TEST_F(CcDriver, PrintsThroughTheContext) {
  const std::string text = R"(func hello(n#0: int32, f#1: float32, b#2: int8) -> void {
  eval S.printf<int32>("n=%d u=%u x=%x f=%f %s 100%% %c\n", n#0, n#0, n#0, f#1, "text", b#2)
}
)";
  const Result<CompiledModule> compiled =
      compile_kernels(std::vector{kernel("hello", text, target_)}, target_, options_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const LoadedModule loaded(compiled->shared_object);
  ASSERT_NE(loaded.table(), nullptr) << loaded.error();
  const float f = -1.9999999f;
  uint32_t bits = 0;
  std::memcpy(&bits, &f, 4);
  EXPECT_EQ(loaded.run(*loaded.find("hello"), {static_cast<uint64_t>(-5), bits, 'A'}),
            "n=-5 u=4294967291 x=0xfffffffb f=-1.999999 text 100% A\n");
}

// The object may need libc (and libm for double fma without hardware), nothing else.
TEST_F(CcDriver, NeedsNoCppLibrary) {
  const Result<CompiledModule> compiled = compile_kernels(kernels(2), target_, options_);
  ASSERT_TRUE(compiled.ok());
  const std::string_view bytes(reinterpret_cast<const char*>(compiled->shared_object.data()),
                               compiled->shared_object.size());
  EXPECT_EQ(bytes.find("libstdc++"), std::string_view::npos);
  EXPECT_EQ(bytes.find("libgcc_s"), std::string_view::npos);
  EXPECT_EQ(bytes.find(directory_), std::string_view::npos);
  EXPECT_EQ(bytes.find("aipu-cc-"), std::string_view::npos);
}

TEST(Targets, NamesAndAliases) {
  EXPECT_EQ(find_target("X2_1204")->tec_count(), 4);
  EXPECT_EQ(find_target("compass -mcpu=X2_1204")->name, "X2_1204");
  EXPECT_EQ(find_target("X3P_1304MP2")->core_count, 2);
  EXPECT_EQ(find_target("X3P_1304MP2")->shared_bytes(), 128 * 1024);
  EXPECT_TRUE(cpu_runs(*find_target("host")));
  EXPECT_FALSE(find_target("host-baseline")->native_fma);
  EXPECT_EQ(find_target("X1_1204").status().message(), "The Compass DSL does not support the target \"X1_1204\".");
  EXPECT_THAT(find_target("Y9").status().message(), HasSubstr("there are: host, host-avx512"));
}

}  // namespace
}  // namespace aipu::tir::testing
