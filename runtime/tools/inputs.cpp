#include "runtime/tools/inputs.h"

#include <charconv>

namespace aipu::tools {

Result<std::pair<size_t, std::string>> split_named(std::string_view text, std::span<const runtime::TensorSpec> specs,
                                                   std::string_view what) {
  std::string known;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& name = specs[i].name;
    if (text.size() > name.size() && text.substr(0, name.size()) == name && text[name.size()] == '=') {
      return std::pair<size_t, std::string>(i, text.substr(name.size() + 1));
    }
    known += (known.empty() ? "" : ", ") + name;
  }
  if (text.find('=') == std::string_view::npos)
    return invalid_argument(str_cat("'", text, "' is not of the form NAME=VALUE"));
  return not_found(str_cat("'", text, "': the model has no such ", what, "; it has: ", known));
}

Result<std::vector<int64_t>> parse_shape(std::string_view text) {
  std::vector<int64_t> shape;
  if (text.empty() || text == "scalar") return shape;
  std::string_view rest = text;
  while (true) {
    const size_t end = std::min(rest.find('x'), rest.size());
    int64_t extent = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, extent);
    if (error != std::errc() || stop != rest.data() + end || end == 0 || extent < 0) {
      return invalid_argument(str_cat("'", text, "' is not a shape; write it as 1x3x224x224"));
    }
    shape.push_back(extent);
    if (end == rest.size()) return shape;
    rest = rest.substr(end + 1);
  }
}

Result<std::vector<std::vector<int64_t>>> complete_shapes(const runtime::Model& model,
                                                          const std::map<size_t, std::vector<int64_t>>& given) {
  std::map<std::string, int64_t> symbols;
  for (const auto& [index, shape] : given) {
    const runtime::TensorSpec& spec = model.inputs()[index];
    if (shape.size() != spec.shape.size())
      return invalid_argument(str_cat("input ", spec.text(), ": the shape ", shape_text(shape), " has another rank"));
    for (size_t k = 0; k < shape.size(); ++k) {
      if (spec.shape[k].extent < 0) symbols[spec.shape[k].symbol] = shape[k];
    }
  }
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    const auto found = given.find(i);
    if (found != given.end()) {
      shapes.push_back(found->second);
      continue;
    }
    const runtime::TensorSpec& spec = model.inputs()[i];
    shapes.emplace_back();
    for (const runtime::DimSpec& dim : spec.shape) {
      if (dim.extent < 0 && dim.symbol == "?")
        return invalid_argument(str_cat("the shape of input ", spec.text(), " must be given with --shape"));
      const auto symbol = symbols.find(dim.symbol);
      shapes.back().push_back(dim.extent >= 0 ? dim.extent : symbol != symbols.end() ? symbol->second : 1);
    }
  }
  return shapes;
}

Status bind_all(runtime::Session& session, const std::vector<Array>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    AIPU_RETURN_IF_ERROR(session.bind_input(i, {inputs[i].dtype, inputs[i].shape, inputs[i].data.data()}));
  return {};
}

}  // namespace aipu::tools
