// Constants, attributes and origins: the leaves of the graph.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "graph/ir/graph.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/half.h"
#include "runtime/base/stored_type.h"

namespace aipu::graph {
namespace {

std::optional<int64_t> checked_bytes(DType dtype, const std::vector<int64_t>& shape) {
  std::optional<int64_t> count = static_cast<int64_t>(dtype_bytes(dtype));
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) return 0;
  }
  for (const int64_t extent : shape) {
    count = checked_mul(*count, extent);
    if (!count) return std::nullopt;
  }
  return count;
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Calls visit with element k as its C++ type; 16-bit floats come as float.
template <typename Visit>
void visit_elements(const Constant& constant, const Visit& visit) {
  const std::byte* data = constant.bytes().data();
  const auto count = static_cast<size_t>(constant.element_count());
  const size_t step = dtype_bytes(constant.dtype());
  const auto run = [&](auto read) {
    for (size_t k = 0; k < count; ++k) visit(read(data + k * step));
  };
  if (const SmallFloat* type = small_float(constant.dtype()))
    return run([type](const std::byte* p) { return value_of_code(*type, load<uint8_t>(p)); });
  switch (held_as(constant.dtype())) {
    case DType::kBool:
    case DType::kU8:
      return run(load<uint8_t>);
    case DType::kI8:
      return run(load<int8_t>);
    case DType::kI16:
      return run(load<int16_t>);
    case DType::kU16:
      return run(load<uint16_t>);
    case DType::kI32:
      return run(load<int32_t>);
    case DType::kU32:
      return run(load<uint32_t>);
    case DType::kI64:
      return run(load<int64_t>);
    case DType::kU64:
      return run(load<uint64_t>);
    case DType::kF16:
      return run([](const std::byte* p) { return f32_from_f16(load<uint16_t>(p)); });
    case DType::kBF16:
      return run([](const std::byte* p) { return f32_from_bf16(load<uint16_t>(p)); });
    case DType::kF32:
      return run(load<float>);
    case DType::kF64:
      return run(load<double>);
    default:
      break;
  }
}

// `kind` keeps what is not a hash of bytes apart from what is.
Hash128 key_of(const Constant& constant, std::string_view kind, const Hash128& content) {
  std::vector<int64_t> key = {static_cast<int64_t>(constant.dtype()), static_cast<int64_t>(content.high),
                              static_cast<int64_t>(content.low)};
  key.insert(key.end(), constant.shape().begin(), constant.shape().end());
  for (const char c : kind) key.push_back(-1 - static_cast<int64_t>(c));  // no extent is negative
  return hash_bytes(std::as_bytes(std::span<const int64_t>(key)));
}

}  // namespace

std::string TensorType::text() const { return std::string(dtype_name(dtype)) + shape_text(shape); }

std::shared_ptr<const Constant> Constant::create(DType dtype, std::vector<int64_t> shape,
                                                 std::vector<std::byte> bytes) {
  if (checked_bytes(dtype, shape) != static_cast<int64_t>(bytes.size())) return nullptr;
  std::shared_ptr<Constant> constant(new Constant());
  constant->dtype_ = dtype;
  constant->shape_ = std::move(shape);
  constant->storage_ = std::move(bytes);
  constant->bytes_ = constant->storage_;
  constant->byte_count_ = constant->bytes_.size();
  return constant;
}

std::shared_ptr<const Constant> Constant::borrow(DType dtype, std::vector<int64_t> shape,
                                                 std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (checked_bytes(dtype, shape) != static_cast<int64_t>(bytes.size())) return nullptr;
  std::shared_ptr<Constant> constant(new Constant());
  constant->dtype_ = dtype;
  constant->shape_ = std::move(shape);
  constant->bytes_ = bytes;
  constant->byte_count_ = bytes.size();
  constant->owner_ = std::move(owner);
  return constant;
}

std::shared_ptr<const Constant> Constant::deferred(DType dtype, std::vector<int64_t> shape, const Hash128& recipe,
                                                   int64_t pieces, Fill fill) {
  const auto size = checked_bytes(dtype, shape);
  if (!size || pieces <= 0 || *size % pieces != 0) return nullptr;
  // Nothing to make: there is no piece to ask for either.
  if (*size == 0) return create(dtype, std::move(shape), {});
  std::shared_ptr<Constant> constant(new Constant());
  constant->dtype_ = dtype;
  constant->shape_ = std::move(shape);
  constant->byte_count_ = static_cast<size_t>(*size);
  constant->piece_bytes_ = static_cast<size_t>(*size / pieces);
  constant->fill_ = std::move(fill);
  constant->hash_ = key_of(*constant, "recipe", recipe);
  return constant;
}

std::span<const std::byte> Constant::made() const {
  std::call_once(once_, [this] {
    storage_.resize(byte_count_);
    fill_(0, storage_);
  });
  return storage_;
}

void Constant::copy_bytes(size_t offset, std::span<std::byte> out) const {
  assert(offset % piece_bytes_ == 0 && out.size() % piece_bytes_ == 0 && offset + out.size() <= byte_count_);
  if (out.empty()) return;
  if (fill_ != nullptr) {
    fill_(static_cast<int64_t>(offset / piece_bytes_), out);
  } else {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
}

std::shared_ptr<const Constant> Constant::int64s(std::vector<int64_t> elements) {
  const auto count = static_cast<int64_t>(elements.size());
  return of<int64_t>(DType::kI64, {count}, elements);
}

std::shared_ptr<const Constant> Constant::scalar_f32(float value) { return of<float>(DType::kF32, {}, {&value, 1}); }

int64_t Constant::element_count() const {
  int64_t count = 1;
  for (const int64_t extent : shape_) {
    if (extent == 0) return 0;
  }
  for (const int64_t extent : shape_) count *= extent;  // create() has checked the product
  return count;
}

TensorType Constant::type() const { return {dtype_, Shape(shape_.begin(), shape_.end())}; }

const Hash128& Constant::hash() const {
  // Not locked: constants are hashed when they enter a graph, before anything is shared between threads.
  if (!hash_) hash_ = key_of(*this, "", hash_bytes(bytes_));
  return *hash_;
}

std::vector<int64_t> Constant::to_int64s() const {
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(element_count()));
  visit_elements(*this, [&](auto element) {
    if constexpr (std::is_integral_v<decltype(element)>) result.push_back(static_cast<int64_t>(element));
  });
  assert(static_cast<int64_t>(result.size()) == element_count());
  return result;
}

std::vector<double> Constant::to_doubles() const {
  std::vector<double> result;
  result.reserve(static_cast<size_t>(element_count()));
  visit_elements(*this, [&](auto element) { result.push_back(static_cast<double>(element)); });
  return result;
}

// ---- origins
// --------------------------------------------------------------------------------------------------

void merge_origins(OriginSet* into, const OriginSet& from) {
  if (from.empty() || from == *into) return;
  OriginSet both;
  both.reserve(std::min(into->size() + from.size(), kMaxOrigins));
  auto a = into->begin();
  for (auto b = from.begin(); both.size() < kMaxOrigins && (a != into->end() || b != from.end());) {
    if (b == from.end() || (a != into->end() && *a < *b)) {
      both.push_back(std::move(*a++));
    } else {
      if (a != into->end() && *a == *b) ++a;
      both.push_back(*b++);
    }
  }
  *into = std::move(both);
}

std::string origins_text(const OriginSet& origins) {
  std::string out;
  for (const Origin& origin : origins) {
    if (!out.empty()) out += " + ";
    out += str_cat('\'', origin.name, "' (", origin.op, ')');
  }
  return out;
}

}  // namespace aipu::graph
