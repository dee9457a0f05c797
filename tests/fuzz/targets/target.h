// A fuzz target: what comes from outside goes in, and nothing but a result or an error in one line may come out. One
// body, run by the bounded, seeded test (seeded_test.cpp) and by libFuzzer (libfuzzer.cpp). README.md lists them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::fuzz {

using Random = std::mt19937_64;

// Each target defines these four.
void one_input(std::string_view input);
// Valid inputs, to begin with.
std::vector<std::string> seeds();
// How many changed inputs the test tries: as many as take some seconds.
uint64_t runs();
// A change that keeps enough of the structure for the input to get past the first checks. `other` is a seed, too.
std::string mutate(const std::string& input, const std::string& other, Random& random);

// Ends the process unless it holds, which is what libFuzzer and the test notice.
void check(bool holds, std::string_view what);
// One line, and none that blames us.
void check_error(const Status& status);
// The same for texts that show the source: several lines.
void check_diagnostics(const Status& status);

inline size_t below(Random& random, size_t count) { return count == 0 ? 0 : random() % count; }

// Words, numbers and signs of a text, each with the space behind it.
std::vector<std::string> tokens_of(const std::string& text);
// Removes, doubles, swaps and replaces tokens, and takes some from `other`; numbers become hostile ones.
std::string mutate_tokens(const std::string& text, const std::string& other, Random& random);
// Flips, cuts, inserts; for inputs that are no text.
std::string mutate_bytes(const std::string& bytes, const std::string& other, Random& random);

}  // namespace aipu::fuzz
