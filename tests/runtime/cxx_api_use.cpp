// A user of aipu.hpp, compiled as C++17: all of it against a model that gives 4 * x for x of [n, 4].
#include <cstring>
#include <future>
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

int use_profile(const aipu::Model& model, const std::string& path) {
  aipu::SessionOptions options;
  options.profile = options.cycles = true;
  options.threads = 1;
  aipu::Session session(model, options);
  const std::vector<float> x = {1, 2, 3, 4};
  session.bind_input(0, x.data(), {1, 4});
  CHECK(session.profile().empty());
  CHECK(error_of([&] { session.cycles(); }).first == AIPU_NOT_FOUND);
  session.run();
  session.run();
  const std::vector<aipu::ProfileRow> rows = session.profile();
  CHECK(rows.size() == 6);  // three commands twice
  CHECK(rows[0].engine == "tec" && rows[0].name == rows[3].name && !rows[0].name.empty());
  CHECK(rows[0].threads == 1 && rows[0].duration_ns > 0 && rows[3].start_ns >= rows[0].start_ns + rows[0].duration_ns);
  CHECK(rows[0].bytes > 0 && rows[0].cycles == -1);
  session.write_profile(path);
  aipu_profile_row row = {};
  CHECK(aipu_session_profile_row(session.get(), 0, &row) == AIPU_INVALID_ARGUMENT);  // struct_bytes is 0
  row.struct_bytes = sizeof row;
  CHECK(aipu_session_profile_row(session.get(), 6, &row) == AIPU_INVALID_ARGUMENT);
  CHECK(aipu_session_profile_row(session.get(), 5, &row) == AIPU_OK && row.struct_bytes == sizeof row);
  CHECK(aipu_session_profile(nullptr, nullptr) == AIPU_INVALID_ARGUMENT);
  session.clear_profile();
  CHECK(session.profile().empty());
  aipu::Session without(model);
  CHECK(error_of([&] { without.profile(); }).second ==
        "the session keeps no profile: set aipu_session_options.profile");
  CHECK(error_of([&] { without.write_profile(path); }).first == AIPU_INVALID_ARGUMENT);
  CHECK(error_of([&] { without.clear_profile(); }).first == AIPU_INVALID_ARGUMENT);
  CHECK(error_of([&] { without.cycles(); }).first == AIPU_INVALID_ARGUMENT);
  return 0;
}

// Sessions that share threads, of which one counts.
int use_pool(const void* bytes, size_t size) {
  aipu::LoadOptions load;
  load.only_safe_backends = true;
  CHECK(error_of([&] { aipu::Model::from_bytes(bytes, size, load); }).first == AIPU_INVALID_ARGUMENT);
  load.only_safe_backends = false;
  load.in_place = true;
  const aipu::Model model = aipu::Model::from_bytes(bytes, size, load);
  CHECK(error_of([] { aipu::Pool(-1); }).first == AIPU_INVALID_ARGUMENT);
  aipu::SessionOptions options;
  options.pool = aipu::Pool(1);
  options.plan_cache = 1;
  aipu::Session first(model, options);
  int64_t calls = 0;
  options.profile = true;
  options.counters = {1, [&](int64_t* values) { *values = ++calls; }};
  std::string seen;
  options.inspect = [&](const std::string& name, const std::string&, const aipu::Tensor& value) {
    if (name == "y") seen = name + std::to_string(value.data<float>()[3]);
  };
  aipu::Session second(model, options);
  options.pool.reset();
  const std::vector<float> x = {1, 2, 3, 4};
  for (aipu::Session* session : {&first, &second}) {
    session->bind_input(0, x.data(), {1, 4});
    session->run();
    CHECK(session->output(0).data<float>()[3] == 16);
    CHECK(session->threads() == 1 && session->arena_bytes() > 0 && session->is_idle());
  }
  const std::vector<aipu::ProfileRow> rows = second.profile();
  CHECK(rows.size() == 3 && calls == 6 && rows[2].counts == std::vector<int64_t>{1} && rows[2].lanes == 1);
  CHECK(rows[0].waits.empty() && rows[2].waits == std::vector<uint32_t>{1});
  CHECK(seen == "y16.000000");
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
  std::promise<float> told;
  session.submit({{a.data(), {1, 4}}}, {},
                 [&](const aipu::Run& run) { told.set_value(run.is_done() ? run.output(0).data<float>()[1] : 0); });
  CHECK(told.get_future().get() == 8);
  CHECK(error_of([&] { session.submit({}, {}, [](const aipu::Run&) {}); }).first == AIPU_INVALID_ARGUMENT);
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
  CHECK((x.symbols == std::vector<std::string>{"N", ""}) && model.outputs()[0].symbols[0] == "N");
  CHECK(model.backend() == "host" && !model.target().empty());
  CHECK(std::string(aipu_model_input_symbol(model.get(), 0, 2)).empty());
  CHECK(std::string(aipu_model_output_symbol(model.get(), 1, 0)).empty());
  CHECK(model.input_index("x") == 0 && error_of([&] { model.output_index("x"); }).first == AIPU_NOT_FOUND);
  static_assert(aipu::dtype_of<uint8_t>() == AIPU_UINT8 && aipu::dtype_of<int64_t>() == AIPU_INT64, "");
  if (const int line = use_session(aipu::Model::from_bytes(bytes, size))) return line;
  if (const int line = use_profile(model, std::string(path) + ".trace.json")) return line;
  if (const int line = use_pool(bytes, size)) return line;
  return use_submitted_runs(model);
}
