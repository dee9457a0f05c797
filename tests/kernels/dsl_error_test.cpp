// Every error phrase of the language that the front end is responsible for, with the place it points to.
#include <gtest/gtest.h>

#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

using dsl_test::kHeader;

struct ErrorCase {
  std::string name;
  std::string source;  // "<!>" stands just before the place that the first diagnostic points to
  std::string phrase;
};

void PrintTo(const ErrorCase& c, std::ostream* out) { *out << c.name; }

// A kernel f with some parameters of every kind and the given body lines.
std::string kernel(const std::string& body) {
  std::string text =
      "@S.prim_func\n"
      "def f(a: S.ptr(\"i32\", \"global\"), h: S.ptr(\"fp32\", \"global\"), v: S.ptr(\"void\", \"global\"), vec: S.ptr(\"i8x32\", "
      "\"global\"),\n"
      "      n: S.i32, u: S.u32, i8: S.i8, u8: S.u8, x: S.fp32, bf: S.bf16):\n";
  size_t begin = 0;
  while (begin <= body.size()) {
    const size_t end = std::min(body.find('\n', begin), body.size());
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string with_sub(const std::string& sub, const std::string& body) { return sub + kernel(body); }

const std::string kSub = "@S.prim_func\ndef g(p: S.ptr(\"i32\", \"global\"), k: S.i32, w: S.i32x8):\n    p[0] = k\n";
const std::string kDefaults =
    "@S.prim_func\ndef g(p: S.ptr(\"i32\", \"global\"), k: S.i32 = 1, m: S.i32 = 2, q: S.i32 = 3):\n    p[0] = k\n";

const std::vector<ErrorCase>& cases() {
  static const std::vector<ErrorCase> kCases = {
      // section 1
      {"IsInline", "@<!>S.prim_func(is_inline=3)\ndef f():\n    pass\n", "Invalid value of parameter \"is_inline\"."},
      {"EntryAsSubroutine", "@S.prim_func\ndef g():\n    <!>f()\n@S.prim_func\ndef f():\n    g()\n",
       "current not support entry function as subroutines"},
      {"PlainAnnotated", with_sub("def g(b: S.i32):\n    return b\n", "c = <!>g(n)"),
       "The parameter \"b\" of pure Python function \"g\" can't be annotated as any type in \"S\" space, forget to decorate it using "
       "\"S.prim_func\"?"},
      {"PlainAnnotatedReturn", with_sub("def g(b) -> S.i32:\n    return b\n", "c = <!>g(n)"),
       "The return value of pure Python function \"g\" can't be annotated as any type in \"S\" space, forget to decorate it using "
       "\"S.prim_func\"?"},
      {"NotDecorated", "def <!>f():\n    pass\n", "must be decorated by \"S.prim_func\"."},
      // section 2
      {"UnknownAttribute", kernel("c = <!>S.fp8x32(n)"), "module 'tvm.compass.dsl.script' has no attribute 'fp8x32'"},
      {"UnknownAttributeWord", kernel("c = <!>S.floats8(n)"), "module 'tvm.compass.dsl.script' has no attribute 'floats8'"},
      {"SpecialFloat", kernel("c = <!>S.fp32(\"infinite\")"), "The 1st arg expect one of (\"inf\", \"-inf\", \"nan\")"},
      {"LiteralLength", kernel("c = <!>S.i32x8([1, 2, 3, 4])"), "The length of the 1st arg expect \"8\", but got: \"4\"."},
      {"Redefined", kernel("c = S.size_i32(3)\n<!>c = S.size_i32(4)"), "Variable \"c\" is redefined."},
      {"BoolCalled", kernel("c = <!>S.bool(n)"), "The function only can be used in type annotation."},
      {"BoolVectorCalled", kernel("c = <!>S.boolx8(n)"), "The function only can be used in type annotation."},
      // section 3
      {"NoAnnotation", "@S.prim_func\ndef f(<!>a):\n    pass\n", "Type annotation required for function parameters."},
      {"VectorEntryParameter", "@S.prim_func\ndef f(<!>a: S.i32x8):\n    pass\n",
       "A vector variable can't be a argument of the entry function."},
      {"MaskEntryParameter", "@S.prim_func\ndef f(<!>a: S.boolx8):\n    pass\n",
       "A vector variable can't be a argument of the entry function."},
      {"OddAnnotation", "@S.prim_func\ndef f(<!>a: 3):\n    pass\n",
       "The type annotation of parameter \"a\" of function \"f\" is not supported."},
      {"PointerElement", "@S.prim_func\ndef f(a: <!>S.ptr(\"int4\", \"global\")):\n    pass\n",
       "The scalar form of arg \"dtype\" expect one of (int8, uint8, int16, uint16, int32, uint32, float16, float32, bfloat16, void), but "
       "got: \"int4\"."},
      {"PointerNone", "@S.prim_func\ndef f(a: <!>S.ptr(None)):\n    pass\n",
       "Please use \"void\" to explicitly represent the void pointer."},
      {"PointerScope", "@S.prim_func\ndef f(a: <!>S.ptr(\"i32\", \"heap\")):\n    pass\n", "The arg \"scope\" expect one of"},
      {"NoReturnAnnotation", with_sub("@S.prim_func\ndef g(k: S.i32):\n    <!>return k\n", "g(n)"),
       "This function lacks return type annotation."},
      {"ReturnScope",
       with_sub("@S.prim_func\ndef g(p: S.ptr(\"i32\")) -> S.ptr(\"i32\", \"global\"):\n    <!>return p\n",
                "b = S.alloc((4,), \"i32\")\nc = g(b)"),
       "The scope of return type expect \"global\", but got: \"private\"."},
      {"StackPointer",
       with_sub("@S.prim_func\ndef g() -> S.ptr(\"i32\"):\n    b = S.alloc((4,), \"i32\")\n    q = b + 1\n    <!>return q\n", "c = g()"),
       "The function \"g\" return a stack pointer. Please check it carefully."},
      {"VectorForScalar", with_sub(kSub, "<!>g(a, S.i32x8(1), S.i32x8(1))"), "The 2-th arg expect a scalar."},
      {"ScalarForVector", with_sub(kSub, "<!>g(a, n, n)"), "The 3-th arg expect a vector."},
      {"ValueForPointer", with_sub(kSub, "<!>g(n, n, S.i32x8(1))"), "The 1-th arg expect a pointer."},
      {"PointerForValue", with_sub(kSub, "<!>g(a, a, S.i32x8(1))"), "The 2-th arg expect a variable, but got: pointer."},
      {"ArgumentScope", with_sub(kSub, "b = S.alloc((4,), \"i32\", \"lsram\")\n<!>g(b, n, S.i32x8(1))"),
       "The scope of 1-th arg expect \"global\", but got: \"lsram\"."},
      {"UnknownKeyword", with_sub(kSub, "<!>g(a, n, kk=1)"), "The function \"g\" got unexpect keyword args: \"kk\"."},
      {"DoubleArgument", with_sub(kSub, "<!>g(a, n, k=1)"), "The function \"g\" got multiple values for args: \"k\"."},
      {"MissingArgument", with_sub(kDefaults, "<!>g(k=1)"), "The function \"g\" missing \"1\" args: \"p\"."},
      {"ArgumentCount", with_sub(kSub, "<!>g(a, n, n, n)"), "The function \"g\" expect 3 args, but got: \"4\"."},
      {"ArgumentCountDefaults", with_sub(kDefaults, "<!>g(a, 1, 2, 3, 4)"), "The function \"g\" expect 1 to 4 args, but got: \"5\"."},
      // sections 4 and 5
      {"StringInside", kernel("<!>c = \"text\""), "Can't define string inside primitive function, please define it outside."},
      {"Consequential", kernel("<!>c = d = 3"), "Consequential assignments like 'a = b = c' are not supported."},
      {"Duplicate", kernel("<!>c, c = 1, 2"), "Duplicate vars assigned."},
      {"TrivialWhile", kernel("while <!>True:\n    pass"), "The condition should not be trivial."},
      {"Continue", kernel("for i in range(n):\n    <!>continue"), "Visitor of AST node is not implemented: Continue"},
      {"Try", kernel("<!>try:\n    pass\nexcept ValueError:\n    pass\n"), "Visitor of AST node is not implemented: Try"},
      {"Raise", kernel("<!>raise n"), "Visitor of AST node is not implemented: Raise"},
      {"Delete", kernel("<!>del n"), "Visitor of AST node is not implemented: Delete"},
      {"Global", kernel("<!>global n"), "Visitor of AST node is not implemented: Global"},
      {"Nonlocal", kernel("<!>nonlocal n"), "Visitor of AST node is not implemented: Nonlocal"},
      {"Match", kernel("<!>match n:\n    case 1:\n        pass\n"), "Visitor of AST node is not implemented: Match"},
      {"AsyncFor", kernel("<!>async for i in n:\n    pass\n"), "Visitor of AST node is not implemented: AsyncFor"},
      {"NestedDef", kernel("<!>def g():\n    pass\n"), "Visitor of AST node is not implemented: FunctionDef"},
      {"NestedClass", kernel("<!>class G:\n    pass\n"), "Visitor of AST node is not implemented: ClassDef"},
      {"LambdaAssigned", kernel("c = <!>lambda q: q + 1"), "Visitor of AST node is not implemented: Lambda"},
      {"With", kernel("with <!>n:\n    pass"), "Invalid context expression in the with-statement."},
      {"Print", kernel("<!>print(n)"), "The built-in \"print\" isn't supported, please use \"S.printf\"."},
      {"Max", kernel("c = <!>max(n, 3)"), "The built-in \"max\" isn't supported, please use \"S.max\"."},
      {"Min", kernel("c = <!>min(n, n)"), "The built-in \"min\" isn't supported, please use \"S.min\"."},
      {"TypeChange", kernel("c = 1\n<!>c = x"),
       "Type mismatch assignment: \"int32\" vs. \"float32\", need to do the explicit type conversion for the right hand side(i.e., new "
       "value)."},
      {"LiteralTypeChange", kernel("<!>x = 3"), "Type mismatch assignment: \"float32\" vs. \"int32\""},
      {"PointerTypeChange", kernel("c = a\n<!>c = h"), "Type mismatch assignment: \"int32*\" vs. \"float32*\""},
      {"UndefinedAfterIf", kernel("if n > 0:\n    c = 1\nd = <!>c"), "Undefined variable: c"},
      {"BufferReassigned", kernel("b = S.alloc_buffer((4,), \"i32\")\n<!>b = S.alloc_buffer((4,), \"i32\")"),
       "Unsupport reassign a buffer, maybe you can use pointer."},
      {"VectorCondition", kernel("if <!>S.i32x8(1):\n    pass"), "The condition required to be a scalar expression."},
      {"MaskCondition", kernel("if <!>S.i32x8(1) == S.i32x8(1):\n    pass"), "The condition required to be a scalar expression."},
      {"PointerCondition", kernel("if <!>a:\n    pass"), "Please check whether the pointer is null explicitly."},
      {"OddIterable", kernel("for i in <!>[1, 2]:\n    pass"), "Expect the for loop to be one of the following:"},
      {"LoopVariableDefined", kernel("for <!>n in range(3):\n    pass"),
       "The iter var n of the for loop has been defined in outside scope, please use another name."},
      {"LoopVariableGlobal", "j = 3\n" + kernel("for <!>j in range(3):\n    pass"),
       "The iter var j of the for loop has been defined in outside scope, please use another name."},
      {"ForElse", kernel("<!>for i in range(3):\n    pass\nelse:\n    pass"), "The else part of a loop is not supported."},
      // section 6
      {"ByteMultiply", kernel("c = <!>vec[0] * vec[0]"), "The 8bit equal-width multiply is meaningless."},
      {"ByteNegate", kernel("c = <!>-vec[0]"), "The 8bit equal-width multiply is meaningless."},
      {"HalfDivide", kernel("c = <!>S.fp16x16(1) / S.fp16x16(2)"), "The operand of '/' does not support float16/bfloat16 vector."},
      {"IntegerPower", kernel("c = <!>n ** 2"), "power only applies to floating"},
      {"VectorAnd", kernel("c = <!>(vec[0] == vec[0]) and (vec[0] == vec[0])"), "Invalid and operator between vector, use & instead."},
      {"VectorOr", kernel("c = <!>(vec[0] == vec[0]) or (vec[0] == vec[0])"), "Invalid or operator between vector, use | instead."},
      {"TernaryCondition", kernel("c = 1 if <!>n else 2"), "if_then_else only accept the condition to be boolean type."},
      {"UnsafeCompare", kernel("c = <!>n < u"),
       "Unsafe unsigned and signed comparison, \"int32\" vs. \"uint32\", please do the type conversion explicitly."},
      {"UnsafeCompareLiteral", kernel("c = <!>u < -1"),
       "Unsafe unsigned and signed comparison, \"uint32\" vs. \"int32\", please do the type conversion explicitly."},
      {"ShiftAmount", kernel("c = <!>n << 32"), "Shift amount must be non-negative and less than 32"},
      {"ShiftNegative", kernel("c = <!>n >> -1"), "Shift amount must be non-negative and less than 32"},
      {"Bfloat16", kernel("c = <!>bf + bf"),
       "There isn't any compute instruction for bfloat16 scalar, please convert it to float32 first."},
      {"Bfloat16Math", kernel("c = <!>S.exp(bf)"),
       "There isn't any compute instruction for bfloat16 scalar, please convert it to float32 first."},
      {"StoreLanes", kernel("<!>vec[0] = S.i8x16(1)"), "Incompatible types in BufferStore"},
      {"FloatIndex", kernel("c = <!>a[x]"), "All indices should be integer type, please convert it explicitly."},
      // section 7
      {"Broadcast", kernel("c = <!>S.vadd(vec[0], 300)"), "Can't broadcast \"300\" to any of \"(int8x32, uint8x32)\"."},
      {"AllScalar", kernel("c = <!>S.vadd(n, n)"), "All arguments are scalar."},
      {"PointerOperand", kernel("c = <!>S.vadd(vec, vec[0])"), "Unexpect \"int8x32*\" pointer as argument."},
      {"OperandMismatch", kernel("c = <!>S.vadd(vec[0], S.i32x8(1))"), "Argument type mismatch: 0-th: \"int8x32\" vs. 1-th: \"int32x8\"."},
      {"OperandSign", kernel("c = <!>S.vadd(vec[0], S.u8x32(1))"),
       "The sign of operands is different, if the API have parameter \"out_sign\" please specify the output sign."},
      {"MaskElements", kernel("c = <!>S.vload(a, mask=[True, 1])"), "All elements of arg \"mask\" expect \"True\" or \"False\"."},
      {"MaskInteger", kernel("c = <!>S.vload(a, mask=3)"), "The arg \"mask\" expect a tuple or list, but got: \"int\"."},
      {"MaskVector", kernel("c = <!>S.vload(a, mask=S.i32x8(1))"), "The arg \"mask\" expect a boolean vector, but got: \"int32x8\"."},
      {"MaskLanes", kernel("c = <!>S.vload(a, mask=S.i8x32(1) == 1)"), "The length of arg \"mask\" expect \"8\", but got: \"32\"."},
      {"MaskTooLong", kernel("c = <!>S.vload(a, mask=[True] * 9)"), "The length of arg \"mask\" expect <= \"8\""},
      {"MaskString", kernel("c = <!>S.vload(a, mask=\"TX\")"), "The arg \"mask\" is not a valid mask string"},
      {"PassThroughType", kernel("c = <!>S.vadd(vec[0], 1, mask=\"8T\", r=1.5)"),
       "Argument type mismatch: r: \"float32\" vs. return data type: \"int8x32\"."},
      {"PassThroughRange", kernel("c = <!>S.vadd(vec[0], 1, mask=\"8T\", r=300)"),
       "Argument r \"300\" is out of range of return data type \"int8x32\"."},
      {"LaneIndexType", kernel("c = S.i32x8(1)\nd = <!>c[x]"), "The index value must be a scalar integer."},
      {"LaneFloat", kernel("c = S.i32x8(1)\n<!>c[0] = x"), "A lane of \"int32x8\" can't be assigned a \"float32\""},
      {"LaneAugmented", kernel("c = S.i32x8(1)\n<!>c[0] += 1"),
       "A lane of a vector variable can't be the target of an augmented assignment."},
      {"LoadLanes", kernel("c = <!>S.vload(a, lanes=1)"), "The arg \"lanes\" expect > 1, but got: \"1\"."},
      {"LoadLanesRunTime", kernel("c = <!>S.vload(a, lanes=n)"), "The arg \"lanes\" expect an integer scalar constant."},
      {"ConstMaskShort", kernel("c = <!>S.const_mask([True])"), "The length of the 1st arg expect > 1"},
      // section 8
      {"PointerTwoIndices", kernel("c = <!>a[0, 1]"), "Pointer only can be used to access 1D data."},
      {"SliceStop", kernel("c = <!>a[0:]"), "For accessing data through pointer, the stop of the slice must be given."},
      {"VoidAccess", kernel("c = <!>v[0]"), "Can't access data through void pointer."},
      {"VoidMove", kernel("c = <!>v + 1"), "The void pointer can't be moved."},
      {"TemporaryAddress", kernel("c = 1\nd = <!>c.addr[0]"), "Can't access data through this temporary pointer"},
      {"TemporaryMovedCast", kernel("c = <!>(a + 3).as_ptr(\"u8\")[0]"), "Can't access data through this temporary pointer"},
      {"TemporaryCall",
       with_sub("@S.prim_func\ndef g(p: S.ptr(\"i32\", \"global\")) -> S.ptr(\"i32\", \"global\"):\n    return p\n", "c = <!>g(a)[0]"),
       "Can't access data through this temporary pointer"},
      {"SliceBackwards", kernel("c = <!>a[8:0]"), "The stop of the slice must > the start of the slice >= 0."},
      {"SliceStep", kernel("c = <!>a[0:8:-1]"), "The step of the slice must > 0 when access data through pointer."},
      {"NegativeIndex", kernel("c = <!>a[-1]"), "The index must >= 0 when access data through pointer."},
      {"AllocShape", kernel("c = <!>S.alloc_buffer((n,), \"i32\")"), "The element of 1st arg expect an integer scalar constant."},
      {"AllocType", kernel("c = <!>S.alloc_buffer((4,), \"bool\")"), "The arg \"dtype\" expect one of"},
      {"AllocScope", kernel("c = <!>S.alloc_buffer((4,), \"i32\", \"global\")"), "The arg \"scope\" expect one of"},
      // intrinsics.md, the parts that are syntax here
      {"Tag", kernel("c = <!>S.tag(S.vload(a), \"zip\")"), "The arg \"attr\" expect one of"},
      {"TagNode", kernel("c = <!>S.tag(S.vload(a), \"no_zip\")"), "In attr \"no_zip\", the arg \"node\" expect one of ('vcast',)"},
      {"SplitNative", kernel("c = <!>S.vsplit(vec[0])"), "Redundant useless call."},
      {"CeilDivZero", kernel("c = <!>S.ceildiv(n, 0)"), "The 2nd arg can't be zero."},
      {"PowInteger", kernel("c = <!>S.pow(n, n)"), "Only support floating instruction."},
      {"Events", kernel("c = <!>S.alloc_events(0)"), "The arg \"count\" expect an positive integer scalar constant."},
      {"CastSaturateScalar", kernel("c = <!>S.cast(n, \"i8\", saturate=True)"), "Currently can't set \"saturate\" when"},
      {"CastPart", kernel("c = <!>S.cast(vec[0], \"i16\", part=\"middle\")"), "The arg \"part\" expect one of"},
      {"CastForbidden", kernel("c = <!>S.cast(S.fp16x16(1), \"i16\")"), "Unsupported cast directly from \"float16x16\" to \"int16x16\""},
      {"CastItems", kernel("c = <!>S.cast((vec[0], n), \"i8\")"), "The data type of all items must be same and must be vector."},
      {"ScalarMask", kernel("c = <!>S.max(n, n, mask=\"8T\")"), "Only support mask in vector scenario."},
      {"SelfReference", "p = q\nq = <!>p\n" + kernel("c = p"), "The definition of \"p\" refers to itself."},
      // extensions
      {"BreakUnrolled", kernel("for i in S.unroll(3):\n    <!>break"),
       "'break' can't leave a loop that is unrolled while parsing (S.unroll)."},
      {"UnrollRunTime", kernel("for i in <!>S.unroll(n):\n    pass"), "The bounds of S.unroll must be known at compile time."},
      {"ReturnUnderIf", with_sub("def g(k):\n    if k > 0:\n        <!>return k\n    return k\n", "c = g(n)"),
       "The inlined function \"g\" can't return under run-time control flow."},
      {"RunTimeTupleIndex", kernel("c = (n, n)\nfor i in range(2):\n    d = <!>c[i]"),
       "The index of a compile-time tuple must be known at compile time; use S.unroll for the loop."},
      {"Recursion", with_sub("def g(k):\n    return <!>g(k)\n", "c = g(n)"),
       "The function \"g\" is called too deeply; recursion is not supported."},
      {"SubRecursion", with_sub("@S.prim_func\ndef g(k: S.i32):\n    <!>g(k)\n", "g(n)"),
       "The function \"g\" calls itself; recursion is not supported."},
      {"HostValueInLoop", with_sub("def g(k):\n    t = 1\n    for i in range(k):\n        <!>t = t + 1\n    return t\n", "c = g(n)"),
       "\"t\" can't change its compile-time value under run-time control flow"},
  };
  return kCases;
}

class DslError : public testing::TestWithParam<ErrorCase> {};

TEST_P(DslError, HasPhraseAndPlace) {
  std::string source = GetParam().source;
  const size_t mark = source.find("<!>");
  ASSERT_NE(mark, std::string::npos);
  source.erase(mark, 3);
  int line = 1;
  size_t line_begin = 0;
  for (size_t i = 0; i < mark; ++i) {
    if (source[i] == '\n') {
      ++line;
      line_begin = i + 1;
    }
  }
  const auto module = dsl_test::compile(source);
  ASSERT_FALSE(module.ok()) << tir::print_module(*module);
  const std::string message = module.status().message();
  const std::string first_line = message.substr(0, message.find('\n'));
  EXPECT_NE(first_line.find(GetParam().phrase), std::string::npos) << message;
  const std::string place =
      "error: " + first_line + "\n --> kernel.py:" + std::to_string(line) + ":" + std::to_string(mark - line_begin + 1) + "\n";
  EXPECT_NE(message.find(place), std::string::npos) << "expected place " << line << ":" << (mark - line_begin + 1) << "\n" << message;
  const size_t end = source.find('\n', mark);
  const std::string excerpt = source.substr(line_begin, end - line_begin) + "\n" + std::string(mark - line_begin, ' ') + "^\n";
  EXPECT_NE(message.find(excerpt), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Phrases, DslError, testing::ValuesIn(cases()), [](const auto& p) { return p.param.name; });

TEST(DslErrors, SeveralAreReportedAtOnce) {
  const auto module = dsl_test::compile(kernel("c = missing_one\nd = c + 1\ne = missing_two\nfor i in range(n):\n    e = missing_three"));
  ASSERT_FALSE(module.ok());
  const std::string message = module.status().message();
  EXPECT_NE(message.find("Undefined variable: missing_one"), std::string::npos);
  EXPECT_NE(message.find("Undefined variable: missing_two"), std::string::npos);
  EXPECT_NE(message.find("Undefined variable: missing_three"), std::string::npos);
  // c and e are known to be wrong already.
  EXPECT_EQ(message.find("Undefined variable: c"), std::string::npos) << message;
  EXPECT_EQ(message.find("Undefined variable: e"), std::string::npos) << message;
}

TEST(DslErrors, AnErrorInAMacroNamesItsCaller) {
  const auto module = dsl_test::compile(with_sub("@S.macro\ndef m(p):\n    p[0] = wrong\n", "m(a)"));
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.status().message().find("note: in \"m\" called from kernel.py:7:5"), std::string::npos) << module.status().message();
}

}  // namespace
}  // namespace aipu
