// Einsum: the equation is normalised when completed (explicit output, letters only, spaces and "..." expanded), so
// readers parse "ij,jk->ik" and nothing else.
#include <algorithm>
#include <array>

#include "graph/ops/einsum.h"
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

struct Term {
  std::string before;
  std::string after;
  bool ellipsis = false;
};

Result<Term> parse_term(std::string_view text) {
  Term term;
  for (size_t k = 0; k < text.size(); ++k) {
    if (text.substr(k, 3) == "..." && !term.ellipsis) {
      term.ellipsis = true;
      k += 2;
    } else if (is_letter(text[k])) {
      (term.ellipsis ? term.after : term.before) += text[k];
    } else {
      return invalid_model(str_cat("equation has '", text[k], "' in term '", text, "'"));
    }
  }
  return term;
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> pieces(1);
  for (const char c : text) {
    if (c == separator) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

Status complete_einsum(const Graph& graph, Node* node) {
  std::string equation = node->attributes.s("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  const auto inputs = split_text(std::string_view(equation).substr(0, arrow), ',');
  if (inputs.size() != node->inputs.size()) {
    return invalid_model(
        str_cat("equation '", equation, "' has ", inputs.size(), " terms for ", node->inputs.size(), " inputs"));
  }
  std::vector<Term> terms;
  size_t widest = 0;  // axes behind "..."
  std::array<int, 128> uses{};
  for (size_t i = 0; i < inputs.size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(Term term, parse_term(inputs[i]));
    const auto rank = static_cast<size_t>(graph.type(node->inputs[i]).rank());
    const size_t named = term.before.size() + term.after.size();
    if (named > rank || (named < rank && !term.ellipsis)) {
      return invalid_model(
          str_cat("term '", inputs[i], "' does not fit input ", i, ", ", graph.type(node->inputs[i]).text()));
    }
    widest = std::max(widest, rank - named);
    for (const char c : term.before + term.after) ++uses[static_cast<size_t>(c)];
    terms.push_back(std::move(term));
  }
  // Letters for the axes behind "...": free ones, upper case first.
  std::string hidden;
  for (char c = 'A'; hidden.size() < widest && c <= 'z'; ++c) {
    if (is_letter(c) && uses[static_cast<size_t>(c)] == 0) hidden += c;
  }
  if (hidden.size() < widest) return unsupported(str_cat("equation '", equation, "' needs more than 52 axes"));
  std::string result;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto rank = static_cast<size_t>(graph.type(node->inputs[i]).rank());
    const size_t count = rank - terms[i].before.size() - terms[i].after.size();
    result += str_cat(i == 0 ? "" : ",", terms[i].before, hidden.substr(widest - count), terms[i].after);
  }
  result += "->";
  if (arrow != std::string::npos) {
    AIPU_ASSIGN_OR_RETURN(const Term output, parse_term(std::string_view(equation).substr(arrow + 2)));
    const std::string named = output.before + output.after;
    for (size_t k = 0; k < named.size(); ++k) {
      if (uses[static_cast<size_t>(named[k])] == 0)
        return invalid_model(str_cat("output axis '", named[k], "' is in no input of '", equation, "'"));
      if (named.find(named[k], k + 1) != std::string::npos)
        return invalid_model(str_cat("output axis '", named[k], "' is listed twice in '", equation, "'"));
    }
    result += output.before + (output.ellipsis ? hidden : "") + output.after;
  } else {
    result += hidden;
    for (char c = 'A'; c <= 'z'; ++c) {
      if (is_letter(c) && uses[static_cast<size_t>(c)] == 1) result += c;
    }
  }
  node->attributes.set("equation", std::move(result));
  return {};
}

Status infer_einsum(InferContext& ctx) {
  const EinsumTerms terms = parse_einsum(ctx.attributes().s("equation"));
  if (terms.inputs.size() != ctx.node().inputs.size()) return invalid_model("equation and inputs differ in number");
  std::array<std::optional<Dim>, 128> extents;
  for (size_t i = 0; i < terms.inputs.size(); ++i) {
    const TensorType& input = ctx.input(i);
    if (input.dtype != ctx.input(0).dtype) return invalid_model("operands must have one element type");
    if (static_cast<size_t>(input.rank()) != terms.inputs[i].size()) {
      return invalid_model(str_cat("term '", terms.inputs[i], "' does not fit input ", i, ", ", input.text()));
    }
    for (size_t k = 0; k < terms.inputs[i].size(); ++k) {
      auto& extent = extents[static_cast<size_t>(terms.inputs[i][k])];
      const Dim& found = input.shape[k];
      if (!extent || extent->constant() == 1) {
        extent = found;
      } else if (found.constant() != 1) {  // axes of extent 1 broadcast
        AIPU_RETURN_IF_ERROR(expect_equal(found, *extent, str_cat("the extent of axis '", terms.inputs[i][k], "'")));
        if (found.is_constant()) extent = found;
      }
    }
  }
  Shape shape;
  for (const char c : terms.output) shape.push_back(*extents[static_cast<size_t>(c)]);
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

// Axes of one letter run along with each other.
AxisMap einsum_axes(const Graph& graph, const Node& node) {
  const EinsumTerms terms = parse_einsum(node.attributes.s("equation"));
  AxisMapBuilder map(graph, node);
  for (size_t axis = 0; axis < terms.output.size(); ++axis) {
    for (size_t input = 0; input < terms.inputs.size(); ++input) {
      const size_t place = terms.inputs[input].find(terms.output[axis]);
      if (place != std::string::npos) map.link(0, axis, input, place);
    }
    map.apart(0, axis);
  }
  return map.take();
}

}  // namespace

EinsumTerms parse_einsum(std::string_view equation) {
  EinsumTerms terms;
  const size_t arrow = equation.find("->");
  terms.inputs = split_text(equation.substr(0, arrow), ',');
  if (arrow != std::string_view::npos) terms.output = equation.substr(arrow + 2);
  return terms;
}

namespace {

OpDef einsum_op() {
  OpDef def;
  def.name = "Einsum";
  def.inputs = {variadic_operand("Inputs", kNumeric)};
  def.outputs = {operand("Output", kNumeric)};
  def.attributes = {attr::required("equation", AttributeKind::kString)};
  def.complete = complete_einsum;
  def.infer = infer_einsum;
  def.axes = einsum_axes;
  return def;
}

}  // namespace

std::vector<OpDef> einsum_ops() { return {einsum_op()}; }

}  // namespace aipu::graph
