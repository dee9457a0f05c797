// Hostile ONNX models: small valid ones damaged as bytes and as messages, and models that are hostile by construction.
// Each must import, verify and go through the graph passes, or end in a one-line error; no crash, no hang, no huge
// allocation. Runs under the sanitizers too. AIPU_FUZZ_SEED and AIPU_FUZZ_CASES change the random part; a failure names
// the seed and writes the model to a file.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>

#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "models/networks.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"
#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/onnx_samples.h"

#if defined(__SANITIZE_ADDRESS__)
#define AIPU_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AIPU_UNDER_ASAN 1
#endif
#endif

#ifdef AIPU_UNDER_ASAN
extern "C" const char* __asan_default_options();
// One allocation may not be large; address space limits do not work with asan.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=1024:detect_leaks=1"; }
constexpr bool kUnderAsan = true;
#else
constexpr bool kUnderAsan = false;
#endif

namespace aipu::fuzz {
namespace {

using models::OnnxBuilder;
using models::TensorData;

constexpr rlim_t kMemory = rlim_t{2} << 30;
constexpr unsigned kSecondsPerCase = 30;  // far from what any case takes, on a slow machine under sanitizers too

// ---- what happens to one model

std::string current_case;   // what a crash or a hang is reported with
std::string current_model;  // its bytes

void write_current_model() {
  const std::string path = ::testing::TempDir() + "aipu_onnx_fuzz_failure.onnx";
  if (FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(current_model.data(), 1, current_model.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "case %s; its model is %s\n", current_case.c_str(), path.c_str());
}

// The process ends here, so that it hardly matters that this is not async-signal-safe.
void on_fatal_signal(int signal) {
  std::fprintf(stderr, "%s: ", signal == SIGALRM ? "takes too long" : "crashed");
  write_current_model();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void limit_this_process() {
  static const bool once = [] {
    std::signal(SIGALRM, on_fatal_signal);
    if (!kUnderAsan) {
      for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, on_fatal_signal);
      const rlimit limit = {kMemory, kMemory};
      ::setrlimit(RLIMIT_DATA, &limit);
    }
    return true;
  }();
  (void)once;
}

bool is_one_line(const std::string& text) { return !text.empty() && text.find('\n') == std::string::npos; }

struct Tally {
  int imported = 0, optimised = 0, refused = 0;
};

// Whether nothing is wrong with how the model was treated.
::testing::AssertionResult try_model(const std::string& bytes, const std::string& name, const std::string& folder,
                                     Tally* tally) {
  current_case = name;
  current_model = bytes;
  ::alarm(kSecondsPerCase);
  frontend::ImportOptions options;
  options.external_data_folder = folder;
  std::vector<std::string> warnings;
  options.warnings = &warnings;
  const auto check = [&]() -> std::string {
    auto graph = frontend::import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", options);
    for (const auto& warning : warnings) {
      if (!is_one_line(warning)) return "a warning that is not one line: " + warning;
    }
    if (!graph.ok()) {
      ++tally->refused;
      const Status status = graph.status();
      if (!is_one_line(status.message())) return "an error that is not one line: " + status.message();
      if (!status.message().starts_with("m.onnx: ")) return "an error without the file: " + status.message();
      if (status.code() == ErrorCode::kInternal) return "an internal error: " + status.message();
      return "";
    }
    ++tally->imported;
    if (const Status valid = graph::verify_graph(**graph); !valid.ok())
      return "the imported graph is not valid: " + valid.message();
    graph::PassContext context;
    const Status passed = graph::run_passes(**graph, graph::graph_pipeline(), context, {});
    if (passed.ok()) {
      ++tally->optimised;
    } else if (!is_one_line(passed.message())) {
      return "a pass's error that is not one line: " + passed.message();
    } else if (passed.code() == ErrorCode::kInternal) {
      return "an internal error of a pass: " + passed.message();
    }
    return "";
  };
  std::string wrong;
  try {
    wrong = check();
  } catch (const std::exception& error) {
    wrong = str_cat("an exception: ", error.what());
  }
  ::alarm(0);
  if (wrong.empty()) return ::testing::AssertionSuccess();
  write_current_model();
  return ::testing::AssertionFailure() << name << ": " << wrong;
}

// ---- valid models to damage

struct Sample {
  std::string name;
  std::string bytes;
  std::string folder;  // of external data
};

class OnnxFuzz : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    limit_this_process();
    folder_ = ::testing::TempDir() + "aipu_onnx_fuzz_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    for (auto& [name, bytes] : sample_models()) samples_.push_back({name, bytes, ""});
    OnnxBuilder external("external", 9);
    external.output(external.gemm(external.input("x", DType::kF32, {"N", 8}), 8, 8));
    ASSERT_TRUE(external.save_with_external_data(folder_ + "/external.onnx", "weights.bin", 16).ok());
    samples_.push_back({"external", *read_text_file(folder_ + "/external.onnx"), folder_});
    built_ = samples_.size();
    add_backend_tests();
  }
  static void TearDownTestSuite() {
    std::filesystem::remove_all(folder_);
    samples_.clear();
  }

  // The smallest models of ONNX's own tests, one in seven, where they are installed.
  static void add_backend_tests() {
    const char* root = std::getenv("AIPU_ONNX_TESTDATA");
    std::vector<std::pair<uintmax_t, std::string>> files;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator
             it(root != nullptr ? root : "/usr/share/libonnx-testdata/data", error),
         end;
         !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".onnx") files.emplace_back(it->file_size(), it->path().string());
    }
    std::sort(files.begin(), files.end());
    for (size_t i = 0; i < files.size() && files[i].first < 4096; i += 7) {
      if (const auto bytes = read_text_file(files[i].second); bytes.ok())
        samples_.push_back({files[i].second, *bytes, ""});
    }
  }

  // Half of the cases start from the models built here.
  static const Sample& pick(Random& random) {
    return random() % 2 == 0 ? samples_[random() % built_] : samples_[random() % samples_.size()];
  }

  template <typename Damage>
  static void run_cases(const char* kind, int default_count, Damage damage) {
    const char* seed_text = std::getenv("AIPU_FUZZ_SEED");
    const char* count_text = std::getenv("AIPU_FUZZ_CASES");
    const uint64_t first = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1;
    const uint64_t count =
        count_text != nullptr ? std::strtoull(count_text, nullptr, 10) : static_cast<uint64_t>(default_count);
    Tally tally;
    int failures = 0;
    std::pair<double, uint64_t> slowest = {0, 0};
    for (uint64_t seed = first; seed < first + count && failures < 20; ++seed) {
      Random random(seed);
      const Sample& sample = pick(random);
      const std::string model = damage(sample.bytes, pick(random).bytes, random);
      const auto begin = std::chrono::steady_clock::now();
      const auto result =
          try_model(model, str_cat(kind, " of ", sample.name, ", AIPU_FUZZ_SEED=", seed), sample.folder, &tally);
      EXPECT_TRUE(result);
      failures += result ? 0 : 1;
      slowest =
          std::max(slowest, {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), seed});
    }
    std::printf(
        "%s: seeds %llu to %llu: %d refused, %d imported, of those %d through all passes; slowest %.2f s (seed %llu)\n",
        kind, static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + count - 1), tally.refused,
        tally.imported, tally.optimised, slowest.first, static_cast<unsigned long long>(slowest.second));
    if (seed_text != nullptr || count_text != nullptr) return;
    EXPECT_GT(tally.refused, default_count / 50);
    EXPECT_GT(tally.optimised, default_count / 50)
        << "damage that stops everything tests nothing behind the first check";
  }

  static inline std::string folder_;
  static inline std::vector<Sample> samples_;
  static inline size_t built_ = 0;
};

TEST_F(OnnxFuzz, UndamagedModelsPass) {
  for (size_t i = 0; i < built_; ++i) {
    Tally tally;
    EXPECT_TRUE(try_model(samples_[i].bytes, samples_[i].name, samples_[i].folder, &tally));
    EXPECT_EQ(tally.optimised, 1) << samples_[i].name << ": "
                                  << frontend::import_onnx_from_memory(std::as_bytes(std::span(samples_[i].bytes)), "m",
                                                                       {.external_data_folder = samples_[i].folder})
                                         .status()
                                         .message();
  }
}

TEST_F(OnnxFuzz, DamagedBytes) { run_cases("bytes", 3000, damage_bytes); }

TEST_F(OnnxFuzz, DamagedFields) {
  run_cases("fields", 6000,
            [](const std::string& model, const std::string&, Random& random) { return damage_fields(model, random); });
}

TEST_F(OnnxFuzz, TruncatedEverywhere) {
  Tally tally;
  const auto models = sample_models();
  const std::string& model = std::find_if(models.begin(), models.end(), [](const auto& sample) {
                               return sample.first == "functions";
                             })->second;
  for (size_t size = 0; size < model.size(); ++size) {
    ASSERT_TRUE(try_model(model.substr(0, size), str_cat("the first ", size, " bytes"), "", &tally));
  }
}

// ---- hostile by construction

struct Hostile {
  const char* name;
  std::string model;
};

std::string one_node(const std::string& op, const std::vector<std::string>& inputs,
                     const models::NamedAttributes& attributes, const std::function<void(OnnxBuilder&)>& prepare) {
  OnnxBuilder b;
  b.input("x", DType::kF32, {2, 3});
  prepare(b);
  b.node_to(op, inputs, {"y"}, attributes);
  b.output("y");
  return b.serialize();
}

std::string with_ints(const std::string& op, const std::vector<int64_t>& ints,
                      const models::NamedAttributes& attributes = {}) {
  return one_node(op, {"x", "ints"}, attributes, [&](OnnxBuilder& b) {
    b.initializer(TensorData::i64({static_cast<int64_t>(ints.size())}, ints), "ints");
  });
}

// Both branches hold everything below: twice as large with every level.
std::string deep_branches(int depth) {
  std::vector<std::unique_ptr<OnnxBuilder>> builders;
  for (int i = 0; i < depth; ++i) {
    auto b = std::make_unique<OnnxBuilder>("level");
    if (builders.empty()) {
      b->node_to("Neg", {"x"}, {"out"});
    } else {
      const OnnxBuilder* inner = builders.back().get();
      b->node_to("If", {"c"}, {"out"}, {{"then_branch", inner}, {"else_branch", inner}});
    }
    b->output("out");
    builders.push_back(std::move(b));
  }
  OnnxBuilder top;
  top.input("c", DType::kBool, {});
  top.input("x", DType::kF32, {2});
  top.node_to("If", {"c"}, {"y"}, {{"then_branch", builders.back().get()}, {"else_branch", builders.front().get()}});
  top.output("y");
  return top.serialize();
}

// Sub-graphs as deep as the protobuf parser lets through.
std::string deep_chain(int depth) {
  OnnxBuilder leaf("leaf");
  leaf.node_to("Neg", {"x"}, {"leaf_out"});
  leaf.output("leaf_out");
  std::vector<std::unique_ptr<OnnxBuilder>> builders;
  const OnnxBuilder* inner = &leaf;
  for (int i = 0; i < depth; ++i) {
    auto b = std::make_unique<OnnxBuilder>("level");
    b->node_to("If", {"c"}, {str_cat("out", i)}, {{"then_branch", inner}, {"else_branch", &leaf}});
    b->output(str_cat("out", i));
    inner = b.get();
    builders.push_back(std::move(b));
  }
  OnnxBuilder top;
  top.input("c", DType::kBool, {});
  top.input("x", DType::kF32, {2});
  top.node_to("If", {"c"}, {"y"}, {{"then_branch", inner}, {"else_branch", &leaf}});
  top.output("y");
  return top.serialize();
}

// Every function calls the one below twice: 2^levels nodes.
std::string exploding_functions(int levels) {
  OnnxBuilder b;
  b.set_opset(1, "f");
  for (int i = 0; i < levels; ++i) {
    OnnxBuilder body;
    body.set_opset(1, "f");
    body.input_of_any_shape("a", DType::kF32);
    const std::string callee = i == 0 ? "Neg" : str_cat("F", i - 1);
    const std::string domain = i == 0 ? "" : "f";
    body.node_to(callee, {"a"}, {"b"}, {}, domain);
    body.node_to(callee, {"b"}, {"c"}, {}, domain);
    body.output("c");
    b.add_function("f", str_cat("F", i), body);
  }
  b.output(b.op(str_cat("F", levels - 1), {b.input("x", DType::kF32, {2})}, {}, "f"));
  return b.serialize();
}

std::string mutual_recursion() {
  OnnxBuilder b;
  b.set_opset(1, "f");
  for (const auto& [name, callee] : {std::pair{"A", "B"}, {"B", "A"}}) {
    OnnxBuilder body;
    body.set_opset(1, "f");
    body.input_of_any_shape("a", DType::kF32);
    body.node_to(callee, {"a"}, {"b"}, {}, "f");
    body.output("b");
    b.add_function("f", name, body);
  }
  b.output(b.op("A", {b.input("x", DType::kF32, {2})}, {}, "f"));
  return b.serialize();
}

std::string cycle() {
  OnnxBuilder b;
  b.input("x", DType::kF32, {2});
  b.node_to("Add", {"x", "b"}, {"a"});
  b.node_to("Neg", {"a"}, {"b"});
  b.output("b");
  return b.serialize();
}

std::string own_input() {
  OnnxBuilder b;
  b.input("x", DType::kF32, {2});
  b.node_to("Add", {"x", "a"}, {"a"});
  b.output("a");
  return b.serialize();
}

// A shape computation that doubles in size with every node.
std::string doubling_data() {
  OnnxBuilder b;
  auto x = b.op("Shape", {b.input("x", DType::kF32, {"N", 3})});
  for (int i = 0; i < 40; ++i) x = b.op("Concat", {x, x}, {{"axis", 0}});
  b.output(x);
  return b.serialize();
}

// A dimension expression that grows with every node.
std::string doubling_expression() {
  OnnxBuilder b;
  auto n = b.op("Shape", {b.input("x", DType::kF32, {"N", "M", "K"})});
  for (int i = 0; i < 40; ++i)
    n = b.op("Add", {b.op("Mul", {n, b.op("Min", {n, b.ints({i, 2, 3})})}), b.op("Div", {n, b.ints({2, 3, i + 1})})});
  b.output(b.op("Reshape", {b.op("Expand", {"x", n}), b.ints({-1})}));
  return b.serialize();
}

std::string long_chain(int nodes) {
  OnnxBuilder b;
  auto x = b.input("x", DType::kF32, {2});
  for (int i = 0; i < nodes; ++i) x = b.op("Neg", {x});
  b.output(x);
  return b.serialize();
}

std::string loop_of(int64_t trips) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("state", DType::kF32, {2, 3});
  body.node_to("Identity", {"go"}, {"go_out"});
  body.node_to("Concat", {"state", "state"}, {"next"}, {{"axis", 0}});
  body.output("go_out");
  body.output("next");
  body.output(body.op("Shape", {"next"}));
  OnnxBuilder b;
  b.input("x", DType::kF32, {2, 3});
  b.initializer(TensorData::i64({}, {trips}), "trips");
  b.initializer(TensorData::of<uint8_t>(DType::kBool, {}, {1}), "go");
  for (const auto& y : b.node("Loop", {"trips", "go", "x"}, {{"body", &body}}, 2)) b.output(y);
  return b.serialize();
}

std::string huge_input(const models::Extents& extents, const std::string& op) {
  OnnxBuilder b;
  b.output(b.op(op, {b.input("x", DType::kF32, extents)}));
  return b.serialize();
}

// Folding into the producer works channel by channel, and the channels can be anything.
std::string scaled(const models::Extents& extents) {
  OnnxBuilder b;
  b.output(b.op("Mul", {b.op("Neg", {b.input("x", DType::kF32, extents)}), b.scalar(2)}));
  return b.serialize();
}

std::string range_to(int64_t limit, int64_t step) {
  OnnxBuilder b;
  b.output(b.op("Range", {b.initializer(TensorData::i64({}, {0})), b.initializer(TensorData::i64({}, {limit})),
                          b.initializer(TensorData::i64({}, {step}))}));
  return b.serialize();
}

std::string of_shape(const std::vector<int64_t>& shape) {
  OnnxBuilder b;
  b.output(b.op("ConstantOfShape", {b.ints(shape)}, {{"value", models::AttributeData(TensorData::i64({1}, {1}))}}));
  return b.serialize();
}

std::string conv_with(const models::NamedAttributes& attributes, const models::Extents& image = {1, 3, 8, 8}) {
  OnnxBuilder b;
  b.output(b.op("Conv", {b.input("x", DType::kF32, image), b.weight({4, 3, 3, 3}, 0.1)}, attributes));
  return b.serialize();
}

std::string pool_with(const models::NamedAttributes& attributes) {
  OnnxBuilder b;
  b.output(b.op("MaxPool", {b.input("x", DType::kF32, {1, 3, 8, 8})}, attributes));
  return b.serialize();
}

std::vector<Hostile> hostile_models() {
  using Ints = std::vector<int64_t>;
  const int64_t big = int64_t{1} << 40;
  std::vector<Hostile> models = {
      {"cycle", cycle()},
      {"a node reads what it makes", own_input()},
      {"mutual recursion", mutual_recursion()},
      {"exploding functions", exploding_functions(30)},
      {"exploding functions below the limit", exploding_functions(13)},
      {"deep branches", deep_branches(9)},
      {"as deep as protobuf reads", deep_chain(31)},
      {"deeper than protobuf reads", deep_chain(60)},
      {"doubling data", doubling_data()},
      {"doubling expression", doubling_expression()},
      {"a long chain", long_chain(20000)},
      {"a loop for ever", loop_of(INT64_MAX)},
      {"a loop of no trips", loop_of(0)},
      {"a negative loop", loop_of(INT64_MIN)},
      {"overflowing input", huge_input({big, big, big}, "Neg")},
      {"overflowing flattened", huge_input({big, "N", big}, "Flatten")},
      {"overflowing shape", huge_input({big, big, big}, "Shape")},
      {"overflowing size", huge_input({big, big, big}, "Size")},
      {"scaled beyond", scaled({1, int64_t{1} << 62})},
      {"scaled beyond memory", scaled({1, big})},
      {"negative input", huge_input({-5, 3}, "Neg")},
      {"most negative input", huge_input({INT64_MIN, -1}, "Size")},
      {"long range", range_to(INT64_MAX, 1)},
      {"range of no step", range_to(5, 0)},
      {"range of the worst step", range_to(INT64_MIN, INT64_MIN)},
      {"range of the worst step back", range_to(INT64_MIN, -1)},
      {"huge constant", of_shape({big, 1024})},
      {"overflowing constant", of_shape({big, big})},
      {"huge and empty constant", of_shape({big, big, 0})},
      {"negative constant", of_shape({-1, 4})},
      {"constant of a high rank", of_shape(Ints(100, 1))},
      {"reshape beyond", with_ints("Reshape", {INT64_MAX, INT64_MAX})},
      {"reshape to two unknowns", with_ints("Reshape", {-1, -1})},
      {"reshape to most negative", with_ints("Reshape", {INT64_MIN, 6})},
      {"reshape to a high rank", with_ints("Reshape", Ints(1000, 1))},
      {"expand beyond", with_ints("Expand", {big, big, 2, 3})},
      {"expand to negative", with_ints("Expand", {-7, 3})},
      {"tile beyond", with_ints("Tile", {INT64_MAX, INT64_MAX})},
      {"tile negative", with_ints("Tile", {-1, INT64_MIN})},
      {"pad beyond", with_ints("Pad", {INT64_MAX, 0, INT64_MAX, 0})},
      {"pad below", with_ints("Pad", {INT64_MIN, 0, -1, 0})},
      {"unsqueeze beyond", with_ints("Unsqueeze", {INT64_MAX})},
      {"unsqueeze below", with_ints("Unsqueeze", {INT64_MIN})},
      {"unsqueeze twice", with_ints("Unsqueeze", {0, 0})},
      {"squeeze below", with_ints("Squeeze", {INT64_MIN})},
      {"reduce beyond", with_ints("ReduceSum", {INT64_MIN})},
      {"gather beyond", with_ints("Gather", {INT64_MAX, INT64_MIN})},
      {"gather of an axis beyond", with_ints("Gather", {0}, {{"axis", INT64_MIN}})},
      {"top of all", with_ints("TopK", {INT64_MAX})},
      {"split beyond", with_ints("Split", {INT64_MAX, INT64_MAX})},
      {"matrix with ints", with_ints("MatMul", {1, 2, 3})},
      {"transpose twice the same", with_ints("Transpose", {0}, {{"perm", Ints{0, 0}}})},
      {"conv of no stride", conv_with({{"strides", Ints{0, 0}}})},
      {"conv of a negative stride", conv_with({{"strides", Ints{-1, INT64_MIN}}})},
      {"conv of the worst dilation", conv_with({{"dilations", Ints{INT64_MAX, INT64_MAX}}})},
      {"conv of the worst pads", conv_with({{"pads", Ints{INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}}})},
      {"conv of the lowest pads", conv_with({{"pads", Ints{INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}}})},
      {"conv of few pads", conv_with({{"pads", Ints{1}}})},
      {"conv of no groups", conv_with({{"group", 0}})},
      {"conv of the most groups", conv_with({{"group", INT64_MIN}})},
      {"conv of a kernel that is a text", conv_with({{"kernel_shape", "3x3"}})},
      {"conv of a huge image", conv_with({}, {1, 3, INT64_MAX, INT64_MAX})},
      {"conv padded as unknown", conv_with({{"auto_pad", "SAME_\n"}})},
      {"pool without a kernel", pool_with({})},
      {"pool of no kernel", pool_with({{"kernel_shape", Ints{0, 0}}})},
      {"pool of the worst kernel", pool_with({{"kernel_shape", Ints{INT64_MAX, INT64_MAX}}, {"ceil_mode", 1}})},
      {"pool of the worst everything", pool_with({{"kernel_shape", Ints{INT64_MAX, INT64_MIN}},
                                                  {"strides", Ints{INT64_MIN, INT64_MAX}},
                                                  {"dilations", Ints{INT64_MIN, -1}},
                                                  {"pads", Ints{INT64_MAX, 1, INT64_MAX, 1}},
                                                  {"ceil_mode", 1}})},
  };
  for (const char* equation :
       {"", "->", "ij,jk->zz", "....,i->", "ii,ii,ii->i", "abcdefghijklmnopqrstuvwxyzABCDEFG->a", "ij\n->i"}) {
    models.push_back({"einsum", one_node("Einsum", {"x"}, {{"equation", equation}}, [](OnnxBuilder&) {})});
  }
  for (const int64_t number : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN, big}) {
    models.push_back({"cast", one_node("Cast", {"x"}, {{"to", number}}, [](OnnxBuilder&) {})});
    models.push_back({"flatten", one_node("Flatten", {"x"}, {{"axis", number}}, [](OnnxBuilder&) {})});
    models.push_back({"softmax", one_node("Softmax", {"x"}, {{"axis", number}}, [](OnnxBuilder&) {})});
    models.push_back({"concat", one_node("Concat", {"x", "x"}, {{"axis", number}}, [](OnnxBuilder&) {})});
    models.push_back({"shape", one_node("Shape", {"x"}, {{"start", number}, {"end", number}}, [](OnnxBuilder&) {})});
    models.push_back({"slice", one_node("Slice", {"x", "n", "n", "z", "n"}, {}, [&](OnnxBuilder& b) {
                        b.initializer(TensorData::i64({1}, {number}), "n");
                        b.initializer(TensorData::i64({1}, {0}), "z");
                      })});
    models.push_back({"slice back", one_node("Slice", {"x", "z", "n", "z", "m"}, {}, [&](OnnxBuilder& b) {
                        b.initializer(TensorData::i64({1}, {number}), "n");
                        b.initializer(TensorData::i64({1}, {INT64_MIN}), "m");
                        b.initializer(TensorData::i64({1}, {0}), "z");
                      })});
    models.push_back({"one hot", one_node("OneHot", {"ids", "n", "values"}, {{"axis", number}}, [&](OnnxBuilder& b) {
                        b.input("ids", DType::kI64, {3});
                        b.initializer(TensorData::i64({}, {number}), "n");
                        b.initializer(TensorData::f32({2}, {0, 1}), "values");
                      })});
    models.push_back({"resize", one_node("Resize", {"x", "", "", "n"}, {}, [&](OnnxBuilder& b) {
                        b.initializer(TensorData::i64({2}, {number, 3}), "n");
                      })});
    models.push_back({"divided shape", one_node("ConstantOfShape", {"q"}, {}, [&](OnnxBuilder& b) {
                        b.node_to("Div", {b.ints({INT64_MIN}), b.ints({number})}, {"q"});
                      })});
    models.push_back({"multiplied shape", one_node("ConstantOfShape", {"q"}, {}, [&](OnnxBuilder& b) {
                        b.node_to("Mul", {b.op("Shape", {"x"}), b.ints({number})}, {"q"});
                      })});
    models.push_back({"window", one_node("HannWindow", {"n"}, {},
                                         [&](OnnxBuilder& b) { b.initializer(TensorData::i64({}, {number}), "n"); })});
    models.push_back({"dft", one_node("DFT", {"x3", "n"}, {}, [&](OnnxBuilder& b) {
                        b.input("x3", DType::kF32, {1, 8, 1});
                        b.initializer(TensorData::i64({}, {number}), "n");
                      })});
    models.push_back({"blocks", one_node("DepthToSpace", {"x4"}, {{"blocksize", number}}, [&](OnnxBuilder& b) {
                        b.input("x4", DType::kF32, {1, 8, 2, 2});
                      })});
  }
  for (const float scale : {0.0F, -1.0F, 1e30F, INFINITY, NAN, 1e-30F}) {
    models.push_back({"resize by a scale", one_node("Resize", {"x", "", "s"}, {}, [&](OnnxBuilder& b) {
                        b.initializer(TensorData::f32({2}, {scale, 1}), "s");
                      })});
  }
  return models;
}

TEST_F(OnnxFuzz, HostileByConstruction) {
  Tally tally;
  for (const Hostile& hostile : hostile_models()) EXPECT_TRUE(try_model(hostile.model, hostile.name, "", &tally));
  EXPECT_GT(tally.refused, 50);
}

// The tool sees the same: exit code 1 and one line.
TEST_F(OnnxFuzz, TheConverterEndsWithOneLine) {
  size_t tried = 0;
  for (Random random(77); tried < 12;) {
    const Sample& sample = samples_[random() % built_];
    const std::string model =
        tried % 2 == 0 ? damage_bytes(sample.bytes, sample.bytes, random) : damage_fields(sample.bytes, random);
    if (frontend::import_onnx_from_memory(std::as_bytes(std::span(model)), "m.onnx").ok()) continue;
    ++tried;
    const std::string path = folder_ + "/hostile.onnx";
    ASSERT_TRUE(write_file_atomically(path, std::as_bytes(std::span(model))).ok());
    FILE* pipe =
        ::popen((AIPU_BUILD_DIR "/bin/aipugb " + path + " -o " + folder_ + "/hostile.aipu.bin 2>&1").c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string text;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
    const int status = ::pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_TRUE(text.starts_with("aipugb: ")) << text;
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/hostile.aipu.bin"));
  }
}

}  // namespace
}  // namespace aipu::fuzz
