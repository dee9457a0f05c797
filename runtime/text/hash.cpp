// MurmurHash3 of 32 bits (Austin Appleby, public domain).
#include "runtime/text/operation.h"

namespace aipu::text {
namespace {

uint32_t rotated(uint32_t x, int bits) { return x << bits | x >> (32 - bits); }

uint32_t mixed(uint32_t block) { return rotated(block * 0xcc9e2d51u, 15) * 0x1b873593u; }

uint32_t murmur_hash(std::string_view text, uint32_t seed) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  uint32_t hash = seed;
  size_t at = 0;
  for (; at + 4 <= text.size(); at += 4) {
    hash ^= mixed(byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24);
    hash = rotated(hash, 13) * 5 + 0xe6546b64u;
  }
  uint32_t rest = 0;
  for (size_t i = text.size(); i > at; --i) rest = rest << 8 | byte(i - 1);
  hash ^= mixed(rest);
  hash ^= static_cast<uint32_t>(text.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return hash ^ hash >> 16;
}

class MurmurHash final : public Operation {
 public:
  explicit MurmurHash(uint32_t seed) : seed_(seed) {}

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kU32, arguments.inputs[0].count));
    for (size_t k = 0; k < arguments.inputs[0].count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      store(arguments.outputs[0], k, murmur_hash(text, seed_));
    }
    return {};
  }

 private:
  uint32_t seed_;
};

}  // namespace

MadeOperation make_murmur_hash(const Given& given) {
  return std::make_unique<MurmurHash>(static_cast<uint32_t>(given.numbers[0]));
}

}  // namespace aipu::text
