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
  } else {
    out.keys = c.cast(c.int64s(different), dtype);
  }
  return out;
}

// Places of the elements of x among the keys as they were given; `count` for the others.
ValueId find(OpContext& c, ValueId x, const KeyTable& table, bool required = false) {
  return c.emit("aipu::FindKey", {{"nan_at", table.nan_at}, {"required", int64_t{required}}}, {x, table.keys});
}

// Keys of x's type from the attributes of LabelEncoder.
std::optional<KeyTable> take_keys(OpContext& c, DType dtype, size_t* count) {
  const auto ints = c.take_ints("keys_int64s");
  const auto reals = c.take_floats("keys_floats");
  const ConstantPtr tensor = c.take_tensor("keys_tensor");
  if (c.has_attribute("keys_strings")) c.fail_unsupported("strings are not supported");
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
  c.ignore("default_string");
  if (c.has_attribute("values_strings")) c.fail_unsupported("strings are not supported");
  if (!c.ok()) return {};
  ValueId values, behind;
  size_t found = 0;
  if (tensor != nullptr) {
    found = static_cast<size_t>(tensor->element_count());
    values = reshape(c, c.constant(tensor), {-1});
    const bool real = is_floating(tensor->dtype());
    behind = reshape(c, other != nullptr ? c.constant(other) : c.scalar(tensor->dtype(), real ? -0.0 : -1), {1});
  } else if (ints) {
    found = ints->size();
    values = c.int64s(*ints);
    behind = c.int64s({default_int});
  } else if (reals) {
    found = reals->size();
    values = floats(c, DType::kF32, *reals, {static_cast<int64_t>(found)});
    behind = floats(c, DType::kF32, {default_real}, {1});
  } else {
    c.fail_invalid("needs values");
    return {};
  }
  if (found != count) c.fail_invalid(str_cat("has ", count, " keys and ", found, " values"));
  return concat(c, 0, {values, behind});
}

}  // namespace

void label_encoder(OpContext& c) {
  c.expect_inputs(1, 1);
  if (c.has_attribute("classes_strings")) return c.fail_unsupported("strings are not supported");
  if (!c.ok()) return;
  size_t count = 0;
  const auto keys = take_keys(c, c.dtype(c.input(0)), &count);
  if (!keys) return;
  const ValueId values = take_values(c, count);
  std::vector<int64_t> order = keys->order;
  order.push_back(static_cast<int64_t>(count));
  c.set_output(0, gather(c, gather(c, values, c.int64s(order)), find(c, c.input(0), *keys)));
}

// Of numbers and strings; strings are not supported yet.
void category_mapper(OpContext& c) { c.fail_unsupported("strings are not supported"); }

// A new last axis with 1 where the category is.
void one_hot_encoder(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto categories = c.take_ints("cats_int64s");
  const bool zeros = c.take_int("zeros", 1) != 0;
  if (c.has_attribute("cats_strings")) return c.fail_unsupported("strings are not supported");
  if (!c.ok()) return;
  if (!categories || categories->empty()) return c.fail_invalid("needs cats_int64s or cats_strings");
  const KeyTable keys = sorted_keys(c, DType::kI64, *categories);
  const ValueId found = find(c, c.cast(c.input(0), DType::kI64), keys, !zeros);
  std::vector<int64_t> order = keys.order;
  const auto count = static_cast<int64_t>(categories->size());
  order.push_back(count);
  // Rows of the unit matrix, and of zeros behind them.
  std::vector<double> rows(static_cast<size_t>(count * (count + 1)));
  for (int64_t i = 0; i < count; ++i) rows[static_cast<size_t>(i * count + i)] = 1;
  const ValueId units = floats(c, DType::kF32, rows, {count + 1, count});
  c.set_output(0, gather(c, gather(c, units, c.int64s(order)), found));
}

}  // namespace aipu::frontend::ml
