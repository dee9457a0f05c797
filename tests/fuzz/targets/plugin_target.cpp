// A plugin, a .py file with operators: its declarations, what they make of the types of a node, and the conversion of a
// model that has nodes of the operators of the seeds.
#include "kernels/script_op/binding.h"
#include "kernels/script_op/declaration.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"
#include "tests/fuzz/targets/conversion.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {
namespace {

void bind(const kernels::script_op::Declaration& declaration) {
  static const std::vector<graph::TensorType> types = {
      {DType::kF32, {graph::Dim::symbol("N"), 5}}, {DType::kF32, {2, 3}}, {DType::kI32, {}}};
  graph::Attributes attributes;
  for (const graph::AttributeDef& attribute : declaration.attributes) {
    if (attribute.default_value) attributes.set(attribute.name, *attribute.default_value);
  }
  for (const graph::TensorType& type : types) {
    // One operand each, or none where one may be left out.
    for (const bool all : {true, false}) {
      kernels::script_op::Inputs inputs;
      for (const auto& input : declaration.inputs)
        inputs.push_back(all || !input.optional ? std::optional(type) : std::nullopt);
      const auto binding = kernels::script_op::bind(declaration, inputs, attributes, declaration.outputs.size());
      if (!binding.ok()) check_error(binding.status());
    }
  }
}

// A node of each operator of the seeds that the file declares, one behind the other.
std::string model_for(const std::vector<std::shared_ptr<const kernels::script_op::Declaration>>& declarations) {
  models::OnnxBuilder b("plugins");
  for (const char* domain : {"example", "t"}) b.set_opset(1, domain);
  std::string x = b.input("x", DType::kF32, {"N", 5});
  for (const auto& declaration : declarations) {
    const size_t end = declaration->op_type.find("::");
    if (end == std::string::npos) continue;
    const std::string domain = declaration->op_type.substr(0, end), name = declaration->op_type.substr(end + 2);
    if (name != "HardShrink" && name != "UnitRows" && name != "Two") continue;
    const std::string y = name + "_y";
    std::vector<std::string> outputs = {y};
    if (declaration->outputs.size() > 1) outputs.push_back(name + "_z");
    b.node_to(name, {x}, outputs, {}, domain);
    x = y;
  }
  b.output(x);
  return b.serialize();
}

}  // namespace

void one_input(std::string_view input) {
  const auto declarations = kernels::script_op::read_declarations("plugin.py", std::string(input));
  if (!declarations.ok()) {
    check_error(declarations.status());
    check(declarations.status().message().starts_with("plugin.py:"), declarations.status().message());
    return;
  }
  for (const auto& declaration : *declarations) bind(*declaration);
  if (const Conversion conversion = convert(model_for(*declarations), "host-baseline", input); !conversion.status.ok())
    check_diagnostics(conversion.status);
}

uint64_t runs() { return 100; }

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (const char* name : {"hard_shrink.py", "unit_rows.py", "soft_cap_te.py"}) {
    const auto text = read_text_file(std::string(AIPU_SOURCE_DIR) + "/models/custom_op/" + name);
    check(text.ok(), "a sample is gone");
    files.push_back(*text);
  }
  files.emplace_back(R"(from aipu import op
from aipu import script as S
K = op.dtype("int32", "float32")
def pooled(x, n, size):
    kept = x[:-1]
    kept.append(min((n + size - 1) // size, max(n % 3, 2)))
    return [kept, [1] if len(x) > 2 else [size, 2]]
@S.prim_func
def first(x: S.ptr(K, "global"), s: S.ptr(K, "global"), n: S.i32, size: S.i32):
    s[0] = x[0]
@S.prim_func
def second(s: S.ptr(K, "global"), y: S.ptr(K, "global"), z: S.ptr("int8", "global"), m: S.i32):
    y[0] = s[0]
    z[0] = 1
op.register("t::Two", inputs={"x": op.tensor(K, "...rows", "n")}, outputs={"y": op.tensor(K), "z": op.tensor("int8")},
            workspace={"s": op.tensor(K, "m", 3)}, attributes={"size": 2, "mode": "a", "list": [1, 2]},
            extents={"m": lambda rows, n: (rows + n) // 2 if rows > 1 else n}, shape=pooled,
            check=lambda mode, list: f"mode {mode}" if mode == "b" else None, kernels=[first, second], grain=64)
)");
  for (const std::string& file : files) {
    const auto declarations = kernels::script_op::read_declarations("plugin.py", file);
    check(declarations.ok(), declarations.status().message());
    const Status status = convert(model_for(*declarations), "host-baseline", file).status;
    check(status.ok(), status.message());
  }
  return files;
}

std::string mutate(const std::string& input, const std::string& other, Random& random) {
  return below(random, 8) == 0 ? mutate_bytes(input, other, random) : mutate_tokens(input, other, random);
}

}  // namespace aipu::fuzz
