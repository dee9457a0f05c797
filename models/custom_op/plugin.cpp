// A user's operator in a shared library: example::SoftCap, y = cap * tanh(x / cap). What it takes: an op record (name,
// operands, attributes, type rule), a plugin (which nodes, which kernel, which arguments) and a kernel template. Loaded
// with `aipugb --plugin libaipu_sample_plugin.so`.
#include "kernels/plugin.h"
#include "runtime/base/embedded_file.h"

namespace sample_plugin {
std::span<const aipu::EmbeddedFile> kernel_templates();
}

namespace {

using namespace aipu;

graph::OpDef soft_cap_op() {
  graph::OpDef def;
  def.name = "example::SoftCap";
  def.inputs = {{"x", "f"}};
  def.outputs = {{"y", "f"}};
  def.attributes = {{"cap", graph::AttributeKind::kFloat, false, graph::AttributeValue(30.0)}};
  def.traits = graph::kElementwise;
  def.infer = [](graph::InferContext& context) -> Status {
    context.output_types[0] = context.input(0);
    return {};
  };
  def.verify = [](const graph::Graph&, const graph::Node& node) -> Status {
    if (node.attributes.f("cap") > 0) return {};
    return invalid_model(str_cat("attribute 'cap' is ", node.attributes.f("cap"), ", it must be positive"));
  };
  return def;
}

class SoftCapPlugin final : public kernels::SingleOpPlugin {
 public:
  std::string_view name() const override { return "example_soft_cap"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"example::SoftCap"};
    return kOps;
  }
  Status check(const graph::Graph& graph, const graph::Node& node) const override {
    const DType dtype = graph.type(node.inputs[0]).dtype;
    if (dtype == DType::kF32 || dtype == DType::kF16) return {};
    return unsupported(str_cat("element type ", dtype_name(dtype), " (supported: float32, float16)"));
  }

  Status setup(kernels::SetupContext& context) const override {
    const graph::Node& node = context.anchor();
    const graph::ValueId x = node.inputs[0];
    const graph::ValueId y = node.outputs[0];
    const DType dtype = context.graph().type(x).dtype;
    dsl::TemplateParams params;
    params.set("X", dtype).set("VL", context.lanes(DType::kF32));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("soft_cap.py", "soft_cap", params));
    const graph::Dim count = graph::element_count(context.graph().type(x).shape);
    context.implementation.in_place.emplace_back(y, x);
    context.implementation.checks.push_back(
        {graph::lt(count, graph::Dim(int64_t{1} << 31)), "example::SoftCap handles fewer than 2^31 elements"});
    kernels::KernelArguments arguments;
    arguments.pointer("x", context.value(x))
        .pointer("y", context.value(y))
        .scalar("n", count)
        .real("cap", node.attributes.f("cap"));
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(count, 4096), 1));
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) aipu::Status aipu_register_plugin_v4(
    aipu::kernels::PluginLibrary& library) {
  AIPU_RETURN_IF_ERROR(library.add_op(soft_cap_op()));
  for (const auto& file : sample_plugin::kernel_templates())
    library.add_template(std::string(file.name), std::string(file.text));
  library.add_plugin(std::make_unique<SoftCapPlugin>());
  return {};
}
