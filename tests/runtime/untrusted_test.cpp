// Files from people one does not trust, on the back end that promises to survive them: kernels that write where they
// may only read, that want all memory there is or all time.
#include <gtest/gtest.h>

#include <pthread.h>

#include <chrono>
#include <functional>
#include <numeric>

#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/model_builder.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;

constexpr int kElements = 16;

Result<std::shared_ptr<const Model>> load(const ModelBuilder& builder, const std::string& backend = "interp") {
  LoadOptions options;
  options.backend = backend;
  return Model::from_bytes(builder.build(), options);
}

// ---- writing ----

// A kernel of f(read, write, n), whose first tensor is of `kind`, or a view of one. What kernel `tir` does is the
// test's.
ModelBuilder victim_model(fb::TensorKind kind, bool through_view, const std::string& tir, bool claims_to_write) {
  ModelBuilder b;
  b.tec_count = 2;
  const uint32_t zero = b.constant(0), one = b.constant(1), n = b.constant(kElements);
  const uint32_t x = b.tensor("x", DType::kI32, {n}, fb::TensorKind::kInput);
  uint32_t victim = kind == fb::TensorKind::kInput ? x : b.tensor("victim", DType::kI32, {n}, kind);
  const uint32_t root = victim;
  if (through_view) {
    victim = b.tensor("view", DType::kI32, {n}, fb::TensorKind::kView);
    b.tensors[victim].base = root;
    b.tensors[victim].view_offset = zero;
  }
  const uint32_t y = b.tensor("y", DType::kI32, {n}, fb::TensorKind::kOutput);
  test::KernelRow row{"attack", {true, true, false}};
  row.tir = tir;
  b.launch(b.kernel(row), {b.pointer(victim, claims_to_write, zero), b.pointer(y, true, zero), b.number(n)}, one);
  b.sections.push_back({fb::SectionKind::kConstants, 0, std::vector<std::byte>(kElements * 4)});
  return b;
}

struct Attack {
  const char* name;
  std::string body;               // of a kernel with the parameters a#0 (may only be read), b#1 and n#2
  std::string functions = {};     // that it calls
  std::string pointer = "int32";  // what a#0 points to
};

std::string kernel_text(const Attack& attack) {
  return "func attack(a#0: global " + attack.pointer + "*, b#1: global int32*, n#2: int32) -> void {\n" + attack.body +
         "\n}\n" + attack.functions;
}

const std::vector<Attack>& attacks() {
  static const std::vector<Attack> all = {
      {"Store", "store a#0[3] = 7"},
      {"VectorStore", "eval S.vstore<void>(broadcast<8>(7), a#0, 1)"},
      {"StridedVectorStore", "eval S.vstore<void>(broadcast<8>(7), a#0, 2)"},
      {"Cast", "let p#3: global int8* = cast<global int8*>(a#0) store p#3[0] = 7:int8"},
      {"CastToAnotherScope", "let p#3: lsram int32* = cast<lsram int32*>(a#0) store p#3[0] = 7"},
      {"PointerVariable", "let p#3: global int32* = b#1 set p#3 = a#0 store p#3[1] = 7"},
      {"Select", "store ((n#2 > 0) ? a#0 : b#1)[0] = 7"},
      {"Arithmetic", "store (a#0 + 2)[-1] = 7"},
      // From the array that may be written to the other one, by the distance that the kernel sees between them.
      {"DistanceBetweenArrays",
       "let p#3: int64 = S.reinterpret<int64>(a#0, .dtype=4295360520) let q#4: int64 = S.reinterpret<int64>(b#1, "
       ".dtype=4295360520) "
       "store (b#1 + ((p#3 - q#4) / 4:int64))[0:int64] = 7"},
      {"PointerFromInteger",
       "let p#3: int64 = S.reinterpret<int64>(a#0, .dtype=4295360520) let q#4: global int32* = S.reinterpret<global "
       "int32*>(p#3, .dtype=4294967558) "
       "store q#4[0] = 7"},
      {"Memset", "eval S.dma_memset<void>(a#0, 7, 4)"},
      {"Copy", "eval S.dma_copy<void>(a#0, b#1, 4, 4, 1, 4)"},
      {"AsynchronousCopy",
       "let e#3: int32 = S.alloc_event<int32>() eval S.async_dma_copy<void>(a#0, b#1, 4, 4, 1, 4, e#3) "
       "eval S.wait_events<void>(e#3)"},
      {"CopyAtTheEnd",
       "let e#3: int32 = S.alloc_event<int32>() eval S.async_dma_copy<void>(a#0, b#1, 4, 4, 1, 4, e#3)"},
      {"Transpose", "eval S.dma_transpose2d<void>(a#0, b#1, 2, 2, 2, 2)"},
      {"Function", "eval call<void> put(a#0)", "func put(p#0: global int32*) -> void { store p#0[0] = 7 }"},
      {"FunctionThatReturnsIt", "store call<global int32*> same(a#0)[0] = 7",
       "func same(p#0: global int32*) -> global int32* { return p#0 }"},
  };
  return all;
}

// Runs the model. Whether it loads and what the input is afterwards is checked here; the error is returned.
Status run_attack(const ModelBuilder& builder) {
  const auto model = load(builder);
  if (!model.ok()) return model.status();
  std::vector<int32_t> x(kElements);
  std::iota(x.begin(), x.end(), 100);
  const std::vector<int32_t> before = x;
  SessionOptions options;
  options.threads = 2;
  auto session = Session::create(*model, options);
  if (!session.ok()) return session.status();
  const int64_t shape[] = {kElements};
  EXPECT_TRUE((*session)->bind_input(0, {DType::kI32, shape, x.data()}).ok());
  const Status status = (*session)->run();
  EXPECT_EQ(x, before);
  return status;
}

TEST(Untrusted, KernelsWriteOnlyWhatTheirCommandLists) {
  for (const Attack& attack : attacks()) {
    for (const auto kind : {fb::TensorKind::kInput, fb::TensorKind::kConstant, fb::TensorKind::kArena}) {
      for (const bool through_view : {false, true}) {
        const Status status = run_attack(victim_model(kind, through_view, kernel_text(attack), false));
        SCOPED_TRACE(std::string(attack.name) + " of kind " + fb::EnumNameTensorKind(kind));
        ASSERT_FALSE(status.ok());
        const bool by_distance = std::string_view(attack.name) == "DistanceBetweenArrays";
        EXPECT_NE(status.message().find(by_distance ? "Out of bounds"
                                                    : "a write to argument 0 'a', which this launch "
                                                      "may only read"),
                  std::string::npos)
            << status.message();
      }
    }
  }
}

// The same kernels may write where the command says so: it is the listing that stops them above.
// A count times what such a pointer points to would not fit into 64 bits.
TEST(Untrusted, PointersToVeryLongVectorsAreRefused) {
  const Attack memset = {"Memset", "eval S.dma_memset<void>(a#0, 0:int64, 2147483647)", "", "int64x2147483647"};
  EXPECT_NE(run_attack(victim_model(fb::TensorKind::kArena, false, kernel_text(memset), true))
                .message()
                .find("the type global int64x2147483647*"),
            std::string::npos);
}

TEST(Untrusted, KernelsWriteWhatTheirCommandLists) {
  for (const Attack& attack : attacks()) {
    if (std::string_view(attack.name) == "DistanceBetweenArrays") continue;
    const Status status = run_attack(victim_model(fb::TensorKind::kArena, false, kernel_text(attack), true));
    EXPECT_TRUE(status.ok()) << attack.name << ": " << status.message();
  }
}

TEST(Untrusted, FilesThatClaimToWriteToConstantsOrInputsAreRefused) {
  const Attack& store = attacks()[0];
  for (const auto kind : {fb::TensorKind::kInput, fb::TensorKind::kConstant}) {
    for (const bool through_view : {false, true}) {
      const ModelBuilder kernel = victim_model(kind, through_view, kernel_text(store), true);
      EXPECT_NE(run_attack(kernel).message().find("which is read-only"), std::string::npos);
      ModelBuilder copy = victim_model(kind, through_view, kernel_text(store), false);
      copy.programs[0].tec.clear();
      const uint32_t victim = copy.programs[0].tec.empty() && through_view ? copy.outputs[0] - 1
                              : kind == fb::TensorKind::kInput             ? copy.inputs[0]
                                                                           : copy.outputs[0] - 1;
      copy.copy(victim, 0, copy.outputs[0], 0, 1, 1, 0, 0);
      EXPECT_NE(run_attack(copy).message().find("which is read-only"), std::string::npos);
    }
  }
  // Memory that is taken over from an input or a constant would be written to by its new owner.
  ModelBuilder takes_over = victim_model(fb::TensorKind::kArena, false, kernel_text(store), true);
  takes_over.tensors[1].in_place_of = takes_over.inputs[0];
  EXPECT_NE(run_attack(takes_over).message().find("which is no arena tensor"), std::string::npos);
}

// ---- memory and time ----

// A model of one kernel, of type f(y) unless `parameters` says otherwise, that each of two TECs runs.
ModelBuilder model_of(const std::string& body, const std::string& functions = {}) {
  ModelBuilder b;
  b.tec_count = 2;
  const uint32_t zero = b.constant(0), n = b.constant(kElements), two = b.constant(2);
  b.tensor("x", DType::kI32, {n}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kI32, {n}, fb::TensorKind::kOutput);
  test::KernelRow row{"k", {true}};
  row.tir = "func k(y#0: global int32*) -> void {\n" + body + "\n}\n" + functions;
  b.launch(b.kernel(row), {b.pointer(y, true, zero)}, two);
  return b;
}

struct Limits {
  LoadOptions load;
  SessionOptions session;
};

Status run_within(const ModelBuilder& builder, Limits limits) {
  limits.load.backend = "interp";
  const auto model = Model::from_bytes(builder.build(), limits.load);
  if (!model.ok()) return model.status();
  limits.session.threads = 2;
  auto session = Session::create(*model, limits.session);
  if (!session.ok()) return session.status();
  const std::vector<int32_t> x(kElements);
  const int64_t shape[] = {kElements};
  EXPECT_TRUE((*session)->bind_input(0, {DType::kI32, shape, x.data()}).ok());
  return (*session)->run();
}

std::string error_within(const ModelBuilder& builder, const Limits& limits) {
  return run_within(builder, limits).message();
}

TEST(Untrusted, CallChainsAreAsLongAsTheyLike) {
  std::string functions;
  constexpr int kChain = 20000;
  for (int i = 0; i < kChain; ++i) {
    const std::string callee = i + 1 < kChain ? "f" + std::to_string(i + 1) : "";
    functions += "func f" + std::to_string(i) + "(y#0: global int32*) -> void { " +
                 (callee.empty() ? "store y#0[0] = 42" : "eval call<void> " + callee + "(y#0)") + " }\n";
  }
  const Status status = run_within(model_of("eval call<void> f0(y#0)", functions), {});
  EXPECT_TRUE(status.ok()) << status.message();
  const std::string circle = functions.substr(0, functions.find("store y#0")) + "eval call<void> f7(y#0) }\n";
  EXPECT_NE(error_within(model_of("eval call<void> f0(y#0)", circle), {}).find("calls itself"), std::string::npos);
}

// The deepest text that the parser takes, on a stack that is smaller than those of threads usually are.
TEST(Untrusted, DeepTextFitsOnTheStack) {
  const auto nested = [](int depth) {
    std::string sum;
    for (int i = 0; i < depth; ++i) sum += "(1 + ";
    sum += "1";
    for (int i = 0; i < depth; ++i) sum += ")";
    std::string blocks;
    for (int i = 0; i < depth; ++i) blocks += "if true { ";
    blocks += "store y#0[0] = 1 ";
    for (int i = 0; i < depth; ++i) blocks += "}";
    return std::pair("store y#0[0] = " + sum, blocks);
  };
  const auto on_small_stack = [](const std::function<void()>& body) {
    pthread_attr_t attributes;
    ASSERT_EQ(::pthread_attr_init(&attributes), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&attributes, 4 << 20), 0);
    pthread_t thread;
    const auto enter = [](void* argument) -> void* {
      (*static_cast<const std::function<void()>*>(argument))();
      return nullptr;
    };
    ASSERT_EQ(::pthread_create(&thread, &attributes, enter, const_cast<std::function<void()>*>(&body)), 0);
    ::pthread_join(thread, nullptr);
  };
  on_small_stack([&] {
    const auto [sum, blocks] = nested(990);
    for (const std::string& body : {sum, blocks}) {
      const Status status = run_within(model_of(body), {});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    const auto [too_deep_sum, too_deep_blocks] = nested(100000);
    for (const std::string& body : {too_deep_sum, too_deep_blocks})
      EXPECT_NE(error_within(model_of(body), {}).find("nested deeper than"), std::string::npos);
  });
}

TEST(Untrusted, MemoryOfKernelsIsCharged) {
  for (const std::string scope : {"lsram", "shared"}) {
    std::string body;
    for (int i = 1; i <= 40; ++i)
      body += "alloc a" + std::to_string(i) + "#" + std::to_string(i) + ": " + scope + " int8* [1073741824]\n";
    EXPECT_NE(error_within(model_of(body), {}).find("--run-memory-limit"), std::string::npos);
  }
  // Variables and arrays of a TEC, of which there is one at a time, or two that meet.
  const std::string array = "alloc a#1: private int8* [100000000] store a#1[0] = 1:int8\n";
  Limits limits;
  limits.session.memory_limit_bytes = 150000000;
  EXPECT_TRUE(run_within(model_of(array), limits).ok());
  EXPECT_NE(error_within(model_of(array + "eval S.barrier<void>()"), limits).find("--run-memory-limit"),
            std::string::npos);
  // What is kept of the file: a vector for a few letters, a node for a letter.
  std::string vectors, lanes = "1";
  for (int i = 0; i < 2000; ++i)
    vectors += "let v" + std::to_string(i) + "#" + std::to_string(i + 1) + ": int64x65536 = broadcast<65536>(" +
               std::to_string(i) + ":int64)\n";
  for (int i = 1; i < 65536; ++i) lanes += ",1";
  for (const std::string& body : {vectors, "let v#1: int32x65536 = [" + lanes + "]"}) {
    limits.load.budget.bytes = 8 << 20;
    EXPECT_NE(error_within(model_of(body), limits).find("--load-memory-limit"), std::string::npos);
  }
}

TEST(Untrusted, ActivationsOfAllStagesAreCharged) {
  ModelBuilder b;
  const uint32_t one = b.constant(1), n = b.constant(kElements), big = b.constant(400 << 20);
  const uint32_t x = b.tensor("x", DType::kI32, {n}, fb::TensorKind::kInput);
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t s = b.symbol("S" + std::to_string(i), x, 0, fb::SymbolKind::kTensorElement);
    b.host(fb::HostOp::kBindSymbols, i, 1);
    const uint32_t t =
        b.tensor("t", DType::kI8, {b.expression(fb::ExpressionOp::kMax, s, big)}, fb::TensorKind::kArena);
    b.tensors[t].first_use = b.tensors[t].last_use = b.next_sequence;
    b.copy(t, 0, t, 0, one, one, one, one);
  }
  EXPECT_NE(error_within(b, {}).find("--run-memory-limit"), std::string::npos);
}

TEST(Untrusted, RunsEndWhenTheirTimeIsOver) {
  const std::string vector = "let v#1: float32x65536 = broadcast<65536>(0.5) ";
  const std::string exps = [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "set v#1 = S.exp<float32x65536>(v#1)\n";
    return text;
  }();
  const std::vector<std::string> bodies = {
      "while true { store y#0[0] = 1 }",
      "for serial i#1: int64 = 0:int64 to 9223372036854775807:int64 step 1:int64 { store y#0[0] = 1 }",
      // one of the TECs never comes
      "let id#1: int32 = S.get_local_id<int32>() if (id#1 == 1) { while true { store y#0[1] = 1 } } "
      "eval S.barrier<void>()",
      // much work in few statements: none of them is a loop
      vector + exps,
      "alloc a#1: private int8* [100000000] " +
          [] {
            std::string text;
            for (int i = 0; i < 1000; ++i) text += "eval S.dma_memset<void>(a#1, 1:int8, 100000000)\n";
            return text;
          }(),
      "while true { eval call<void> f(y#0) }",
  };
  Limits limits;
  limits.session.run_seconds = 0.2;
  for (const std::string& body : bodies) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = run_within(model_of(body, "func f(y#0: global int32*) -> void { store y#0[0] = 1 }"), limits);
    EXPECT_NE(status.message().find("the run takes longer than 0.2 s; raise the limit (--run-time-limit"),
              std::string::npos)
        << status.message();
    // Without the limit each takes more than a minute; no figure here is a measurement.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << body.substr(0, 200);
  }
}

TEST(Untrusted, LoadsEndWhenTheirTimeIsOver) {
  Limits limits;
  limits.load.budget.seconds = 1e-9;
  EXPECT_NE(error_within(model_of(""), limits).find("loading takes longer than"), std::string::npos);
  EXPECT_NE(error_within(model_of(""), limits).find("--load-time-limit"), std::string::npos);
  limits.load.budget = {1000, 0};
  EXPECT_NE(error_within(model_of(""), limits).find("(--load-memory-limit, LoadOptions::budget)"), std::string::npos);
}

TEST(Untrusted, PlansHaveLimits) {
  ModelBuilder many = model_of("");
  for (int i = 0; i < 5000; ++i) {
    const uint32_t y = many.outputs[0];
    many.copy(y, 0, y, 0, 0, 0, 0, 0);
  }
  Limits limits;
  limits.session.plan_budget.bytes = 100000;
  EXPECT_NE(error_within(many, limits).find("--plan-memory-limit"), std::string::npos);
  limits.session.plan_budget = {0, 1e-9};
  EXPECT_NE(error_within(many, limits).find("--plan-time-limit"), std::string::npos);
  EXPECT_TRUE(run_within(many, {}).ok());
}

TEST(Untrusted, BackEndsThatDoNotContainKernelsAreRefused) {
  LoadOptions options = LoadOptions::untrusted();
  for (const std::string backend : {"native", "host", "null"}) {
    options.backend = backend;
    const Status status = Model::from_bytes(model_of("").build(), options).status();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.message().find("does not contain what kernels do, which files that are not trusted (--untrusted) "
                                    "need; use --backend interp"),
              std::string::npos)
        << status.message();
  }
}

TEST(Untrusted, ThePresetRunsWhatIsHarmless) {
  EXPECT_TRUE(run_within(model_of("store y#0[0] = 1"), {LoadOptions::untrusted(), SessionOptions::untrusted()}).ok());
}

}  // namespace
}  // namespace aipu::runtime
