#include "frontend/onnx/processing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "graph/passes/rewrite.h"

namespace aipu::frontend {

using graph::Attributes;
using graph::Constant;
using graph::Dim;
using graph::Graph;
using graph::OriginSet;
using graph::Permutation;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

namespace {

constexpr int64_t kLargestSize = 65536;  // pixels of a side
constexpr size_t kRank = 4;

struct Word {
  std::string_view key, value;
  bool has_value = false;
};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::vector<double>> numbers(std::string_view text) {
  std::vector<double> values;
  for (const std::string_view part : split(text, ':')) {
    const auto value = number(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

Word word_of(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {text, {}, false};
  return {text.substr(0, equals), text.substr(equals + 1), true};
}

// Calls take(word), which says whether it knows it, for all words behind NAME:. Names may have colons in them: words
// begin behind the first colon that a known word follows.
template <typename Take>
Status parse_words(const std::string& option, const std::string& text, const std::string& example, std::string* name,
                   const Take& take) {
  const auto bad = [&](std::string_view what) {
    return invalid_argument(str_cat(option, " ", text, ": ", what, "; expected ", example));
  };
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    const auto words = split(std::string_view(text).substr(colon + 1), ',');
    if (colon == 0 || !take(word_of(words[0]))) continue;
    *name = text.substr(0, colon);
    for (size_t i = 1; i < words.size(); ++i) {
      if (!take(word_of(words[i]))) return bad(str_cat("'", words[i], "' is not understood"));
    }
    return {};
  }
  return bad("there is no word behind a name and a colon that is understood");
}

bool take_word(const Word& word, Preprocess* options) {
  if (!word.has_value) {
    if (word.key == "nhwc" || word.key == "nchw") {
      options->given_channels_last = word.key == "nhwc";
      return true;
    }
    const auto dtype = parse_dtype(word.key);
    if (!dtype || !(is_integer(*dtype) || is_floating(*dtype))) return false;
    options->dtype = *dtype;
    return true;
  }
  if (word.key == "to") {
    options->wanted_channels_last = word.value == "nhwc";
    return word.value == "nhwc" || word.value == "nchw";
  }
  if (word.key == "mean" || word.key == "std") {
    const auto values = numbers(word.value);
    if (!values) return false;
    (word.key == "mean" ? options->mean : options->deviation) = *values;
    return word.key == "mean" || std::all_of(values->begin(), values->end(), [](double v) { return v > 0; });
  }
  if (word.key == "scale") {
    options->scale = number(word.value);
    return options->scale && *options->scale > 0;
  }
  if (word.key != "resize") return false;
  const auto sides = split(word.value, 'x');
  const auto height = whole_number(sides.front()), width = whole_number(sides.back());
  const auto fits = [](const auto& side) { return side && *side > 0 && *side <= kLargestSize; };
  if (sides.size() > 2 || !fits(height) || !fits(width)) return false;
  options->size = {*height, *width};
  return true;
}

bool take_word(const Word& word, Postprocess* options) {
  if (!word.has_value) {
    bool* const flag = word.key == "softmax"  ? &options->softmax
                       : word.key == "nms"    ? &options->suppress
                       : word.key == "center" ? &options->center
                                              : nullptr;
    if (flag != nullptr) *flag = true;
    return flag != nullptr;
  }
  if (word.key == "scores") {
    options->scores = word.value;
    return !word.value.empty();
  }
  if (word.key == "topk" || word.key == "max") {
    const auto count = whole_number(word.value);
    if (!count || *count < 1) return false;
    if (word.key == "topk") {
      options->top = *count;
    } else {
      options->most = *count;
    }
    return true;
  }
  if (word.key == "axis") {
    const auto axis = whole_number(word.value);
    options->axis = axis.value_or(0);
    return axis.has_value();
  }
  if (word.key != "iou" && word.key != "score") return false;
  const auto value = number(word.value);
  (word.key == "iou" ? options->iou : options->score) = value.value_or(0);
  return value && (word.key == "score" || (*value >= 0 && *value <= 1));
}

// Emits nodes of one option; the first error stays.
class Nodes {
 public:
  Nodes(Graph* graph, const std::string& option, const std::string& name)
      : graph_(*graph), origins_{{str_cat(option, " ", name), "option"}}, name_(name) {}

  ValueId emit(const std::string& op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    if (!status_.ok()) return {};
    auto value = graph_.emit(op, std::move(attributes), std::move(inputs), origins_, str_cat(name_, ".", op));
    if (!value.ok()) {
      status_ = std::move(value).status().context(origins_.front().name);
      return {};
    }
    return *value;
  }
  std::vector<ValueId> emit_several(const std::string& op, std::vector<ValueId> inputs, Attributes attributes,
                                    const std::vector<std::string>& outputs) {
    if (!status_.ok()) return std::vector<ValueId>(outputs.size());
    const auto node = graph_.add_node(op, std::move(attributes), std::move(inputs), outputs, origins_);
    if (!node.ok()) {
      status_ = node.status().context(origins_.front().name);
      return std::vector<ValueId>(outputs.size());
    }
    return std::as_const(graph_).node(*node).outputs;
  }
  ValueId constant(DType dtype, std::vector<int64_t> shape, const std::vector<double>& elements) {
    return graph_.add_constant(graph::float_constant(dtype, std::move(shape), elements), str_cat(name_, ".constant"));
  }
  Status take_status() { return std::move(status_); }

 private:
  Graph& graph_;
  OriginSet origins_;
  std::string name_;
  Status status_;
};

// One per channel of `values`, or `otherwise`; nullopt if there is another number of them.
std::optional<std::vector<double>> per_channel(const std::vector<double>& values, size_t channels, double otherwise) {
  if (values.size() == channels) return values;
  if (values.size() > 1) return std::nullopt;
  return std::vector<double>(channels, values.empty() ? otherwise : values[0]);
}

bool all_are(const std::vector<double>& values, double number) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == number; });
}

// The type of what is given. `wanted` is in the model's layout.
TensorType given_type(const Preprocess& options, const TensorType& wanted,
                      const std::function<Dim(size_t)>& open_extent) {
  const auto axis = [](bool channels_last, size_t k) { return channels_last ? (k == 0 ? 0 : k == 1 ? 3 : k - 1) : k; };
  TensorType type{options.dtype, Shape(kRank, Dim(0))};
  for (size_t k = 0; k < kRank; ++k) {  // in NCHW order
    const size_t to = axis(options.given_channels_last, k);
    type.shape[to] = options.size && k >= 2 ? open_extent(to) : wanted.shape[axis(options.wanted_channels_last, k)];
  }
  return type;
}

Attributes resize_attributes(const Preprocess& options, const TensorType& given) {
  Attributes attributes;
  attributes.set("mode", std::string("linear"));
  Shape sizes = {given.shape[0], given.shape[options.given_channels_last ? 3 : 1], Dim(options.size->first),
                 Dim(options.size->second)};
  attributes.set("sizes", std::move(sizes));
  if (options.given_channels_last) attributes.set("layout", std::string("NHWC"));
  return attributes;
}

Status check_wanted(const Preprocess& options, const TensorType& wanted) {
  const auto bad = [&](const std::string& what) {
    return invalid_argument(str_cat("--preprocess: input '", options.input, "' is ", wanted.text(), ": ", what));
  };
  if (wanted.shape.size() != kRank) return bad("expected an image of rank 4");
  if (!is_floating(wanted.dtype)) return bad("expected a floating-point input");
  const auto channels = wanted.shape[options.wanted_channels_last ? 3 : 1].constant();
  if (!channels || *channels < 1 || *channels > 4) {
    return bad(str_cat("expected 1 to 4 channels on axis ", options.wanted_channels_last ? 3 : 1,
                       "; say to=", options.wanted_channels_last ? "nchw" : "nhwc", " if they are on the other"));
  }
  if (!options.size) return {};
  const size_t first = options.wanted_channels_last ? 1 : 2;
  for (const auto& [axis, extent] :
       {std::pair(first, options.size->first), std::pair(first + 1, options.size->second)}) {
    const auto known = wanted.shape[axis].constant();
    if (known && *known != extent) return bad(str_cat("resize gives ", extent, " on axis ", axis));
  }
  return {};
}

}  // namespace

Result<Preprocess> parse_preprocess(const std::string& text) {
  Preprocess options;
  AIPU_RETURN_IF_ERROR(parse_words("--preprocess", text,
                                   "NAME:uint8,nhwc,scale=255,mean=0.5:0.5:0.5,std=0.2:0.2:0.2,resize=224x224",
                                   &options.input, [&](const Word& word) { return take_word(word, &options); }));
  return options;
}

Result<ValueId> add_preprocessed_input(Graph* graph, const Preprocess& options, const TensorType& wanted,
                                       const std::function<Dim(size_t)>& open_extent) {
  AIPU_RETURN_IF_ERROR(check_wanted(options, wanted));
  const auto channels = static_cast<size_t>(*wanted.shape[options.wanted_channels_last ? 3 : 1].constant());
  auto shift = per_channel(options.mean, channels, 0), factor = per_channel(options.deviation, channels, 1);
  if (!shift || !factor) {
    return invalid_argument(str_cat("--preprocess: input '", options.input, "' has ", channels,
                                    " channels; expected as many numbers for mean and std, or one"));
  }
  // (x / scale - mean) / deviation = (x - mean * scale) * (1 / (scale * deviation)): the factor can go into the weights
  // of a convolution whatever it pads with zeros.
  const double scale = options.scale.value_or(is_integer(options.dtype) ? 255 : 1);
  for (double& value : *shift) value *= scale;
  for (double& value : *factor) value = 1 / (scale * value);

  Nodes nodes(graph, "--preprocess", options.input);
  const TensorType given = given_type(options, wanted, open_extent);
  ValueId value = graph->add_input(options.input, given);
  if (options.dtype != wanted.dtype) {
    Attributes to;
    to.set("to", wanted.dtype);
    value = nodes.emit("Cast", {value}, std::move(to));
  }
  if (options.size) value = nodes.emit("Resize", {value}, resize_attributes(options, given));
  if (options.given_channels_last != options.wanted_channels_last) {
    Attributes order;
    order.set("perm", options.given_channels_last ? Permutation{0, 3, 1, 2} : Permutation{0, 2, 3, 1});
    value = nodes.emit("Transpose", {value}, std::move(order));
  }
  std::vector<int64_t> shape(options.wanted_channels_last ? 1 : 3, 1);
  shape[0] = static_cast<int64_t>(channels);
  if (!all_are(*shift, 0)) value = nodes.emit("Sub", {value, nodes.constant(wanted.dtype, shape, *shift)});
  if (!all_are(*factor, 1)) value = nodes.emit("Mul", {value, nodes.constant(wanted.dtype, shape, *factor)});
  AIPU_RETURN_IF_ERROR(nodes.take_status());
  return value;
}

Result<Postprocess> parse_postprocess(const std::string& text) {
  Postprocess options;
  AIPU_RETURN_IF_ERROR(parse_words("--postprocess", text,
                                   "NAME:softmax,topk=5,axis=-1 or NAME:nms,scores=NAME,iou=0.5,score=0.3,max=100",
                                   &options.output, [&](const Word& word) { return take_word(word, &options); }));
  const auto bad = [&](const std::string& what) {
    return invalid_argument(str_cat("--postprocess ", text, ": ", what));
  };
  if (options.suppress && (options.softmax || options.top))
    return bad("nms is of boxes, softmax and topk are of others");
  if (options.suppress && options.scores.empty()) return bad("nms needs scores=NAME, an output too");
  if (!options.suppress && !options.scores.empty()) return bad("scores is of nms");
  if (!options.suppress && !options.softmax && !options.top) return bad("nothing to do: softmax, topk=N or nms");
  return options;
}

Status add_postprocessing(Graph* graph, const Postprocess& options) {
  const auto place_of = [&](const std::string& name) -> Result<size_t> {
    const auto& outputs = graph->outputs();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].name == name) return i;
    std::string names;
    for (const Graph::Output& output : outputs) names += str_cat(names.empty() ? "'" : ", '", output.name, "'");
    return invalid_argument(str_cat("--postprocess: there is no output '", name, "' (outputs: ", names, ")"));
  };
  AIPU_ASSIGN_OR_RETURN(const size_t place, place_of(options.output));
  Nodes nodes(graph, "--postprocess", options.output);
  ValueId value = graph->outputs()[place].value, added;
  std::string added_name;
  if (options.suppress) {
    AIPU_ASSIGN_OR_RETURN(const size_t scores, place_of(options.scores));
    const int64_t most[] = {options.most};
    std::vector<ValueId> operands = {
        value, graph->outputs()[scores].value, graph->add_constant(Constant::of<int64_t>(DType::kI64, {1}, most)),
        nodes.constant(DType::kF32, {1}, {options.iou}), nodes.constant(DType::kF32, {1}, {options.score})};
    Attributes attributes;
    attributes.set("center_point_box", static_cast<int64_t>(options.center));
    const auto both = nodes.emit_several("aipu::CountNonMaxSuppression", operands, attributes,
                                         {options.output + ".count", options.output + ".kept"});
    operands.insert(operands.end(), {both[1], both[0]});
    added = nodes.emit("NonMaxSuppression", std::move(operands), std::move(attributes));
    added_name = options.output + ".selected";
  }
  Attributes along;
  along.set("axis", options.axis);
  if (options.softmax) value = nodes.emit("Softmax", {value}, along);
  if (options.top) {
    along.set("k", Shape{Dim(*options.top)});
    const auto both =
        nodes.emit_several("TopK", {value}, along, {options.output + ".top", options.output + ".indices"});
    value = both[0];
    added = both[1];
    added_name = options.output + ".indices";
  }
  AIPU_RETURN_IF_ERROR(nodes.take_status());
  graph->mutable_outputs()[place].value = value;
  if (!added.valid()) return {};
  for (const Graph::Output& output : graph->outputs()) {
    if (output.name == added_name)
      return invalid_argument(str_cat("--postprocess: there is an output '", added_name, "' already"));
  }
  graph->add_output(added, added_name);
  return {};
}

}  // namespace aipu::frontend
