// Sequences and optionals while a model is imported. Both are lists of tensors of which the importer knows how many
// there are, so that operators on them are bookkeeping and nothing of them is left in the graph. Private to
// frontend/onnx.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"

namespace aipu::frontend {

// A Loop whose body does nothing with a sequence but append to it gives scan outputs: what they hold are elements too.
//
//   SequenceInsert(s, a), SequenceInsert(s, b) per trip  ->  stacks [trips, ...] of a and of b
//   the sequence                                          =  elements..., a[0], b[0], a[1], b[1], ...
//
// Where each trip's tensor has an extent of its own along axis 0, all of them lie one after the other in one tensor
// (`end_to_end`), and may only be joined along that axis.
struct ListValue {
  PortList::Kind kind = PortList::Kind::kSequence;
  bool present = true;         // of an optional; one that is absent has no elements
  DType dtype = DType::kVoid;  // of the elements; kVoid: nobody has said it
  std::vector<graph::ValueId> elements;
  std::vector<graph::ValueId> stacks;
  bool end_to_end = false;  // the one stack has the elements one after the other along axis 0, whatever they are
  // Inside of such a body: a name of the carried value whose elements come before `elements`, which nobody may look at;
  // "": there are none.
  std::string grows;
  std::string decided_by;  // the operand that decides how often the Loop runs, of both

  bool has_maps() const { return kind == PortList::Kind::kMaps || kind == PortList::Kind::kMap; }
  bool has_known_length() const { return stacks.empty() && grows.empty(); }
};
using ListPtr = std::shared_ptr<const ListValue>;

// What a name stands for: a tensor or a list; neither is an optional argument that was not given.
struct Item {
  graph::ValueId value;
  ListPtr list;
};

// What an input of a sub-graph is: a tensor, or a list like `list` whose elements and stacks have the types `parts`.
struct Formal {
  graph::TensorType type;
  ListPtr list;
  std::vector<graph::TensorType> parts;
};

// The tensors that a list is made of: its elements, then its stacks.
std::vector<graph::ValueId> parts_of(const ListValue& list);
// The same list made of other tensors, as many.
ListPtr with_parts(const ListValue& list, const std::vector<graph::ValueId>& parts);
// Whether both have parts in the same places.
bool have_same_form(const ListValue& a, const ListValue& b);
std::string list_text(const ListValue& list);  // "a sequence of 3 tensors", "an absent optional"

}  // namespace aipu::frontend
