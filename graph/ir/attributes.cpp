#include <algorithm>
#include <map>

#include "graph/ir/attribute_error.h"

namespace aipu::graph {
namespace {

constexpr std::string_view kKindNames[] = {"int",    "float",   "string", "dtype",   "ints",
                                           "floats", "strings", "dims",   "constant"};
static_assert(std::size(kKindNames) == std::variant_size_v<AttributeValue>);

template <typename T>
const T& read(const Attributes& attributes, std::string_view name) {
  const AttributeValue* value = attributes.find(name);
  const T* typed = value != nullptr ? std::get_if<T>(value) : nullptr;
  if (typed != nullptr) return *typed;
  const std::string_view wanted = kind_name(kind_of(AttributeValue(T())));
  if (value == nullptr) throw AttributeError(str_cat("there is no attribute '", name, "', it is read as ", wanted));
  throw AttributeError(
      str_cat("attribute '", name, "' is of kind ", kind_name(kind_of(*value)), ", it is read as ", wanted));
}

}  // namespace

// The kind enum lists the alternatives of the variant in another order.
AttributeKind kind_of(const AttributeValue& value) {
  struct Visitor {
    AttributeKind operator()(int64_t) const { return AttributeKind::kInt; }
    AttributeKind operator()(double) const { return AttributeKind::kFloat; }
    AttributeKind operator()(const std::string&) const { return AttributeKind::kString; }
    AttributeKind operator()(DType) const { return AttributeKind::kDType; }
    AttributeKind operator()(const std::vector<int64_t>&) const { return AttributeKind::kInts; }
    AttributeKind operator()(const std::vector<double>&) const { return AttributeKind::kFloats; }
    AttributeKind operator()(const std::vector<std::string>&) const { return AttributeKind::kStrings; }
    AttributeKind operator()(const Shape&) const { return AttributeKind::kShape; }
    AttributeKind operator()(const ConstantPtr&) const { return AttributeKind::kConstant; }
  };
  return std::visit(Visitor(), value);
}

std::string_view kind_name(AttributeKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

const AttributeValue* Attributes::find(std::string_view name) const {
  const auto it = map_.find(name);
  return it != map_.end() ? &it->second : nullptr;
}
void Attributes::set(std::string_view name, AttributeValue value) {
  map_.insert_or_assign(std::string(name), std::move(value));
}
void Attributes::erase(std::string_view name) {
  if (const auto it = map_.find(name); it != map_.end()) map_.erase(it);
}

int64_t Attributes::i(std::string_view name) const { return read<int64_t>(*this, name); }
double Attributes::f(std::string_view name) const { return read<double>(*this, name); }
const std::string& Attributes::s(std::string_view name) const { return read<std::string>(*this, name); }
DType Attributes::dtype(std::string_view name) const { return read<DType>(*this, name); }
const std::vector<int64_t>& Attributes::ints(std::string_view name) const {
  return read<std::vector<int64_t>>(*this, name);
}
const std::vector<double>& Attributes::floats(std::string_view name) const {
  return read<std::vector<double>>(*this, name);
}
const Shape& Attributes::shape(std::string_view name) const { return read<Shape>(*this, name); }
const ConstantPtr& Attributes::constant(std::string_view name) const { return read<ConstantPtr>(*this, name); }
int64_t Attributes::i_or(std::string_view name, int64_t otherwise) const { return has(name) ? i(name) : otherwise; }
double Attributes::f_or(std::string_view name, double otherwise) const { return has(name) ? f(name) : otherwise; }
std::string Attributes::s_or(std::string_view name, std::string_view otherwise) const {
  return has(name) ? s(name) : std::string(otherwise);
}

bool operator==(const Attributes& a, const Attributes& b) {
  if (a.map_.size() != b.map_.size()) return false;
  return std::equal(a.map_.begin(), a.map_.end(), b.map_.begin(), [](const auto& x, const auto& y) {
    if (x.first != y.first || x.second.index() != y.second.index()) return false;
    if (const auto* p = std::get_if<ConstantPtr>(&x.second)) {
      const auto& q = std::get<ConstantPtr>(y.second);
      return *p == q || (*p != nullptr && q != nullptr && (*p)->hash() == q->hash());
    }
    return x.second == y.second;
  });
}

}  // namespace aipu::graph
