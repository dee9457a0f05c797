// A Session executes a Model: it owns the memory that a run needs, and its workers or borrows them.
//
//   auto session = Session::create(model);
//   session->bind_input(0, {DType::kF32, shape, data});    // no copy: the data is read during run()
//   session->bind_output(0, buffer, bytes);                // optional: else the session provides the memory
//   session->run();
//   TensorView y = session->output(0);
//
// Or: auto run = session->submit(inputs); ...; run->wait(); TensorView y = run->output(0);
//
// One thread at a time uses a session; a call that comes while another thread is in one is refused with an error.
// Different sessions are independent. What is bound stays bound for later runs; a run with an input that was never
// bound, or whose last bind failed, is an error. Running again with shapes that were seen before allocates nothing and
// makes no system call (except to wake workers that have fallen asleep).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/model.h"

namespace aipu::runtime {

class RunQueue;
class WorkerPool;
namespace sandbox {
class Session;
}

// An element of a tensor of strings: UTF-8 by convention, without a terminator.
struct StringView {
  const char* data;
  size_t size;
};

// Contiguous, in C order; no alignment beyond that of the element is needed. Elements of fewer than 8 bits are packed
// (runtime/base/stored_type.h: tensor_bytes(), pack(), unpack()). Of strings an array of StringView. Does not own.
struct TensorView {
  DType dtype = DType::kVoid;
  std::span<const int64_t> shape;
  const void* data = nullptr;
};

// Counters of the caller's that a profile reads before and after each command.
struct ProfileCounters {
  static constexpr uint32_t kMost = 8;
  uint32_t count = 0;
  void* self = nullptr;
  void (*read)(void* self, int64_t* values) = nullptr;  // `count` of them, which only grow
};

// A tensor that a command has written, in whole or in part. `name` is ONNX's where there is one, `origin` says which
// nodes the command computes. The views are valid during the call.
struct WrittenTensor {
  std::string_view name, origin;
  TensorView value;
};

struct SessionOptions {
  int threads = 0;                   // 0: as many as there are CPUs; more than those is cut down
  std::shared_ptr<WorkerPool> pool;  // borrowed by several sessions, which take turns; `threads` is then ignored
  bool profile = false;              // not in a sandbox
  ProfileCounters counters;          // of a profile: ProfileRow::counts
  bool cycles = false;               // keeps virtual time where the back end has a timing model; see Session::cycles()
  bool overlap = false;              // plays copies beside the kernels that they do not wait for; not with `cycles`
  // Called after each command by the thread that runs, for each tensor of the model that it has written: what fused
  // kernels keep to themselves is never seen, nor are strings; bodies of loops show theirs in every iteration. Commands
  // take turns then, and batches are computed at once. Not with `overlap`, nor in a sandbox.
  std::function<void(const WrittenTensor&)> inspect;
  int plan_cache = 8;  // shapes whose plans are kept
  // For what the session allocates: activations, outputs that the caller gives no memory for, plans, and what the
  // interpreter needs. 0: the machine's memory; with a back end that promises to survive hostile kernels (interp) 1
  // GiB.
  int64_t memory_limit_bytes = 0;
  double run_seconds = 0;  // for a run; 0: no limit. Native code is not interrupted, only not gone on with.
  Budget plan_budget;      // for the plan of a stage for the shapes at hand; 0 bytes: 1 GiB
  // Inputs and outputs are the arguments of one kernel, which may overlap and be aligned as the kernel likes it. Else
  // memory for an output that overlaps an input or another output is an error, and so is data that is not aligned.
  bool arguments_of_a_kernel = false;

  // For files from people one does not trust; see SECURITY.md.
  static SessionOptions untrusted() {
    SessionOptions options;
    options.memory_limit_bytes = kUntrustedBytes;
    options.run_seconds = kUntrustedRunSeconds;
    options.plan_budget = {kUntrustedBytes, kUntrustedLoadSeconds};
    return options;
  }
};

// Where a submitted run puts an output; null: in memory of its own.
struct OutputMemory {
  void* data = nullptr;
  size_t bytes = 0;
};

// A run that has been submitted to a session (Session::submit()). Any number of threads may look at it; it may outlive
// its session.
class AIPU_API Run : public std::enable_shared_from_this<Run> {
 public:
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool is_done() const;
  // Waits until it is done, and gives what became of it: the errors of Session::run(), or that the session was closed
  // before it began.
  Status wait() const;
  // The same for a limited time; whether it is done.
  bool wait_for(double seconds) const;
  // Of a run that has succeeded; valid as long as the run is there, in memory of the caller's as long as that is.
  Result<TensorView> output(size_t index) const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  friend class RunQueue;
  explicit Run(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// From now on a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL) in native code of a kernel prints one line to stderr that names
// the kernel and what shows the access, before the signal takes the course that it had. Process-wide, for good.
AIPU_API void enable_crash_reports();

// Makes a pool that sessions can share.
AIPU_API std::shared_ptr<WorkerPool> make_worker_pool(int threads);

class AIPU_API Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Model& model() const;
  // Threads that kernels are spread over.
  int threads() const;

  // Checks dtype and rank. The shape is copied, the data is not: it has to stay until the last run() with it.
  Status bind_input(size_t index, const TensorView& tensor);
  // Memory for an output; must be large enough when run() comes, must not overlap an input or another output. null
  // gives the output back to the session. Strings are always given in memory of the session's.
  Status bind_output(size_t index, void* data, size_t bytes);

  // Checks the shapes of the inputs against each other and plans the memory; run() does it too. Afterwards
  // output_shape() is known, except where it depends on data.
  Status prepare();
  // kInvalidArgument also where the data has no result (an index outside of an axis, an integer divided by zero): the
  // message names the ONNX node and the value. After any error the outputs have no defined contents, bound memory of
  // the caller's included; the session can be run again, and other sessions notice nothing.
  Status run();

  // Puts a run into the session's queue and returns. A thread of the session's own plays the queue, in order; each run
  // has its own inputs, one for each of the model's, and its own outputs (`outputs` empty: all in memory of the run's).
  // Shapes are copied, data is read and written until the run is done. Then `done` is called, by that thread: it may
  // submit, and end the session, but must not wait for runs. Any thread may submit.
  // As long as runs are in flight, bind_*(), prepare(), run() and output*() are errors; afterwards nothing is bound.
  // A session that goes ends runs that have not begun with an error, and waits for the one that has. In a child made by
  // fork() the runs of its parent are lost: wait() says so, and the session may be used if none was being played.
  Result<std::shared_ptr<Run>> submit(std::span<const TensorView> inputs, std::span<const OutputMemory> outputs = {},
                                      std::function<void(const Run&)> done = {});

  // Whether no submitted run is in flight.
  bool is_idle() const;

  // After run(), or prepare() where possible. The shape and data stay valid until the next bind_*, prepare() or run().
  Result<TensorView> output(size_t index) const;
  Result<std::span<const int64_t>> output_shape(size_t index) const;

  // Bytes of memory held for activations in this process.
  int64_t arena_bytes() const;

  struct ProfileRow {
    std::string_view engine;
    std::string_view name;    // kernel, or what the engine did
    std::string_view origin;  // ONNX nodes
    uint32_t command = 0;     // index in the engine's buffer
    uint32_t sample = 0;      // of a batch that is run sample by sample
    uint32_t lanes = 1;       // so many samples at the same time, each by one thread
    uint32_t threads = 1;
    int64_t start_ns = 0;  // since the session's first profiled run
    int64_t duration_ns = 0;
    int64_t operations = 0;  // arithmetic by the definition of the layer; 0: not counted
    int64_t bytes = 0;       // of the tensors it was given, each once
    uint32_t lane = 0;       // < lanes: which of them played the sample
    // In virtual time, since the session's first run (SessionOptions::cycles); -1 cycles: not kept.
    int64_t start_cycles = 0, cycles = -1;
    // Of those what the instructions would take alone, those of the TEC that has most of them, and the DMA transfers,
    // those of one TEC or of all through the memory that they share; -1: not known.
    int64_t compute_cycles = -1, dma_cycles = -1;
    // What SessionOptions::counters have counted meanwhile. Nothing where other commands run at the same time: samples
    // side by side (`lanes`), copies beside kernels, devices with queues of their own.
    std::vector<int64_t> counts;
    std::vector<uint32_t> waits;  // rows, of commands that had to end before
  };
  // What the last run would take on the device that the model is compiled for, whose engines work side by side, by the
  // timing model of the back end (executor/virtual_time.h has the rules); `interp` counts what kernels do, `x2` goes by
  // the sizes of their tensors. Nothing without SessionOptions::cycles, and where there is no model of the device.
  std::optional<int64_t> cycles() const;

  // All runs since creation or clear_profile(); with SessionOptions::profile only.
  std::vector<ProfileRow> profile() const;
  void clear_profile();
  // Chrome's trace format, for chrome://tracing or ui.perfetto.dev.
  Status write_profile(const std::string& path) const;

  struct Impl;

 private:
  explicit Session(std::shared_ptr<const Model> model);
  Status check_idle() const;
  std::shared_ptr<const Model> model_;
  // One of the two; the other one is for models in a sandbox (LoadOptions::sandbox).
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<sandbox::Session> sandbox_;
  std::unique_ptr<RunQueue> queue_;  // ends before what it plays with
};

}  // namespace aipu::runtime
