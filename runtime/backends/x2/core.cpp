#include "runtime/backends/x2/core.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace aipu::runtime {
namespace {

constexpr int kPoison = 0xcd;  // local memory does not survive a launch
constexpr uint32_t kLsramBytes = npu_timing::kX2Machine.lsram_bytes;
constexpr uint32_t kSharedBytes = npu_timing::kX2Machine.shared_bytes;

}  // namespace

Status GuardedMemory::allocate(size_t bytes) {
  page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_ = bytes + 2 * page_;
  void* address = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return out_of_range(str_cat("no memory for ", size_, " bytes"));
  base_ = static_cast<unsigned char*>(address);
  if (::mprotect(data(), bytes, PROT_READ | PROT_WRITE) != 0)
    return out_of_range(str_cat("no memory for ", bytes, " bytes"));
  return {};
}

GuardedMemory::~GuardedMemory() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

Status X2Cores::open() {
  AIPU_RETURN_IF_ERROR(shared_.allocate(kSharedBytes));
  return start_threads(kCoreTecs);
}

X2Cores::~X2Cores() {
  if (generation_ != fork_generation()) forget_threads();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (uint32_t t = 0; t < started_; ++t) ::pthread_join(threads_[t].handle, nullptr);
}

Status X2Cores::launch(const Launch& launch) {
  if (generation_ != fork_generation()) forget_threads();
  AIPU_RETURN_IF_ERROR(start_threads(std::max(launch.tecs, kCoreTecs)));
  // What the kernel may touch, and no more: most use no local memory at all, and a launch is to take microseconds.
  std::memset(shared_.data(), kPoison, launch.shared_bytes);
  for (uint32_t t = 0; t < launch.tecs; ++t) {
    contexts_[t].tec_count = static_cast<int>(launch.tecs);
    contexts_[t].fault = launch.fault;
    std::memset(lsram_[t].data(), kPoison, launch.lsram_bytes);
  }
  barrier_.emplace(static_cast<std::ptrdiff_t>(launch.tecs));
  std::unique_lock lock(mutex_);
  launch_ = launch;
  running_ = launch.tecs;
  ++epoch_;
  start_.notify_all();
  finished_.wait(lock, [&] { return running_ == 0; });
  return {};
}

// All of them: TECs meet at barriers, so none can stand in for another.
Status X2Cores::start_threads(uint32_t tecs) {
  for (; started_ < tecs; ++started_) {
    if (contexts_[started_].backend == nullptr) {
      AIPU_RETURN_IF_ERROR(lsram_[started_].allocate(kLsramBytes));
      contexts_[started_] = {static_cast<int>(started_),
                             0,
                             lsram_[started_].data(),
                             kLsramBytes,
                             shared_.data(),
                             kSharedBytes,
                             &X2Cores::barrier,
                             &X2Cores::print,
                             this,
                             nullptr};
    }
    Thread& thread = threads_[started_];
    thread.cores = this;
    thread.tec = started_;
    const auto enter = [](void* self) -> void* {
      static_cast<Thread*>(self)->cores->serve(static_cast<Thread*>(self)->tec);
      return nullptr;
    };
    if (const int code = ::pthread_create(&thread.handle, nullptr, enter, &thread); code != 0) {
      return out_of_range(str_cat("cannot start thread ", started_ + 1, " of the ", tecs,
                                  " that stand for TECs: ", std::strerror(code)));
    }
  }
  return {};
}

// In a child made by fork(), which has none of them; what they waited for knows of waiters that are not there.
void X2Cores::forget_threads() {
  new (&mutex_) std::mutex;
  new (&start_) std::condition_variable;
  new (&finished_) std::condition_variable;
  started_ = 0;
  epoch_ = 0;
  generation_ = fork_generation();
}

void X2Cores::barrier(const aipu_tec_context* context) {
  static_cast<X2Cores*>(context->backend)->barrier_->arrive_and_wait();
}

void X2Cores::print(const aipu_tec_context* context, const char* text, unsigned long size) {
  const aipu_device_services& services = static_cast<X2Cores*>(context->backend)->services_;
  services.print(services.self, text, size);
}

void X2Cores::run_as(const void* running) const {
  if (services_.struct_bytes > offsetof(aipu_device_services, run_as) && services_.run_as != nullptr)
    services_.run_as(services_.self, running);
}

void X2Cores::serve(uint32_t tec) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || epoch_ != seen; });
    if (stop_) return;
    seen = epoch_;
    if (tec >= launch_.tecs) continue;
    lock.unlock();
    run_as(launch_.running);
    launch_.entry(&contexts_[tec], launch_.words);
    run_as(nullptr);
    barrier_->arrive_and_drop();  // the others do not wait for a TEC that has returned
    lock.lock();
    if (--running_ == 0) finished_.notify_one();
  }
}

}  // namespace aipu::runtime
