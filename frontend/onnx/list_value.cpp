#include "frontend/onnx/list_value.h"

namespace aipu::frontend {

std::vector<graph::ValueId> parts_of(const ListValue& list) {
  std::vector<graph::ValueId> parts = list.elements;
  parts.insert(parts.end(), list.stacks.begin(), list.stacks.end());
  return parts;
}

ListPtr with_parts(const ListValue& list, const std::vector<graph::ValueId>& parts) {
  ListValue other = list;
  const auto middle = parts.begin() + static_cast<std::ptrdiff_t>(list.elements.size());
  other.elements.assign(parts.begin(), middle);
  other.stacks.assign(middle, parts.end());
  return std::make_shared<const ListValue>(std::move(other));
}

bool have_same_form(const ListValue& a, const ListValue& b) {
  return a.kind == b.kind && a.present == b.present && a.grows == b.grows && a.end_to_end == b.end_to_end &&
         a.elements.size() == b.elements.size() && a.stacks.size() == b.stacks.size();
}

std::string list_text(const ListValue& list) {
  if (!list.present) return "an absent optional";
  if (list.kind == PortList::Kind::kOptionalTensor) return "an optional tensor";
  if (list.has_maps()) return list.kind == PortList::Kind::kMap ? "a map" : "a sequence of maps";
  const std::string what = list.kind == PortList::Kind::kSequence ? "a sequence" : "an optional sequence";
  if (!list.has_known_length()) return what + " whose length only a run tells";
  return str_cat(what, " of ", list.elements.size(), list.elements.size() == 1 ? " tensor" : " tensors");
}

}  // namespace aipu::frontend
