// A .npy file: an array that fits its data, or an error.
#include "runtime/tools/npy.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {

void one_input(std::string_view input) {
  const auto array = tools::parse_npy(std::as_bytes(std::span(input)));
  if (!array.ok()) return check_error(array.status());
  check(array->data.size() <= input.size(), "more data than the file has");
  const auto count = tools::element_count(array->shape);
  check(count.ok() && static_cast<size_t>(*count) * dtype_bytes(array->dtype) == array->data.size(),
        "the shape is not that of the data");
}

uint64_t runs() { return 20000; }

std::vector<std::string> seeds() {
  std::vector<std::string> result;
  const std::vector<std::pair<DType, std::vector<int64_t>>> arrays = {
      {DType::kF32, {2, 3, 4}}, {DType::kBool, {7}}, {DType::kI64, {}}, {DType::kF16, {0, 5}}};
  for (const auto& [dtype, shape] : arrays) {
    const auto header = tools::npy_header(dtype, shape);
    std::string file(reinterpret_cast<const char*>(header.data()), header.size());
    file.resize(file.size() + static_cast<size_t>(*tools::element_count(shape)) * dtype_bytes(dtype));
    result.push_back(std::move(file));
  }
  return result;
}

std::string mutate(const std::string& input, const std::string& other, Random& random) {
  constexpr size_t kMagic = 10;
  if (input.size() < kMagic || below(random, 4) == 0) return mutate_bytes(input, other, random);
  return input.substr(0, kMagic) + mutate_tokens(input.substr(kMagic), other, random);
}

}  // namespace aipu::fuzz
