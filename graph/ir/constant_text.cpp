#include "graph/ir/constant_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "runtime/base/checked_math.h"
#include "runtime/base/half.h"
#include "runtime/base/stored_type.h"

namespace aipu::graph {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{1} << 28;  // a few characters of text may not ask for more memory than this

template <typename T>
void append_bytes(T value, std::vector<std::byte>* out) {
  const auto bytes = std::as_bytes(std::span<const T, 1>(&value, 1));
  out->insert(out->end(), bytes.begin(), bytes.end());
}

bool fits(int64_t value, DType dtype) {
  if (is_bool(dtype)) return value == 0 || value == 1;
  const int bits = dtype_bits(dtype);
  if (is_unsigned_int(held_as(dtype))) return value >= 0 && (bits == 64 || value < (int64_t{1} << bits));
  return bits == 64 || (value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1)));
}

// The bytes of one element as a graph holds it (all hosts are little endian).
std::vector<std::byte> integer_bytes(uint64_t value, DType dtype) {
  std::vector<std::byte> out;
  append_bytes(value, &out);
  out.resize(dtype_bytes(dtype));
  return out;
}

std::vector<std::byte> float_bytes(double value, DType dtype) {
  std::vector<std::byte> out;
  if (dtype == DType::kF64) {
    append_bytes(value, &out);
  } else if (dtype == DType::kF32) {
    append_bytes(static_cast<float>(value), &out);
  } else if (dtype == DType::kF16) {
    append_bytes(f16_from_f32(static_cast<float>(value)), &out);
  } else {
    append_bytes(bf16_from_f32(static_cast<float>(value)), &out);
  }
  return out;
}

std::string element_text(const Constant& constant, size_t k) {
  const size_t size = dtype_bytes(constant.dtype());
  const auto bytes = constant.bytes().subspan(k * size, size);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  // Elements of stored types are shown by their codes.
  const DType held = held_as(constant.dtype());
  const ConstantPtr one = Constant::create(held, {}, std::move(copy));
  if (is_floating(constant.dtype())) {
    const double value = one->to_doubles()[0];
    return constant.dtype() == DType::kF64 ? double_text(value) : fmt::format("{}", static_cast<float>(value));
  }
  const int64_t value = one->to_int64s()[0];
  return held == DType::kU64 ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
}

// Whether the element's text reads back to its bytes; a NaN with a payload does not.
bool has_text(const Constant& constant, size_t k) {
  if (!is_floating(constant.dtype())) return true;
  const size_t size = dtype_bytes(constant.dtype());
  const auto bytes = constant.bytes().subspan(k * size, size);
  const ConstantPtr one = Constant::create(constant.dtype(), {}, {bytes.begin(), bytes.end()});
  double value = one->to_doubles()[0];
  if (std::isnan(value)) value = std::copysign(std::nan(""), value);
  const auto again = float_bytes(value, constant.dtype());
  return std::memcmp(again.data(), bytes.data(), size) == 0;
}

Result<std::vector<std::byte>> read_element(TextReader& reader, DType dtype) {
  if (is_floating(dtype)) {
    AIPU_ASSIGN_OR_RETURN(const double value, reader.number());
    return float_bytes(value, dtype);
  }
  const bool is_wide = held_as(dtype) == DType::kU64;
  if (is_wide && !reader.peek_number()) return reader.error("expected a number");
  if (is_wide) {
    AIPU_ASSIGN_OR_RETURN(const uint64_t value, reader.unsigned_integer());
    return integer_bytes(value, dtype);
  }
  AIPU_ASSIGN_OR_RETURN(const int64_t value, reader.integer());
  if (!fits(value, dtype)) return reader.error(str_cat(value, " does not fit ", dtype_name(dtype)));
  return integer_bytes(static_cast<uint64_t>(value), dtype);
}

}  // namespace

std::string double_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string value_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_$.:/-").find(c) != std::string_view::npos;
  };
  std::string out = "%";
  bool simple = !name.empty() && !name.ends_with(':');  // "%x:" begins the type
  for (const char c : name) simple = simple && plain(c);
  return out + (simple ? std::string(name) : quoted(name));
}

Result<std::string> read_value_name(TextReader& reader) {
  AIPU_RETURN_IF_ERROR(reader.expect('%'));
  if (reader.at_quote()) return reader.string();
  std::string name = reader.run_of("_$.:/-");
  if (name.ends_with(':')) {
    name.pop_back();
    reader.step_back();
  }
  if (name.empty()) return reader.error("expected a value's name after '%'");
  return name;
}

std::string constant_text(const Constant& constant, int64_t inline_elements) {
  const auto count = static_cast<size_t>(constant.element_count());
  std::string out = constant.type().text();
  const size_t size = dtype_bytes(constant.dtype());
  const auto bytes = constant.bytes();
  const auto hex = [&](std::span<const std::byte> span) {
    for (const std::byte b : span) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  };
  if (static_cast<int64_t>(count) <= inline_elements) {
    bool readable = true;
    for (size_t k = 0; k < count; ++k) readable = readable && has_text(constant, k);
    if (!readable) {
      out += " bytes ";
      hex(bytes);
      return out;
    }
    out += " {";
    for (size_t k = 0; k < count; ++k) out += (k > 0 ? ", " : "") + element_text(constant, k);
    return out + "}";
  }
  // A splat that could not be read back is better a hash.
  if (static_cast<int64_t>(bytes.size()) <= kMaxTextBytes &&
      std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0 && has_text(constant, 0)) {
    return out + " splat " + element_text(constant, 0);
  }
  return out + " hash " + constant.hash().hex();
}

Result<TensorType> read_type(TextReader& reader) {
  AIPU_ASSIGN_OR_RETURN(const std::string name, reader.word("an element type"));
  const auto dtype = parse_dtype(name);
  if (!dtype || *dtype == DType::kVoid) return reader.error(str_cat("'", name, "' is no element type"));
  AIPU_ASSIGN_OR_RETURN(Shape shape, read_shape(reader));
  return TensorType{*dtype, std::move(shape)};
}

Result<ConstantPtr> read_constant(TextReader& reader, const ConstantTable& table) {
  AIPU_ASSIGN_OR_RETURN(const TensorType type, read_type(reader));
  const auto shape = static_shape(type.shape);
  if (!shape) return reader.error("a constant's extents must be numbers");
  std::optional<int64_t> total = static_cast<int64_t>(dtype_bytes(type.dtype));
  bool is_empty = false;
  for (const int64_t extent : *shape) {
    if (extent < 0) return reader.error("an extent is negative");
    is_empty = is_empty || extent == 0;
  }
  for (const int64_t extent : *shape) total = is_empty ? 0 : total ? checked_mul(*total, extent) : total;
  if (!total || *total > (int64_t{1} << 40)) return reader.error("the constant is too large");
  const size_t size = dtype_bytes(type.dtype);
  const size_t count = static_cast<size_t>(*total) / size;

  if (reader.accept_word("hash")) {
    reader.peek();
    const std::string hash = reader.run_of("");
    const auto it = table.by_hash.find(hash);
    if (it == table.by_hash.end()) return reader.error(str_cat("no constant with hash ", hash, " was given"));
    if (it->second->type() != type)
      return reader.error(str_cat("the constant with hash ", hash, " is ", it->second->type().text()));
    return it->second;
  }
  if (*total > kMaxTextBytes) return reader.error("the constant is too large to be written out");
  std::vector<std::byte> bytes;
  const auto append = [&](const std::vector<std::byte>& element) {
    bytes.insert(bytes.end(), element.begin(), element.end());
  };
  if (reader.accept_word("splat")) {
    AIPU_ASSIGN_OR_RETURN(const auto element, read_element(reader, type.dtype));
    bytes.reserve(count * size);
    for (size_t k = 0; k < count; ++k) append(element);
  } else if (reader.accept_word("iota")) {
    bytes.reserve(count * size);
    for (size_t k = 0; k < count; ++k) {
      append(is_floating(type.dtype) ? float_bytes(static_cast<double>(k), type.dtype) : integer_bytes(k, type.dtype));
    }
  } else if (reader.accept_word("bytes")) {
    reader.peek();
    const std::string digits = reader.run_of("");
    if (digits.size() != count * size * 2)
      return reader.error(str_cat("expected ", count * size * 2, " hexadecimal digits"));
    for (size_t k = 0; k < digits.size(); k += 2) {
      unsigned value = 0;
      const auto [end, failure] = std::from_chars(digits.data() + k, digits.data() + k + 2, value, 16);
      if (failure != std::errc() || end != digits.data() + k + 2) return reader.error("expected hexadecimal digits");
      bytes.push_back(static_cast<std::byte>(value));
    }
  } else {
    AIPU_RETURN_IF_ERROR(reader.expect('{'));
    for (size_t k = 0; k < count; ++k) {
      if (k > 0) AIPU_RETURN_IF_ERROR(reader.expect(','));
      AIPU_ASSIGN_OR_RETURN(const auto element, read_element(reader, type.dtype));
      append(element);
    }
    AIPU_RETURN_IF_ERROR(reader.expect('}'));
  }
  return Constant::create(type.dtype, *shape, std::move(bytes));
}

}  // namespace aipu::graph
