// The functional model of X2_1204: four TECs as threads of their own, each with 32 KiB of local memory that nothing
// else is next to, and 256 KiB of shared memory. The kernels are the model's native module, compiled from the same
// Compass C that the device would get.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "runtime/backends/native_module.h"
#include "runtime/base/fork_generation.h"
#include "runtime/base/guarded.h"
#include "runtime/base/npu_timing.h"

namespace aipu::runtime {
namespace {

constexpr uint32_t kTecs = 4;
constexpr uint32_t kLsramBytes = 32 << 10;
constexpr uint32_t kSharedBytes = 256 << 10;
constexpr int kPoison = 0xcd;  // local memory does not survive a launch

struct X2Module {
  explicit X2Module(NativeModule loaded) : native(std::move(loaded)) {}
  NativeModule native;
  struct Needs {
    uint32_t lsram = 0, shared = 0;
  };
  std::vector<Needs> needs;  // per kernel, in bytes
};

// Memory between two pages that fault: a kernel that leaves its memory is caught where it happens.
class GuardedMemory {
 public:
  Status allocate(size_t bytes) {
    page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_ = bytes + 2 * page_;
    void* address = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return out_of_range(str_cat("no memory for ", size_, " bytes"));
    base_ = static_cast<unsigned char*>(address);
    if (::mprotect(data(), bytes, PROT_READ | PROT_WRITE) != 0)
      return out_of_range(str_cat("no memory for ", bytes, " bytes"));
    return {};
  }
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() {
    if (base_ != nullptr) ::munmap(base_, size_);
  }
  unsigned char* data() const { return base_ + page_; }

 private:
  unsigned char* base_ = nullptr;
  size_t page_ = 0;
  size_t size_ = 0;
};

class X2Session {
 public:
  X2Session(const X2Module& module, const aipu_backend_services& services) : module_(module), services_(services) {}

  Status open() {
    AIPU_RETURN_IF_ERROR(shared_.allocate(kSharedBytes));
    for (uint32_t t = 0; t < kTecs; ++t) {
      AIPU_RETURN_IF_ERROR(lsram_[t].allocate(kLsramBytes));
      contexts_[t] = {
          static_cast<int>(t), 0,    lsram_[t].data(), kLsramBytes, shared_.data(), kSharedBytes, &X2Session::barrier,
          &X2Session::print,   this, nullptr};
    }
    return start_threads();
  }

  ~X2Session() {
    if (generation_ != fork_generation()) forget_threads();
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (uint32_t t = 0; t < started_; ++t) ::pthread_join(threads_[t].handle, nullptr);
  }

  Status launch(const aipu_backend_launch& launch) {
    if (generation_ != fork_generation()) forget_threads();
    if (started_ < kTecs) AIPU_RETURN_IF_ERROR(start_threads());
    const uint32_t tecs = std::min(launch.max_tecs, kTecs);
    // What the kernel may touch, and no more: most use no local memory at all, and a launch is to take microseconds.
    const X2Module::Needs& needs = module_.needs[launch.kernel];
    std::memset(shared_.data(), kPoison, needs.shared);
    for (uint32_t t = 0; t < tecs; ++t) {
      contexts_[t].tec_count = static_cast<int>(tecs);
      contexts_[t].fault = fault_record(launch);
      std::memset(lsram_[t].data(), kPoison, needs.lsram);
    }
    barrier_.emplace(static_cast<std::ptrdiff_t>(tecs));
    std::unique_lock lock(mutex_);
    entry_ = module_.native.entry(launch.kernel);
    if (services_.running != nullptr) kernel_ = services_.running(services_.self);
    words_ = launch.words;
    tecs_ = tecs;
    running_ = tecs;
    ++epoch_;
    start_.notify_all();
    finished_.wait(lock, [&] { return running_ == 0; });
    if (launch.struct_bytes > offsetof(aipu_backend_launch, cycles) && launch.cycles != nullptr)
      *launch.cycles = npu_timing::kX2.launch_cycles(launch.operations, launch.bytes, tecs);
    return {};
  }

 private:
  // All four: TECs meet at barriers, so none can stand in for another.
  Status start_threads() {
    for (; started_ < kTecs; ++started_) {
      Thread& thread = threads_[started_];
      thread.session = this;
      thread.tec = started_;
      const auto enter = [](void* self) -> void* {
        static_cast<Thread*>(self)->session->serve(static_cast<Thread*>(self)->tec);
        return nullptr;
      };
      if (const int code = ::pthread_create(&thread.handle, nullptr, enter, &thread); code != 0) {
        return out_of_range(str_cat("cannot start thread ", started_ + 1, " of the ", kTecs,
                                    " that stand for TECs: ", std::strerror(code)));
      }
    }
    return {};
  }

  // In a child made by fork(), which has none of them; what they waited for knows of waiters that are not there.
  void forget_threads() {
    new (&mutex_) std::mutex;
    new (&start_) std::condition_variable;
    new (&finished_) std::condition_variable;
    started_ = 0;
    epoch_ = 0;
    generation_ = fork_generation();
  }

  static void barrier(const aipu_tec_context* context) {
    static_cast<X2Session*>(context->backend)->barrier_->arrive_and_wait();
  }
  static void print(const aipu_tec_context* context, const char* text, unsigned long size) {
    auto* self = static_cast<X2Session*>(context->backend);
    self->services_.print(self->services_.self, text, size);
  }

  void run_as(const void* kernel) const {
    if (services_.run_as != nullptr) services_.run_as(services_.self, kernel);
  }

  void serve(uint32_t tec) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      start_.wait(lock, [&] { return stop_ || epoch_ != seen; });
      if (stop_) return;
      seen = epoch_;
      if (tec >= tecs_) continue;
      lock.unlock();
      run_as(kernel_);
      entry_(&contexts_[tec], words_);
      run_as(nullptr);
      barrier_->arrive_and_drop();  // the others do not wait for a TEC that has returned
      lock.lock();
      if (--running_ == 0) finished_.notify_one();
    }
  }

  const X2Module& module_;
  const aipu_backend_services services_;
  GuardedMemory shared_;
  std::array<GuardedMemory, kTecs> lsram_;
  std::array<aipu_tec_context, kTecs> contexts_ = {};
  std::optional<std::barrier<>> barrier_;

  std::mutex mutex_;
  std::condition_variable start_, finished_;
  uint64_t epoch_ = 0;
  uint32_t tecs_ = 0, running_ = 0;
  bool stop_ = false;
  aipu_kernel_entry entry_ = nullptr;
  const void* kernel_ = nullptr;  // for crash reports
  const unsigned long long* words_ = nullptr;
  struct Thread {
    X2Session* session = nullptr;
    uint32_t tec = 0;
    pthread_t handle = {};
  };
  std::array<Thread, kTecs> threads_;
  uint32_t started_ = 0;
  uint32_t generation_ = fork_generation();
};

int load(const aipu_backend_model* model, void** result, aipu_backend_error* error) try {
  refill_error_reserve();
  for (uint32_t i = 0; i < model->kernel_count; ++i) {
    const aipu_backend_kernel& kernel = model->kernels[i];
    if (kernel.lsram_bytes > kLsramBytes || kernel.shared_bytes > kSharedBytes) {
      return report(unsupported(str_cat("kernel '", kernel.name, "' needs ", kernel.lsram_bytes, " bytes of local and ",
                                        kernel.shared_bytes, " bytes of shared memory; an X2_1204 has ", kLsramBytes,
                                        " per TEC and ", kSharedBytes)),
                    error);
    }
  }
  auto native = NativeModule::load(*model);
  if (!native.ok()) return report(native.status(), error);
  auto module = std::make_unique<X2Module>(std::move(native).value());
  for (uint32_t i = 0; i < model->kernel_count; ++i)
    module->needs.push_back({model->kernels[i].lsram_bytes, model->kernels[i].shared_bytes});
  *result = module.release();
  return 0;
} catch (...) {
  return report(current_exception_status(), error);
}

void unload(void* module) { delete static_cast<X2Module*>(module); }

int open(void* module, const aipu_backend_services* services, void** result, aipu_backend_error* error) try {
  refill_error_reserve();
  auto session = std::make_unique<X2Session>(*static_cast<const X2Module*>(module), *services);
  if (Status status = session->open(); !status.ok()) return report(status, error);
  *result = session.release();
  return 0;
} catch (...) {
  return report(current_exception_status(), error);
}

void close(void* session) { delete static_cast<X2Session*>(session); }

int launch(void* session, const aipu_backend_launch* launch, aipu_backend_error* error) {
  const Status status = static_cast<X2Session*>(session)->launch(*launch);
  return status.ok() ? 0 : report(status, error);
}

uint32_t tec_count(void*) { return kTecs; }

int64_t copy_cycles(void*, int64_t rows, int64_t row_bytes) { return npu_timing::kX2.copy_cycles(rows, row_bytes); }

constexpr aipu_backend kBackend = {
    AIPU_BACKEND_API_VERSION,
    sizeof(aipu_backend),
    "x2",
    "functional model of X2_1204",
    AIPU_BACKEND_COMPUTES | AIPU_BACKEND_NATIVE | AIPU_BACKEND_BARRIERS | AIPU_BACKEND_FAULTS,
    &load,
    &unload,
    &open,
    &close,
    &launch,
    &tec_count,
    nullptr,
    &copy_cycles};

}  // namespace
}  // namespace aipu::runtime

extern "C" __attribute__((visibility("default"))) const aipu_backend* aipu_backend_v1(void) {
  return &aipu::runtime::kBackend;
}
