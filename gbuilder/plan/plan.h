// The plan: everything that aipu.bin will say, decided, in plain structs. make_plan() takes all decisions; memory_plan
// reports on them, the storers record them per engine, encode writes them down without further thought, decode reads
// them back, print_plan shows them.
//
// The execution model that the plan relies on:
//  - Commands have one total order (`sequence`). Each engine runs its own commands in that order, one after the other,
//    each complete before the next.
//  - Engines run concurrently; a command starts once the commands of other engines in its `waits` are done.
//  - A run symbol has a value once its BindSymbols command is done. What is placed, sized or passed by such a value
//    comes after it.
//  - Arena memory is placed when a model is bound to shapes, by lifetimes in sequence numbers: two tensors may share
//    memory exactly when one's last_use is before the other's first_use (or one is in_place_of the other). The waits
//    make that safe for whatever placement the runtime finds.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/tir/stmt.h"
#include "gbuilder/plan/expressions.h"
#include "graph/ir/graph.h"
#include "graph/partition/claim.h"
#include "kernels/plugin.h"

namespace aipu::gbuilder {

enum class Engine : uint8_t { kTec, kDma, kHost };
constexpr int kEngineCount = 3;
std::string_view engine_name(Engine engine);

enum class TensorKind : uint8_t { kInput, kOutput, kConstant, kArena, kView };
std::string_view tensor_kind_name(TensorKind kind);

// Where the bytes of a tensor are that commands write: see aipu.fbs.
enum class Memory : uint8_t { kDevice, kHost };

struct PlanTensor {
  std::string name;
  DType dtype = DType::kVoid;
  std::vector<ExpressionId> shape;
  ExpressionId size_bytes = kNone;
  TensorKind kind = TensorKind::kArena;
  uint64_t offset_bytes = 0;         // kConstant: within the constants section
  graph::ConstantPtr constant;       // kConstant: the bytes; null in a decoded plan
  uint32_t base = kNone;             // kView: a tensor that is no view itself
  ExpressionId view_offset = kNone;  // kView
  uint32_t first_use = kNone;        // kArena: sequence numbers, inclusive, through views; kNone for the other kinds
  uint32_t last_use = kNone;
  uint32_t in_place_of = kNone;     // kArena
  bool workspace = false;           // kArena: scratch memory of one group, no tensor of the model
  Memory memory = Memory::kDevice;  // of what is no view
};

// A command of another engine: its index in that engine's buffer.
struct CommandId {
  Engine engine = Engine::kTec;
  uint32_t index = 0;
  friend auto operator<=>(const CommandId&, const CommandId&) = default;
};

struct PlanArgument {
  enum class Kind : uint8_t { kTensor, kExpression, kImmediate };
  Kind kind = Kind::kImmediate;
  bool writes = false;      // kTensor: the kernel may write
  uint32_t index = 0;       // the tensor or the expression
  ExpressionId offset = 0;  // kTensor: bytes
  uint64_t word = 0;        // kImmediate
};

// What a fault means that the kernel of a command reports; see aipu.fbs.
struct PlanFault {
  uint32_t code = 0;
  uint32_t message = 0;  // strings
  uint32_t origin = 0;   // origins
  ExpressionId needed = kNone;
};
struct TecBody {
  uint32_t kernel = 0;
  std::vector<PlanArgument> arguments;
  ExpressionId max_tecs = 0;
  ExpressionId operations = kNone;  // arithmetic, for profiles
  ExpressionId needed = kNone;      // 0: left out of this run
  std::vector<PlanFault> faults;    // ascending by code
};
struct DmaBody {
  uint32_t destination = 0, source = 0;  // tensors
  ExpressionId destination_offset = 0, source_offset = 0, width = 0, times = 0, destination_stride = 0,
               source_stride = 0;
};
enum class HostOp : uint8_t { kBindSymbols, kCheck, kIf, kLoop, kScan, kBranch, kFetch, kText, kLaunch, kCopy };
std::string_view host_op_name(HostOp op);
struct HostBody {
  HostOp op = HostOp::kCheck;
  uint32_t a = 0, b = 0, c = 0, d = 0;  // see aipu.fbs
};

struct Command {
  uint32_t sequence = 0;
  uint32_t index = 0;  // in its engine's buffer
  uint32_t origin = 0;
  std::vector<CommandId> waits;
  std::variant<TecBody, DmaBody, HostBody> body;

  Engine engine() const { return static_cast<Engine>(body.index()); }
};

struct Program {
  std::vector<Command> commands;  // by sequence
};

// TEC and DMA commands of programs[0] that the runtime may run once per sample: see aipu.fbs.
struct PlanBatchLoop {
  uint32_t first = 0, last = 0;  // sequence numbers, inclusive
  uint32_t symbol = 0;
  ExpressionId condition = kNone;  // worth it where that is not 0 and threads have samples of their own; kNone: always
};

struct PlanKernel {
  std::string symbol;                         // unique: k<index>_<template>__<origin>
  std::shared_ptr<const tir::Module> module;  // as instantiated, entry renamed to `symbol`; null in a decoded plan
  uint32_t argument_count = 0;
  std::vector<bool> pointer_arguments;
  std::vector<uint8_t> argument_bits;       // width of an integer scalar parameter, 0: pointer or float
  std::vector<bool> signed_arguments;       // signed integer scalar parameters
  std::vector<uint64_t> addressable_bytes;  // see tir::addressable_bytes
  uint32_t lsram_bytes = 0;                 // per TEC
  uint32_t shared_bytes = 0;                // per launch
  bool uses_barrier = false;
  bool reports_faults = false;
  std::string source;  // the ONNX nodes that use it, for people
};

// What runs bodies: see aipu.fbs.
struct PlanCall {
  std::vector<uint32_t> bodies;
  uint32_t condition = kNone, trip_count = kNone;
  std::vector<uint32_t> inputs;  // tensors
  uint32_t states = 0, sequences = 0;
  std::vector<bool> backward_sequences, backward_stacks;
  std::vector<std::vector<ExpressionId>> given;  // per body
  uint32_t extents = kNone;                      // tensor
};

// A sequence or an optional among the inputs or outputs of the model that is converted (aipu.fbs).
struct PlanList {
  std::string name;
  bool is_input = false;
  uint8_t kind = 0;
  bool absent = false;
  uint32_t first = 0, count = 0;
};

// An operation on texts or encoded images: see aipu.fbs.
enum class OperationLibrary : uint8_t { kText, kImage };
struct PlanTextCall {
  std::string operation;
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  std::vector<uint32_t> inputs, outputs;  // tensors
  ExpressionId needed = kNone;
  OperationLibrary library = OperationLibrary::kText;
};

struct Plan {
  std::string model_name;
  std::string description;                                      // doc_string
  std::vector<std::pair<std::string, std::string>> properties;  // metadata_props
  std::vector<PlanList> lists;
  std::string target;
  bool fast_math = false;  // converted with --fast-math; for people
  uint32_t tec_count = 0;
  uint32_t core_count = 1;
  ExpressionTable expressions;
  std::vector<PlanSymbol> symbols;
  std::vector<PlanTensor> tensors;
  std::vector<uint32_t> inputs, outputs;
  std::vector<PlanKernel> kernels;
  std::vector<Program> programs;
  std::vector<PlanBatchLoop> batch_loops;
  std::vector<PlanCall> calls;
  std::vector<PlanTextCall> text_calls;
  // What commands of the host do in its own memory, beside the device: kLaunch and kCopy.
  std::vector<TecBody> host_launches;
  std::vector<DmaBody> host_copies;
  std::string host_target;               // "": one target computes all
  uint32_t first_host_kernel = kNone;    // kernels from this one on are the host's
  bool is_body = false;                  // of a loop or branch
  std::vector<std::string> string_pool;  // what the numbers in tensors of strings mean; of the outermost plan
  // Bodies of loops and branches. Kernels and constants are those of the outermost plan.
  std::vector<Plan> bodies;
  std::vector<std::string> given_symbols;  // of a body: what its caller gives, in the order of PlanCall::given
  std::vector<std::string> strings;
  std::vector<std::string> origins;
  uint64_t constant_bytes = 0;  // of the constants section
};

// A tensor that a command touches; views are given as they are, root_tensor() resolves them.
struct Access {
  uint32_t tensor = 0;
  bool writes = false;
};
// Whether a command of the host runs what a PlanCall says.
constexpr bool runs_bodies(HostOp op) { return op == HostOp::kLoop || op == HostOp::kScan || op == HostOp::kBranch; }
// That call; null where it runs none.
const PlanCall* call_of(const Plan& plan, const HostBody& host);
// The operation on texts that it runs; null where it runs none.
const PlanTextCall* text_call_of(const Plan& plan, const HostBody& host);
// The launch or the copy that a command is, or that the host does for it; null where there is none.
const TecBody* launch_of(const Plan& plan, const Command& command);
const DmaBody* copy_of(const Plan& plan, const Command& command);
// Whether the command is the host's work in its own memory.
bool is_host_work(const Command& command);
// Whether the device and the host each have the tensor's memory: nothing writes there.
bool is_on_both(const Plan& plan, const PlanTensor& root);
std::vector<Access> command_accesses(const Plan& plan, const Command& command);
uint32_t root_tensor(const Plan& plan, uint32_t tensor);
// By tensor that is no view: the first of its chain of in-place successors, which may all be the same memory.
std::vector<uint32_t> memory_of_tensors(const Plan& plan);
// The expressions that must have values before the command can start: its own and those of the tensors it touches.
std::vector<ExpressionId> command_expressions(const Plan& plan, const Command& command);

// A group with what its plugin set up.
struct PlannedGroup {
  graph::Group group;
  kernels::Implementation implementation;
  std::vector<kernels::Fault> faults = {};
  std::vector<kernels::ValueCheck> value_checks = {};
};

// `kernel_of` says, per group and launch, which row of `kernels` a KernelLaunch uses (kNone for copies); both come from
// KernelTable.
struct PlanInput {
  const graph::Graph* graph = nullptr;
  std::span<const PlannedGroup> groups;
  std::vector<PlanKernel> kernels;
  std::vector<std::vector<uint32_t>> kernel_of;
  std::string target;
  uint32_t tec_count = 0;   // of all cores; 0: as many as the runtime has workers
  uint32_t core_count = 1;  // that share a launch, unless its TECs meet at barriers or in memory of the core
  // Groups with target 1 are the host's, beside the device.
  std::string host_target = {};
  uint32_t first_host_kernel = kNone;
  bool batch_loops = false;                                // find them; worth it where several layers share a cache
  bool is_body = false;                                    // symbols that nothing here binds are given by the caller
  std::map<graph::NodeId, std::vector<Plan>> bodies = {};  // of nodes with sub-graphs
};
Result<Plan> make_plan(PlanInput input);
// Places in the constants section for all constants of the finished plans of a file, those of their bodies included;
// equal ones share one.
void lay_out_constants(std::span<Plan* const> plans);

// For people and goldens; safe on plans decoded from untrusted bytes.
std::string print_plan(const Plan& plan);    // all of the following
std::string targets_text(const Plan& plan);  // "X2_1204", "X2_1204+host-avx2"
std::string print_tensors(const Plan& plan);
std::string print_kernels(const Plan& plan);
std::string print_commands(const Plan& plan);
// `text` of each body under its number: "0", "0.0", ...
std::string print_bodies(const Plan& plan, const std::function<std::string(const Plan&)>& text,
                         const std::string& outer = "");
std::string print_command(const Plan& plan, const Command& command);

}  // namespace aipu::gbuilder
