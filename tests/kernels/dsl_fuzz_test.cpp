// Random bytes, pieces of programs and huge programs: every outcome is a module or an error, quickly. Changed programs and
// operators: tests/fuzz.
#include <gtest/gtest.h>

#include <random>

#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

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
