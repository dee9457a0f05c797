#include "graph/ops/text.h"

#include "graph/ops/axis_rules.h"
#include "graph/ops/infer.h"

namespace aipu::graph {
namespace {

constexpr const char* kText = "si";  // before and after

OpDef text_op(std::string name, std::vector<OperandDef> inputs, std::string output_types,
              std::vector<AttributeDef> attributes, OpTrait library = kOfTexts) {
  OpDef def;
  def.name = "aipu::" + std::move(name);
  def.inputs = std::move(inputs);
  def.outputs = {operand("y", std::move(output_types))};
  def.attributes = std::move(attributes);
  def.traits = kNotFoldable | library;
  def.axes = axes::mixed();  // a command of the host computes them whole
  return def;
}

// An element for each of x, of the type that `dtype` says.
std::function<Status(InferContext&)> as_input(std::function<DType(const InferContext&)> dtype) {
  return [dtype = std::move(dtype)](InferContext& ctx) -> Status {
    set_output(ctx, 0, dtype(ctx), ctx.input(0).shape);
    return {};
  };
}

std::function<Status(InferContext&)> of_type(DType dtype) {
  return as_input([dtype](const InferContext&) { return dtype; });
}

DType attribute_to(const InferContext& ctx) { return ctx.attributes().dtype("to"); }

// Elements of a behind which stand those of b, of the same shape.
OpDef string_concat_op() {
  OpDef def = text_op("StringConcat", {operand("a", kText), operand("b", kText)}, kText, {});
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, ctx.input(0).rank()));
    for (size_t k = 0; k < ctx.input(0).shape.size(); ++k)
      AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(1).shape[k], ctx.input(0).shape[k], str_cat("extent ", k, " of b")));
    return infer_same_as_input(ctx);
  };
  return def;
}

// What Cast makes of numbers; `to` is string, and the type that holds it later.
OpDef number_to_text_op() {
  OpDef def = text_op("NumberToText", {operand("x", "biuf")}, kText, {attr::required("to", AttributeKind::kDType)});
  def.infer = as_input(attribute_to);
  return def;
}

// What Cast makes of strings. One that is no number is a fault.
OpDef text_to_number_op() {
  OpDef def = text_op("TextToNumber", {operand("x", kText)}, "biuf", {attr::required("to", AttributeKind::kDType)});
  def.traits |= kFaults;
  def.infer = as_input(attribute_to);
  return def;
}

OpDef change_case_op() {
  OpDef def = text_op("ChangeCase", {operand("x", kText)}, kText, {attr::s("action", "LOWER"), attr::s("locale", "")});
  def.infer = infer_same_as_input;
  def.verify = [](const Graph&, const Node& node) { return expect_choice(node, "action", {"LOWER", "UPPER"}); };
  return def;
}

std::vector<AttributeDef> splitting() { return {attr::s("delimiter", ""), attr::i("maxsplit", -1)}; }

OpDef count_op(std::string name, std::vector<AttributeDef> attributes) {
  OpDef def = text_op(std::move(name), {operand("x", kText)}, "i", std::move(attributes));
  def.infer = of_type(DType::kI64);
  return def;
}

// A new last axis of the extent `pieces`, which are as many as the op that counts says at most.
OpDef rows_of_pieces_op(std::string name, std::vector<AttributeDef> attributes) {
  OpDef def = text_op(std::move(name), {operand("x", kText)}, kText, std::move(attributes));
  def.attributes.push_back(attr::required("pieces", AttributeKind::kShape));
  def.infer = [](InferContext& ctx) -> Status {
    Shape shape = ctx.input(0).shape;
    const Shape& pieces = ctx.attributes().shape("pieces");
    shape.insert(shape.end(), pieces.begin(), pieces.end());
    set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
    return {};
  };
  return def;
}

std::vector<AttributeDef> tokens() {
  return {attr::s("pattern", ""), attr::s("fill", ""), attr::i("least", 1), attr::i("between", 0), attr::i("marks", 0)};
}

OpDef murmur_hash_op() {
  OpDef def = text_op("MurmurHash", {operand("x", kText)}, "u", {attr::i("seed", 0)});
  def.infer = of_type(DType::kU32);
  return def;
}

OpDef regex_full_match_op() {
  OpDef def = text_op("RegexFullMatch", {operand("x", kText)}, "b", {attr::s("pattern", "")});
  def.infer = of_type(DType::kBool);
  return def;
}

// Height and width of the encoded image that the bytes x are. What is none is a fault.
OpDef image_size_op() {
  OpDef def = text_op("ImageSize", {operand("x", "u")}, "i", {}, kOfImages);
  def.traits |= kFaults;
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 1));
    set_output(ctx, 0, DType::kI64, {2});
    return {};
  };
  return def;
}

// The pixels of the image: [height, width, channels], of which ImageSize says the first two.
OpDef decode_image_op() {
  OpDef def = text_op("DecodeImage", {operand("x", "u")}, "u",
                      {attr::s("pixel_format", "RGB"), attr::required("shape", AttributeKind::kShape)}, kOfImages);
  def.traits |= kFaults;
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 1));
    set_output(ctx, 0, DType::kU8, ctx.attributes().shape("shape"));
    return {};
  };
  def.verify = [](const Graph&, const Node& node) {
    return expect_choice(node, "pixel_format", {"RGB", "BGR", "Grayscale"});
  };
  return def;
}

}  // namespace

std::vector<OpDef> text_ops() {
  return {string_concat_op(),
          number_to_text_op(),
          text_to_number_op(),
          change_case_op(),
          count_op("CountPieces", splitting()),
          rows_of_pieces_op("SplitPieces", splitting()),
          count_op("CountTokens", tokens()),
          rows_of_pieces_op("FindTokens", tokens()),
          regex_full_match_op(),
          murmur_hash_op(),
          image_size_op(),
          decode_image_op()};
}

bool is_of_library(const Graph& graph, const Node& node) {
  const OpDef* def = graph.find_op(node.op);
  return def != nullptr && (def->traits & (kOfTexts | kOfImages)) != 0;
}

}  // namespace aipu::graph
