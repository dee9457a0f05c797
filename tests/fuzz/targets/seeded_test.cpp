// The bounded run of a fuzz target: its seeds, what is left of them when they are cut off, and changed ones, the same
// each time. AIPU_FUZZ_RUNS and AIPU_FUZZ_FIRST take others; the input that ends the process is left in a file, for
// AIPU_FUZZ_INPUT=FILE to try alone.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/file.h"
#include "tests/fuzz/targets/target.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" const char* __asan_default_options();
// abort() is what on_fatal_signal() sees; address space limits do not work with the sanitizer.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:handle_abort=0:max_allocation_size_mb=2048:detect_leaks=1";
}
constexpr bool kLimitMemory = false;
#else
constexpr bool kLimitMemory = true;
#endif

namespace aipu::fuzz {
namespace {

constexpr rlim_t kMemory = rlim_t{4} << 30;
constexpr unsigned kSecondsPerInput = 60;  // far from what any input takes, on a slow machine under sanitizers too

std::string current_input;
std::string current_name;

// The process ends here, so that it hardly matters that this is not async-signal-safe.
void on_fatal_signal(int number) {
  const std::string path = ::testing::TempDir() + "aipu_fuzz_failure";
  if (FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(current_input.data(), 1, current_input.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "%s: %s; AIPU_FUZZ_INPUT=%s\n", number == SIGALRM ? "takes too long" : "failed",
               current_name.c_str(), path.c_str());
  std::signal(number, SIG_DFL);
  ::raise(number);
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void try_input(const std::string& name, std::string input) {
  current_name = name;
  current_input = std::move(input);
  ::alarm(kSecondsPerInput);
  one_input(current_input);
  ::alarm(0);
}

class Fuzz : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const int number : {SIGALRM, SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) std::signal(number, on_fatal_signal);
    const rlimit limit = {kMemory, kMemory};
    if (kLimitMemory) ::setrlimit(RLIMIT_DATA, &limit);
  }
};

TEST_F(Fuzz, OneInput) {
  const char* path = std::getenv("AIPU_FUZZ_INPUT");
  if (path == nullptr) GTEST_SKIP() << "AIPU_FUZZ_INPUT names none";
  const auto input = read_text_file(path);
  ASSERT_TRUE(input.ok()) << input.status().message();
  try_input(path, *input);
}

TEST_F(Fuzz, Seeds) {
  for (const std::string& seed : seeds()) try_input("a seed", seed);
}

TEST_F(Fuzz, CutOff) {
  const uint64_t cuts = number_from_environment("AIPU_FUZZ_RUNS", runs()) / 10;
  const std::vector<std::string> all = seeds();
  const uint64_t each = std::max<uint64_t>(1, cuts / all.size());
  for (const std::string& seed : all) {
    for (uint64_t i = 0; i < each; ++i) {
      const size_t size = seed.size() * i / each;
      try_input(str_cat("the first ", size, " bytes of a seed"), seed.substr(0, size));
    }
  }
}

TEST_F(Fuzz, Mutated) {
  const std::vector<std::string> all = seeds();
  ASSERT_FALSE(all.empty());
  const uint64_t first = number_from_environment("AIPU_FUZZ_FIRST", 1);
  const uint64_t count = number_from_environment("AIPU_FUZZ_RUNS", runs());
  for (uint64_t run = first; run < first + count; ++run) {
    Random random(run);
    const std::string& seed = all[below(random, all.size())];
    try_input(str_cat("AIPU_FUZZ_FIRST=", run), mutate(seed, all[below(random, all.size())], random));
  }
}

}  // namespace
}  // namespace aipu::fuzz
