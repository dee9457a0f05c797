// What the failure-injection tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/injection/injector.h"

extern "C" __attribute__((weak)) int __lsan_do_recoverable_leak_check();

namespace aipu::inject {

struct Fault {
  int kind = AIPU_INJECT_ALLOCATION;
  uint64_t n = 0;
  bool onwards = false;

  std::string text() const { return str_cat("with failure ", aipu_inject_name(kind), ":", n, onwards ? "+" : ""); }
};

// Runs `body` under a fault. An exception that gets out of it fails the test. Returns the number of calls.
inline uint64_t run_with(const Fault& fault, const std::function<Status()>& body, Status* status) {
  std::optional<Status> result;
  std::string escaped;
  aipu_inject_arm(fault.kind, fault.n, fault.onwards);
  uint64_t calls = 0;
  try {
    result.emplace(body());
    calls = aipu_inject_disarm();
  } catch (const std::exception& error) {
    calls = aipu_inject_disarm();
    escaped = error.what();
  }
  EXPECT_EQ(escaped, "") << "an exception got out " << fault.text();
  if (result) *status = std::move(*result);
  return calls;
}

// One line, and one that says what is short.
inline void expect_clean(const Fault& fault, const Status& status) {
  if (status.ok()) return;
  EXPECT_FALSE(status.message().empty()) << fault.text();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << fault.text() << ": " << status.message();
  EXPECT_EQ(status.message().find("bug in aipu"), std::string::npos) << fault.text() << ": " << status.message();
  EXPECT_NE(status.code(), ErrorCode::kInternal) << fault.text() << ": " << status.message();
  if (fault.kind == AIPU_INJECT_ALLOCATION) {
    // dlopen() says that a file is not there when it has no memory to look for it, pthread_create() that there are too
    // many threads.
    const bool names_memory = status.message().find("memory") != std::string::npos ||
                              status.message().find("cannot load the ") != std::string::npos ||
                              status.message().find("thread") != std::string::npos;
    EXPECT_TRUE(names_memory) << fault.text() << ": " << status.message();
  }
}

inline void expect_no_leaks() {
  if (__lsan_do_recoverable_leak_check == nullptr) return;
  EXPECT_EQ(__lsan_do_recoverable_leak_check(), 0);
}

inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// `count` of the calls 1 to `total`, one from each of as many equal parts, so that no stage is left out; 0: all.
inline std::vector<uint64_t> spread(uint64_t total, uint64_t count) {
  if (count == 0 || count > total) count = total;
  std::mt19937_64 random(number_from_environment("AIPU_INJECT_SEED", 1));
  std::vector<uint64_t> calls;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t first = total * i / count, last = std::max(first + 1, total * (i + 1) / count);
    calls.push_back(1 + first + random() % (last - first));
  }
  return calls;
}

}  // namespace aipu::inject
