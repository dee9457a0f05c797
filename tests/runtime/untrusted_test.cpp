// Files from people one does not trust, on the back end that promises to survive them: kernels that write where they
// may only read.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace aipu::runtime
