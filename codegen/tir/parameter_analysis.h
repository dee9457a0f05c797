// What the parameters of an entry are to its caller (toolchain.md 5): scalars are attributes, pointers are tensors that
// the kernel reads or writes, constants, or descriptors of the fixed-function unit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

enum class ParamCategory : uint8_t { kInputTensor, kOutputTensor, kConstTensor, kDescriptor, kAttr };
std::string_view param_category_name(ParamCategory category);  // "input_tensor", "output_tensor", ...

struct ParamInfo {
  std::string name;
  Type type;
  ParamCategory category = ParamCategory::kAttr;
  int tensor_index = -1;  // of inputs, outputs and constants: its place among its like, from 0

  bool is_tensor() const { return category != ParamCategory::kAttr && category != ParamCategory::kDescriptor; }
};

struct PrimFuncInfo {
  std::string name;
  std::vector<ParamInfo> params;
};

// Which pointer parameters of each function may be written through, and which reach a descriptor operand. Aliases are
// followed through variables, arithmetic, reinterpretation, both branches of everything, sub-functions and what they
// return. All stores count, also dma_memset, vmml and vmma.
//
// A parameter that is read and written is an output. The scope global.1 marks constants unless they are written.
// Error: a descriptor parameter that does not point to 32-bit integers.
Result<PrimFuncInfo> analyze_parameters(const Module& module);

// The same for the parameters of the entry that may be written through.
std::vector<bool> written_parameters(const Module& module);

}  // namespace aipu::tir
