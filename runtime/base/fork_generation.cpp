#include "runtime/base/fork_generation.h"

#include <pthread.h>

#include <atomic>

namespace aipu {
namespace {

std::atomic<uint32_t> generation{0};

[[maybe_unused]] const int registered =
    ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace aipu
