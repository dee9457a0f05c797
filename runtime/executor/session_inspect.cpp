// Shows callers what commands have written (SessionOptions::inspect).
#include <utility>
#include <vector>

#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

// The command is done, on a device too.
Status Session::Impl::show_written(uint32_t program, const ModelTables::ScheduledCommand& command, const Step& step,
                                   const ::aipu::runtime::Call& call) const {
  if (step.left_out) return {};
  const ExpressionValues values = values_now();
  std::vector<std::byte> fetched;
  const auto show = [&](uint32_t index, uint32_t word, uint32_t offset, uint32_t origin) -> Status {
    const fb::Tensor& tensor = *items(root.tensors())[index];
    const auto dtype = static_cast<DType>(tensor.dtype());
    if (tensor.workspace() || dtype == DType::kString) return {};
    std::vector<int64_t> shape;
    const auto extents = items(tensor.shape());
    for (uint32_t i = 0; i < extents.size(); ++i) shape.push_back(values.value_or_zero(extents[i]));
    const auto* data = reinterpret_cast<const std::byte*>(call.words[word]) - values.value_or_zero(offset);
    uint32_t base = index;
    while (items(root.tensors())[base]->kind() == fb::TensorKind::kView) base = items(root.tensors())[base]->base();
    if (on_device != nullptr && !is_on_host(base)) {
      fetched.resize(static_cast<size_t>(tensor_bytes(dtype, shape).value_or(0)));
      AIPU_RETURN_IF_ERROR(get(fetched.data(), data, fetched.size()));
      data = fetched.data();
    }
    const std::string_view node = origin == kNone ? std::string_view() : text(items(root.origins())[origin]);
    options.inspect({text(tensor.name()), node, {dtype, shape, data}});
    return {};
  };
  if (command.engine == fb::Engine::kDma) {
    const fb::DmaCommand& row = *items(items(root.programs())[program]->dma())[command.index];
    const bool copies = call.words[3] != 0;
    return copies ? show(row.destination(), 0, row.destination_offset(), row.origin()) : Status();
  }
  const LaunchRow launch = launch_row(root, program, command);
  const auto arguments = items(root.arguments());
  for (uint32_t i = 0; i < (*launch).argument_count(); ++i) {
    const fb::Argument& argument = *arguments[(*launch).first_argument() + i];
    if (argument.kind() == fb::ArgumentKind::kTensor && argument.writes())
      AIPU_RETURN_IF_ERROR(show(argument.index(), i, argument.offset(), (*launch).origin()));
  }
  return {};
}

}  // namespace aipu::runtime
