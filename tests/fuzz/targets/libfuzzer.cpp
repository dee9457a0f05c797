// A fuzz target as a libFuzzer program. AIPU_FUZZ_SEEDS=FOLDER writes the seeds there, as a first corpus.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/fuzz/targets/target.h"

extern "C" {
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
int LLVMFuzzerInitialize(int* count, char*** arguments);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);
const char* __asan_default_options();
}

// The back end `interp`, a library, holds the interpreter too; each uses its own.
extern "C" const char* __asan_default_options() { return "detect_odr_violation=0"; }

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("AIPU_FUZZ_SEEDS"); folder != nullptr) {
    int index = 0;
    for (const std::string& seed : aipu::fuzz::seeds()) {
      std::ofstream(std::string(folder) + "/seed" + std::to_string(index++), std::ios::binary) << seed;
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  aipu::fuzz::one_input({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Half of the time by the target's own mutator, which knows the structure.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  static const std::vector<std::string> all = aipu::fuzz::seeds();
  aipu::fuzz::Random random(seed);
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string result = aipu::fuzz::mutate(input, all[aipu::fuzz::below(random, all.size())], random);
  const size_t kept = std::min(result.size(), max_size);
  std::memcpy(data, result.data(), kept);
  return kept;
}
