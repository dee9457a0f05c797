// The text form: every node and field, exact constants, hostile input; and what the verifier refuses.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "tests/codegen/random_program.h"

namespace aipu::tir::testing {
namespace {

VarPtr var(std::string name, Type type) {
  auto result = std::make_shared<Var>();
  result->name = std::move(name);
  result->type = type;
  return result;
}

Module module_of(std::vector<VarPtr> params, std::vector<Stmt> body, Type result = Type::void_type()) {
  Module module;
  module.functions.push_back(
      std::make_shared<PrimFunc>(PrimFunc{"f", std::move(params), result, block(std::move(body))}));
  return module;
}

void expect_round_trip(const Module& module) {
  const std::string text = print_module(module);
  const Result<Module> parsed = parse_module(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message() << "\n" << text;
  EXPECT_TRUE(structurally_equal(module, *parsed)) << text;
  EXPECT_EQ(print_module(*parsed), text);
}

// A module with every kind of expression and statement.
Module everything() {
  const Type i32 = Type::scalar(DType::kI32), f32x4 = Type::vector(DType::kF32, 4);
  auto p = std::make_shared<Var>(Var{"p", Type::pointer_to(DType::kF32, 4, Scope::kGlobal1), true, false});
  auto n = std::make_shared<Var>(Var{"n", i32, false, true});
  const VarPtr odd_name = var("odd name \"x\"\n", i32), v = var("v", f32x4), i = var("i", i32),
               lut = var("lut", Type::pointer_to(DType::kU8, 1, Scope::kConstant));
  const VarPtr scratch = var("scratch", Type::pointer_to(DType::kI16, 1, Scope::kLsram)),
               q = var("q", Type::pointer_to(DType::kF32, 4, Scope::kPrivate));
  const auto span = SourceSpan{std::make_shared<const std::string>("kernels/conv \"1\".py"), 12, 5};
  std::vector<Stmt> body;
  body.push_back(make_stmt(Comment{"say \"hi\"\n"}));
  body.push_back(make_stmt(Alloc{lut, 3, {std::byte{0}, std::byte{0xff}, std::byte{0x1a}}}));
  body.push_back(make_stmt(Alloc{scratch, 100, {}}));
  body.push_back(make_stmt(
      Define{odd_name, binary(BinaryOp::kShr, binary(BinaryOp::kSub, var_ref(n), int_imm(-7)), int_imm(2))}, span));
  body.push_back(make_stmt(Define{v, load(var_ref(p), var_ref(odd_name))}, span));
  body.push_back(make_stmt(Define{q, make_expr(Type::pointer_to(DType::kF32, 4, Scope::kPrivate), AddressOf{v})}));
  const Expr lane = make_expr(Type::scalar(DType::kF32), LaneRead{var_ref(v), int_imm(1)});
  const Expr literal = make_expr(f32x4, VectorLiteral{{lane, float_imm(0.1), float_imm(-INFINITY), lane}});
  const Expr mask = binary(BinaryOp::kLt, var_ref(v), broadcast(float_imm(1e-3f), 4));
  body.push_back(
      make_stmt(Assign{v, *intrinsic_call("vadd", {var_ref(v), literal}, {}, mask, broadcast(float_imm(2), 4))}));
  body.push_back(make_stmt(LaneWrite{v, int_imm(2), cast(Type::scalar(DType::kF32), var_ref(n))}));
  const Expr both = binary(BinaryOp::kAnd, make_expr(Type::scalar(DType::kBool), Unary{UnaryOp::kNot, bool_imm(true)}),
                           bool_imm(false));
  const Stmt inner = make_stmt(If{both, make_stmt(Break{}), block({})});
  body.push_back(make_stmt(For{i, int_imm(0), var_ref(n), int_imm(2), ForKind::kSerial, inner}, span));
  body.push_back(make_stmt(While{binary(BinaryOp::kGe, var_ref(n), int_imm(3)), make_stmt(Break{})}));
  body.push_back(make_stmt(
      Store{var_ref(q), int_imm(0, DType::kI64), make_expr(f32x4, Select{bool_imm(true), var_ref(v), literal})}));
  const Expr format = make_expr(Type::scalar(DType::kString), StringImm{"%d\n"});
  body.push_back(
      make_stmt(Evaluate{*intrinsic_call("printf", {format, make_expr(i32, Unary{UnaryOp::kBitNot, var_ref(n)})})}));
  body.push_back(make_stmt(Evaluate{make_expr(
      i32, FunctionCall{"helper", {binary(BinaryOp::kMin, var_ref(n), int_imm(4)), broadcast(bool_imm(true), 8)}})}));
  body.push_back(block({make_stmt(Return{nullptr})}));
  Module module = module_of({p, n}, std::move(body));
  const VarPtr a = var("a", i32), m = var("m", Type::vector(DType::kBool, 8));
  module.functions.push_back(
      std::make_shared<PrimFunc>(PrimFunc{"helper",
                                          {a, m},
                                          i32,
                                          block({make_stmt(Return{binary(BinaryOp::kMax, var_ref(a), int_imm(1))})}),
                                          InlineHint::kNoInline}));
  return module;
}

TEST(TirText, CarriesEveryNode) {
  const Module module = everything();
  const Status valid = verify(module);
  ASSERT_TRUE(valid.ok()) << valid.message();
  expect_round_trip(module);
  // Spans of statements come back.
  const Result<Module> parsed = parse_module(print_module(module));
  bool found = false;
  for (const Stmt& stmt : parsed->entry().body->as<Block>()->body) {
    if (const auto* define = stmt->as<Define>(); define && define->var->name == "v") {
      found = true;
      ASSERT_TRUE(stmt->span.file);
      EXPECT_EQ(*stmt->span.file, "kernels/conv \"1\".py");
      EXPECT_EQ(stmt->span.line, 12);
      EXPECT_EQ(stmt->span.column, 5);
    }
  }
  EXPECT_TRUE(found);
}

TEST(TirText, ReadsAsExpected) {
  EXPECT_EQ(print_expr(binary(BinaryOp::kAdd, int_imm(1), int_imm(-2))), "(1 + -2)");
  EXPECT_EQ(print_expr(int_imm(5, DType::kU64)), "5:uint64");
  EXPECT_EQ(print_expr(float_imm(1, DType::kF32)), "1.0");
  EXPECT_EQ(print_expr(float_imm(0.1, DType::kF64)), "0.1:float64");
  EXPECT_EQ(print_expr(float_imm(0.1, DType::kF32)), "0.1");
  EXPECT_EQ(print_expr(broadcast(bool_imm(true), 4)), "broadcast<4>(true)");
  EXPECT_EQ(
      print_expr(*intrinsic_call(
          "vload", {var_ref(var("p", Type::pointer_to(DType::kF32, 1, Scope::kGlobal))), nullptr}, {{"lanes", 16}})),
      "S.vload<float32x16>(p#0, 1, .lanes=16)");
}

TEST(TirText, ConstantsAreExact) {
  std::vector<double> values = {0.0,
                                -0.0,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                -NAN,
                                std::bit_cast<double>(uint64_t{0x7ff8000000001234}),
                                5e-324,
                                1.7976931348623157e308};
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) values.push_back(std::bit_cast<double>(random()));
  for (const double value : values) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      const double rounded = value != value ? value : round_float(value, dtype);
      const Expr imm = make_expr(Type::scalar(dtype), FloatImm{rounded});
      const Module module = module_of({}, {make_stmt(Evaluate{imm})});
      const Result<Module> parsed = parse_module(print_module(module));
      ASSERT_TRUE(parsed.ok()) << parsed.status().message() << print_module(module);
      ASSERT_TRUE(structurally_equal(module, *parsed)) << print_module(module);
    }
  }
  for (const int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    for (const DType dtype : {DType::kI64, DType::kU64, DType::kI8, DType::kU8, DType::kBool}) {
      expect_round_trip(module_of({}, {make_stmt(Evaluate{int_imm(value, dtype)})}));
    }
  }
}

TEST(TirText, EqualityIsStructural) {
  const auto program = [](int64_t constant, const char* name, DType type) {
    const VarPtr x = var(name, Type::scalar(type));
    return module_of({}, {make_stmt(Define{x, int_imm(constant, type)}), make_stmt(Evaluate{var_ref(x)})});
  };
  EXPECT_TRUE(structurally_equal(program(1, "x", DType::kI32), program(1, "x", DType::kI32)));
  EXPECT_FALSE(structurally_equal(program(1, "x", DType::kI32), program(2, "x", DType::kI32)));
  EXPECT_FALSE(structurally_equal(program(1, "x", DType::kI32), program(1, "y", DType::kI32)));
  EXPECT_FALSE(structurally_equal(program(1, "x", DType::kI32), program(1, "x", DType::kU32)));
  // Two variables of one look are not the same variable.
  const VarPtr a = var("x", Type::scalar(DType::kI32)), b = var("x", Type::scalar(DType::kI32));
  const Stmt define_a = make_stmt(Define{a, int_imm(1)}), define_b = make_stmt(Define{b, int_imm(1)});
  EXPECT_FALSE(structurally_equal(module_of({}, {define_a, define_b, make_stmt(Evaluate{var_ref(a)})}),
                                  module_of({}, {define_a, define_b, make_stmt(Evaluate{var_ref(b)})})));
}

TEST(TirText, RefusesWithPlaceAndReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "TIR text:1:1: expected 'func'"},
      {"func f() -> void {\n  set x#1 = 3\n}", "TIR text:2:11: variable x#1 is used before its declaration"},
      {"func f() -> void {\n  let x#1: int33 = 3\n}", "unknown type 'int33'"},
      {"func f() -> void { eval S.nothing<void>() }", "there is no intrinsic 'nothing'"},
      {"func f() -> void { eval 300:uint8 }", "300 does not fit uint8"},
      {"func f() -> void { eval 1.5:int32 }", "a floating literal needs a floating type"},
      {"func f() -> void { eval (1 ? 2) }", "expected ':'"},
      {"func f() -> void { eval \"abc }", "unterminated string"},
      {"func f() -> void { let x#1: int32 = 1 let x#1: int32 = 2 }", "variable #1 is declared twice"},
      {"func f() -> void { let x#1: int32 = x#1 }", "used before its declaration"},
      {"func f() -> void { alloc b#1: private int8* [1] = x\"0g\" }", "bad hexadecimal data"},
      {"func f() -> void { for never i#1: int32 = 0 to 1 step 1 {} }", "unknown kind of loop 'never'"},
      {"func f() -> void { } func f() -> void { }", "function 'f' is defined twice"},
      {"func f() -> void { let x#1: int32 = 3 eval y#1 }", "variable #1 is called 'x', not 'y'"},
      {"func f() -> void { let x#1: int32 = 3 eval \"y\n\"#1 }", "variable #1 is called 'x', not 'y\\n'"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Module> parsed = parse_module(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find(message), std::string::npos)
        << parsed.status().message() << " for " << text;
    EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
  }
}

TEST(TirText, DepthIsBounded) {
  std::string text = "func f() -> void { eval ";
  for (int i = 0; i < 200000; ++i) text += '(';
  const Result<Module> parsed = parse_module(text);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().message().find("nested deeper"), std::string::npos);
  std::string blocks = "func f() -> void {";
  for (int i = 0; i < 200000; ++i) blocks += "block {";
  EXPECT_FALSE(parse_module(blocks).ok());
}

// Damaged text never crashes parser, verifier or interpreter.
TEST(TirText, SurvivesDamage) {
  std::mt19937_64 random(17);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text =
        print_module(round % 3 == 0 ? everything() : random_program(static_cast<uint64_t>(round % 40) + 1));
    const int edits = 1 + static_cast<int>(random() % 2);
    for (int k = 0; k < edits; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 8) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 10);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 20));
          break;
        default: {
          // Another digit: most likely still a program.
          const size_t digit = text.find_first_of("0123456789", at);
          if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random() % 10);
          break;
        }
      }
      if (text.empty()) text = "x";
    }
    const Result<Module> parsed = parse_module(text);
    if (!parsed.ok() || !verify(*parsed).ok()) continue;
    ++accepted;
    std::vector<InterpreterArgument> arguments;
    std::vector<std::byte> memory(256);
    for (const VarPtr& param : parsed->entry().params) {
      arguments.push_back(param->type.pointer ? InterpreterArgument{memory.data(), memory.size(), 0, true}
                                              : InterpreterArgument{nullptr, 0, 3, false});
    }
    std::vector<unsigned char> lsram(1 << 16);
    aipu_tec_context context{};
    context.tec_count = 1;
    context.lsram = lsram.data();
    context.lsram_size = static_cast<unsigned>(lsram.size());
    InterpreterOptions options;
    options.max_steps = 20000;
    (void)interpret(*parsed, context, arguments, options).ok();
  }
  EXPECT_GT(accepted, 100);
}

// ---- verifier ----

TEST(TirVerifier, RefusesWhatIsNotWellTyped) {
  const std::pair<const char*, const char*> cases[] = {
      {"let x#1: int32 = 3:int64", "a variable of type int32 is given a value of type int64"},
      {"eval (1 + 2:int64)", "'+' of int32 and int64"},
      {"eval (1.0 % 2.0)", "'%' of float32"},
      {"eval (true + false)", "'+' of bool"},
      {"eval (1 && 2)", "'&&' of int32"},
      {"eval !3", "'not' is for scalar bools"},
      {"eval ~1.5", "'~' is for integers"},
      {"eval (1 ? 2 : 3)", "the condition of a select is a scalar bool"},
      {"eval (true ? 2 : 3.0)", "the arms of a select have one type"},
      {"eval cast<float32x4>(1)", "a cast from int32 to float32x4"},
      {"eval (type float32 : (1 + 2))", "has type float32 instead of int32"},
      {"if 1 { }", "a condition is a scalar bool"},
      {"break", "a break outside a loop"},
      {"for serial i#1: int32 = 0 to 4 step 0 { }", "the step of a loop is positive"},
      {"for unrolled i#1: int32 = 0 to n#0 step 1 { }", "constant bounds"},
      {"for serial i#1: int32 = 0 to 4:int64 step 1 { }", "the types of the bounds"},
      {"for unrolled i#1: int32 = 0 to 4 step 1 { break }", "a break outside a loop"},
      {"block { let x#1: int32 = 3 } eval x#1", "variable 'x' is used outside its scope"},
      {"store n#0[0] = 1", "a store needs a pointer"},
      {"alloc b#1: private int32* [4] store b#1[0] = 1.5", "float32 is stored through private int32*"},
      {"alloc b#1: constant int8* [1] = x\"00\" store b#1[0] = 1:int8", "a store to constant memory"},
      {"alloc b#1: constant int8* [2] = x\"00\"", "exactly its data"},
      {"alloc b#1: global int32* [4]", "a buffer can't be in this scope"},
      {"alloc b#1: private int32* [999999999999]", "the size of a buffer"},
      {"alloc b#1: private int32* [4] eval load(b#1, 1:uint32)", "an index is a signed integer"},
      {"eval lane(broadcast<4>(1), 4)", "lane 4 of 4"},
      {"eval S.vadd<float32x4>(broadcast<4>(1.0), broadcast<4>(1))", "Argument type mismatch"},
      {"eval S.vadd<int32x4>(broadcast<4>(1.0), broadcast<4>(2.0))", "instead of float32x4"},
      {"eval S.vadd<float32x4>(broadcast<4>(1.0), 2.0)", "operands that still need conversions"},
      {"eval S.vadd<float32x4>(broadcast<4>(1.0), broadcast<4>(2.0), .color=1)", "has no attribute 'color'"},
      {"eval S.vadd<int32x4>(broadcast<4>(1), broadcast<4>(2), .out_sign=7)", "attribute out_sign=7"},
      {"eval call<int32> g()", "there is no function 'g'"},
      {"return 3", "a function that returns void returns int32"},
  };
  for (const auto& [statement, message] : cases) {
    const std::string text = std::string("func f(n#0: int32) -> void {\n  ") + statement + "\n}\n";
    const Result<Module> parsed = parse_module(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message() << " in " << text;
    const Status status = verify(*parsed);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message() << " for " << statement;
  }
}

TEST(TirVerifier, RefusesBadSignaturesAndRecursion) {
  const std::pair<const char*, const char*> cases[] = {
      {"func f(v#0: float32x4) -> void { }", "parameter 'v' can't have type float32x4"},
      {"func f() -> int32 { return 1 }", "an entry returns nothing"},
      {"func f() -> void { eval call<void> f() }", "current not support entry function as subroutines"},
      {"func f() -> void { eval call<void> g() } func g() -> void { eval call<void> h() } func h() -> void { eval "
       "call<void> g() }",
       "calls itself"},
      {"func f() -> void { eval call<void> g(1) } func g(x#0: float32) -> void { }",
       "argument 0 of 'g' has type int32 instead of float32"},
      {"func f() -> void { eval call<void> g() } func g(x#0: float32) -> void { }", "is called with 0 arguments"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Module> parsed = parse_module(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    const Status status = verify(*parsed);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

TEST(TirVerifier, NamesTheLineOfTheSource) {
  const Result<Module> parsed = parse_module("func f() -> void {\n  eval (1 + 2:int64)  @\"conv.py\":17:3\n}\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(verify(*parsed).message(), "TIR: f: '+' of int32 and int64: in `conv.py:17: eval (1 + 2:int64)`");
}

}  // namespace
}  // namespace aipu::tir::testing
