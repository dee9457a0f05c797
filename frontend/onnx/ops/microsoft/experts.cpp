// MoE and QMoE: for each token a few of many small networks, the experts, weighted as a router says.
#include <algorithm>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/quantized.h"

namespace aipu::frontend::microsoft {

namespace {

struct Activation {
  std::string name;
  double alpha = 1, beta = 0;
  std::optional<double> limit;
  int64_t fusion = 0;  // of the gate and what it opens: 0 separate, 1 in turn, 2 one behind the other
};

// Every second row, or one half of the rows.
ValueId half_of_rows(OpContext& c, ValueId x, int64_t which, int64_t fusion) {
  const auto rows = c.ok() ? c.type(x).shape[c.type(x).shape.size() - 2].constant() : std::nullopt;
  if (!rows || *rows % 2 != 0) {
    if (c.ok()) c.fail_unsupported(str_cat("gates and values do not share the rows of ", c.type(x).text()));
    return {};
  }
  if (fusion == 2) return slice(c, x, -2, which * *rows / 2, (which + 1) * *rows / 2);
  return c.emit("Slice", {}, {x, c.int64s({which}), c.int64s({*rows}), c.int64s({-2}), c.int64s({2})});
}

ValueId gated(OpContext& c, const Activation& a, ValueId gate, ValueId value) {
  if (a.limit) {
    const DType dtype = c.dtype(gate);
    gate = c.emit("Min", {}, {gate, c.scalar(dtype, *a.limit)});
    value = c.emit("Clip", {}, {value, c.scalar(dtype, -*a.limit), c.scalar(dtype, *a.limit)});
  }
  const ValueId open = c.emit("Swish", {{"alpha", a.alpha}}, {gate});
  return multiply(c, open, a.beta == 0 ? value : add(c, value, c.scalar(c.dtype(value), a.beta)));
}

ValueId activated(OpContext& c, const Activation& a, ValueId x) {
  if (a.name == "identity") return x;
  if (a.name == "relu") return c.emit("Relu", {}, {x});
  if (a.name == "gelu") return c.emit("Gelu", {{"approximate", std::string("tanh")}}, {x});
  return c.emit("Swish", {}, {x});
}

Activation take_activation(OpContext& c) {
  Activation a{c.take_string("activation_type", "relu"), c.take_float("activation_alpha", 1),
               c.take_float("activation_beta", 0), std::nullopt, c.take_int("swiglu_fusion", 0)};
  if (c.has_attribute("swiglu_limit")) a.limit = c.take_float("swiglu_limit", 0);
  if (c.take_int("use_sparse_mixer", 0) != 0) c.fail_unsupported("use_sparse_mixer is not supported");
  if (c.take_int("swiglu_limit_after_activation", 0) != 0)
    c.fail_unsupported("swiglu_limit_after_activation is not supported");
  const std::string names[] = {"relu", "gelu", "silu", "swiglu", "identity"};
  if (c.ok() && std::ranges::find(names, a.name) == std::end(names))
    c.fail_unsupported(str_cat("the activation '", a.name, "' is not supported"));
  if (c.ok() && (a.fusion < 0 || a.fusion > 2)) c.fail_invalid(str_cat("swiglu_fusion is ", a.fusion));
  return a;
}

// The layers of the experts: fc1, fc2 and, if there is one, fc3.
struct Experts {
  int64_t k = 0;          // how many a token has
  bool has_gate = false;  // fc3
  Activation activation;
  ValueId chosen;   // of each token, [tokens, k]
  ValueId weights;  // of what they give, [tokens, k]
  // Where there are few tokens the weights of their experts are picked. Otherwise all experts compute all tokens, and
  // the router's weights of those that are not chosen are 0.
  bool picks = false;
};

// Checks what routers and layers share; the k experts of each token with the highest scores, and these.
std::vector<ValueId> choose(OpContext& c, Experts* experts, size_t fc2, size_t fc3) {
  if (!c.ok()) return {};
  const ValueId x = c.input(0), scores = c.input(1);
  if (c.rank(scores) != 2 || c.rank(c.input(2)) != 3 || c.rank(c.input(fc2)) != 3 || c.rank(x) < 2) {
    c.fail_invalid("takes tokens, router_probs [tokens, experts] and weights of rank 3");
    return {};
  }
  const Shape& all = c.type(scores).shape;
  const auto tokens = all[0].constant(), count = all[1].constant();
  if (!count || experts->k < 1 || experts->k > *count) {
    c.fail_invalid(str_cat("k is ", experts->k, ", router_probs are ", c.type(scores).text()));
    return {};
  }
  const Activation& a = experts->activation;
  const bool fused = a.name == "swiglu" && a.fusion != 0;
  experts->has_gate = c.has_input(fc3);
  if (fused && experts->has_gate) c.fail_invalid("has fc3 beside fused gates");
  if (a.name == "swiglu" && !fused && !experts->has_gate)
    c.fail_invalid(str_cat("needs input ", fc3, ", the weights of fc3"));
  experts->picks = tokens && *tokens * experts->k < *count;
  Attributes order;
  order.set("axis", int64_t{-1});
  return c.emit_named("TopK", std::move(order), {scores, c.int64s({experts->k})},
                      {c.output_names[0] + "/scores", c.output_names[0] + "/experts"});
}

// Tokens are columns, so that weights are operands as they lie. `layer(columns, number)` is what a layer of all experts
// makes of [tokens, 1, size, 1] or [size, tokens], and of [tokens, k, size, 1] or [experts, size, tokens].
template <typename Layer>
void mix(OpContext& c, const Experts& experts, const Layer& layer) {
  if (!c.ok()) return;
  const Activation& a = experts.activation;
  const ValueId x = c.input(0), scores = c.input(1);
  const ValueId rows = c.emit("Flatten", {{"axis", static_cast<int64_t>(c.rank(x) - 1)}}, {x});
  const ValueId columns = experts.picks ? c.unsqueeze(rows, {1, 3}) : c.transpose(rows, {1, 0});
  ValueId inner = layer(columns, 1);
  if (a.name == "swiglu" && a.fusion != 0) {
    inner = gated(c, a, half_of_rows(c, inner, 0, a.fusion), half_of_rows(c, inner, 1, a.fusion));
  } else if (a.name == "swiglu") {
    inner = gated(c, a, inner, layer(columns, 3));
  } else {
    inner = activated(c, a, inner);
    if (experts.has_gate) inner = multiply(c, inner, layer(columns, 3));
  }
  const ValueId outer = layer(inner, 2);  // [tokens, k, size, 1], or [experts, size, tokens]
  ValueId y;
  if (experts.picks) {
    y = c.emit("ReduceSum", {{"keepdims", int64_t{0}}},
               {multiply(c, outer, c.unsqueeze(experts.weights, {2, 3})), c.int64s({1, 3})});
  } else {
    const ValueId none = c.emit("Expand", {}, {c.scalar(c.dtype(scores), 0), c.shape_of(scores)});
    const ValueId routed = c.emit("ScatterElements", {{"axis", int64_t{1}}}, {none, experts.chosen, experts.weights});
    const ValueId weighted = multiply(c, outer, c.unsqueeze(c.transpose(routed, {1, 0}), {1}));
    y = c.transpose(c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {weighted, c.int64s({0})}), {1, 0});
  }
  if (c.ok()) c.emit_output("Reshape", {{"shape", c.type(x).shape}}, {y});
}

ValueId softmax(OpContext& c, ValueId x) { return c.emit("Softmax", {{"axis", int64_t{-1}}}, {x}); }

}  // namespace

void mixture_of_experts(OpContext& c) {
  c.expect_inputs(3, 8);
  if (!c.has_input(4)) return c.fail_invalid("needs input 4");
  Experts experts;
  experts.activation = take_activation(c);
  experts.k = c.take_int("k", 1);
  const bool normalizes = c.take_int("normalize_routing_weights", 0) != 0;
  const std::vector<ValueId> top = choose(c, &experts, 4, 6);
  if (!c.ok()) return;
  experts.chosen = top[1];
  experts.weights = normalizes
                        ? softmax(c, top[0])
                        : c.emit("GatherElements", {{"axis", int64_t{-1}}}, {softmax(c, c.input(1)), experts.chosen});
  const auto of_experts = [&](size_t i) {
    return experts.picks && c.has_input(i) ? gather(c, c.input(i), experts.chosen) : c.input(i);
  };
  mix(c, experts, [&](ValueId columns, size_t number) {
    const size_t i = number * 2;
    const ValueId y = matmul(c, of_experts(i), columns);
    return c.has_input(i + 1) ? add(c, y, c.unsqueeze(of_experts(i + 1), {-1})) : y;
  });
}

namespace {

// Weights of a layer: integers [experts, rows, depth] in bytes, with a number for each row or each block of it.
struct FewBits {
  int64_t bits = 0, block = 0;
  int64_t experts = 0, rows = 0, depth = 0;
  size_t codes = 0, zeros = 0;  // operands; scales and bias are behind the codes
  int64_t blocks() const { return block > 0 ? depth / block : 1; }
};

FewBits layer_of_few_bits(OpContext& c, size_t number, int64_t bits, int64_t block) {
  static constexpr const char* kOwn[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
  FewBits w{c.take_int(kOwn[number - 1], bits), block, 0, 0, 0, number * 3 - 1, number + 10};
  if (!c.ok() || !c.has_input(w.codes)) return w;
  if (w.bits != 2 && w.bits != 4 && w.bits != 8)
    c.fail_unsupported(str_cat("weights of ", w.bits, " bits are not supported"));
  if (!c.has_input(w.codes + 1)) c.fail_invalid(str_cat("needs input ", w.codes + 1, ", the scales"));
  const TensorType& type = c.type(c.input(w.codes));
  // Larger ones no file has, and their bits could not be counted.
  constexpr int64_t kMostExtent = int64_t{1} << 40;
  const auto fits = [](const Dim& extent) {
    return extent.constant_or(0) >= 1 && extent.constant_or(0) <= kMostExtent;
  };
  const bool known = type.dtype == DType::kU8 && type.rank() == 3 && std::ranges::all_of(type.shape, fits);
  if (c.ok() && !known) c.fail_unsupported(str_cat("weights of the type ", type.text(), " are not supported"));
  if (!c.ok()) return w;
  w.experts = *type.shape[0].constant(), w.rows = *type.shape[1].constant();
  w.depth = *type.shape[2].constant() * 8 / w.bits;
  if (block > 0 && w.depth % block != 0)
    c.fail_invalid(str_cat("block_size ", block, " does not divide the ", w.depth, " elements of a row"));
  if (!c.ok()) return w;
  const auto expect = [&](size_t i, const Shape& shape) {
    if (c.ok() && c.has_input(i) && c.type(c.input(i)).shape != shape)
      c.fail_invalid(str_cat("input ", i, " is ", c.type(c.input(i)).text(), ", expected ", graph::shape_text(shape)));
  };
  const auto bytes = [&](int64_t count) { return Dim((count * w.bits + 7) / 8); };
  const Dim experts(w.experts), rows(w.rows);
  expect(w.codes + 1, block > 0 ? Shape{experts, rows, Dim(w.blocks())} : Shape{experts, rows});
  expect(w.zeros, block > 0 ? Shape{experts, rows, bytes(w.blocks())} : Shape{experts, bytes(w.rows)});
  return w;
}

// Zero points as integers [experts, rows, blocks]; they are packed along the blocks or, where a row has one, the rows.
ValueId unpacked_zeros(OpContext& c, const FewBits& w) {
  const int64_t count = w.block > 0 ? w.blocks() : w.rows;
  const ValueId all = unpacked_bits(c, c.input(w.zeros), w.bits);
  return reshape(c, slice(c, all, -1, 0, count), {w.experts, w.rows, w.blocks()});
}

// What the weights stand for: [experts, rows, depth], or of the chosen experts [tokens, k, rows, depth].
ValueId dequantized_layer(OpContext& c, const FewBits& w, ValueId chosen) {
  const DType dtype = c.dtype(c.input(0));
  const auto picked = [&](ValueId x) { return chosen.valid() ? gather(c, x, chosen) : x; };
  const ValueId codes = c.cast(unpacked_bits(c, picked(c.input(w.codes)), w.bits), dtype);
  if (!c.ok()) return {};
  const auto per_block = [&](ValueId x) { return c.unsqueeze(c.cast(picked(x), dtype), {-1}); };
  Shape in_blocks = c.type(codes).shape;
  const Shape in_rows = in_blocks;
  in_blocks.back() = Dim(w.blocks());
  in_blocks.push_back(Dim(w.depth / w.blocks()));
  ValueId y = c.emit("Reshape", {{"shape", in_blocks}}, {codes});
  y = subtract(
      c, y,
      c.has_input(w.zeros) ? per_block(unpacked_zeros(c, w)) : c.scalar(dtype, static_cast<double>(1 << (w.bits - 1))));
  y = multiply(c, y, per_block(reshape(c, c.input(w.codes + 1), {w.experts, w.rows, w.blocks()})));
  return c.emit("Reshape", {{"shape", in_rows}}, {y});
}

// Expert e's part of a constant, with a shape of its own.
ConstantPtr part_of(const ConstantPtr& all, int64_t e, int64_t experts, std::vector<int64_t> shape) {
  const size_t bytes = all->bytes().size() / static_cast<size_t>(experts);
  return graph::Constant::borrow(all->dtype(), std::move(shape),
                                 all->bytes().subspan(bytes * static_cast<size_t>(e), bytes), all);
}

// Whether products can read the weights as they are.
bool stay_packed(OpContext& c, const FewBits& w) {
  const auto is_constant = [&](size_t i) { return !c.has_input(i) || c.graph().constant(c.input(i)) != nullptr; };
  return w.bits != 2 && w.block > 0 && w.block % 16 == 0 && is_constant(w.codes) && is_constant(w.codes + 1) &&
         is_constant(w.zeros);
}

// Such a product for each expert.
ValueId product_of_each(OpContext& c, const FewBits& w, ValueId columns) {
  const auto operand = [&](size_t i) { return c.graph().value(c.input(i)).constant; };
  std::vector<ValueId> parts;
  for (int64_t e = 0; e < w.experts && c.ok(); ++e) {
    const ValueId x = c.rank(columns) == 2 ? columns : c.squeeze(slice(c, columns, 0, e, e + 1), {0});
    std::vector<ValueId> operands{
        c.transpose(x, {1, 0}),
        c.constant(part_of(operand(w.codes), e, w.experts, {w.rows, w.blocks(), w.block * w.bits / 8})),
        c.constant(part_of(operand(w.codes + 1), e, w.experts, {w.rows, w.blocks()}))};
    if (c.has_input(w.zeros)) {
      const ConstantPtr all = operand(w.zeros);
      const size_t bytes = all->bytes().size() / static_cast<size_t>(w.experts);
      operands.push_back(c.constant(
          unpacked_constant(all->bytes().subspan(bytes * static_cast<size_t>(e), bytes), w.bits, w.rows, w.blocks())));
    }
    const ValueId y = c.emit("aipu::BlockQuantizedMatMul", {{"bits", w.bits}, {"block_size", w.block}, {"K", w.depth}},
                             std::move(operands));
    parts.push_back(c.unsqueeze(c.transpose(y, {1, 0}), {0}));
  }
  return concat(c, 0, std::move(parts));
}

}  // namespace

void quantized_mixture_of_experts(OpContext& c) {
  c.expect_inputs(6, 21);
  for (const size_t i : {0, 1, 2, 5}) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
  }
  Experts experts;
  experts.activation = take_activation(c);
  experts.k = c.take_int("k", 1);
  const bool normalizes = c.take_int("normalize_routing_weights", 0) != 0;
  const int64_t bits = c.take_int("expert_weight_bits", 4), block = c.take_int("block_size", 0);
  const std::string kind = c.take_string("quant_type", "int");
  c.ignore("accuracy_level");
  if (c.take_int("weights_prepacked", -1) == 1)
    return c.fail_unsupported("weights that are packed for another runtime are not supported");
  if (!c.ok()) return;
  if (kind != "int") return c.fail_unsupported(str_cat("quant_type '", kind, "' is not supported"));
  for (size_t i = 15; i < 21; ++i) {
    if (c.has_input(i)) return c.fail_invalid(str_cat("input ", i, " is not for quant_type 'int'"));
  }
  FewBits layers[3];
  for (size_t number = 1; number <= 3; ++number) layers[number - 1] = layer_of_few_bits(c, number, bits, block);
  const std::vector<ValueId> top = choose(c, &experts, 5, 8);
  if (!c.ok()) return;
  experts.chosen = top[1];
  // Weights of its own are taken as they are, but for those below 0.
  if (c.has_input(14)) {
    ValueId given = c.emit("GatherElements", {{"axis", int64_t{-1}}}, {c.input(14), experts.chosen});
    if (normalizes) given = c.emit("Div", {}, {given, c.emit("ReduceSum", {}, {given, c.int64s({-1})})});
    experts.weights = c.emit("Relu", {}, {given});
  } else {
    experts.weights = softmax(c, top[0]);
  }
  mix(c, experts, [&](ValueId columns, size_t number) {
    const FewBits& w = layers[number - 1];
    ValueId y;
    if (!experts.picks && stay_packed(c, w)) {
      y = product_of_each(c, w, columns);
    } else {
      y = matmul(c, dequantized_layer(c, w, experts.picks ? experts.chosen : ValueId()), columns);
    }
    const ValueId bias = c.input(w.codes + 2);
    if (!bias.valid()) return y;
    return add(c, y, c.unsqueeze(experts.picks ? gather(c, bias, experts.chosen) : bias, {-1}));
  });
}

}  // namespace aipu::frontend::microsoft
