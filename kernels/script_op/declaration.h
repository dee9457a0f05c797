// A user's operator as a `.py` file declares it with aipu.op (kernels/ADDING_AN_OP.md): what is read from
// op.register(...), checked, with every name resolved. What it means for a node of a graph is in binding.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/ir/op_def.h"
#include "kernels/dsl/host_program.h"

namespace aipu::kernels::script_op {

// T = op.dtype("float32", "float16"): an element type that a node chooses.
struct TypeVariable {
  std::string name;
  std::vector<DType> allowed;
};
// VL = op.lanes(T): how many elements a register of the target has.
struct LaneCount {
  std::string name;
  std::variant<std::string, DType> type;  // a type variable's name, or the type itself
};

// One entry of op.tensor(T, "...rows", "cols", 3).
struct DimPattern {
  enum class Kind : uint8_t { kNamed, kRest, kConstant };
  Kind kind = Kind::kNamed;
  std::string name;   // kNamed: of one extent; kRest: of any number of them, and of their product
  int64_t value = 0;  // kConstant
};

struct TensorDeclaration {
  std::string name;
  std::variant<std::string, DType> type;  // a type variable's name, or the type itself
  // none: of an input, any shape; of an output, what the shape function or the tensor expression says
  std::optional<std::vector<DimPattern>> dims;
  dsl::Position position;
  bool optional = false;  // an input that a node may leave out
  bool variadic = false;  // any number of tensors, the last of the inputs or outputs
};

struct NamedFunction {
  std::string name;  // of the extent that it computes; empty for the shape and check functions
  dsl::FunctionValue function;
};

struct KernelDeclaration {
  std::string name;
  dsl::Position position;
};

struct Declaration {
  std::string file;  // as the user named it
  std::shared_ptr<const dsl::HostProgram> program;
  dsl::Position position;
  std::string op_type;  // "domain::Name"
  std::vector<TypeVariable> types;
  std::vector<LaneCount> lanes;
  std::vector<TensorDeclaration> inputs, outputs, workspace;
  std::vector<graph::AttributeDef> attributes;
  std::vector<NamedFunction> extents;  // in the order of the declaration, each from those before it
  std::optional<dsl::FunctionValue> shape, check;
  std::optional<dsl::FunctionValue> compute;  // the tensor expression that the operator is (tensor_definition.h)
  std::vector<KernelDeclaration> kernels;     // run in this order
  // Of op.elementwise: the function of the operands' vectors that the operator is, and no kernels.
  dsl::ast::FunctionPtr value;
  // elements of the outputs per TEC below which fewer TECs are used; 0: always all
  int64_t grain = 0;
  // Extents whose positions are computed apart from each other (graph::OutputAxis::apart): of "...rows" each axis.
  std::vector<std::string> apart;

  const TypeVariable* find_type(std::string_view name) const;
  const TensorDeclaration* find_tensor(std::string_view name) const;  // of any of the three lists
  const graph::AttributeDef* find_attribute(std::string_view name) const;
};

// The operators that a file declares, at least one. Errors are one line, "file:line:column: text".
Result<std::vector<std::shared_ptr<const Declaration>>> read_declarations(const std::string& file, std::string text);

// The operands of a node that input `index` stands for: those from `first` on, `count` of them.
struct OperandRange {
  size_t first = 0, count = 0;
};
OperandRange operand_range(const std::vector<TensorDeclaration>& tensors, size_t index, size_t operands);

}  // namespace aipu::kernels::script_op
