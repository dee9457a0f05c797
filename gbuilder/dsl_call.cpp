#include "gbuilder/dsl_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "codegen/driver/code_generator.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/text.h"
#include "gbuilder/file/encode.h"
#include "gbuilder/record/command_storer.h"
#include "gbuilder/record/kernel_table.h"
#include "graph/ir/op_def.h"
#include "kernels/plugin.h"

namespace aipu::gbuilder {
namespace {

using tir::ParamCategory;

// Op records of DSL calls are all alike: any operands, any results.
Result<std::shared_ptr<const graph::OpSet>> ops_with(const std::string& op) {
  graph::OpDef def;
  def.name = op;
  def.inputs = {{"operands", "*", false, true}};
  def.outputs = {{"results", "*", false, true}};
  def.traits = graph::kNotFoldable;
  // The call says what its results are, and the node has them from the start.
  def.infer = [](graph::InferContext& context) -> Status {
    for (size_t i = 0; i < context.output_types.size(); ++i)
      context.output_types[i] = context.graph().type(context.node().outputs[i]);
    return {};
  };
  auto ops = std::make_shared<graph::OpSet>();
  AIPU_RETURN_IF_ERROR(ops->add(std::move(def)));
  return std::shared_ptr<const graph::OpSet>(std::move(ops));
}

// The built-in plugin of DSL_<entry>: one launch, whose arguments are known.
class DslCallPlugin : public kernels::OpPlugin {
 public:
  DslCallPlugin(std::string op, kernels::KernelLaunch launch) : op_(std::move(op)), launch_(std::move(launch)) {}
  std::string_view name() const override { return "dsl_call"; }
  graph::ClaimResult claim(const graph::Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    if (graph.node(anchor).op != op_) return std::nullopt;
    return graph::Claim{anchor, {anchor}, 10};
  }
  Status setup(kernels::SetupContext& context) const override {
    context.implementation.launches.emplace_back(launch_);
    return {};
  }

 private:
  std::string op_;
  kernels::KernelLaunch launch_;
};

// Seconds per stage of a report.
class Stopwatch {
 public:
  explicit Stopwatch(BuildReport* report) : report_(report) {}
  void stage(std::string name) {
    const auto now = std::chrono::steady_clock::now();
    report_->stage_seconds.emplace_back(std::move(name), std::chrono::duration<double>(now - start_).count());
    start_ = now;
  }

 private:
  BuildReport* report_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string attribute_text(const std::variant<int64_t, double>& number) {
  if (const auto* integer = std::get_if<int64_t>(&number)) return std::to_string(*integer);
  return fmt::format("{}", std::get<double>(number));
}

}  // namespace

Result<DslKernel> compile_dsl_kernel(tir::Module parsed, const tir::Target& target, const DslKernelOptions& options) {
  DslKernel kernel;
  kernel.target = target;
  kernel.disabled_passes = options.disabled_passes;
  AIPU_ASSIGN_OR_RETURN(kernel.info, tir::analyze_parameters(parsed));
  kernel.parsed = std::make_shared<const tir::Module>(std::move(parsed));
  const tir::PrimFunc& entry = kernel.parsed->entry();

  tir::LowerOptions lower_options;
  const auto known = tir::lowering_passes();
  for (std::string pass : options.disabled_passes) {
    if (pass.starts_with("tir.")) pass = pass.substr(4);
    if (std::find(known.begin(), known.end(), pass) != known.end()) lower_options.disabled_passes.push_back(pass);
  }
  AIPU_ASSIGN_OR_RETURN(const tir::CodeGenerator* generator, tir::find_code_generator(target.codegen));
  auto lowered = generator->lower(*kernel.parsed, target, lower_options);
  if (!lowered.ok()) return std::move(lowered).status().context(fmt::format("kernel '{}'", entry.name));
  kernel.lowered = std::move(*lowered);

  PlanKernel& row = kernel.row;
  row.symbol = entry.name;
  row.module = kernel.parsed;
  set_parameters(&row, *kernel.parsed, target);
  row.source = fmt::format("DSL_{}", entry.name);
  const auto source = tir::kernel_source(entry.name, *kernel.parsed, kernel.lowered, target, options.disabled_passes);
  if (!source.ok()) return Status(source.status()).context(fmt::format("kernel '{}'", entry.name));
  set_requirements(&row, *source);
  AIPU_RETURN_IF_ERROR(tir::check_on_chip_memory(entry.name, row.lsram_bytes, row.shared_bytes, target));

  AIPU_ASSIGN_OR_RETURN(kernel.compiled, tir::compile_kernels(std::span(&*source, 1), target, options.compile));
  return kernel;
}

Result<DslCallFile> build_dsl_call(const DslKernel& kernel, const std::vector<DslArgument>& arguments,
                                   const std::string& path) {
  const auto& params = kernel.info.params;
  if (arguments.size() != params.size()) {
    return invalid_argument(fmt::format("The function \"{}\" expect {} args, but got: \"{}\".", kernel.info.name,
                                        params.size(), arguments.size()));
  }
  const std::string op = "DSL_" + kernel.info.name;
  // What the call is: tensors by category, in parameter order; null pointers become attributes, so that later tensors
  // move up.
  DslCallFile file;
  file.call.entry = kernel.info.name;
  std::optional<size_t> first_tensor;
  for (size_t i = 0; i < params.size(); ++i) {
    const DslArgument& argument = arguments[i];
    const bool tensor = params[i].is_tensor() && !argument.is_null;
    if (tensor && !first_tensor) first_tensor = i;
    if (!tensor) {
      file.call.attributes.emplace_back(params[i].name, argument.is_null ? "0" : attribute_text(argument.number));
    } else if (params[i].category == ParamCategory::kInputTensor) {
      file.inputs.push_back(i);
    } else if (params[i].category == ParamCategory::kOutputTensor) {
      file.outputs.push_back(i);
    } else {
      file.call.constants.emplace_back(params[i].name, argument.constant);
    }
  }
  if (file.outputs.empty()) return invalid_argument("Function must has at least one output.");
  if (file.inputs.empty()) {
    file.inputs.push_back(*first_tensor);
    file.has_fake_input = true;
  }
  for (const size_t i : file.inputs) file.call.inputs.push_back({arguments[i].dtype, arguments[i].shape});
  for (const size_t i : file.outputs) file.call.outputs.push_back({arguments[i].dtype, arguments[i].shape});
  file.ir = frontend::write_dsl_ir(file.call);

  // The graph of it: one node.
  const auto type_of = [](const frontend::DslCall::Tensor& tensor) {
    return graph::TensorType{tensor.dtype, graph::Shape(tensor.shape.begin(), tensor.shape.end())};
  };
  AIPU_ASSIGN_OR_RETURN(std::shared_ptr<const graph::OpSet> ops, ops_with(op));
  graph::Graph graph(std::move(ops));
  graph.name = kernel.info.name;
  graph::Node node;
  node.op = op;
  node.origins = {{"dsl_func", op}};
  std::vector<graph::ValueId> value_of(params.size());
  for (size_t k = 0; k < file.inputs.size(); ++k) {
    const graph::ValueId value = graph.add_input(fmt::format("input{}", k), type_of(file.call.inputs[k]));
    node.inputs.push_back(value);
    if (!file.has_fake_input) value_of[file.inputs[k]] = value;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].category != ParamCategory::kConstTensor || arguments[i].is_null) continue;
    value_of[i] = graph.add_constant(arguments[i].constant, params[i].name);
    node.inputs.push_back(value_of[i]);
  }
  std::vector<std::pair<std::string, graph::TensorType>> results;
  for (size_t k = 0; k < file.outputs.size(); ++k)
    results.emplace_back(fmt::format("output{}", k), type_of(file.call.outputs[k]));
  const graph::NodeId id = graph.add_typed_node(std::move(node), std::move(results));
  for (size_t k = 0; k < file.outputs.size(); ++k) {
    value_of[file.outputs[k]] = graph.node(id).outputs[k];
    graph.add_output(graph.node(id).outputs[k], fmt::format("output{}", k));
  }

  PlanKernel row = kernel.row;
  kernels::KernelLaunch launch;
  launch.kernel = kernel.parsed;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].is_tensor() && !arguments[i].is_null) {
      launch.arguments.emplace_back(
          kernels::PointerArgument{{kernels::TensorRef::Kind::kValue, value_of[i], 0}, arguments[i].byte_offset});
    } else if (params[i].type.pointer) {
      row.pointer_arguments[i] = false;
      row.argument_bits[i] = 64;
      row.signed_arguments[i] = false;
      launch.arguments.emplace_back(kernels::ScalarArgument{0});
    } else if (const auto* integer = std::get_if<int64_t>(&arguments[i].number)) {
      launch.arguments.emplace_back(kernels::ScalarArgument{*integer});
    } else {
      launch.arguments.emplace_back(kernels::FloatArgument{std::get<double>(arguments[i].number)});
    }
    launch.writes.push_back(params[i].category == ParamCategory::kOutputTensor && !arguments[i].is_null);
  }

  const DslCallPlugin plugin(op, std::move(launch));
  const graph::Claimer* const claimers[] = {&plugin};
  AIPU_ASSIGN_OR_RETURN(std::vector<graph::Group> groups, graph::partition(graph, claimers, {kernel.target.name}));
  std::vector<PlannedGroup> planned;
  kernels::TemplateLibrary templates;
  for (graph::Group& group : groups) {
    kernels::SetupContext context(graph, group, kernel.target, templates);
    AIPU_RETURN_IF_ERROR(plugin.setup(context));
    kernels::Implementation implementation = std::move(context.implementation);
    planned.push_back({std::move(group), std::move(implementation)});
  }
  PlanInput input;
  input.graph = &graph;
  input.groups = planned;
  input.kernels = {row};
  input.kernel_of = {{0}};
  input.target = kernel.target.name;
  input.tec_count = static_cast<uint32_t>(kernel.target.tec_count());
  Stopwatch watch(&file.report);
  AIPU_ASSIGN_OR_RETURN(const Plan plan, make_plan(std::move(input)));
  watch.stage("plan");
  AIPU_ASSIGN_OR_RETURN(const Recording recording, record_plan(plan));
  watch.stage("record");
  EncodeInput encoding;
  encoding.plan = &plan;
  encoding.recording = &recording;
  encoding.backend = kernel.target.backend;
  if (kernel.target.costs) encoding.cost_figures = kernel.target.costs->numbers();
  encoding.required_cpu_features = kernel.target.cpu_features;
  encoding.native_module = kernel.compiled.shared_object;
  encoding.tir = {tir::print_module(kernel.lowered)};
  encoding.c_code = kernel.compiled.c_code;
  encoding.compass_ir = file.ir.text;
  encoding.debug = graph::print_graph(graph);
  AIPU_ASSIGN_OR_RETURN(const EncodeReport encoded, encode(encoding, path));
  watch.stage("encode");
  BuildReport& report = file.report;
  report.target = kernel.target.name;
  report.nodes = report.groups = report.launches = report.kernels = 1;
  report.compiled_units = static_cast<size_t>(kernel.compiled.compiled_units);
  report.translation_units = static_cast<size_t>(kernel.compiled.translation_units);
  report.commands = plan.programs[0].commands.size();
  report.constant_bytes = encoded.constant_bytes;
  report.file_bytes = encoded.file_bytes;
  return file;
}

}  // namespace aipu::gbuilder
