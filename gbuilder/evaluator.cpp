#include "gbuilder/evaluator.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "codegen/driver/code_generator.h"
#include "codegen/tir/interpreter.h"
#include "gbuilder/assumption_checks.h"
#include "gbuilder/native_module.h"
#include "gbuilder/plan/argument_words.h"
#include "gbuilder/record/kernel_table.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/fault.h"

namespace aipu::gbuilder {

using graph::ConstantPtr;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

// Kernels may ask for aligned memory, so nothing here is a plain vector.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size)
      : size_(size), data_(static_cast<std::byte*>(::operator new[](std::max<size_t>(size, 1), std::align_val_t{64}))) {
    std::memset(data_.get(), 0, size);
  }
  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Delete {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  size_t size_ = 0;
  std::unique_ptr<std::byte[], Delete> data_;
};

// Memory of a value, constant or workspace.
struct Place {
  std::byte* data = nullptr;
  size_t size = 0;
  bool read_only = false;

  // False if that is outside. No bytes have no inside: they are where they are.
  bool advance(int64_t offset) {
    if (size == 0) return true;
    if (offset < 0 || static_cast<size_t>(offset) > size) return false;
    data += offset;
    size -= static_cast<size_t>(offset);
    return true;
  }
};

// Whether code for `target` runs on the CPU at hand.
bool runs_here(const tir::Target& target) {
  const auto host = tir::find_target("host");
  const auto generator = tir::find_code_generator(target.codegen);
  if (!host.ok() || !generator.ok() || !(*generator)->is_for_this_cpu()) return false;
  if (target.machine != tir::kThisMachine) return false;
  return std::all_of(target.cpu_features.begin(), target.cpu_features.end(), [&](const std::string& feature) {
    return std::find(host->cpu_features.begin(), host->cpu_features.end(), feature) != host->cpu_features.end();
  });
}

// Runs the groups of a graph, one after the other.
class Execution {
 public:
  // `compile`: kernels run as compiled code; null: they are interpreted.
  Execution(const Graph& graph, const tir::Target& target, kernels::TemplateLibrary& templates,
            const tir::CompileOptions* compile)
      : graph_(graph), target_(target), templates_(templates), compile_(compile) {}

  // The graph's inputs, in their order.
  Status bind(std::span<const ConstantPtr> inputs) {
    if (inputs.size() != graph_.inputs().size()) {
      return invalid_argument(
          str_cat("the graph has ", graph_.inputs().size(), " inputs, ", inputs.size(), " are given"));
    }
    for (const graph::Symbol& symbol : graph_.symbols()) {
      if (symbol.kind != graph::Symbol::Kind::kInputExtent) continue;
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (graph_.inputs()[k] == symbol.value && static_cast<size_t>(symbol.index) < inputs[k]->shape().size())
          symbols_[symbol.name] = inputs[k]->shape()[static_cast<size_t>(symbol.index)];
      }
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
      const graph::Value& value = graph_.value(graph_.inputs()[k]);
      AIPU_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, shape_of(graph_.inputs()[k]));
      if (inputs[k]->dtype() != value.type.dtype || inputs[k]->shape() != shape) {
        return invalid_argument(
            str_cat("input '", value.name, "' is ", value.type.text(), ", given is ", inputs[k]->type().text()));
      }
      places_.emplace(graph_.inputs()[k], place_of(*inputs[k]));
      AIPU_RETURN_IF_ERROR(bind_elements(graph_.inputs()[k]));
    }
    return {};
  }

  static Status refusal(std::string message, const graph::Node& node) {
    Status status = invalid_model(std::move(message));
    if (!node.origins.empty()) status = std::move(status).context(graph::origins_text(node.origins));
    return status;
  }

  Status run(const graph::Group& group) {
    const graph::Node& anchor = graph_.node(group.anchor);
    if (!anchor.subgraphs.empty()) return unsupported("sub-graphs are run by sessions only");
    kernels::SetupContext context(graph_, group, target_, templates_);
    AIPU_RETURN_IF_ERROR(kernels::PluginRegistry::plugin_of(group).setup(context));
    check_assumptions(&context);
    implementation_ = std::move(context.implementation);
    faults_ = context.faults();
    for (const kernels::ValueCheck& check : context.value_checks()) {
      AIPU_ASSIGN_OR_RETURN(const int64_t good, constant_of(check.check.must_be_nonzero));
      AIPU_ASSIGN_OR_RETURN(const int64_t value, constant_of(check.value));
      AIPU_ASSIGN_OR_RETURN(const int64_t limit, constant_of(check.limit));
      if (good == 0) return refusal(fault_text(check.check.message, value, limit), anchor);
    }
    for (const kernels::ShapeCheck& check : implementation_.checks) {
      AIPU_ASSIGN_OR_RETURN(const int64_t good, constant_of(check.must_be_nonzero));
      if (good == 0) return invalid_model(check.message);
    }
    for (const kernels::View& view : implementation_.views) {
      AIPU_ASSIGN_OR_RETURN(Place place, place_of(view.input));
      AIPU_ASSIGN_OR_RETURN(const int64_t offset, constant_of(view.byte_offset));
      if (!place.advance(offset)) return internal_error("a view begins outside of its tensor");
      places_[view.output] = place;
    }
    workspaces_.clear();
    for (const graph::Dim& bytes : implementation_.workspace_bytes) {
      AIPU_ASSIGN_OR_RETURN(const int64_t size, constant_of(bytes));
      workspaces_.emplace_back(static_cast<size_t>(size));
    }
    // What gives no elements may begin behind the end of what it takes.
    size_t result_bytes = 0;
    for (const ValueId output : group.outputs) {
      AIPU_ASSIGN_OR_RETURN(const size_t bytes, bytes_of(output));
      result_bytes += bytes;
    }
    for (const kernels::Launch& launch : implementation_.launches) {
      if (result_bytes == 0) break;
      if (const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch)) {
        AIPU_RETURN_IF_ERROR(run_kernel(*kernel));
      } else {
        AIPU_RETURN_IF_ERROR(run_copy(std::get<kernels::CopyLaunch>(launch)));
      }
    }
    for (const ValueId output : group.outputs) AIPU_RETURN_IF_ERROR(bind_elements(output));
    return {};
  }

  Result<ConstantPtr> result(ValueId value) {
    AIPU_ASSIGN_OR_RETURN(const Place place, place_of(value));
    AIPU_ASSIGN_OR_RETURN(const size_t bytes, bytes_of(value));
    if (bytes > place.size) return internal_error("a view ends outside of its tensor");
    AIPU_ASSIGN_OR_RETURN(std::vector<int64_t> shape, shape_of(value));
    return graph::Constant::create(graph_.type(value).dtype, std::move(shape), {place.data, place.data + bytes});
  }

 private:
  Result<int64_t> constant_of(const graph::Dim& dim) const {
    if (const auto value = dim.constant()) return *value;
    const graph::Dim here = dim.substitute([&](const std::string& name) -> std::optional<graph::Dim> {
      if (name == kernels::kTecCountSymbol) return graph::Dim(1);  // kernels run as the only TEC
      const auto known = symbols_.find(name);
      return known != symbols_.end() ? std::optional<graph::Dim>(known->second) : std::nullopt;
    });
    if (const auto value = here.constant()) return *value;
    return unsupported(str_cat("'", dim.text(), "' is not known at compile time"));
  }

  Result<std::vector<int64_t>> shape_of(ValueId value) const {
    std::vector<int64_t> shape;
    for (const graph::Dim& extent : graph_.type(value).shape) {
      AIPU_ASSIGN_OR_RETURN(shape.emplace_back(), constant_of(extent));
    }
    return shape;
  }

  // The run symbols that are elements of a tensor which has its value now.
  Status bind_elements(ValueId value) {
    ConstantPtr elements;
    for (const graph::Symbol& symbol : graph_.symbols()) {
      if (symbol.kind != graph::Symbol::Kind::kTensorElement || symbol.value != value) continue;
      if (elements == nullptr) {
        AIPU_ASSIGN_OR_RETURN(elements, result(value));
      }
      symbols_[symbol.name] = elements->to_int64s().at(static_cast<size_t>(symbol.index));
    }
    return {};
  }

  Result<size_t> bytes_of(ValueId value) const {
    const graph::TensorType& type = graph_.type(value);
    AIPU_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, shape_of(value));
    int64_t count = 1;
    for (const int64_t extent : shape) {
      if (extent < 0)
        return invalid_model(
            str_cat("'", graph_.value(value).name, "' is ", type.text(), ", which has a negative extent"));
      const auto product = checked_mul(count, extent);
      if (!product) return out_of_range("a tensor is too large");
      count = *product;
    }
    const auto bytes = checked_mul(count, static_cast<int64_t>(dtype_bytes(type.dtype)));
    if (!bytes || *bytes < 0 || *bytes > (int64_t{1} << 40)) return out_of_range("a tensor is too large");
    return static_cast<size_t>(*bytes);
  }

  Result<Place> place_of(ValueId value) {
    if (const auto it = places_.find(value); it != places_.end()) return it->second;
    Place place;
    if (const graph::Constant* constant = graph_.constant(value)) {
      place = place_of(*constant);
    } else {
      AIPU_ASSIGN_OR_RETURN(const size_t size, bytes_of(value));
      buffers_.emplace_back(size);
      place = {buffers_.back().data(), size, false};
    }
    places_.emplace(value, place);
    return place;
  }

  // Kernels take plain addresses; run_kernel() refuses to write to these.
  Place place_of(const graph::Constant& constant) {
    const auto bytes = constant.bytes();
    if (reinterpret_cast<uintptr_t>(bytes.data()) % dtype_bytes(constant.dtype()) == 0)
      return {const_cast<std::byte*>(bytes.data()), bytes.size(), true};
    buffers_.emplace_back(bytes.size());
    std::memcpy(buffers_.back().data(), bytes.data(), bytes.size());
    return {buffers_.back().data(), bytes.size(), true};
  }

  Result<Place> place_of(const kernels::PointerArgument& pointer) {
    Place place;
    const auto index = static_cast<size_t>(pointer.tensor.index);
    switch (pointer.tensor.kind) {
      case kernels::TensorRef::Kind::kValue: {
        AIPU_ASSIGN_OR_RETURN(place, place_of(pointer.tensor.value));
        break;
      }
      case kernels::TensorRef::Kind::kConstant:
        place = place_of(*implementation_.constants.at(index));
        break;
      case kernels::TensorRef::Kind::kWorkspace:
        place = {workspaces_.at(index).data(), workspaces_.at(index).size(), false};
        break;
    }
    AIPU_ASSIGN_OR_RETURN(const int64_t offset, constant_of(pointer.byte_offset));
    if (!place.advance(offset)) return internal_error("an argument points outside of its tensor");
    return place;
  }

  Status run_kernel(const kernels::KernelLaunch& launch) {
    std::vector<tir::InterpreterArgument> arguments;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const DType dtype = launch.kernel->entry().params.at(i)->type.element;
      tir::InterpreterArgument argument;
      if (const auto* pointer = std::get_if<kernels::PointerArgument>(&launch.arguments[i])) {
        AIPU_ASSIGN_OR_RETURN(const Place place, place_of(*pointer));
        if (place.read_only && (i >= launch.writes.size() || launch.writes[i]))
          return internal_error("a kernel writes to a constant");
        argument.is_pointer = true;
        argument.data = place.data;
        argument.bytes = place.size;
        argument.word = reinterpret_cast<uintptr_t>(place.data);
        argument.writable = !place.read_only;
      } else if (const auto* scalar = std::get_if<kernels::ScalarArgument>(&launch.arguments[i])) {
        AIPU_ASSIGN_OR_RETURN(const int64_t value, constant_of(scalar->value));
        const auto word = integer_word(value, dtype);
        if (!word) return out_of_range(str_cat("argument ", i, " is ", value, ", beyond ", dtype_name(dtype)));
        argument.word = *word;
      } else {
        const auto& number = std::get<kernels::FloatArgument>(launch.arguments[i]);
        argument.word = float_word(number.value, dtype);
      }
      arguments.push_back(argument);
    }
    aipu_fault_record fault = {};
    AIPU_RETURN_IF_ERROR(compile_ != nullptr ? run_native(*launch.kernel, arguments, &fault)
                                             : tir::interpret_all(*launch.kernel, 1, arguments, {.fault = &fault}));
    if (fault.code == 0) return {};
    const auto code = static_cast<size_t>(fault.code - 1);
    if (code >= faults_.size())
      return internal_error(str_cat("a kernel reports fault ", code, ", which nobody declared"));
    return invalid_model(fault_text(faults_[code].message, fault.value, fault.limit));
  }

  Status run_native(const tir::Module& module, const std::vector<tir::InterpreterArgument>& arguments,
                    aipu_fault_record* fault) {
    const tir::Module renamed = rename_entry(module, "folded");
    AIPU_ASSIGN_OR_RETURN(const tir::CodeGenerator* generator, tir::find_code_generator(target_.codegen));
    AIPU_ASSIGN_OR_RETURN(tir::Module lowered, generator->lower(renamed, target_, {}));
    AIPU_ASSIGN_OR_RETURN(const tir::KernelSource source,
                          tir::kernel_source("folded", renamed, std::move(lowered), target_));
    AIPU_ASSIGN_OR_RETURN(const tir::CompiledModule compiled,
                          tir::compile_kernels(std::span(&source, 1), target_, *compile_));
    AIPU_ASSIGN_OR_RETURN(const auto loaded, NativeModule::load(compiled.shared_object));
    std::vector<unsigned long long> words;
    for (const tir::InterpreterArgument& argument : arguments) words.push_back(argument.word);
    return loaded->run("folded", words, fault);
  }

  Status run_copy(const kernels::CopyLaunch& copy) {
    AIPU_ASSIGN_OR_RETURN(const Place destination, place_of(copy.destination));
    AIPU_ASSIGN_OR_RETURN(const Place source, place_of(copy.source));
    AIPU_ASSIGN_OR_RETURN(const int64_t width, constant_of(copy.width_bytes));
    AIPU_ASSIGN_OR_RETURN(const int64_t times, constant_of(copy.times));
    AIPU_ASSIGN_OR_RETURN(const int64_t destination_stride, constant_of(copy.destination_stride_bytes));
    AIPU_ASSIGN_OR_RETURN(const int64_t source_stride, constant_of(copy.source_stride_bytes));
    if (destination.read_only) return internal_error("a copy writes to a constant");
    for (int64_t t = 0; t < times && width > 0; ++t) {
      const int64_t to = t * destination_stride, from = t * source_stride;
      if (to < 0 || from < 0 || static_cast<size_t>(to + width) > destination.size ||
          static_cast<size_t>(from + width) > source.size) {
        return internal_error("a copy leaves its tensors");
      }
      std::memcpy(destination.data + to, source.data + from, static_cast<size_t>(width));
    }
    return {};
  }

  const Graph& graph_;
  const tir::Target& target_;
  kernels::TemplateLibrary& templates_;
  const tir::CompileOptions* compile_;
  std::map<std::string, int64_t> symbols_;
  kernels::Implementation implementation_;  // of the group that runs
  std::vector<kernels::Fault> faults_;      // of the same
  std::vector<Buffer> workspaces_;
  std::vector<Buffer> buffers_;
  std::map<ValueId, Place> places_;
};

// Roughly how many element operations a node takes.
double work_of(const Graph& graph, const graph::Node& node) {
  const auto elements = [&](ValueId value) -> double {
    return value.valid() ? static_cast<double>(graph::element_count(graph.type(value).shape).constant_or(0)) : 0;
  };
  double out = 0, in = 0;
  for (const ValueId value : node.outputs) out += elements(value);
  for (const ValueId value : node.inputs) in += elements(value);
  double per_output = 1;
  if (node.op == "MatMul" || node.op == "Gemm") {
    const auto& shape = graph.type(node.inputs[0]).shape;
    if (!shape.empty()) per_output = static_cast<double>(shape.back().constant_or(1));
  } else if ((node.op == "Conv" || node.op == "ConvTranspose") && node.inputs.size() >= 2) {
    const auto& shape = graph.type(node.inputs[1]).shape;
    if (!shape.empty())
      per_output = elements(node.inputs[1]) / static_cast<double>(std::max<int64_t>(1, shape.front().constant_or(1)));
  }
  return in + out * std::max(1.0, per_output);
}

class PluginEvaluator : public graph::Evaluator {
 public:
  PluginEvaluator(kernels::PluginRegistry* registry, const tir::Target* target, EvaluatorOptions options)
      : registry_(registry), target_(target), options_(std::move(options)), compiles_(runs_here(*target)) {}

  Result<std::vector<ConstantPtr>> evaluate(const Graph& graph, NodeId id) override {
    const graph::Node& node = graph.node(id);
    if (!node.subgraphs.empty()) return unsupported("control flow is not computed at compile time");
    Graph alone(graph.ops());
    alone.name = "fold";
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (!input.valid()) {
        inputs.emplace_back();
        continue;
      }
      if (graph.value(input).constant == nullptr)
        return invalid_argument(str_cat("input '", graph.value(input).name, "' is not constant"));
      inputs.push_back(alone.add_constant(graph.value(input).constant, graph.value(input).name));
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < node.outputs.size(); ++i) names.push_back(node.outputs[i].valid() ? str_cat("out", i) : "");
    AIPU_ASSIGN_OR_RETURN(NodeId only, alone.add_node(node.op, node.attributes, inputs, names, node.origins));
    if (const graph::OpDef* def = alone.find_op(node.op); def != nullptr && def->resolve)
      AIPU_RETURN_IF_ERROR(def->resolve(alone, only));
    const std::vector<ValueId> outputs = alone.node(only).outputs;
    for (const ValueId output : outputs) {
      if (!output.valid()) continue;
      if (!graph::is_static(alone.type(output).shape)) return unsupported("the size of the result depends on data");
      alone.add_output(output, alone.value(output).name);
    }
    AIPU_ASSIGN_OR_RETURN(const std::vector<graph::Group> groups, registry_->partition(alone, {target_->name}));
    const bool compile = compiles_ && work_of(alone, alone.node(only)) > options_.native_threshold;
    Execution execution(alone, *target_, registry_->templates(), compile ? &options_.compile : nullptr);
    for (const graph::Group& group : groups) AIPU_RETURN_IF_ERROR(execution.run(group));
    std::vector<ConstantPtr> results;
    for (const ValueId output : outputs) {
      if (!output.valid()) {
        results.push_back(nullptr);
        continue;
      }
      if (alone.value(output).constant != nullptr) {  // the op resolved itself
        results.push_back(alone.value(output).constant);
        continue;
      }
      AIPU_ASSIGN_OR_RETURN(ConstantPtr result, execution.result(output));
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  kernels::PluginRegistry* registry_;
  const tir::Target* target_;
  EvaluatorOptions options_;
  bool compiles_;
};

}  // namespace

std::unique_ptr<graph::Evaluator> make_evaluator(kernels::PluginRegistry* registry, const tir::Target* target,
                                                 EvaluatorOptions options) {
  return std::make_unique<PluginEvaluator>(registry, target, std::move(options));
}

Result<std::vector<ConstantPtr>> run_graph(const Graph& graph, std::span<const ConstantPtr> inputs,
                                           std::span<const graph::Claimer* const> claimers,
                                           kernels::TemplateLibrary& templates, const tir::Target& target) {
  AIPU_ASSIGN_OR_RETURN(const std::vector<graph::Group> groups, graph::partition(graph, claimers, {target.name}));
  Execution execution(graph, target, templates, nullptr);
  AIPU_RETURN_IF_ERROR(execution.bind(inputs));
  for (const graph::Group& group : groups) AIPU_RETURN_IF_ERROR(execution.run(group));
  std::vector<ConstantPtr> results;
  for (const Graph::Output& output : graph.outputs()) {
    AIPU_ASSIGN_OR_RETURN(results.emplace_back(), execution.result(output.value));
  }
  return results;
}

}  // namespace aipu::gbuilder
