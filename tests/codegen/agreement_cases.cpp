#include "tests/codegen/agreement_cases.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/interpreter.h"
#include "runtime/base/half.h"

namespace aipu::tir::testing {
namespace {

const std::vector<DType> kInts = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                                  DType::kI32, DType::kU32, DType::kI64, DType::kU64};
const std::vector<DType> kFloats = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

std::vector<DType> numbers() {
  std::vector<DType> all = kInts;
  all.insert(all.end(), kFloats.begin(), kFloats.end());
  return all;
}

VarPtr variable(std::string name, Type type) { return std::make_shared<const Var>(Var{std::move(name), type}); }
Type in_memory(Type type) { return type.element == DType::kBool ? type.with_element(DType::kU8) : type; }

using Build = std::function<Result<Expr>(const std::vector<Expr>&)>;

// void kernel(global T0* in0, ..., global R* out): out[i] = build(in0[i], ...). Null module if the type rules refuse
// the operation.
bool make_case(std::vector<AgreementCase>& cases, std::string name, const std::vector<Type>& operands,
               const Build& build) {
  AgreementCase one;
  one.name = name;
  std::vector<VarPtr> params;
  std::vector<Stmt> body;
  const VarPtr i = variable("i", Type::scalar(DType::kI32));
  std::vector<Expr> values;
  for (size_t k = 0; k < operands.size(); k++) {
    const Type memory = in_memory(operands[k]);
    one.inputs.push_back(memory);
    params.push_back(
        variable("in" + std::to_string(k), Type::pointer_to(memory.element, memory.lanes, Scope::kGlobal)));
    const VarPtr x = variable("x" + std::to_string(k), operands[k]);
    Expr value = load(var_ref(params.back()), var_ref(i));
    if (is_bool(operands[k].element)) {  // half of the lanes of a mask are on
      const Expr bit = int_imm(1, DType::kU8);
      value =
          cast(operands[k], binary(BinaryOp::kBitAnd, value, memory.lanes > 1 ? broadcast(bit, memory.lanes) : bit));
    }
    body.push_back(make_stmt(Define{x, value}));
    values.push_back(var_ref(x));
  }
  Result<Expr> value = build(values);
  if (!value.ok()) return false;
  const Type result = (*value)->type;
  one.output = in_memory(result);
  params.push_back(variable("out", Type::pointer_to(one.output.element, one.output.lanes, Scope::kGlobal)));
  body.push_back(make_stmt(Store{var_ref(params.back()), var_ref(i), cast(one.output, *value)}));
  const Stmt loop =
      make_stmt(For{i, int_imm(0), int_imm(kAgreementVectors), int_imm(1), ForKind::kSerial, block(body)});
  one.module.functions.push_back(
      std::make_shared<const PrimFunc>(PrimFunc{std::move(name), params, Type::void_type(), block({loop})}));
  cases.push_back(std::move(one));
  return true;
}

using Attributes = std::vector<std::pair<std::string, int64_t>>;

struct Row {
  std::string name;
  int operands = 1;
  std::vector<DType> types;
  bool mask = false;  // also with a mask
  std::vector<Attributes> variants = {{}};
  bool scalar = false;                  // also on scalars
  std::vector<DType> second = {};       // types of the second operand, parallel to `types`; empty: the same
  int lanes_divisor = 1;                // accumulators: lanes of operand 0 relative to the others
  std::vector<DType> accumulator = {};  // types of operand 0, parallel to `types`; then `types` are those of the rest
};

std::string attribute_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [key, value] : attributes) text += "_" + key + std::to_string(value);
  return text;
}

void add_row(std::vector<AgreementCase>& cases, const Row& row, int vector_bits) {
  for (size_t t = 0; t < row.types.size(); t++) {
    const DType dtype = row.types[t];
    const int lanes = vector_bits / dtype_bits(dtype);
    for (const Attributes& attributes : row.variants) {
      for (int form = 0; form < 4; form++) {  // bit 0: masked, bit 1: scalar
        const bool masked = (form & 1) != 0, scalar = (form & 2) != 0;
        if ((masked && !row.mask) || (scalar && !row.scalar) || (masked && scalar)) continue;
        std::vector<Type> types;
        for (int k = 0; k < row.operands; k++) {
          Type type = Type::vector(dtype, scalar ? 1 : lanes);
          if (k == 1 && !row.second.empty()) type.element = row.second[t];
          if (k == 0 && !row.accumulator.empty()) type = Type::vector(row.accumulator[t], lanes / row.lanes_divisor);
          types.push_back(type);
        }
        if (masked) types.push_back(Type::vector(DType::kBool, lanes));
        const std::string name = row.name + "_" + std::string(dtype_info(dtype).alias) + attribute_text(attributes) +
                                 (masked ? "_masked" : "") + (scalar ? "_scalar" : "");
        make_case(cases, name, types, [&](const std::vector<Expr>& values) {
          std::vector<Expr> operands(values.begin(), values.begin() + row.operands);
          // Zero is an error there.
          if (row.name == "ceildiv" && scalar) operands[1] = binary(BinaryOp::kBitOr, operands[1], int_imm(1, dtype));
          return intrinsic_call(row.name, operands, attributes, masked ? values.back() : nullptr);
        });
      }
    }
  }
}

}  // namespace

std::vector<AgreementCase> intrinsic_cases(int vector_bits) {
  std::vector<AgreementCase> cases;
  const std::vector<DType> signed_ints = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
  const std::vector<DType> other_sign = {DType::kU8,  DType::kI8,  DType::kU16, DType::kI16,
                                         DType::kU32, DType::kI32, DType::kU64, DType::kI64};
  const std::vector<Row> rows = {
      {.name = "vadd", .operands = 2, .types = numbers(), .mask = true, .variants = {{}, {{"saturate", 1}}}},
      {.name = "vsub", .operands = 2, .types = numbers(), .mask = true, .variants = {{}, {{"saturate", 1}}}},
      {.name = "vadd",
       .operands = 2,
       .types = kInts,
       .variants = {{{"out_sign", 1}},
                    {{"out_sign", 2}},
                    {{"out_sign", 1}, {"saturate", 1}},
                    {{"out_sign", 2}, {"saturate", 1}}},
       .second = other_sign},
      {.name = "vsub",
       .operands = 2,
       .types = kInts,
       .variants = {{{"out_sign", 1}, {"saturate", 1}}, {{"out_sign", 2}, {"saturate", 1}}},
       .second = other_sign},
      {.name = "vmul", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vdiv", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vmod", .operands = 2, .types = numbers(), .mask = true},
      {.name = "abs",
       .operands = 1,
       .types = numbers(),
       .mask = true,
       .variants = {{}, {{"saturate", 1}}},
       .scalar = true},
      {.name = "clip", .operands = 3, .types = numbers(), .mask = true, .scalar = true},
      {.name = "fma", .operands = 3, .types = kFloats, .mask = true, .scalar = true},
      {.name = "rint", .operands = 1, .types = kFloats, .mask = true, .scalar = true},
      {.name = "vmull", .operands = 2, .types = kInts, .mask = true},
      {.name = "vmulh", .operands = 2, .types = kInts, .mask = true},
      {.name = "vmull",
       .operands = 2,
       .types = kInts,
       .variants = {{{"out_sign", 1}}, {{"out_sign", 2}}},
       .second = other_sign},
      {.name = "vaddh", .operands = 2, .types = kInts},
      {.name = "vsubh", .operands = 2, .types = kInts},
      {.name = "vmaxh", .operands = 2, .types = kInts},
      {.name = "vminh", .operands = 2, .types = kInts},
      {.name = "vdot", .operands = 2, .types = kInts, .mask = true},
      {.name = "vdot", .operands = 2, .types = kInts, .second = other_sign},
      {.name = "vqdot", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vqdot", .operands = 2, .types = kInts, .second = other_sign},
      {.name = "vdpa",
       .operands = 3,
       .types = {DType::kI8, DType::kU8, DType::kI16, DType::kU16},
       .mask = true,
       .lanes_divisor = 2,
       .accumulator = {DType::kI16, DType::kU16, DType::kI32, DType::kU32}},
      {.name = "vqdpa",
       .operands = 3,
       .types = {DType::kI8, DType::kU8},
       .mask = true,
       .lanes_divisor = 4,
       .accumulator = {DType::kI32, DType::kU32}},
      {.name = "vqdpa",
       .operands = 3,
       .types = {DType::kF16, DType::kBF16},
       .mask = true,
       .lanes_divisor = 2,
       .accumulator = {DType::kF32, DType::kF32}},
      {.name = "vdpbf16", .operands = 3, .types = {DType::kBF16}, .lanes_divisor = 2, .accumulator = {DType::kF32}},
      {.name = "vbfdot", .operands = 3, .types = {DType::kBF16}, .lanes_divisor = 2, .accumulator = {DType::kF32}},
      {.name = "vsdot",
       .operands = 3,
       .types = {DType::kI8, DType::kU8},
       .variants = {{}, {{"lane", 2}}},
       .lanes_divisor = 4,
       .accumulator = {DType::kI32, DType::kI32}},
      {.name = "vfmae",
       .operands = 3,
       .types = {DType::kF16, DType::kBF16},
       .mask = true,
       .lanes_divisor = 2,
       .accumulator = {DType::kF32, DType::kF32}},
      {.name = "vfmao",
       .operands = 3,
       .types = {DType::kF16, DType::kBF16},
       .mask = true,
       .lanes_divisor = 2,
       .accumulator = {DType::kF32, DType::kF32}},
      {.name = "vrpadd", .operands = 1, .types = numbers(), .mask = true},
      {.name = "vrpmax", .operands = 1, .types = numbers(), .mask = true, .variants = {{}, {{"return_idx", 1}}}},
      {.name = "vrpmin", .operands = 1, .types = numbers(), .mask = true, .variants = {{}, {{"return_idx", 1}}}},
      {.name = "vand", .operands = 2, .types = kInts, .mask = true},
      {.name = "vor", .operands = 2, .types = kInts, .mask = true},
      {.name = "vxor", .operands = 2, .types = kInts, .mask = true},
      {.name = "vinv", .operands = 1, .types = kInts, .mask = true},
      {.name = "vsl", .operands = 2, .types = kInts, .mask = true, .variants = {{}, {{"saturate", 1}}}},
      {.name = "vsr", .operands = 2, .types = kInts, .mask = true, .variants = {{}, {{"with_round", 1}}}},
      {.name = "vror", .operands = 2, .types = kInts, .mask = true},
      {.name = "vnsr",
       .operands = 2,
       .types = kInts,
       .mask = true,
       .variants = {{},
                    {{"saturate", 1}},
                    {{"with_round", 1}},
                    {{"to_h", 1}},
                    {{"out_sign", 1}, {"saturate", 1}},
                    {{"out_sign", 2}, {"saturate", 1}, {"to_h", 1}}}},
      {.name = "vnsrsr", .operands = 2, .types = kInts, .mask = true},
      {.name = "vcls", .operands = 1, .types = signed_ints, .mask = true, .variants = {{}, {{"out_sign", 1}}}},
      {.name = "clz", .operands = 1, .types = kInts, .mask = true, .scalar = true},
      {.name = "vbrevs", .operands = 1, .types = kInts, .mask = true},
      {.name = "vpcnt", .operands = 1, .types = kInts, .mask = true},
      {.name = "vceq", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vcneq", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vcge", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vcgt", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vcle", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vclt", .operands = 2, .types = numbers(), .mask = true},
      {.name = "isnan", .operands = 1, .types = kFloats, .mask = true, .scalar = true},
      {.name = "isinf", .operands = 1, .types = kFloats, .mask = true, .scalar = true},
      {.name = "isfinite", .operands = 1, .types = kFloats, .mask = true, .scalar = true},
      {.name = "max", .operands = 2, .types = numbers(), .mask = true, .scalar = true},
      {.name = "min", .operands = 2, .types = numbers(), .mask = true, .scalar = true},
      {.name = "maximum", .operands = 2, .types = numbers(), .mask = true, .scalar = true},
      {.name = "minimum", .operands = 2, .types = numbers(), .mask = true, .scalar = true},
      {.name = "i", .operands = 1, .types = kInts, .scalar = true},
      {.name = "u", .operands = 1, .types = kInts, .scalar = true},
      {.name = "vxtl", .operands = 1, .types = kInts},
      {.name = "vxth", .operands = 1, .types = kInts},
      {.name = "vconcat",
       .operands = 2,
       .types = numbers(),
       .variants = {{}, {{"part", 1}}, {{"part", 2}}, {{"part", 3}}, {{"part", 4}}}},
      {.name = "vzip",
       .operands = 2,
       .types = numbers(),
       .variants = {{}, {{"part", 1}}, {{"part", 2}}, {{"part", 3}}, {{"part", 4}}}},
      {.name = "vpart",
       .operands = 1,
       .types = numbers(),
       .variants = {{{"index", 1}, {"lanes", 2}}, {{"index", 1}, {"lanes", 1}}}},
      {.name = "vrevs", .operands = 1, .types = numbers()},
      {.name = "vsel", .operands = 2, .types = numbers(), .mask = true},
      {.name = "vcompt", .operands = 1, .types = numbers(), .mask = true},
      {.name = "vcompc", .operands = 2, .types = numbers(), .mask = true},
      {.name = "ceildiv", .operands = 2, .types = kInts, .scalar = true},
      {.name = "pow", .operands = 2, .types = kFloats, .scalar = true},
  };
  for (const Row& row : rows) add_row(cases, row, vector_bits);
  for (const char* name : {"exp", "log", "tanh", "sin", "cos", "sqrt", "rsqrt", "floor", "ceil", "erf", "exp2"}) {
    add_row(cases, {.name = name, .operands = 1, .types = kFloats, .scalar = true}, vector_bits);
  }
  // Operands that are no vectors of one type.
  for (const DType dtype : numbers()) {
    const Type vector = Type::vector(dtype, vector_bits / dtype_bits(dtype)), scalar = Type::scalar(dtype);
    const Type mask = vector.with_element(DType::kBool);
    const std::string suffix = "_" + std::string(dtype_info(dtype).alias);
    make_case(cases, "vbcast" + suffix, {scalar}, [&](const auto& v) {
      return intrinsic_call("vbcast", {v[0]}, {{"lanes", vector.lanes}});
    });
    make_case(cases, "vbcast_masked" + suffix, {scalar, mask}, [&](const auto& v) {
      return intrinsic_call("vbcast", {v[0]}, {{"lanes", vector.lanes}}, v[1]);
    });
    make_case(cases, "vshfl" + suffix, {vector}, [&](const auto& v) {
      return intrinsic_call("vshfl", {v[0], int_imm(1)}, {});
    });
    make_case(cases, "vshfl_run" + suffix, {vector, Type::scalar(DType::kI32)}, [&](const auto& v) {
      return intrinsic_call("vshfl", {v[0], binary(BinaryOp::kBitAnd, v[1], int_imm(vector.lanes - 1))}, {});
    });
    make_case(cases, "vsldl" + suffix, {vector, vector}, [&](const auto& v) {
      return intrinsic_call("vsldl", {v[0], v[1], int_imm(vector.lanes - 1)}, {});
    });
    make_case(cases, "vreplic" + suffix, {vector}, [&](const auto& v) {
      return intrinsic_call("vreplic", {v[0], int_imm(vector.lanes / 2)}, {});
    });
    make_case(cases, "tail" + suffix, {Type::scalar(DType::kI8)}, [&](const auto& v) {
      const Expr n = cast(Type::scalar(DType::kI32), v[0]);
      return intrinsic_call("tail_mask",
                            {binary(BinaryOp::kMin, binary(BinaryOp::kMax, n, int_imm(0)), int_imm(vector.lanes))},
                            {{"lanes", vector.lanes}});
    });
    make_case(cases, "vall" + suffix, {mask}, [&](const auto& v) { return intrinsic_call("vall", {v[0]}, {}); });
    make_case(cases, "vany" + suffix, {mask}, [&](const auto& v) { return intrinsic_call("vany", {v[0]}, {}); });
    make_case(cases, "mask_and" + suffix, {mask, mask, mask}, [&](const auto& v) {
      return intrinsic_call("vand", {v[0], v[1]}, {}, v[2]);
    });
    make_case(cases, "mask_inv" + suffix, {mask, mask},
              [&](const auto& v) { return intrinsic_call("vinv", {v[0]}, {}, v[1]); });
    make_case(cases, "mask_zip" + suffix, {mask, mask}, [&](const auto& v) {
      return intrinsic_call("vzip", {v[0], v[1]}, {});
    });
    make_case(cases, "mask_concat" + suffix, {mask, mask}, [&](const auto& v) {
      return intrinsic_call("vconcat", {v[0], v[1]}, {});
    });
    make_case(cases, "mask_revs" + suffix, {mask}, [&](const auto& v) { return intrinsic_call("vrevs", {v[0]}, {}); });
    make_case(cases, "mask_sel" + suffix, {mask, mask, mask}, [&](const auto& v) {
      return intrinsic_call("vsel", {v[0], v[1]}, {}, v[2]);
    });
    make_case(cases, "mask_part" + suffix, {mask}, [&](const auto& v) {
      return intrinsic_call("vpart", {v[0]}, {{"index", 1}, {"lanes", vector.lanes / 2}});
    });
    make_case(cases, "add_r" + suffix, {vector, vector, mask, vector}, [&](const auto& v) {
      return intrinsic_call("vadd", {v[0], v[1]}, {}, v[2], v[3]);
    });
    make_case(cases, "max_r" + suffix, {vector, vector, mask, vector}, [&](const auto& v) {
      return intrinsic_call("max", {v[0], v[1]}, {}, v[2], v[3]);
    });
    if (is_integer(dtype)) {
      make_case(cases, "vtbl" + suffix, {vector, vector, vector}, [&](const auto& v) {
        return intrinsic_call("vtbl", {v[0], v[1], v[2]}, {});
      });
      make_case(cases, "shift_scalar" + suffix, {vector, scalar}, [&](const auto& v) {
        return intrinsic_call("vsr", {v[0], v[1]}, {});
      });
    }
    for (int part = 0; part < 9; part++) {
      for (const DType to : numbers()) {
        for (int64_t saturate : {0, 2}) {
          const std::string name = "cast" + suffix + "_" + std::string(dtype_info(to).alias) + "_part" +
                                   std::to_string(part) + (saturate != 0 ? "_sat" : "");
          make_case(cases, name, {vector}, [&](const auto& v) {
            return intrinsic_call(
                "cast", {v[0]},
                {{"dtype", attribute_of_type(Type::scalar(to))}, {"part", part}, {"saturate", saturate}});
          });
        }
      }
    }
    for (const DType to : numbers()) {
      for (size_t count : {2, 3, 4}) {
        for (int64_t saturate : {0, 2}) {
          make_case(cases,
                    "merge" + suffix + "_" + std::string(dtype_info(to).alias) + "_" + std::to_string(count) +
                        (saturate != 0 ? "_sat" : ""),
                    std::vector<Type>(count, vector), [&](const auto& v) {
                      return intrinsic_call(
                          "cast", v,
                          {{"dtype", attribute_of_type(Type::scalar(to))}, {"part", 0}, {"saturate", saturate}});
                    });
        }
      }
    }
  }
  return cases;
}

std::vector<AgreementCase> operator_cases(int vector_bits) {
  std::vector<AgreementCase> cases;
  const std::vector<std::pair<BinaryOp, std::string>> operators = {
      {BinaryOp::kAdd, "add"},       {BinaryOp::kSub, "sub"},       {BinaryOp::kMul, "mul"},
      {BinaryOp::kDiv, "div"},       {BinaryOp::kMod, "mod"},       {BinaryOp::kMin, "min"},
      {BinaryOp::kMax, "max"},       {BinaryOp::kBitAnd, "bitand"}, {BinaryOp::kBitOr, "bitor"},
      {BinaryOp::kBitXor, "bitxor"}, {BinaryOp::kShl, "shl"},       {BinaryOp::kShr, "shr"},
      {BinaryOp::kEq, "eq"},         {BinaryOp::kNe, "ne"},         {BinaryOp::kLt, "lt"},
      {BinaryOp::kLe, "le"},         {BinaryOp::kGt, "gt"},         {BinaryOp::kGe, "ge"}};
  for (const DType dtype : numbers()) {
    const std::string suffix = "_" + std::string(dtype_info(dtype).alias);
    const Type scalar = Type::scalar(dtype), vector = Type::vector(dtype, vector_bits / dtype_bits(dtype));
    for (const auto& [op, op_name] : operators) {
      const bool bits = op >= BinaryOp::kBitAnd && op <= BinaryOp::kShr;
      if (is_floating(dtype) && (bits || op == BinaryOp::kMod)) continue;
      for (const Type& type : {scalar, vector}) {
        make_case(cases, op_name + suffix + (type.is_scalar() ? "_scalar" : ""), {type, type},
                  [&, op = op](const auto& v) -> Result<Expr> {
                    Expr divisor = v[1];
                    // A scalar division by zero is an error of the program; the interpreter says so.
                    const bool divides = op == BinaryOp::kDiv || op == BinaryOp::kMod;
                    if (type.is_scalar() && divides && is_integer(dtype))
                      divisor = binary(BinaryOp::kBitOr, divisor, int_imm(1, dtype));
                    return binary(op, v[0], divisor);
                  });
      }
    }
    make_case(cases, "div_const" + suffix, {scalar}, [&](const auto& v) -> Result<Expr> {
      return binary(BinaryOp::kDiv, v[0], is_integer(dtype) ? int_imm(7, dtype) : float_imm(7, dtype));
    });
    make_case(cases, "select" + suffix, {scalar, scalar}, [&](const auto& v) -> Result<Expr> {
      return make_expr(scalar, Select{binary(BinaryOp::kLt, v[0], v[1]), v[0], v[1]});
    });
    make_case(cases, "lane" + suffix, {vector, Type::scalar(DType::kI32)}, [&](const auto& v) -> Result<Expr> {
      return make_expr(scalar, LaneRead{v[0], binary(BinaryOp::kBitAnd, v[1], int_imm(vector.lanes - 1))});
    });
    make_case(cases, "literal" + suffix, {scalar, scalar}, [&](const auto& v) -> Result<Expr> {
      return make_expr(Type::vector(dtype, 4), VectorLiteral{{v[0], v[1], v[1], v[0]}});
    });
    if (is_integer(dtype)) {
      for (const Type& type : {scalar, vector}) {
        make_case(cases, "not" + suffix + (type.is_scalar() ? "_scalar" : ""), {type},
                  [&](const auto& v) -> Result<Expr> {
                    return make_expr(type, Unary{UnaryOp::kBitNot, v[0]});
                  });
      }
    }
    for (const DType to : numbers()) {
      const int lanes = vector_bits / std::max(dtype_bits(dtype), dtype_bits(to));
      for (int n : {1, lanes}) {
        make_case(cases, "convert" + suffix + "_" + std::string(dtype_info(to).alias) + (n == 1 ? "_scalar" : ""),
                  {Type::vector(dtype, n)},
                  [&](const auto& v) -> Result<Expr> { return cast(Type::vector(to, n), v[0]); });
      }
    }
    for (const Type& type : {scalar, vector}) {
      const std::string form = type.is_scalar() ? "_scalar" : "";
      make_case(cases, "to_bool" + suffix + form, {type},
                [&](const auto& v) -> Result<Expr> { return cast(type.with_element(DType::kBool), v[0]); });
      make_case(cases, "from_bool" + suffix + form, {type.with_element(DType::kBool)},
                [&](const auto& v) -> Result<Expr> { return cast(type, v[0]); });
    }
  }
  return cases;
}

namespace {

template <typename T>
T random_float(std::mt19937_64& random) {
  static const T kCorners[] = {T(0),
                               -T(0),
                               T(1),
                               T(-1),
                               T(0.5),
                               T(1.5),
                               T(-2.5),
                               T(3.5),
                               T(2147483647.0),
                               T(2147483648.0),
                               T(-2147483648.0),
                               T(-2147483904.0),
                               T(4294967296.0),
                               T(9.3e18),
                               T(-9.3e18),
                               T(8388608.5),
                               T(65504),
                               T(65519),
                               T(65520),
                               T(-0.625),
                               T(88.72),
                               T(88.73),
                               T(-87.33),
                               T(-87.34),
                               T(1e-3),
                               std::numeric_limits<T>::infinity(),
                               -std::numeric_limits<T>::infinity(),
                               std::numeric_limits<T>::quiet_NaN(),
                               std::numeric_limits<T>::denorm_min(),
                               -std::numeric_limits<T>::denorm_min(),
                               std::numeric_limits<T>::min(),
                               std::numeric_limits<T>::max(),
                               std::numeric_limits<T>::lowest(),
                               std::numeric_limits<T>::epsilon()};
  switch (random() % 4) {
    case 0:
      return kCorners[random() % std::size(kCorners)];
    case 1: {
      T value;
      const uint64_t bits = random();
      std::memcpy(&value, &bits, sizeof(T));
      return value;
    }
    default:
      return static_cast<T>((static_cast<double>(random() % 2000001) - 1000000) /
                            (random() % 2 == 0 ? 1000.0 : 100000.0));
  }
}

uint64_t random_int(std::mt19937_64& random, int bits) {
  switch (random() % 4) {
    case 0: {
      const uint64_t kCorners[] = {0,
                                   1,
                                   ~uint64_t{0},
                                   uint64_t{1} << (bits - 1),
                                   (uint64_t{1} << (bits - 1)) - 1,
                                   (uint64_t{1} << (bits - 1)) + 1,
                                   2,
                                   static_cast<uint64_t>(bits)};
      return kCorners[random() % std::size(kCorners)];
    }
    case 1:
      return random() % 20;
    default:
      return random();
  }
}

}  // namespace

std::vector<std::byte> agreement_input(Type type, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t lanes = count * static_cast<size_t>(type.lanes);
  std::vector<std::byte> bytes(lanes * dtype_bytes(type.element));
  for (size_t i = 0; i < lanes; i++) {
    uint64_t word = 0;
    switch (type.element) {
      case DType::kF16:
        word = f16_from_f32(random_float<float>(random));
        break;
      case DType::kBF16:
        word = bf16_from_f32(random_float<float>(random));
        break;
      case DType::kF32: {
        const float value = random_float<float>(random);
        std::memcpy(&word, &value, sizeof(value));
        break;
      }
      case DType::kF64: {
        const double value = random_float<double>(random);
        std::memcpy(&word, &value, sizeof(value));
        break;
      }
      default:
        word = random_int(random, dtype_bits(type.element));
    }
    std::memcpy(bytes.data() + i * dtype_bytes(type.element), &word, dtype_bytes(type.element));
  }
  return bytes;
}

bool same_lane(DType dtype, const std::byte* a, const std::byte* b) {
  const size_t bytes = dtype_bytes(dtype);
  if (std::memcmp(a, b, bytes) == 0) return true;
  const auto is_nan = [&](const std::byte* p) {
    uint16_t h = 0;
    float f = 0;
    double d = 0;
    switch (dtype) {
      case DType::kF16:
        std::memcpy(&h, p, 2);
        return std::isnan(f32_from_f16(h));
      case DType::kBF16:
        std::memcpy(&h, p, 2);
        return std::isnan(f32_from_bf16(h));
      case DType::kF32:
        std::memcpy(&f, p, 4);
        return std::isnan(f);
      case DType::kF64:
        std::memcpy(&d, p, 8);
        return std::isnan(d);
      default:
        return false;
    }
  };
  return is_nan(a) && is_nan(b);
}

std::string hex_lane(DType dtype, const std::byte* p) {
  uint64_t word = 0;
  std::memcpy(&word, p, dtype_bytes(dtype));
  char text[32];
  std::snprintf(text, sizeof(text), "0x%0*llx", static_cast<int>(2 * dtype_bytes(dtype)),
                static_cast<unsigned long long>(word));
  return text;
}

AgreementBuffers agreement_buffers(const AgreementCase& one, uint64_t seed) {
  AgreementBuffers buffers;
  for (size_t k = 0; k < one.inputs.size(); k++)
    buffers.inputs.push_back(agreement_input(one.inputs[k], kAgreementVectors, seed * 31 + k));
  buffers.output.assign(static_cast<size_t>(one.output.bytes()) * kAgreementVectors, std::byte{0xa5});
  return buffers;
}

Status run_interpreter(const Module& module, AgreementBuffers& buffers) {
  std::vector<InterpreterArgument> arguments;
  for (auto& input : buffers.inputs) arguments.push_back({input.data(), input.size(), 0, true});
  arguments.push_back({buffers.output.data(), buffers.output.size(), 0, true});
  return interpret_all(module, 1, arguments);
}

namespace {

// x: 256 input elements, i: indices 0..63, out: 1024 elements; n: a run-time count.
constexpr const char* kLoads =
    R"(func loads(x#0: global T*, i#1: global int16x8*, out#2: global T*, n#3: int32) -> void {
  let m#4: boolx8 = S.tail_mask<boolx8>(n#3, .lanes=8)
  eval S.vstore<void>(S.vload<Tx8>((x#0 + 1), 1, mask=m#4, .lanes=8), out#2, 1)
  eval S.vstore<void>(S.vload<Tx8>((x#0 + 1), n#3, .lanes=8), (out#2 + 9), 1)
  eval S.vstore<void>(S.vload<Tx8>((x#0 + 3), 3, mask=m#4, .lanes=8), (out#2 + 20), 1)
  eval S.vstore<void>(S.vload<Tx8>(x#0, 1, .lanes=8), (out#2 + 31), 1, mask=m#4)
  eval S.vstore<void>(S.vload<Tx8>(x#0, 1, .lanes=8), (out#2 + 41), n#3)
  eval S.vstore<void>(S.vload<Tx8>(x#0, 1, .lanes=8), (out#2 + 101), 2, mask=m#4)
  let k#5: int16x8 = load(i#1, 0)
  eval S.vstore<void>(S.vload_gather<Tx8>(x#0, k#5), (out#2 + 121), 1)
  eval S.vstore<void>(S.vload_gather<Tx8>(x#0, cast<int32x8>(k#5), mask=m#4), (out#2 + 131), 1)
  let t#6: int32x8 = (cast<int32x8>(k#5) & broadcast<8>(31))
  let u#7: int32x16 = S.vconcat<int32x16>(t#6, (t#6 ^ broadcast<8>(9)))
  eval S.vstore<void>(S.vload_gather<Tx16>((x#0 + 3), u#7, .entries=32), (out#2 + 400), 1)
  eval S.vstore_scatter<void>(S.vload<Tx8>(x#0, 1, .lanes=8), (out#2 + 200), k#5)
  eval S.vstore_scatter<void>(S.vload<Tx8>((x#0 + 8), 1, .lanes=8), (out#2 + 300), k#5, mask=m#4)
}
)";

// Not of Compass C, which has no word for it.
constexpr const char* kParts =
    R"(func parts(x#0: global T*, i#1: global int16x8*, out#2: global T*, n#3: int32) -> void {
  set x#0 = (x#0 + n#3)
  eval S.vstore<void>(S.vload_part<Tx4>(x#0, .count=4, .index=0, .lanes=4), out#2, 1)
  eval S.vstore<void>(S.vload_part<Tx4>(x#0, .count=4, .index=1, .lanes=4), (out#2 + 4), 1)
  eval S.vstore<void>(S.vload_part<Tx4>(x#0, .count=4, .index=3, .lanes=4), (out#2 + 8), 1)
  set x#0 = (x#0 + 16)
  eval S.vstore<void>(S.vload_part<Tx16>(x#0, .count=2, .index=0, .lanes=16), (out#2 + 20), 1)
  eval S.vstore<void>(S.vload_part<Tx16>((x#0 + 1), .count=2, .index=1, .lanes=16), (out#2 + 40), 1)
  eval S.vstore<void>(S.vload_part<Tx6>((x#0 + 1), .count=3, .index=2, .lanes=6), (out#2 + 60), 1)
  eval S.vstore<void>(S.vload_part<Tx40>((x#0 + 2), .count=2, .index=1, .lanes=40), (out#2 + 70), 1)
}
)";

constexpr const char* kDma = R"(func dma(x#0: global T*, i#1: global int16x8*, out#2: global T*, n#3: int32) -> void {
  alloc near#4: lsram T* [256]
  eval S.dma_memset<void>(near#4, load(x#0, 7), 256)
  eval S.dma_copy<void>(near#4, x#0, 5, 9, n#3, 7)
  eval S.dma_copy<void>(out#2, near#4, 64, 64, 1, 64)
  eval S.dma_copy<void>(near#4, x#0, 0, 0, 1, 0)
  eval S.dma_transpose2d<void>((out#2 + 100), x#0, 5, n#3, 6, 11)
  eval S.dma_upsample<void>((out#2 + 200), near#4, 2, 3, 4, n#3, 5, 6, 24)
  let e#5: int32 = S.alloc_event<int32>()
  eval S.async_dma_copy<void>((out#2 + 600), near#4, n#3, n#3, 1, n#3, e#5)
  eval S.wait_events<void>(e#5)
  eval S.free_events<void>(e#5)
}
)";

}  // namespace

std::vector<const char*> memory_programs(bool of_hosts) {
  std::vector<const char*> programs = {kLoads, kDma};
  if (of_hosts) programs.push_back(kParts);
  return programs;
}

std::string with_type(std::string text, const std::string& type) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = 0; (at = text.find('T', at)) != std::string::npos; at++) {
    const bool starts = at == 0 || !is_word(text[at - 1]);
    const bool ends = !is_word(text[at + 1]) || text[at + 1] == 'x';
    if (starts && ends) text.replace(at, 1, type);
  }
  return text;
}

}  // namespace aipu::tir::testing
