// Constant in all its attribute forms; Gemm.
#include <cmath>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

using graph::Constant;

void constant(OpContext& c) {
  c.expect_inputs(0, 0);
  if (c.attributes.size() != 1)
    return c.fail_invalid(str_cat("needs exactly one value attribute, found ", c.attributes.size()));
  const std::string name = c.attributes.begin()->first;
  if (name == "value" || name == "sparse_value") {
    c.set_output(0, c.constant(c.take_tensor(name)));
  } else if (name == "value_int") {
    c.set_output(0, c.int64_scalar(c.take_int(name, 0)));
  } else if (name == "value_ints") {
    c.set_output(0, c.int64s(c.take_ints(name).value_or(std::vector<int64_t>{})));
  } else if (name == "value_float") {
    c.set_output(0, c.scalar(DType::kF32, c.take_float(name, 0)));
  } else if (name == "value_floats") {
    const auto values = c.take_floats(name).value_or(std::vector<double>{});
    const std::vector<float> floats(values.begin(), values.end());
    c.set_output(0, c.constant(Constant::of<float>(DType::kF32, {static_cast<int64_t>(floats.size())}, floats)));
  } else if (name == "value_string") {
    c.set_output(0, c.squeeze(c.strings({c.take_string(name, "")}), {0}));
  } else if (name == "value_strings") {
    c.set_output(0, c.strings(c.take_strings(name).value_or(std::vector<std::string>{})));
  }
}

namespace {

// Whether Gemm's kernels can add C: one number, a row, or a whole matrix. Extents that only a run knows may be 1 there.
bool adds_addend(OpContext& c) {
  const auto is_set = [&](const char* name) {
    const auto found = c.attributes.find(name);
    return found != c.attributes.end() && found->second.i != 0;
  };
  const Shape& addend = c.type(c.input(2)).shape;
  const Shape &a = c.type(c.input(0)).shape, &b = c.type(c.input(1)).shape;
  if (a.size() != 2 || b.size() != 2 || addend.size() > 2 || graph::element_count(addend) == Dim(1)) return true;
  const Dim rows = a[is_set("transA") ? 1 : 0], columns = b[is_set("transB") ? 0 : 1];
  const bool is_column = addend.size() == 2 && addend[1] == Dim(1);
  const bool fits = addend.back() == columns && (addend.size() == 1 || addend[0] == Dim(1) || addend[0] == rows);
  return fits || (!is_column && graph::is_static(addend) && graph::is_static({rows, columns}));
}

}  // namespace

ValueId product_and_addend(OpContext& c) {
  c.expect_inputs(2, 3);
  if (!c.ok()) return {};
  const ValueId addend = c.input(2);
  if (!addend.valid() || adds_addend(c)) return c.emit("Gemm", listed(c.pass_attributes("Gemm")), c.inputs);
  const double beta = c.take_float("beta", 1);
  const ValueId product = c.emit("Gemm", listed(c.pass_attributes("Gemm")), {c.input(0), c.input(1)});
  if (c.ok() && is_integer(c.dtype(product)) && beta != std::floor(beta))
    c.fail_unsupported("a fractional beta on an integer matrix is not supported");
  const ValueId sum = beta == 0 ? product : add(c, product, scaled(c, addend, beta));
  if (!c.ok()) return {};
  const Shape found = c.type(sum).shape, wanted = c.type(product).shape;
  const bool is_known = graph::is_static(found) && graph::is_static(wanted);
  if (found.size() != wanted.size() || (is_known && found != wanted))
    c.fail_invalid(str_cat("C ", c.type(addend).text(), " does not broadcast to ", c.type(product).text()));
  // Symbols may turn out to be what the sum took them for; if not, that is an error of the run.
  return found == wanted ? sum : c.emit("Reshape", {{"shape", wanted}}, {sum});
}

void gemm(OpContext& c) {
  c.ignore("broadcast");  // before opset 7: C is broadcast only then, and otherwise has the full shape
  if (!c.ok() || !c.has_input(2) || adds_addend(c)) return pass(c);
  c.set_output(0, product_and_addend(c));
}

}  // namespace aipu::frontend
