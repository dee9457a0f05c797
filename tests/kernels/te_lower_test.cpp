// Schedules to loop nests: the text says what is run, and the interpreter that it is right.
#include <gtest/gtest.h>

#include "codegen/tir/interpreter.h"
#include "kernels/te/lower.h"
#include "kernels/te/to_tir.h"

namespace aipu::te {
namespace {

const Type kFloat = Type::scalar(DType::kF32);

IterVarPtr axis(const std::string& name, const Expr& extent, IterKind kind = IterKind::kDataPar) {
  return std::make_shared<IterVar>(
      IterVar{make_var(name, extent->type), Range{make_int(0, extent->type), extent}, kind});
}

Expr read(const Tensor& tensor, std::vector<Expr> indices) { return element(tensor, std::move(indices)).value(); }

// B[i] = A[i] * 2, C[i] = B[i] + B[i + 1] over one element less.
struct Chain {
  explicit Chain(const Expr& extent) : n(extent) {
    a = {make_placeholder("A", {n}, kFloat), 0};
    const IterVarPtr i = axis("i", n);
    b = {make_compute("B", "", {i}, {mul(read(a, {i->var}), make_float(2))}).value(), 0};
    const IterVarPtr k = axis("i", sub(n, make_int(1)));
    c = {make_compute("C", "", {k}, {add(read(b, {k->var}), read(b, {add(k->var, make_int(1))}))}).value(), 0};
    schedule = Schedule::create({c.op});
  }
  const IterVarPtr& axis_of(const Tensor& t) const { return t.op->compute()->axis.front(); }
  Stage& stage(const Tensor& t) const { return *schedule->find(t.op.get()); }
  Result<Function> lower() const { return lower_schedule(*schedule, {{a, nullptr}, {c, nullptr}}, "main"); }

  Expr n;
  Tensor a, b, c;
  SchedulePtr schedule;
};

std::string text(const Result<Function>& function) {
  return function.ok() ? to_text(*function) : function.status().message();
}

TEST(TeLower, DefaultScheduleIsOneNestPerStage) {
  EXPECT_EQ(text(Chain(make_int(8)).lower()),
            "def main(A: Buffer((8,), \"float32\"), C: Buffer((7,), \"float32\")):\n"
            "    B = allocate((8), \"float32\", \"\")\n"
            "    for i in range(8):\n"
            "        B[i] = (A[i] * 2f)\n"
            "    for i in range(7):\n"
            "        C[i] = (B[i] + B[(i + 1)])\n");
}

TEST(TeLower, AttachedProducerComputesWhatIsNeeded) {
  const Chain chain(make_int(9));
  const auto parts = chain.stage(chain.c).split(chain.axis_of(chain.c), make_int(4), nullptr).value();
  ASSERT_TRUE(chain.stage(chain.b).compute_at(chain.schedule->find(chain.c.op.get()), parts.first).ok());
  EXPECT_EQ(text(chain.lower()),
            "def main(A: Buffer((9,), \"float32\"), C: Buffer((8,), \"float32\")):\n"
            "    for i.outer in range(2):\n"
            "        B = allocate((5), \"float32\", \"\")\n"
            "        for i in range(5):\n"
            "            B[((i.outer * 4) + i)] = (A[((i.outer * 4) + i)] * 2f)\n"
            "        for i.inner in range(4):\n"
            "            C[((i.outer * 4) + i.inner)] = (B[((i.outer * 4) + i.inner)] + B[(((i.outer * 4) + i.inner) + "
            "1)])\n");
}

TEST(TeLower, UnevenSplitsAreGuarded) {
  const Chain chain(make_var("n", Type::scalar(DType::kI32), true));
  ASSERT_TRUE(chain.stage(chain.b).compute_inline().ok());
  ASSERT_TRUE(chain.stage(chain.c).split(chain.axis_of(chain.c), make_int(4), nullptr).ok());
  const std::string lowered = text(chain.lower());
  EXPECT_NE(lowered.find("if likely((((i.outer * 4) + i.inner) < (n - 1))):"), std::string::npos) << lowered;
  EXPECT_EQ(lowered.find("allocate"), std::string::npos) << lowered;
}

TEST(TeLower, ErrorsNameProducerAndConsumer) {
  const Chain chain(make_int(8));
  ASSERT_TRUE(chain.stage(chain.b).compute_at(chain.schedule->find(chain.c.op.get()), chain.axis_of(chain.c)).ok());
  const Result<Function> whole =
      lower_schedule(*chain.schedule, {{chain.a, nullptr}, {chain.b, nullptr}, {chain.c, nullptr}}, "main");
  ASSERT_FALSE(whole.ok());
  EXPECT_NE(whole.status().message().find("'B' is an argument"), std::string::npos) << whole.status().message();
  Stage& b = chain.stage(chain.b);
  const Status foreign = b.compute_at(chain.schedule->find(chain.c.op.get()), chain.axis_of(chain.b));
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.message().find("none of this stage's axes"), std::string::npos) << foreign.message();
}

TEST(TeLower, PrimitivesTellSplitAxesFromForeignOnes) {
  const Chain chain(make_int(8));
  Stage& c = chain.stage(chain.c);
  ASSERT_TRUE(c.split(chain.axis_of(chain.c), make_int(4), nullptr).ok());
  const auto again = c.split(chain.axis_of(chain.c), make_int(2), nullptr);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find("split or fused before"), std::string::npos) << again.status().message();
  EXPECT_EQ(c.leaf_iter_vars.size(), 2u);
}

// out[0] = A[0], out[t] = 2 * out[t - 1]: init, state and update are parts of one memory.
TEST(TeLower, ScanIsOneMemory) {
  const Expr steps = make_int(5);
  const Tensor a{make_placeholder("A", {make_int(1)}, kFloat), 0};
  const Tensor state{make_placeholder("state", {steps}, kFloat), 0};
  const IterVarPtr i = axis("i", make_int(1)), t = axis("t", steps);
  const Tensor init{make_compute("init", "", {i}, {read(a, {i->var})}).value(), 0};
  const Expr before = read(state, {sub(t->var, make_int(1))});
  const Tensor update{make_compute("update", "", {t}, {mul(before, make_float(2))}).value(), 0};
  const auto scan = make_scan("scan", "", Scan{nullptr, {init}, {update}, {state}, {}, {}});
  ASSERT_TRUE(scan.ok()) << scan.status().message();
  const SchedulePtr schedule = Schedule::create({*scan});
  EXPECT_EQ(schedule->body_of_scan(*schedule->find(scan->get())).size(), 1u);
  EXPECT_EQ(text(lower_schedule(*schedule, {{a, nullptr}, {{*scan, 0}, nullptr}}, "main")),
            "def main(A: Buffer((1,), \"float32\"), scan: Buffer((5,), \"float32\")):\n"
            "    scan[0] = A[0]\n"
            "    for scan.idx in range(4):\n"
            "        scan[(scan.idx + 1)] = (scan[scan.idx] * 2f)\n");
  const auto wrong = make_scan("scan", "", Scan{nullptr, {init}, {update}, {a}, {}, {}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("extents of dimension 0"), std::string::npos) << wrong.status().message();
}

TEST(TeLower, TheInterpreterRunsIt) {
  for (const bool attach : {false, true}) {
    const Chain chain(make_int(11));
    Stage& c = chain.stage(chain.c);
    const auto parts = c.split(chain.axis_of(chain.c), make_int(4), nullptr).value();
    if (attach) {
      ASSERT_TRUE(chain.stage(chain.b).compute_at(chain.schedule->find(chain.c.op.get()), parts.first).ok());
    }
    ASSERT_TRUE(c.annotate(parts.first, IterKind::kParallelized).ok());
    const auto function = chain.lower();
    ASSERT_TRUE(function.ok()) << function.status().message();
    const auto kernel = to_tir(*function);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    std::vector<float> a(11), out(10, -1), scratch(64);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * i);
    const auto region = [](std::vector<float>& v) {
      tir::InterpreterArgument argument;
      argument.data = reinterpret_cast<std::byte*>(v.data());
      argument.bytes = v.size() * sizeof(float);
      argument.is_pointer = true;
      return argument;
    };
    std::vector<tir::InterpreterArgument> arguments = {region(a), region(out)};
    EXPECT_EQ(kernel->workspaces.size(), attach ? 0u : 1u);
    if (!attach) arguments.push_back(region(scratch));
    const Status status = tir::interpret_all(kernel->module, 3, arguments);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], 2 * a[i] + 2 * a[i + 1]);
  }
}

}  // namespace
}  // namespace aipu::te
