// Random bytes and mutated programs: every outcome is a module or an error, quickly.
#include <gtest/gtest.h>

#include <random>

#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

const std::string kSeeds[] = {
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
  const std::string pieces[] = {"(",  ")",         "[",    "]",       ":",      ",",     "=",          "\n",    "    ",
                                "S.", "a",         "n",    "f(",      "0",      "-1",    "9999999999", "if ",   "for k in ",
                                "**", "not ",      "None", "\"",      "range(", "10**9", "in ",        " and ", "@S.macro\n",
                                "v",  "S.unroll(", "1.5",  "lambda ", "x[",     "T * ",  "1 << 40"};
  for (int round = 0; round < 3000; ++round) {
    std::string text = kSeeds[random() % 2];
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text.erase(at, 1 + random() % 5);
          break;
        case 1:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 2:
          text[at] = static_cast<char>(random() % 128);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        default: {
          // Swap two lines.
          const size_t line = text.find('\n', at);
          if (line != std::string::npos) text.insert(line + 1, text.substr(at, line - at) + "\n");
        }
      }
      if (text.empty()) text = "f";
    }
    try_program(text);
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
  try_program("@S.prim_func\ndef f(n: S.i32):\n    for i in S.unroll(50000):\n        for j in S.unroll(50000):\n            n = n + j\n");
  try_program(
      "def g(k):\n    return [g, [k] * 1000]\ndef h(k):\n    return [g(g(k)) for i in range(1000)]\n@S.prim_func\ndef f(n: S.i32):\n    b "
      "= h(h(h(n)))\n");
  try_program("x = y\ny = x\n@S.prim_func\ndef f(n: S.i32):\n    b = x\n");
  try_program("x = [x]\n@S.prim_func\ndef f(a: x):\n    b = x\n");
  try_program("def g(l):\n    l.append(l)\n    return l == [l]\n@S.prim_func\ndef f(n: S.i32):\n    b = g([1])\n    c = g([n])\n");
}

}  // namespace
}  // namespace aipu
