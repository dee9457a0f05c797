// LSTM, GRU, RNN: one launch per direction.
#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "kernels/dsl/stage_parameters.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/packing.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

struct Activation {
  std::string_view name;
  bool takes_alpha, takes_beta;
  double alpha, beta;
};

constexpr Activation kActivations[] = {
    {"Sigmoid", false, false, 0, 0},  {"Tanh", false, false, 0, 0},          {"Relu", false, false, 0, 0},
    {"Affine", true, true, 1, 0},     {"LeakyRelu", true, false, 0.01, 0},   {"ThresholdedRelu", true, false, 1, 0},
    {"ScaledTanh", true, true, 1, 1}, {"HardSigmoid", true, true, 0.2, 0.5}, {"Elu", true, false, 1, 0},
    {"Softsign", false, false, 0, 0}, {"Softplus", false, false, 0, 0},
};

const Activation* find_activation(std::string_view name) {
  for (const Activation& activation : kActivations) {
    if (activation.name == name) return &activation;
  }
  return nullptr;
}

int gate_count(const Node& node) { return node.op == "LSTM" ? 4 : node.op == "GRU" ? 3 : 1; }

// Rows of a register tile of `gates` vectors: accumulators, weights and one broadcast must fit the registers.
// Of pairs there are words beside the weights.
int64_t greatest_rows(const tir::Target& target, int64_t gates, bool pairs) {
  return std::clamp<int64_t>((target.vector_registers - gates * (pairs ? 2 : 1) - 1) / gates, 1, 6);
}

// Whether weights are bfloat16 numbers, and are held as such: two steps of the depth in a word, which are numbers again
// by a shift and a mask. Halves what a step reads.
bool in_pairs(const SetupContext& context, graph::ValueId value, DType accumulator, int64_t depth) {
  const graph::Constant* weights = context.graph().constant(value);
  const bool may = weights != nullptr && weights->dtype() == DType::kF32 && accumulator == DType::kF32 &&
                   depth % 2 == 0 && context.target().tec_count() == 0 && context.target().vector_registers >= 32;
  if (!may) return false;
  const std::span<const std::byte> bytes = weights->bytes();
  for (size_t at = 0; at + sizeof(uint32_t) <= bytes.size(); at += sizeof(uint32_t)) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    if ((bits & 0xffff) != 0) return false;
  }
  return true;
}

// How operands go through local memory, where there is some: the rows of a register tile, and how much of the depth has
// room in two buffers each for weights and rows of x, beside all of those rows of h. `depth` is that of x; no target
// with local memory has pairs.
struct LocalTiles {
  int64_t rows = 0, piece = 0;  // piece 0: operands are read where they are
};
LocalTiles local_tiles(const tir::Target& target, int64_t gates, int64_t lanes, int64_t depth, int64_t width,
                       int64_t bytes, int64_t x_bytes, bool pairs) {
  constexpr int64_t kLeast = 16;          // below that a transfer's latency is more than what it saves
  constexpr int64_t kAlignment = 3 * 64;  // of three arrays
  // What asynchronous DMA can step over, from one gate's weights to the next one's.
  constexpr int64_t kMostStrideBytes = 0xFFFFFF;
  LocalTiles tiles{.rows = greatest_rows(target, gates, pairs)};
  if (!dsl::has_staging(target) || std::max(depth, width) * width * bytes > kMostStrideBytes) return tiles;
  for (int64_t rows = tiles.rows; rows > 0; --rows) {
    const int64_t room = target.lsram_bytes() - kAlignment - rows * width * bytes;
    const int64_t piece = room / (2 * (gates * lanes * bytes + rows * x_bytes)) / kLeast * kLeast;
    if (piece >= kLeast) return {rows, piece};
  }
  return tiles;
}

class RecurrentPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "recurrent"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"LSTM", "GRU", "RNN"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    for (const std::string& activation : std::get<std::vector<std::string>>(*node.attributes.find("activations"))) {
      if (find_activation(activation) == nullptr) return unsupported(fmt::format("activation '{}'", activation));
    }
    if (node.attributes.i_or("input_forget", 0) != 0)
      return unsupported("input_forget=1 (coupled input and forget gates)");
    for (const size_t i : {1, 2}) {
      if (!graph::is_static(graph.type(node.inputs[i]).shape)) return unsupported("weights of symbolic shape");
    }
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const bool batch_first = node.attributes.i("layout") != 0;
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const Dim steps = x.shape[batch_first ? 1 : 0], batches = x.shape[batch_first ? 0 : 1];
    // The extent of x may be a symbol: that it is the weights' is checked when the shapes are bound.
    const int64_t inputs = *graph.type(node.inputs[1]).shape[2].constant();
    const int64_t hidden = node.attributes.i("hidden_size"), gates = gate_count(node);
    const std::string& direction = node.attributes.s("direction");
    const int64_t directions = direction == "bidirectional" ? 2 : 1;
    const DType accumulator = accumulator_dtype(x.dtype);
    const int lanes = std::max(2, context.lanes(accumulator));
    const int64_t blocks = (hidden + lanes - 1) / lanes, width = blocks * lanes;
    const auto bytes = static_cast<int64_t>(dtype_bytes(accumulator));
    const auto has = [&](size_t i) { return i < node.inputs.size() && node.inputs[i].valid(); };
    // X, W and R are integers, of which these are the scales.
    enum : size_t { kXScale = 8, kWScale, kRScale };
    const bool integers = has(kXScale);
    const auto gives = [&](size_t i) { return i < node.outputs.size() && node.outputs[i].valid(); };

    // One set of panels per direction and gate, a vector wide.
    const bool w_pairs = in_pairs(context, node.inputs[1], accumulator, inputs),
               r_pairs = in_pairs(context, node.inputs[2], accumulator, hidden);
    const LocalTiles tiles = local_tiles(context.target(), gates, lanes, inputs, width, bytes,
                                         static_cast<int64_t>(dtype_bytes(x.dtype)), w_pairs || r_pairs);
    const DType w_type = w_pairs ? DType::kBF16 : accumulator, r_type = r_pairs ? DType::kBF16 : accumulator;
    const auto packed = [&](size_t input, bool pairs, int64_t depth) {
      return packed_operand(context, node.inputs[input], pairs ? DType::kBF16 : accumulator,
                            {.batches = directions * gates,
                             .depth = depth,
                             .columns = hidden,
                             .panel_width = lanes,
                             .inner = depth,
                             .batch_stride = hidden * depth,
                             .column_stride = depth,
                             .inner_stride = 1,
                             .outer_stride = 0,
                             .pairs = pairs});
    };
    AIPU_ASSIGN_OR_RETURN(const TensorRef w, packed(1, w_pairs, inputs));
    AIPU_ASSIGN_OR_RETURN(const TensorRef r, packed(2, r_pairs, hidden));
    // `count` vectors of a number for each hidden unit.
    const auto packed_rows = [&](size_t input, int64_t count) {
      return packed_operand(context, node.inputs[input], accumulator,
                            {.batches = count,
                             .depth = 1,
                             .columns = hidden,
                             .panel_width = lanes,
                             .inner = 1,
                             .batch_stride = hidden,
                             .column_stride = 1,
                             .inner_stride = 0,
                             .outer_stride = 0});
    };
    TensorRef w_scales, r_scales;
    if (integers) {
      AIPU_ASSIGN_OR_RETURN(w_scales, packed_rows(kWScale, directions * gates));
      AIPU_ASSIGN_OR_RETURN(r_scales, packed_rows(kRScale, directions * gates));
    }
    TensorRef bias;
    if (has(3)) {
      AIPU_ASSIGN_OR_RETURN(bias, packed_rows(3, 2 * directions * gates));
    } else {
      const int64_t count = 2 * directions * gates * width;
      bias = context.add_constant(
          graph::Constant::create(accumulator, {count}, std::vector<std::byte>(static_cast<size_t>(count * bytes))));
    }

    std::vector<std::string> names = std::get<std::vector<std::string>>(*node.attributes.find("activations"));
    const std::vector<double> given_alpha =
        node.attributes.has("activation_alpha") ? node.attributes.floats("activation_alpha") : std::vector<double>{};
    const std::vector<double> given_beta =
        node.attributes.has("activation_beta") ? node.attributes.floats("activation_beta") : std::vector<double>{};
    size_t alpha_at = 0, beta_at = 0;
    const size_t per_direction = names.size() / static_cast<size_t>(directions);
    for (int64_t d = 0; d < directions; ++d) {
      std::vector<std::string> own;
      dsl::CapturedList alphas, betas;
      for (size_t i = 0; i < per_direction; ++i) {
        const Activation& activation = *find_activation(names[static_cast<size_t>(d) * per_direction + i]);
        own.emplace_back(activation.name);
        alphas.push_back(
            {activation.takes_alpha && alpha_at < given_alpha.size() ? given_alpha[alpha_at++] : activation.alpha});
        betas.push_back(
            {activation.takes_beta && beta_at < given_beta.size() ? given_beta[beta_at++] : activation.beta});
      }
      dsl::TemplateParams params;
      params.set("KIND", node.op).set("GATES", gates).set("X", x.dtype).set("ACC", accumulator).set("VL", lanes);
      params.set("W", w_type).set("R", r_type).set("W_PAIRS", w_pairs).set("R_PAIRS", r_pairs);
      params.set("MAX_ROWS", tiles.rows)
          .set("STAGING", tiles.piece > 0 ? 2 : 0)
          .set("PIECE", tiles.piece)
          .set("WIDTH", width)
          .set("PREFETCH", static_cast<int64_t>(context.target().vector_bits >= 512 ? 32 : 0));
      // TECs write parts of the state that others read.
      params.set("__no_restrict__", true);
      params.set("ACTIVATIONS", std::move(own))
          .set("ALPHAS", dsl::Captured{std::move(alphas)})
          .set("BETAS", dsl::Captured{std::move(betas)});
      params.set("CLIP", node.attributes.f_or("clip", 0.0))
          .set("LINEAR_BEFORE_RESET", node.attributes.i_or("linear_before_reset", 0) != 0)
          .set("INTEGERS", integers);
      params.set("REVERSE", direction == "reverse" || d == 1);
      params.set("HAS_LENGTHS", has(4))
          .set("HAS_H", has(5))
          .set("HAS_C", has(6))
          .set("HAS_P", has(7))
          .set("HAS_Y", gives(0))
          .set("HAS_Y_H", gives(1))
          .set("HAS_Y_C", gives(2));
      if (has(4)) params.set("TOO_LONG", context.fault("a length of {value} in sequences of {limit} steps"));
      params.set("length_types",
                 pointer_types(has(4) ? 1 : 0, has(4) ? graph.type(node.inputs[4]).dtype : DType::kI32));
      params.set("initial_h_types", pointer_types(has(5) ? 1 : 0, x.dtype))
          .set("initial_c_types", pointer_types(has(6) ? 1 : 0, x.dtype))
          .set("peephole_types", pointer_types(has(7) ? 1 : 0, x.dtype));
      params.set("scale_types", pointer_types(integers ? 1 : 0, accumulator));
      params.set("y_types", pointer_types(gives(0) ? 1 : 0, x.dtype))
          .set("y_h_types", pointer_types(gives(1) ? 1 : 0, x.dtype))
          .set("y_c_types", pointer_types(gives(2) ? 1 : 0, x.dtype));
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("recurrent.py", "recurrent", params));

      const Dim element = static_cast<int64_t>(dtype_bytes(x.dtype)), dir = d, h = hidden;
      const Dim state_offset = (batch_first ? dir * h : dir * batches * h) * element;
      const Dim y_offset = (batch_first ? dir * h : dir * batches * h) * element;
      KernelArguments arguments;
      arguments.pointer("x", context.value(node.inputs[0]))
          .pointer("w", w, dir * Dim(gates * inputs * width * static_cast<int64_t>(dtype_bytes(w_type))))
          .pointer("r", r, dir * Dim(gates * hidden * width * static_cast<int64_t>(dtype_bytes(r_type))))
          .pointer("bias", bias, dir * Dim(2 * gates * width * bytes));
      if (has(4)) arguments.pointer("lengths[0]", context.value(node.inputs[4]));
      if (has(5)) arguments.pointer("initial.h[0]", context.value(node.inputs[5]), state_offset);
      if (has(6)) arguments.pointer("initial.c[0]", context.value(node.inputs[6]), state_offset);
      if (has(7)) arguments.pointer("further.peephole[0]", context.value(node.inputs[7]), dir * h * Dim(3) * element);
      if (integers) {
        const Dim offset = dir * Dim(gates * width * bytes);
        arguments.pointer("further.x_scale[0]", context.value(node.inputs[kXScale]));
        arguments.pointer("further.w_scale[0]", w_scales, offset).pointer("further.r_scale[0]", r_scales, offset);
      }
      if (gives(0)) arguments.pointer("results.y[0]", context.value(node.outputs[0]), y_offset);
      if (gives(1)) arguments.pointer("results.h[0]", context.value(node.outputs[1]), state_offset);
      if (gives(2)) arguments.pointer("results.c[0]", context.value(node.outputs[2]), state_offset);
      arguments.pointer("state", context.add_workspace(batches * Dim(4 * width * bytes)))
          .pointer("projected", context.add_workspace(steps * batches * Dim(gates * width * bytes)))
          .record("sizes", {{"steps", steps}, {"batches", batches}, {"inputs", inputs}, {"hidden", h}});
      const Dim row = h * Dim(directions);
      arguments.record("x_strides", {{"time", batch_first ? Dim(1) : batches}, {"batch", batch_first ? steps : Dim(1)}})
          .record("y_strides", {{"time", batch_first ? row : row * batches}, {"batch", batch_first ? steps * row : h}})
          .scalar("state_batch", batch_first ? row : h);
      // Below about 2 us of work per step, waiting for each other costs more than sharing it out saves; an NPU's
      // barrier takes no longer than a few vectors.
      const int64_t share_from = tiles.piece > 0 ? 4'000 : 200'000;
      const Dim per_step = batches * Dim(gates * hidden * hidden);
      AIPU_RETURN_IF_ERROR(
          context.launch(std::move(kernel), arguments,
                         graph::select(graph::lt(per_step, share_from), 1, std::max<int64_t>(blocks, 1))));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_recurrent_plugin() { return std::make_unique<RecurrentPlugin>(); }

}  // namespace aipu::kernels
