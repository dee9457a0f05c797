// Error phrases of the DSL front end: a source with "<!>" where the first diagnostic has to point, and the phrase.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace aipu::dsl_test {

struct PhraseCase {
  std::string name;
  std::string source;  // "<!>" stands just before the place that the first diagnostic points to
  std::string phrase;
  bool strict = false;  // refused only in programs that have to run elsewhere too, without our extensions
};

inline void PrintTo(const PhraseCase& c, std::ostream* out) { *out << c.name; }

// A kernel f with some parameters of every kind and the given body lines.
inline std::string kernel(const std::string& body) {
  std::string text =
      "@S.prim_func\n"
      "def f(a: S.ptr(\"i32\", \"global\"), h: S.ptr(\"fp32\", \"global\"), v: S.ptr(\"void\", \"global\"), vec: "
      "S.ptr(\"i8x32\", "
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

inline std::string with_sub(const std::string& sub, const std::string& body) { return sub + kernel(body); }

const std::vector<PhraseCase>& language_phrases();   // language.md
const std::vector<PhraseCase>& intrinsic_phrases();  // intrinsics.md, and section 7 and 11 of language.md

}  // namespace aipu::dsl_test
