// Keys and what they stand for.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/ml/converters.h"
#include "frontend/onnx/ops/ml/scores.h"

namespace aipu::frontend::ml {

namespace {

struct KeyTable {
  ValueId keys;                // sorted, different
  std::vector<int64_t> order;  // where each of them stood; of equal ones the first
  int64_t nan_at = -1;
};

template <typename T>
KeyTable sorted_keys(OpContext& c, DType dtype, const std::vector<T>& keys) {
  KeyTable out;
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t nan = -1;
  if constexpr (std::is_floating_point_v<T>) {
    // Before version 4 NaN equals no key.
    std::erase_if(order, [&](int64_t i) {
      if (!std::isnan(keys[static_cast<size_t>(i)])) return false;
      if (c.version() >= 4) nan = i;
      return true;
    });
  }
  const auto key = [&](int64_t i) { return keys[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  std::vector<T> different;
  for (const int64_t i : order) {
    if (!different.empty() && different.back() == key(i)) continue;
    different.push_back(key(i));
    out.order.push_back(i);
  }
  if (nan >= 0) {
    out.nan_at = static_cast<int64_t>(out.order.size());
    out.order.push_back(nan);
  }
  // One more key that nothing finds: NaN has a place of its own, and the number of keys is that of unknown elements.
  if (nan >= 0) different.push_back(std::numeric_limits<T>::quiet_NaN());
  const std::vector<int64_t> shape{static_cast<int64_t>(different.size())};
  if constexpr (std::is_floating_point_v<T>) {
    out.keys = floats(c, dtype, {different.begin(), different.end()}, shape);
  } else if (dtype == DType::kString) {
    out.keys = c.constant(graph::Constant::of<int64_t>(dtype, shape, std::span<const int64_t>(different)));
  } else {
    out.keys = c.cast(c.int64s(different), dtype);
  }
  return out;
}

// In the order of their numbers.
KeyTable string_keys(OpContext& c, const std::vector<std::string>& keys) {
  std::vector<int64_t> numbers;
  for (const std::string& key : keys) numbers.push_back(c.number_of_string(key));
  return sorted_keys(c, DType::kString, numbers);
}

// Places of the elements of x among the keys as they were given; `count` for the others.
ValueId find(OpContext& c, ValueId x, const KeyTable& table, bool required = false) {
  return c.emit("aipu::FindKey", {{"nan_at", table.nan_at}, {"required", int64_t{required}}}, {x, table.keys});
}

// Keys of x's type from the attributes of LabelEncoder.
std::optional<KeyTable> take_keys(OpContext& c, DType dtype, size_t* count) {
  const auto ints = c.take_ints("keys_int64s");
  const auto reals = c.take_floats("keys_floats");
  const auto texts = c.take_strings("keys_strings");
  const ConstantPtr tensor = c.take_tensor("keys_tensor");
  if (!c.ok()) return std::nullopt;
  if (tensor != nullptr) {
    *count = static_cast<size_t>(tensor->element_count());
    if (tensor->dtype() != dtype)
      c.fail_invalid(str_cat("has keys of type ", dtype_name(tensor->dtype()), " for ", dtype_name(dtype)));
    return is_floating(dtype) ? sorted_keys(c, dtype, tensor->to_doubles())
                              : sorted_keys(c, dtype, tensor->to_int64s());
  }
  if (ints) {
    *count = ints->size();
    if (!is_integer(dtype)) c.fail_invalid(str_cat("has integer keys for ", dtype_name(dtype)));
    return sorted_keys(c, dtype, *ints);
  }
  if (reals) {
    *count = reals->size();
    if (!is_floating(dtype)) c.fail_invalid(str_cat("has floating keys for ", dtype_name(dtype)));
    return sorted_keys(c, dtype, *reals);
  }
  if (texts) {
    *count = texts->size();
    if (dtype != DType::kString) c.fail_invalid(str_cat("has strings as keys for ", dtype_name(dtype)));
    return string_keys(c, *texts);
  }
  c.fail_invalid("needs keys");
  return std::nullopt;
}

// The values and, behind them, the default.
ValueId take_values(OpContext& c, size_t count) {
  const auto ints = c.take_ints("values_int64s");
  const auto reals = c.take_floats("values_floats");
  const ConstantPtr tensor = c.take_tensor("values_tensor");
  const ConstantPtr other = c.take_tensor("default_tensor");
  const int64_t default_int = c.take_int("default_int64", -1);
  const double default_real = c.take_float("default_float", -0.0);
  const auto texts = c.take_strings("values_strings");
  const ValueId default_text = c.strings({c.take_string("default_string", "_Unused")});
  if (!c.ok()) return {};
  ValueId values, behind;
  size_t found = 0;
  if (tensor != nullptr) {
    found = static_cast<size_t>(tensor->element_count());
    values = reshape(c, c.constant(tensor), {-1});
    const bool real = is_floating(tensor->dtype());
    behind = other != nullptr                    ? reshape(c, c.constant(other), {1})
             : tensor->dtype() == DType::kString ? default_text
                                                 : reshape(c, c.scalar(tensor->dtype(), real ? -0.0 : -1), {1});
  } else if (ints) {
    found = ints->size();
    values = c.int64s(*ints);
    behind = c.int64s({default_int});
  } else if (reals) {
    found = reals->size();
    values = floats(c, DType::kF32, *reals, {static_cast<int64_t>(found)});
    behind = floats(c, DType::kF32, {default_real}, {1});
  } else if (texts) {
    found = texts->size();
    values = c.strings(*texts);
    behind = default_text;
  } else {
    c.fail_invalid("needs values");
    return {};
  }
  if (found != count) c.fail_invalid(str_cat("has ", count, " keys and ", found, " values"));
  return concat(c, 0, {values, behind});
}

// What stands for x among the values, behind which is the default.
void set_mapped(OpContext& c, ValueId x, const KeyTable& keys, ValueId values, size_t count) {
  std::vector<int64_t> order = keys.order;
  order.push_back(static_cast<int64_t>(count));
  c.set_output(0, gather(c, gather(c, values, c.int64s(order)), find(c, x, keys)));
}

// Strings to numbers, or numbers to strings, whichever x is not; what is not among the pairs becomes the default.
void map_pairs(OpContext& c, const std::vector<std::string>& texts, const std::vector<int64_t>& numbers) {
  const int64_t default_number = c.take_int("default_int64", -1);
  const std::string default_text = c.take_string("default_string", "_Unused");
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  if (c.dtype(x) == DType::kString) {
    std::vector<int64_t> values = numbers;
    values.push_back(default_number);
    return set_mapped(c, x, string_keys(c, texts), c.int64s(values), numbers.size());
  }
  if (c.dtype(x) != DType::kI64) return c.fail_invalid(str_cat("takes strings or int64, found ", c.type(x).text()));
  std::vector<std::string> values = texts;
  values.push_back(default_text);
  set_mapped(c, x, sorted_keys(c, DType::kI64, numbers), c.strings(values), texts.size());
}

}  // namespace

void label_encoder(OpContext& c) {
  c.expect_inputs(1, 1);
  if (const auto classes = c.take_strings("classes_strings")) {  // version 1
    std::vector<int64_t> numbers(classes->size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return map_pairs(c, *classes, numbers);
  }
  if (!c.ok()) return;
  size_t count = 0;
  const auto keys = take_keys(c, c.dtype(c.input(0)), &count);
  if (!keys) return;
  const ValueId values = take_values(c, count);
  set_mapped(c, c.input(0), *keys, values, count);
}

void category_mapper(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto texts = c.take_strings("cats_strings");
  const auto numbers = c.take_ints("cats_int64s");
  if (!c.ok()) return;
  if (!texts || !numbers || texts->size() != numbers->size() || texts->empty())
    return c.fail_invalid("needs cats_strings and cats_int64s of the same length");
  map_pairs(c, *texts, *numbers);
}

// A map from the labels to the scores of each row.
void zip_map(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto texts = c.take_strings("classlabels_strings");
  const auto numbers = c.take_ints("classlabels_int64s");
  if (!c.ok()) return;
  if (texts.has_value() == numbers.has_value())
    return c.fail_invalid("needs classlabels_strings or classlabels_int64s, not both");
  const ValueId scores = rows_of(c, c.input(0));
  if (!c.ok()) return;
  if (c.dtype(scores) != DType::kF32) return c.fail_invalid(str_cat("takes float32, found ", c.type(scores).text()));
  const auto count = static_cast<int64_t>(texts ? texts->size() : numbers->size());
  const auto found = c.type(scores).shape[1].constant();
  if (!found) return c.fail_unsupported("how many scores a row has must be known when compiling");
  if (*found != count) return c.fail_invalid(str_cat("has ", count, " labels for ", *found, " scores"));
  ListValue maps;
  maps.kind = PortList::Kind::kMaps;
  maps.elements = {texts ? c.strings(*texts) : c.int64s(*numbers), scores};
  c.set_output(0, Item{{}, std::make_shared<const ListValue>(std::move(maps))});
}

namespace {

struct Map {
  ValueId keys, values;
};

// The only input.
Map take_map(OpContext& c, DType key) {
  const ListPtr map = c.list(0);
  if (map == nullptr || map->kind != PortList::Kind::kMap) {
    c.fail_invalid("takes a map");
    return {};
  }
  const Map out = {map->elements[0], map->elements[1]};
  if (c.dtype(out.keys) != key)
    c.fail_invalid(str_cat("has keys of type ", dtype_name(key), ", the map has ", c.type(out.keys).text()));
  return out;
}

// A list of 0 or "".
ValueId nothings(OpContext& c, DType dtype, int64_t count) {
  const ValueId one = dtype == DType::kString ? c.strings({""}) : reshape(c, c.scalar(dtype, 0), {1});
  return c.emit("Expand", {}, {one, c.int64s({count})});
}

}  // namespace

// [1, V]: what the map has for each of V keys; 0 or "" where it has nothing.
void dict_vectorizer(OpContext& c) {
  const auto texts = c.take_strings("string_vocabulary");
  const auto numbers = c.take_ints("int64_vocabulary");
  if (!c.ok()) return;
  if (texts.has_value() == numbers.has_value())
    return c.fail_invalid("needs string_vocabulary or int64_vocabulary, not both");
  const auto [keys, values] = take_map(c, texts ? DType::kString : DType::kI64);
  if (!c.ok()) return;
  const auto count = static_cast<int64_t>(texts ? texts->size() : numbers->size());
  const KeyTable table = texts ? string_keys(c, *texts) : sorted_keys(c, DType::kI64, *numbers);
  if (static_cast<int64_t>(table.order.size()) != count) return c.fail_invalid("has a key twice in its vocabulary");
  std::vector<int64_t> order = table.order;
  order.push_back(count);  // one place more, for what is not in the vocabulary
  const ValueId places = gather(c, c.int64s(order), find(c, keys, table));
  const ValueId empty = nothings(c, c.dtype(values), count + 1);
  const ValueId all = c.emit("ScatterElements", {{"axis", int64_t{0}}}, {empty, places, values});
  const ValueId row = c.emit("Slice", {}, {all, c.int64s({0}), c.int64s({count}), c.int64s({0}), c.int64s({1})});
  c.set_output(0, c.unsqueeze(row, {0}));
}

// DENSE: [1, n], the values in the order of their keys. SPARSE: [1, max_map], each at the place that is its key; 0 or
// "" where there is none.
void cast_map(OpContext& c) {
  const std::string to = c.take_string("cast_to", "TO_FLOAT");
  const std::string form = c.take_string("map_form", "DENSE");
  const int64_t length = c.take_int("max_map", 1);
  const auto [keys, found] = take_map(c, DType::kI64);
  if (!c.ok()) return;
  if (to != "TO_FLOAT" && to != "TO_STRING" && to != "TO_INT64")
    return c.fail_invalid(str_cat("cast_to '", to, "' is none of TO_FLOAT, TO_STRING and TO_INT64"));
  if (form != "DENSE" && form != "SPARSE")
    return c.fail_invalid(str_cat("map_form '", form, "' is neither DENSE nor SPARSE"));
  if (length < 1) return c.fail_invalid(str_cat("max_map is ", length));
  const DType dtype = to == "TO_STRING" ? DType::kString : to == "TO_INT64" ? DType::kI64 : DType::kF32;
  const ValueId values = c.cast(found, dtype);
  if (form == "SPARSE") {
    const AttributeList from_start = {{"axis", int64_t{0}}, {"from_start", int64_t{1}}};
    const ValueId row = c.emit("ScatterElements", from_start, {nothings(c, dtype, length), keys, values});
    return c.set_output(0, c.unsqueeze(row, {0}));
  }
  Attributes smallest_first;
  smallest_first.set("axis", int64_t{0});
  smallest_first.set("largest", int64_t{0});
  const auto sorted = c.emit_named("TopK", std::move(smallest_first), {keys, c.size_of(keys, 0)}, {"keys", "places"});
  if (!c.ok()) return;
  c.set_output(0, c.unsqueeze(gather(c, values, sorted[1]), {0}));
}

// A new last axis with 1 where the category is.
void one_hot_encoder(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto categories = c.take_ints("cats_int64s");
  const auto texts = c.take_strings("cats_strings");
  const bool zeros = c.take_int("zeros", 1) != 0;
  if (!c.ok()) return;
  const bool is_text = c.dtype(c.input(0)) == DType::kString;
  const auto count =
      static_cast<int64_t>(is_text ? (texts ? texts->size() : 0) : (categories ? categories->size() : 0));
  if (count == 0)
    return c.fail_invalid(
        str_cat("needs ", is_text ? "cats_strings" : "cats_int64s", ", which fits ", c.type(c.input(0)).text()));
  const KeyTable keys = is_text ? string_keys(c, *texts) : sorted_keys(c, DType::kI64, *categories);
  const ValueId found = find(c, is_text ? c.input(0) : c.cast(c.input(0), DType::kI64), keys, !zeros);
  std::vector<int64_t> order = keys.order;
  order.push_back(count);
  // Rows of the unit matrix, and of zeros behind them.
  std::vector<double> rows(static_cast<size_t>(count * (count + 1)));
  for (int64_t i = 0; i < count; ++i) rows[static_cast<size_t>(i * count + i)] = 1;
  const ValueId units = floats(c, DType::kF32, rows, {count + 1, count});
  c.set_output(0, gather(c, gather(c, units, c.int64s(order)), found));
}

}  // namespace aipu::frontend::ml
