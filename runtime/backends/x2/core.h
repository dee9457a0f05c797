// The TECs of the cores of the model of X2_1204: four threads in each, each with 32 KiB of local memory that nothing
// else is next to, and 256 KiB of shared memory for those of a core. Threads are started when a launch is for them.
#pragma once

#include <pthread.h>

#include <array>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/abi/kernel_abi.h"
#include "runtime/backends/device_api.h"
#include "runtime/base/fork_generation.h"
#include "runtime/base/npu_timing.h"
#include "runtime/base/status.h"

namespace aipu::runtime {

// Memory between two pages that fault: a kernel that leaves its memory is caught where it happens.
class GuardedMemory {
 public:
  Status allocate(size_t bytes);
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();
  unsigned char* data() const { return base_ + page_; }

 private:
  unsigned char* base_ = nullptr;
  size_t page_ = 0;
  size_t size_ = 0;
};

// Used by one thread at a time.
class X2Cores {
 public:
  static constexpr uint32_t kCoreTecs = npu_timing::kX2Machine.tecs;
  static constexpr uint32_t kTecs = kCoreTecs * npu_timing::kX2Machine.cores;

  explicit X2Cores(const aipu_device_services& services) : services_(services) {}
  X2Cores(const X2Cores&) = delete;
  X2Cores& operator=(const X2Cores&) = delete;
  ~X2Cores();
  // The first core. An error: the system has no memory, or no four threads.
  Status open();

  struct Launch {
    aipu_kernel_entry entry;
    const unsigned long long* words;
    uint32_t tecs;                       // 1 to kTecs; at most kCoreTecs if they share memory or meet at barriers
    uint32_t lsram_bytes, shared_bytes;  // that the kernel uses
    aipu_fault_record* fault;
    const void* running;  // aipu_device_command.running
  };
  // Returns when all TECs have.
  Status launch(const Launch& launch);

 private:
  Status start_threads(uint32_t tecs);
  void forget_threads();
  static void barrier(const aipu_tec_context* context);
  static void print(const aipu_tec_context* context, const char* text, unsigned long size);
  void run_as(const void* running) const;
  void serve(uint32_t tec);

  const aipu_device_services& services_;
  GuardedMemory shared_;
  std::array<GuardedMemory, kTecs> lsram_;
  std::array<aipu_tec_context, kTecs> contexts_ = {};
  std::optional<std::barrier<>> barrier_;

  std::mutex mutex_;
  std::condition_variable start_, finished_;
  uint64_t epoch_ = 0;
  uint32_t running_ = 0;
  bool stop_ = false;
  Launch launch_ = {};
  struct Thread {
    X2Cores* cores = nullptr;
    uint32_t tec = 0;
    pthread_t handle = {};
  };
  std::array<Thread, kTecs> threads_;
  uint32_t started_ = 0;
  uint32_t generation_ = fork_generation();
};

}  // namespace aipu::runtime
