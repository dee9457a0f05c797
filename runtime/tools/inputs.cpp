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

Result<std::map<size_t, std::string>> named_values(const std::vector<std::string>& texts,
                                                   std::span<const runtime::TensorSpec> specs, std::string_view what,
                                                   std::string_view option) {
  std::map<size_t, std::string> values;
  for (const std::string& text : texts) {
    AIPU_ASSIGN_OR_RETURN(auto named, split_named(text, specs, what));
    if (!values.emplace(named.first, std::move(named.second)).second)
      return invalid_argument(str_cat(option, " ", text, ": '", specs[named.first].name, "' is given twice"));
  }
  return values;
}

Result<std::map<size_t, std::vector<int64_t>>> named_shapes(const std::vector<std::string>& texts,
                                                            const runtime::Model& model) {
  std::map<size_t, std::vector<int64_t>> shapes;
  AIPU_ASSIGN_OR_RETURN(const auto values, named_values(texts, model.inputs(), "input", "--shape"));
  for (const auto& [index, text] : values) {
    AIPU_ASSIGN_OR_RETURN(shapes[index], parse_shape(text));
  }
  return shapes;
}

std::string quoted_for_shell(const std::string& text) {
  const bool plain = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,") ==
                     std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {

// What to type for an input whose extents are not all known.
std::string shape_option(const runtime::TensorSpec& spec, const std::map<std::string, int64_t>& symbols) {
  std::string shape;
  for (const runtime::DimSpec& dim : spec.shape) {
    const auto symbol = symbols.find(dim.symbol);
    const int64_t extent = dim.extent >= 0 ? dim.extent : symbol != symbols.end() ? symbol->second : 1;
    shape += str_cat(shape.empty() ? "" : "x", extent);
  }
  return " --shape " + quoted_for_shell(spec.name + "=" + shape);
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> complete_shapes(const runtime::Model& model,
                                                          const std::map<size_t, std::vector<int64_t>>& given,
                                                          OpenExtents open) {
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
  std::string unknown, options;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    const runtime::TensorSpec& spec = model.inputs()[i];
    const auto found = given.find(i);
    shapes.push_back(found != given.end() ? found->second : std::vector<int64_t>());
    if (found != given.end()) continue;
    bool known = true;
    for (const runtime::DimSpec& dim : spec.shape) {
      const auto symbol = symbols.find(dim.symbol);
      const bool is_one = open == OpenExtents::kOne && dim.symbol != "?";
      known = known && (dim.extent >= 0 || symbol != symbols.end() || is_one);
      shapes.back().push_back(dim.extent >= 0 ? dim.extent : symbol != symbols.end() ? symbol->second : 1);
    }
    if (known) continue;
    unknown += (unknown.empty() ? "" : ", ") + spec.text();
    options += shape_option(spec, symbols);
  }
  if (!unknown.empty())
    return invalid_argument(str_cat("the shape of ", unknown, " is open; say which one is meant, such as", options));
  return shapes;
}

Status bind_all(runtime::Session& session, const std::vector<Array>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    AIPU_RETURN_IF_ERROR(session.bind_input(i, {inputs[i].dtype, inputs[i].shape, inputs[i].data.data()}));
  return {};
}

}  // namespace aipu::tools
