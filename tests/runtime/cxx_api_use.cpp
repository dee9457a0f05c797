// A user of aipu.hpp, compiled as C++17: all of it against a model that gives 4 * x for x of [n, 4].
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/aipu.hpp"

#define CHECK(condition) \
  if (!(condition)) return __LINE__

namespace {

template <class F>
std::pair<aipu_status, std::string> error_of(F function) {
  try {
    function();
  } catch (const aipu::Error& error) {
    return {error.code(), error.what()};
  }
  return {AIPU_OK, ""};
}

int use_session(aipu::Model model) {
  aipu::Session session(model, [] {
    aipu::SessionOptions options;
    options.threads = 1;
    return options;
  }());
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(error_of([&] { session.run(); }).first == AIPU_INVALID_ARGUMENT);
  session.bind_input("x", x.data(), {2, 5});
  CHECK(error_of([&] { session.run(); }).second.find("axis 1: expected 4, found 5") != std::string::npos);
  session.bind_input(0, x.data(), {2, 4});
  session.prepare();
  CHECK(session.output(0).size_bytes() == sizeof(float) * x.size());
  session.run();
  const aipu::Tensor y = session.output(model.outputs()[0].name);
  CHECK(y.dtype() == AIPU_FLOAT32 && y.size() == 8 && (y.shape() == std::vector<int64_t>{2, 4}));
  CHECK(y.data<float>()[7] == 32);
  CHECK(error_of([&] { y.data<int32_t>(); }).first == AIPU_INVALID_ARGUMENT);
  float mine[8];
  session.bind_output(0, mine, sizeof mine);
  session.run();
  CHECK(mine[0] == 4 && mine[7] == 32);
  aipu::Session moved = std::move(session);
  moved.run();
  return 0;
}

int use_submitted_runs(const aipu::Model& model) {
  aipu::Session session(model);
  const std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  float mine[4];
  const aipu::Run first = session.submit({{a.data(), {1, 4}}});
  const aipu::Run second = session.submit({{AIPU_FLOAT32, {1, 4}, b.data()}}, {{mine, sizeof mine}});
  second.wait();
  CHECK(first.is_done() && second.wait_for(0));
  CHECK(first.output(0).data<float>()[3] == 16 && mine[3] == 32);
  const aipu::Run bad = session.submit({{a.data(), {2, 2}}});
  CHECK(error_of([&] { bad.wait(); }).first == AIPU_INVALID_ARGUMENT);
  CHECK(error_of([&] { session.submit({}); }).first == AIPU_INVALID_ARGUMENT);
  return 0;
}

}  // namespace

int use_cxx_api(const void* bytes, size_t size, const char* path) {
  CHECK(error_of([] { aipu::Model("/nonexistent.aipu.bin"); }).first == AIPU_IO);
  CHECK(error_of([&] { aipu::Model::from_bytes(bytes, size - 1); }).first == AIPU_INVALID_MODEL);
  CHECK(error_of([&] { aipu::Model::from_bytes(bytes, size, "nonesuch"); }).first == AIPU_NOT_FOUND);
  aipu::LoadOptions options;
  options.copy = true;
  options.verify_all = true;
  const aipu::Model model(path, options);
  CHECK(model.inputs().size() == 1 && model.outputs().size() == 1 && model.warning().empty());
  const aipu::TensorInfo x = model.inputs()[0];
  CHECK(x.name == "x" && x.dtype == AIPU_FLOAT32 && (x.shape == std::vector<int64_t>{-1, 4}));
  CHECK(model.input_index("x") == 0 && error_of([&] { model.output_index("x"); }).first == AIPU_NOT_FOUND);
  static_assert(aipu::dtype_of<uint8_t>() == AIPU_UINT8 && aipu::dtype_of<int64_t>() == AIPU_INT64, "");
  if (const int line = use_session(aipu::Model::from_bytes(bytes, size))) return line;
  return use_submitted_runs(model);
}
