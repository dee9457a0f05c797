// Random bytes and mutated programs: every outcome is a module or an error, quickly.
#include <gtest/gtest.h>

#include <random>

#include "kernels/script_op/binding.h"
#include "kernels/script_op/declaration.h"
#include "runtime/base/file.h"
#include "test_paths.h"
#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

const std::string kSeeds[] = {
    R"(from aipu import script as S
N = 4
add = lambda v, by=N: v + by
def outer(k):
    def inner(v):
        return v * k
    return [inner, lambda v: inner(v) - 1]
@S.prim_func
def f(a: S.ptr("i32", "global"), n: S.i32):
    with S.block("b"):
        i = S.axis.remap("SR", [n, 1])[0]
    e, g = S.alloc_events(2)
    t = S.alloc((8,), "i32", scope="shared")
    S.async_dma_copy(t, a, 8, event=e)
    S.wait_events(e)
    for k in S.tec_range(2):
        a[k] = outer(3)[0](add(n)) + outer(n)[1](k)
    q = a if n > 2 else a + 1
    S.printf("%d %f %v8hlx\n", n, 0.5, S.i32x8(n))
    a[0], a[1] = a[1], S.i32({"x": 1, "y": N}["y"])
    S.barrier()
)",
    R"(from aipu import script as S
N = 4
@S.macro
def m(p, i, *rest):
    p[i] = i + N
def g(p, n, flag=True):
    if flag:
        v = p[n]
    else:
        v = 0
    return [v * k for k in range(3)]
@S.prim_func
def sub(p: S.ptr("i32x8", "lsram"), q: S.i16 = 3) -> S.i32:
    for i, j in S.grid(2, q):
        if i == j and not q < 3:
            return i
    return 7
@S.prim_func
def f(a: S.ptr("i32", "global"), x: S.fp32, n: S.i32):
    b = S.alloc_buffer((2, N), "i32", scope="lsram")
    v = S.vload(a, mask="2T_FF", lanes=8, stride=2)
    v[n] = S.i32(x) << 3
    b[1, 0:4] = a[n * 4 : n * 4 + 4]
    w, z = v + 1, -v
    while n > 0x10:
        n -= 1 if x > 1e-3 else 2
    for k in S.unroll(N):
        m(a, k)
    s = sum(g(a, n))
    p = b.addr_of((1, 2)).as_ptr("u8")
    c = S.alloc_const((2,), "int32", [1, 2 ** 5])
    sub(b.addr_of(0).as_ptr("i32x8"), q=2)
    S.vstore(S.max(w, 0, mask=v < z, r=1), a + 8)
)",
    R"(def f(x):
    t = f"fp32x{len([1, 2, 3]) * 8}" + 'a\n\x41' r"\d"
    return {1: (x, *t), "k": [i for i in range(10) if i % 2 == 0 for j in (1, 2)]}[1][0:2]
)",
};

class NoEnvironment : public dsl::Environment {
 public:
  std::optional<dsl::Captured> lookup(std::string_view) override { return std::nullopt; }
};

// One to four small edits.
void mutate(std::mt19937& random, std::string* text) {
  static const std::string kPieces[] = {
      "(",  ")",         "[",    "]",       ":",      ",",     "=",          "\n",    "    ",
      "S.", "a",         "n",    "f(",      "0",      "-1",    "9999999999", "if ",   "for k in ",
      "**", "not ",      "None", "\"",      "range(", "10**9", "in ",        " and ", "@S.macro\n",
      "v",  "S.unroll(", "1.5",  "lambda ", "x[",     "T * ",  "1 << 40",    "\"\"",  "{"};
  for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
    const size_t at = random() % text->size();
    switch (random() % 5) {
      case 0:
        text->erase(at, 1 + random() % 5);
        break;
      case 1:
        text->insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      case 2:
        (*text)[at] = static_cast<char>(random() % 128);
        break;
      case 3:
        text->insert(at, text->substr(random() % text->size(), random() % 30));
        break;
      default: {
        // Swap two lines.
        const size_t line = text->find('\n', at);
        if (line != std::string::npos) text->insert(line + 1, text->substr(at, line - at) + "\n");
      }
    }
    if (text->empty()) *text = "f";
  }
}

void try_program(const std::string& text) {
  dsl::TemplateParams params;
  params.set("T", int64_t{3});
  const auto module = dsl::parse_kernel({"fuzz.py", text}, "f", params);
  if (!module.ok()) {
    EXPECT_NE(module.status().code(), ErrorCode::kInternal) << module.status().message();
  } else {
    EXPECT_FALSE(tir::print_module(*module).empty());
  }
}

TEST(DslFuzz, RandomBytes) {
  std::mt19937 random(1);
  constexpr std::string_view alphabet = " \n\t()[]{}:;,.=+-*/<>@\"'\\#fFaS019xe_";
  for (int round = 0; round < 1500; ++round) {
    std::string text(random() % 200, '\0');
    for (char& c : text) c = round % 2 == 0 ? static_cast<char>(random() % 256) : alphabet[random() % alphabet.size()];
    try_program(text);
    try_program("@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), n: S.i32):\n    " + text);
  }
}

TEST(DslFuzz, MutatedPrograms) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kSeeds[random() % std::size(kSeeds)];
    mutate(random, &text);
    try_program(text);
  }
}

// Declarations of operators, and what binding them to a node does: they are evaluated as Python.
TEST(DslFuzz, MutatedOperators) {
  std::mt19937 random(3);
  std::vector<std::string> files;
  for (const char* name : {"hard_shrink.py", "unit_rows.py"}) {
    const auto text = read_text_file(std::string(AIPU_SOURCE_DIR) + "/models/custom_op/" + name);
    ASSERT_TRUE(text.ok());
    files.push_back(*text);
  }
  files.emplace_back(R"(from aipu import op
from aipu import script as S
T = op.dtype("int32", "float32")
def pooled(x, n, size):
    kept = x[:-1]
    kept.append(min((n + size - 1) // size, max(n % 3, 2)))
    return [kept, [1] if len(x) > 2 else [size, 2]]
@S.prim_func
def first(x: S.ptr(T, "global"), s: S.ptr(T, "global"), n: S.i32, size: S.i32):
    s[0] = x[0]
@S.prim_func
def second(s: S.ptr(T, "global"), y: S.ptr(T, "global"), z: S.ptr("int8", "global"), m: S.i32):
    y[0] = s[0]
op.register("t::Two", inputs={"x": op.tensor(T, "...rows", "n")}, outputs={"y": op.tensor(T), "z": op.tensor("int8")},
            workspace={"s": op.tensor(T, "m", 3)}, attributes={"size": 2, "mode": "a", "list": [1, 2]},
            extents={"m": lambda rows, n: (rows + n) // 2 if rows > 1 else n}, shape=pooled,
            check=lambda mode, list: f"mode {mode}" if mode == "b" else None, kernels=[first, second], grain=64)
)");
  const graph::TensorType types[] = {
      {DType::kF32, {graph::Dim::symbol("N"), 5}}, {DType::kF32, {2, 3}}, {DType::kI32, {}}};
  int bound = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = files[random() % files.size()];
    if (round >= 3) mutate(random, &text);
    const auto declarations = kernels::script_op::read_declarations("plugin.py", text);
    if (!declarations.ok()) {
      EXPECT_NE(declarations.status().code(), ErrorCode::kInternal);
      EXPECT_EQ(declarations.status().message().substr(0, 10), "plugin.py:") << declarations.status().message();
      EXPECT_EQ(declarations.status().message().find('\n'), std::string::npos);
      continue;
    }
    for (const auto& declaration : *declarations) {
      graph::Attributes attributes;
      for (const graph::AttributeDef& a : declaration->attributes) {
        if (a.default_value) attributes.set(a.name, *a.default_value);
      }
      for (const graph::TensorType& type : types) {
        const std::vector<graph::TensorType> inputs(declaration->inputs.size(), type);
        bound += kernels::script_op::bind(*declaration, inputs, attributes).ok();
      }
    }
  }
  EXPECT_GT(bound, 500);  // most edits leave a declaration that still says something
}

TEST(DslFuzz, LambdasInPiecesOfText) {
  std::mt19937 random(4);
  const auto environment = std::make_shared<NoEnvironment>();
  for (int round = 0; round < 3000; ++round) {
    std::string text =
        "table = {\"a\": lambda x, y=(1, 2): [x, \"lambda\"][y[0]], 'b': f(lambda: lambda *z: z,\n    key=lambda v: v "
        "if v else 0)}  # "
        "lambda\n";
    mutate(random, &text);
    text.resize(random() % (text.size() + 1));
    for (const int line : {0, 1, 2}) {
      const auto function = dsl::parse_function({"piece.py", text}, "<lambda>", environment, line);
      EXPECT_NE(function.status().code(), ErrorCode::kInternal);
    }
  }
}

TEST(DslFuzz, DeepAndHugeInputs) {
  const auto repeat = [](const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  const std::string head = "@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), n: S.i32):\n    b = ";
  for (const int n : {50, 1000, 100000}) {
    try_program(head + repeat("(", n) + "1" + repeat(")", n));
    try_program(head + repeat("[", n));
    try_program(head + repeat("-", n) + "1");
    try_program(head + repeat("not ", n) + "n");
    try_program(head + "n" + repeat(" + n", n));
    try_program(head + "n" + repeat("[n]", n));
    try_program(head + "n" + repeat(".x", n));
    try_program(head + repeat("1 if n else ", n) + "2");
    try_program(head + repeat("lambda: ", n) + "2");
    try_program(head + repeat("n ** ", n) + "2");
    try_program(head + "f\"" + repeat("{f'", std::min(n, 1000)) + "\"");
    std::string blocks = "def f():\n";
    for (int i = 0; i < std::min(n, 1000); ++i) blocks += std::string(static_cast<size_t>(i) + 1, ' ') + "if n:\n";
    try_program(blocks);
    std::string chain = "@S.prim_func\ndef f(n: S.i32):\n    if n == 0:\n        pass\n";
    for (int i = 0; i < n; ++i) chain += "    elif n == 1:\n        pass\n";
    try_program(chain);
  }
  // Work that a small text asks for is bounded.
  try_program(head + "[0] * 10 ** 12");
  try_program(head + "'x' * 10 ** 12");
  try_program(head + "[[0] * 60000 for i in range(60000)]");
  try_program(head + "[i for i in range(10 ** 15)]");
  try_program(head + "2 ** 10 ** 10");
  try_program(
      "@S.prim_func\ndef f(n: S.i32):\n    for i in S.unroll(50000):\n        for j in S.unroll(50000):\n            n "
      "= n + j\n");
  try_program(
      "def g(k):\n    return [g, [k] * 1000]\ndef h(k):\n    return [g(g(k)) for i in range(1000)]\n@S.prim_func\ndef "
      "f(n: S.i32):\n    b "
      "= h(h(h(n)))\n");
  try_program("x = y\ny = x\n@S.prim_func\ndef f(n: S.i32):\n    b = x\n");
  try_program("x = [x]\n@S.prim_func\ndef f(a: x):\n    b = x\n");
  try_program(
      "def g(l):\n    l.append(l)\n    return l == [l]\n@S.prim_func\ndef f(n: S.i32):\n    b = g([1])\n    c = "
      "g([n])\n");
}

}  // namespace
}  // namespace aipu
