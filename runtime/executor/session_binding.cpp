// What a session is given and gives: inputs and outputs, and the shapes that follow from them.
#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "runtime/base/guarded.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

// Gives the symbols that are known before a run their values, and checks the inputs' extents against what the model
// says.
Status Session::Impl::bind_shapes() {
  const auto input_tensors = items(root.inputs());
  const auto tensors = items(root.tensors());
  const auto all_symbols = items(root.symbols());
  for (uint32_t s = 0; s < all_symbols.size(); ++s) {
    symbols[s] = {};
    if (all_symbols[s]->kind() == fb::SymbolKind::kGiven) symbols[s] = {given[all_symbols[s]->index()], true};
    if (all_symbols[s]->kind() == fb::SymbolKind::kTecCount) {
      symbols[s] = {std::max<int64_t>(1, tecs), true};
    }
    if (all_symbols[s]->kind() == fb::SymbolKind::kHostTecCount) symbols[s] = {std::max<int64_t>(1, host_tecs), true};
    if (all_symbols[s]->kind() != fb::SymbolKind::kInputExtent) continue;
    const Input& input = inputs[state.tables.input_of_tensor[all_symbols[s]->tensor()]];
    symbols[s] = {input.shape[all_symbols[s]->index()], true};
  }
  stages_evaluated = 0;
  const ExpressionValues& known = values_until(0);  // as the sizes of all inputs are (check.cpp)
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const auto shape = items(tensors[input_tensors[i]]->shape());
    for (uint32_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t expected = known.value_or_zero(shape[axis]);
      const int64_t found = inputs[i].shape[axis];
      const bool has_value = known.has_value(shape[axis]);
      if (has_value && expected == found) continue;
      const std::string where =
          str_cat("input '", state.inputs[i].name, "' ", shape_text(inputs[i].shape), ", axis ", axis);
      if (!has_value) return known.error(shape[axis]).context(where);
      std::string why;
      const fb::Expression& extent = *items(root.expressions())[shape[axis]];
      if (extent.op() == fb::ExpressionOp::kSymbol && all_symbols[extent.a()]->kind() == fb::SymbolKind::kInputExtent) {
        const fb::Symbol& symbol = *all_symbols[extent.a()];
        why = str_cat(" (", text(symbol.name()), ", as axis ", symbol.index(), " of input '",
                      text(tensors[symbol.tensor()]->name()), "')");
      }
      return invalid_argument(str_cat(where, ": expected ", expected, why, ", found ", found));
    }
  }
  return {};
}

// The caller's memory for an output, once its size is known, must be nobody else's, but for an input that it may be
// written in place of.
Status Session::Impl::check_overlaps(size_t index) const {
  const Output& output = outputs[index];
  const BoundMemory memory = {"output", state.outputs[index], output.data, output.size};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorSpec& spec = state.inputs[i];
    const auto at = static_cast<uint32_t>(index);
    if (items(root.tensors())[items(root.outputs())[at]]->in_place_of() ==
            items(root.inputs())[static_cast<uint32_t>(i)] &&
        inputs[i].data == output.data && inputs[i].bytes(spec.dtype) == output.size)
      continue;
    AIPU_RETURN_IF_ERROR(check_overlap(memory, {"input", spec, inputs[i].data, inputs[i].bytes(spec.dtype)}));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& other = outputs[i];
    if (i != index && other.known)
      AIPU_RETURN_IF_ERROR(check_overlap(memory, {"output", state.outputs[i], other.data, other.size}));
  }
  return {};
}

// One that has been checked: by bind_input(), or by the loader, which compares types and ranks of what bodies get.
void Session::Impl::take_input(uint32_t index, const void* data, std::span<const int64_t> shape) {
  Input& input = inputs[index];
  if (!std::equal(shape.begin(), shape.end(), input.shape.begin(), input.shape.end())) {
    input.shape.assign(shape.begin(), shape.end());
    shapes_changed = true;
  }
  input.data = data;
  input.bound = true;
}

Status Session::Impl::bind_input(size_t index, const TensorView& tensor) {
  inputs[index].bound = false;  // a bind that fails does not leave the value of an earlier one behind
  AIPU_RETURN_IF_ERROR(check_input(state.inputs[index], tensor, options.arguments_of_a_kernel));
  take_input(static_cast<uint32_t>(index), tensor.data, tensor.shape);
  return {};
}

Status Session::bind_input(size_t index, const TensorView& tensor) try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->bind_input(index, tensor);
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= impl_->inputs.size()) return invalid_argument(str_cat("input ", index, " of ", impl_->inputs.size()));
  return impl_->bind_input(index, tensor);
} catch (...) {
  return current_exception_status();
}

Status Session::bind_output(size_t index, void* data, size_t bytes) try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->bind_output(index, data, bytes);
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= impl_->outputs.size()) return invalid_argument(str_cat("output ", index, " of ", impl_->outputs.size()));
  const TensorSpec& spec = impl_->state.outputs[index];
  AIPU_RETURN_IF_ERROR(check_output_type(spec, data));
  if (!impl_->options.arguments_of_a_kernel) AIPU_RETURN_IF_ERROR(check_output_memory(spec, data, bytes));
  Impl::Output& output = impl_->outputs[index];
  output.data = data;
  output.capacity =
      static_cast<int64_t>(std::min<size_t>(bytes, static_cast<size_t>(std::numeric_limits<int64_t>::max())));
  return {};
} catch (...) {
  return current_exception_status();
}

Result<std::span<const int64_t>> Session::output_shape(size_t index) const try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->output_shape(index);
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= impl_->outputs.size()) return invalid_argument(str_cat("output ", index, " of ", impl_->outputs.size()));
  const Impl::Output& output = impl_->outputs[index];
  if (!output.known)
    return invalid_argument(str_cat("the shape of output '", impl_->state.outputs[index].name,
                                    "' is not known before it has been computed"));
  return std::span<const int64_t>(output.shape);
} catch (...) {
  return current_exception_status();
}

Result<TensorView> Session::output(size_t index) const try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->output(index);
  AIPU_ASSIGN_OR_RETURN(const auto shape, output_shape(index));
  return TensorView{impl_->state.outputs[index].dtype, shape, impl_->outputs[index].shown()};
} catch (...) {
  return current_exception_status();
}

}  // namespace aipu::runtime
