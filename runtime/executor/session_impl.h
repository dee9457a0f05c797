// What a Session is inside: the state of runs, and the steps that they are made of.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/fork_generation.h"
#include "runtime/base/meter.h"
#include "runtime/base/stored_type.h"
#include "runtime/engines/engine.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/device.h"
#include "runtime/executor/model_state.h"
#include "runtime/executor/plan.h"
#include "runtime/executor/run_queue.h"
#include "runtime/executor/string_pool.h"
#include "runtime/executor/trace.h"
#include "runtime/executor/virtual_time.h"
#include "runtime/executor/worker_pool.h"
#include "runtime/session.h"

namespace aipu::runtime {

struct Session::Impl {
  struct Input {
    std::vector<int64_t> shape;
    const void* data = nullptr;
    bool bound = false;
    TensorBuffer numbers;  // of strings, as kernels see them
    const void* memory() const { return numbers.data() != nullptr ? numbers.data() : data; }
    int64_t bytes(DType dtype) const {  // of shapes that a plan was made for
      return tensor_bytes(dtype, shape).value_or(0);
    }
  };
  struct Output {
    void* data = nullptr;  // the caller's
    int64_t capacity = 0;
    TensorBuffer own;
    std::byte* result = nullptr;  // in one of the two, once it is known
    TensorBuffer staged;          // on a device, whose bodies have no need of it
    TensorBuffer texts;           // of strings, as callers see them
    std::vector<int64_t> shape;
    int64_t size = 0;
    bool known = false;
    bool is_text = false, has_texts = false;
    const std::byte* shown() const { return !is_text ? result : has_texts ? texts.data() : nullptr; }
  };

  Impl* const parent = nullptr;
  std::shared_ptr<const Model> model;
  const detail::ModelState& state;
  const fb::Model& root;
  // Held by every call that reads or changes what follows; nobody waits for it but those who cannot return an error.
  std::mutex in_use;
  const uint32_t generation = fork_generation();  // of the process that the session was made in
  SessionOptions options;
  std::shared_ptr<WorkerPool> pool;
  aipu_backend_services services = {};
  void* backend_session = nullptr;
  uint32_t tecs = 1;
  // What runs the kernels of the host's part: `backend_session`, unless these have a back end of their own beside a
  // device.
  void* host_session = nullptr;
  uint32_t host_tecs = 1;
  aipu_backend_error backend_error = {};
  aipu_fault_record fault = {};  // empty between commands

  std::vector<Input> inputs;
  std::vector<Output> outputs;
  bool shapes_changed = true;
  std::vector<SymbolValue> symbols;
  std::vector<uint32_t> run_symbols;

  Roots layout;
  std::vector<std::byte*> roots;
  std::vector<TensorBuffer> arenas, host_arenas;               // per stage
  std::vector<std::vector<std::unique_ptr<StagePlan>>> plans;  // per stage, most recently used first
  std::vector<StagePlan*> active;                              // per stage, of the current run
  uint64_t last_plan_id = 0;
  int64_t own_held_bytes = 0;
  int64_t& held_bytes;                    // of plans, arenas and outputs, those of bodies included
  int64_t deadline_ns = Meter::kNoLimit;  // of the run
  uint32_t current_stage = 0;
  ExpressionValues values;        // of the stages that the current run has made a plan for, and those before
  uint32_t stages_evaluated = 0;  // so many

  std::vector<TraceEvent> events;
  int64_t profile_start_ns = 0;

  // virtual_time.cpp. Null: nobody asks, or the back end has no timing model.
  std::unique_ptr<VirtualTime> own_time;
  VirtualTime* time = nullptr;  // the session's, which bodies share
  std::vector<std::array<std::vector<int64_t>, VirtualTime::kEngines>>
      ends;                            // per program: of its commands, last played
  int64_t bound_at = 0;                // the last symbols of the run
  std::optional<int64_t> last_cycles;  // makespan of the last run

  // What plays commands beside others: samples of a batch loop, or the queue of an engine.
  struct Lane {
    Status status;
    aipu_backend_error error = {};
    aipu_fault_record fault = {};
    std::vector<TraceEvent> events;
  };
  std::vector<Lane> lanes;

  // session_strings.cpp. Null: the model has none.
  std::unique_ptr<StringPool> own_strings;
  StringPool* strings = nullptr;  // the session's, which bodies share
  Result<int64_t> number_of(std::string_view text);
  Status number_inputs();
  Status tell_texts();
  Status run_text(const fb::HostCommand& command, const StagePlan& plan, const Step& step);

  // engine_queues.cpp. Two threads, for tec and dma; null: engines take turns.
  std::unique_ptr<WorkerPool> own_beside;
  WorkerPool* beside = nullptr;  // the session's, which bodies share
  std::array<Lane, 2> queues;
  struct Stretch;
  uint32_t stretch_end(uint32_t program, uint32_t position, StagePlan& plan, bool* has_both) const;
  Status run_stretch(uint32_t program, uint32_t first, uint32_t end, StagePlan& plan);

  // device_run.cpp. Null: memory is this process's, and the session plays the buffers itself.
  Device* device = nullptr;
  struct DeviceRun;
  struct CloseDeviceRun {
    void operator()(DeviceRun* run) const;
  };
  std::unique_ptr<DeviceRun, CloseDeviceRun> own_on_device;
  DeviceRun* on_device = nullptr;  // the session's, which bodies share
  std::vector<TensorBuffer> staged_inputs;
  std::vector<aipu_device_event> sent;  // by root: the transfers of inputs and outputs to the device
  // Arguments of kernels (SessionOptions::arguments_of_a_kernel) may overlap, and what is not written of them stays:
  // the pieces of the caller's memory that they are in, ascending, and each of these on the device.
  struct Piece {
    const std::byte *begin, *end;
  };
  std::vector<Piece> pieces;
  std::vector<TensorBuffer> staged_pieces;
  bool stages_pieces() const { return is_staged() && options.arguments_of_a_kernel; }
  Status stage_pieces();
  std::byte* on_piece(const void* data) const;
  Status send_pieces();
  // Per program and engine, the commands of its buffer.
  struct DeviceCommand {
    const ModelTables::ScheduledCommand* command;
    aipu_device_event event;
  };
  std::vector<std::array<std::vector<DeviceCommand>, 2>> device_buffers;
  std::vector<aipu_device_event> waits;  // of the command at hand
  // Of a program, by engine: the command whose turn it is.
  using Turns = std::array<uint32_t, 3>;
  bool is_staged() const { return device != nullptr && parent == nullptr; }
  // Whether a tensor that is no view is in the host's memory beside the device.
  bool is_on_host(uint32_t tensor) const { return items(root.tensors())[tensor]->memory() == fb::Memory::kHost; }
  bool is_staged_input(uint32_t i) const { return is_staged() && !is_on_host(items(root.inputs())[i]); }
  bool is_staged_output(uint32_t i) const { return is_staged() && !is_on_host(items(root.outputs())[i]); }
  Status open_on_device();
  void open_device_tables();
  Status run_on_device(uint32_t program);
  Status play_on_device(uint32_t program);
  Status play_command(uint32_t program, const ModelTables::ScheduledCommand& command);
  Status submit_ahead(uint32_t program, Turns& turns);
  Status send_inputs();
  Status fetch_outputs();
  uint32_t last_sent(StagePlan& plan, const Step& step) const;
  void collect_waits(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan, const Step& step);
  Status run_host_on_device(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                            const Step& step);
  Status await_waits();
  Status check_faults();
  Status enqueue(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan, const Step& step);
  Status enqueue_zeros(const ::aipu::runtime::Call& call, const TraceEvent& trace, aipu_device_event* event);
  Status add(aipu_device_command row, const TraceEvent& trace, aipu_device_event* event);
  aipu_device_command launch_of(const ::aipu::runtime::Call& call) const;
  static aipu_device_command copy_of(const ::aipu::runtime::Call& call);
  Status settle();
  Status settle_since(size_t first);
  Status take_records(size_t first);
  // Between memory of the host's and that of tensors, or within the latter.
  Status get(void* destination, const void* source, size_t bytes) const;
  Status put(void* destination, const void* source, size_t bytes) const;
  Status move(void* destination, const void* source, size_t bytes) const;
  Status bind_run_symbols(const fb::HostCommand& command, const StagePlan& plan, const Step& step);

  explicit Impl(std::shared_ptr<const Model> shared)
      : model(std::move(shared)),
        state(model->state()),
        root(state.root()),
        held_bytes(own_held_bytes),
        device(state.device.get()) {}
  // Of a body, which runs with what the session has that runs it.
  Impl(Impl& caller, const detail::ModelState& body)
      : parent(&caller),
        model(caller.model),
        state(body),
        root(state.root()),
        options(caller.options),
        pool(caller.pool),
        backend_session(caller.backend_session),
        tecs(caller.tecs),
        host_session(caller.host_session),
        host_tecs(caller.host_tecs),
        held_bytes(caller.held_bytes),
        time(caller.time),
        strings(caller.strings),
        beside(caller.beside),
        device(caller.device),
        on_device(caller.on_device) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // What a call has computed last, and what it computes with.
  struct CallResult {
    const std::byte* data = nullptr;
    int64_t bytes = 0;
    std::vector<int64_t> shape;
    TensorBuffer own;  // where the data is not the body's
  };
  struct CallState {
    std::vector<std::unique_ptr<Impl>> bodies;
    std::vector<CallResult> results;
    std::vector<TensorBuffer> carried;  // memory of states, by turns with the body's outputs
    int64_t iteration = 0;
    uint8_t condition = 1;
    TensorBuffer counters;  // the two as a device sees them
  };
  std::vector<CallState> calls;
  std::vector<int64_t> given;  // of a body: by its caller

  Status open();
  void open_services();
  Status open_host_kernels();
  void open_tables();
  Status bind_shapes();
  Status bind_input(size_t index, const TensorView& tensor);
  void take_input(uint32_t index, const void* data, std::span<const int64_t> shape);
  Status check_overlaps(size_t index) const;
  Status begin();
  Status activate(uint32_t stage);
  const ExpressionValues& values_until(uint32_t stage);
  Status hold(TensorBuffer& buffer, int64_t bytes) { return hold(buffer, bytes, device); }
  Status hold(TensorBuffer& buffer, int64_t bytes, Device* where);
  Status hold_more(int64_t bytes) const;
  Status check_time() const;
  // What is left for the back end.
  int64_t kernel_memory_limit() const { return options.memory_limit_bytes - held_bytes; }
  Status run_bound();
  Status play(Run::Impl& run);
  Status run_program(uint32_t program);
  Status run_loop(StagePlan& plan, StagePlan::Loop& loop);
  Status run_lane(StagePlan& plan, StagePlan::Loop& loop, uint32_t lane, std::atomic<int64_t>& next_sample);
  // What a command is run with: for all samples, or for one of a batch loop.
  struct Context {
    const unsigned long long* words;  // from word `first_word` of the plan on
    uint32_t first_word;
    uint32_t sample, lane, lanes;
    aipu_backend_error& error;
    aipu_fault_record& fault;
    std::vector<TraceEvent>& events;
    bool is_beside = false;  // the threads of the pool are another engine's
  };
  Status run_command(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan, const Step& step,
                     const Context& context);
  // session_inspect.cpp
  Status show_written(uint32_t program, const ModelTables::ScheduledCommand& command, const Step& step,
                      const ::aipu::runtime::Call& call) const;
  // From what the counters were at the beginning to what they have counted meanwhile.
  void end_counts(TraceEvent* event) const;
  // The same without virtual time and profile.
  Status carry_out(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan, const Step& step,
                   const Context& context, const ::aipu::runtime::Call& call, uint32_t* threads);
  // A kernel of the model's back end, or of the host's part.
  struct Launcher {
    const aipu_backend& backend;
    void* session;
  };
  Status launch(Launcher launcher, uint32_t program, const ModelTables::ScheduledCommand& command, const Step& step,
                const Context& context, const ::aipu::runtime::Call& call, uint32_t* threads);
  Status run_host_work(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                       const Step& step);
  ::aipu::runtime::Call call_of(const StagePlan& plan, const Step& step, const unsigned long long* words,
                                aipu_fault_record* to) const;
  // Of the tensors of a command, each once; of a copy both ways.
  int64_t bytes_of(uint32_t program, const ModelTables::ScheduledCommand& command,
                   const ::aipu::runtime::Call& call) const;
  void open_virtual_time();
  int64_t ready_at(uint32_t program, const ModelTables::ScheduledCommand& command) const;
  void end_at(uint32_t program, const ModelTables::ScheduledCommand& command, int64_t start, int64_t end,
              TraceEvent* event);
  Status run_in_virtual_time(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                             const Step& step, const Context& context, ::aipu::runtime::Call call, TraceEvent* event);
  // Of all expressions, for messages; plans have what runs need.
  ExpressionValues values_now() const {
    ExpressionValues values;
    values.evaluate(root, symbols);
    return values;
  }
  Status fault_status(uint32_t program, const ModelTables::ScheduledCommand& command,
                      const aipu_fault_record& found) const;
  // control_flow.cpp
  struct CallWords;
  Status run_call(const fb::HostCommand& command, const StagePlan& plan, const Step& step);
  Status run_loop_body(const fb::Call& call, fb::HostOp op, const CallWords& words, CallState& state);
  Status take_iteration(const fb::Call& call, fb::HostOp op, int64_t trips, CallState& state);
  Status send_counters(CallState& state);
  Status take_loop_results(const fb::Call& call, fb::HostOp op, CallState& state);
  Status run_branch(const CallWords& words, CallState& state);
  Status run_body(Impl& body);
  Status append_slice(CallResult& stack, const Impl& body, uint32_t output, int64_t trip, int64_t trips, bool backward);
  Status own_copy(CallResult& result, const std::byte* data, int64_t bytes);
  Status tell_extents(const CallWords& words, const CallState& state) const;
  Status fetch(const fb::HostCommand& command, const StagePlan& plan, const Step& step) const;
  void take_given(std::span<const unsigned long long> numbers);
  std::span<const std::byte> output_bytes(uint32_t index) const;
  int64_t all_arena_bytes() const;

  Status run_host(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan, const Step& step);
};

}  // namespace aipu::runtime
