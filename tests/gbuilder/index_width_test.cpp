// Index arithmetic: which kernels have 64 bits, and that those which do not are kept from tensors that need them.
#include "codegen/tir/index_width.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "codegen/lower/lower.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "frontend/onnx/import.h"
#include "graph/passes/pass.h"
#include "kernels/plugin.h"
#include "runtime/base/checked_math.h"

namespace aipu {
namespace {

using ::testing::HasSubstr;

// What the launches of a model, converted up to its kernels, say: "template entry" -> 32-bit arithmetic, or "".
class Sweep {
 public:
  void add(const std::string& model) {
    auto graph = frontend::import_onnx(model, {});
    if (!graph.ok()) return;
    kernels::PluginRegistry registry = kernels::PluginRegistry::with_builtins();
    graph::PassContext passes;
    if (!graph::run_passes(**graph, graph::graph_pipeline(), passes, {}).ok()) return;
    const auto groups = graph::partition(**graph, registry.claimers(), {target_.name, false});
    if (!groups.ok()) return;
    for (const graph::Group& group : *groups) {
      kernels::SetupContext context(**graph, group, target_, registry.templates());
      if (!kernels::PluginRegistry::plugin_of(group).setup(context).ok()) continue;
      for (const kernels::Launch& launch : context.implementation.launches) {
        if (const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch)) look_at(group, *kernel->kernel, model);
      }
    }
  }

  std::map<std::string, std::string> narrow;  // by "plugin/kernel"
  std::set<std::string> wide;

 private:
  void look_at(const graph::Group& group, const tir::Module& module, const std::string& model) {
    const std::string name = std::string(group.owner->name()) + "/" + module.entry().name;
    const std::string found = tir::find_narrow_index(module);
    if (found.empty()) {
      wide.insert(name);
    } else {
      narrow.emplace(name, found);
    }
    EXPECT_EQ(tir::verify(module).message(), "") << model;
    // Lowering brings back no 32-bit arithmetic.
    const auto lowered = tir::lower(module, target_, {});
    ASSERT_TRUE(lowered.ok()) << lowered.status().message();
    if (found.empty()) {
      EXPECT_EQ(tir::find_narrow_index(*lowered), "") << name << " of " << model;
    }
  }

  tir::Target target_ = *tir::find_target("host-baseline");
};

// Every kernel that the models of the ONNX backend tests use. One that is new here either has 64 bits or says why not.
TEST(IndexWidth, BuiltInKernels) {
  const std::string data = "/usr/share/libonnx-testdata/data";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is not there: install libonnx-testdata";
  Sweep sweep;
  for (const char* folder : {"node", "pytorch-operator", "pytorch-converted", "simple"}) {
    for (const auto& entry : std::filesystem::directory_iterator(data + "/" + folder))
      sweep.add((entry.path() / "model.onnx").string());
  }
  ASSERT_GT(sweep.wide.size(), 35u);
  // These work on whole slices, count in int32 tensors, need all registers for their tiles, have places of an image or of
  // a few rows as lanes of 32 bits, or a seed of so many; the runtime keeps larger tensors from them.
  const std::set<std::string> known = {
      "elementwise/elementwise_by_tables", "generate/integer_range", "generate/random_numbers",
      "quantized/quantized_conv",          "sampling/grid_sample",   "sorting/count_unique",
      "sorting/non_max_suppression",       "sorting/unique"};
  for (const auto& [name, found] : sweep.narrow) EXPECT_EQ(known.count(name), 1u) << name << ": " << found;
}

// `body` of an entry with these parameters: p and q point to float32 and int32, n and m are int32, k is int64.
tir::Module module_of(const std::string& body, const std::string& functions = "") {
  const auto module = tir::parse_module(
      "func f(p#0: global float32*, q#1: global int32*, n#2: int32, m#3: int32, k#4: int64) -> void {\n" + body +
      "}\n" + functions);
  EXPECT_TRUE(module.ok()) << module.status().message() << " in\n" << body;
  return module.ok() ? *module : tir::Module{};
}

struct Case {
  const char* body;
  bool wide;  // as it is written
};

const Case kCases[] = {
    {"store p#0[(n#2 * m#3)] = 0.0\n", false},
    {"store p#0[(cast<int64>(n#2) * cast<int64>(m#3))] = 0.0\n", true},
    {"store p#0[cast<int64>((n#2 * m#3))] = 0.0\n", false},
    {"store p#0[n#2] = 0.0\n", true},
    {"store p#0[(n#2 + 1)] = 0.0\n", false},
    {"store (p#0 + (n#2 << 2))[0] = 0.0\n", false},
    {"let i#5: int32 = cast<int32>(k#4)\nstore p#0[i#5] = 0.0\n", false},
    {"store p#0[((n#2 % 16) + 1)] = 0.0\n", true},
    {"store p#0[((n#2 min 16) * 4)] = 0.0\n", true},
    {"store p#0[(S.get_local_id<int32>() * 16)] = 0.0\n", true},
    {"store p#0[(load(q#1, 0) * 4)] = 0.0\n", false},  // an index from memory
    {"for serial i#5: int32 = 0 to n#2 step 1 {\nstore p#0[i#5] = 0.0\n}\n", true},
    {"for serial i#5: int32 = 0 to n#2 step 8 {\nstore p#0[i#5] = 0.0\n}\n", false},  // steps over the end
    {"for serial i#5: int32 = 0 to 64 step 8 {\nstore p#0[(i#5 + 1)] = 0.0\n}\n", true},
    {"let i#5: int32 = 0\nwhile (cast<int64>(i#5) < k#4) {\nset i#5 = (i#5 + 1)\n}\n", false},  // a counter
    {"alloc a#5: private int32* [2]\nstore a#5[0] = n#2\nstore p#0[(load(a#5, 0) * m#3)] = 0.0\n", false},
    {"let i#5: int32 = n#2\nif (k#4 < 5:int64) {\nset i#5 = 3\n}\nstore p#0[(i#5 * 2)] = 0.0\n", false},
};

TEST(IndexWidth, FindsWhatHas32Bits) {
  for (const Case& c : kCases) EXPECT_EQ(tir::find_narrow_index(module_of(c.body)).empty(), c.wide) << c.body;
}

TEST(IndexWidth, WideningLeavesNone) {
  for (const Case& c : kCases) {
    const tir::Module wide = tir::widen_indices(module_of(c.body));
    EXPECT_EQ(tir::verify(wide).message(), "") << c.body;
    // What was loaded from an int32 tensor is no index arithmetic of the kernel's own.
    if (std::string(c.body).find("load(q#1") != std::string::npos) continue;
    EXPECT_EQ(tir::find_narrow_index(wide), "") << c.body << tir::print_module(wide);
  }
}

TEST(IndexWidth, SeesThroughFunctions) {
  const std::string function = "func g(p#0: global float32*, at#1: int32) -> void {\nstore p#0[(at#1 * 2)] = 0.0\n}\n";
  const tir::Module module = module_of("eval call<void> g(p#0, n#2)\n", function);
  EXPECT_THAT(tir::find_narrow_index(module), HasSubstr("* 2"));
  const tir::Module wide = tir::widen_indices(module);
  EXPECT_EQ(tir::verify(wide).message(), "");
  EXPECT_EQ(tir::find_narrow_index(wide), "");
  EXPECT_EQ(wide.functions[1]->params[1]->type, tir::Type::scalar(DType::kI64));
}

// A zero point that only becomes lanes stays what it is.
TEST(IndexWidth, LanesKeepTheirType) {
  const tir::Module wide = tir::widen_indices(
      module_of("let v#5: int32x8 = S.vbcast<int32x8>(m#3, .lanes=8)\neval S.vstore<void>(v#5, (q#1 + n#2), 1)\n"));
  EXPECT_EQ(tir::verify(wide).message(), "");
  EXPECT_EQ(wide.entry().params[2]->type, tir::Type::scalar(DType::kI64));
  EXPECT_EQ(wide.entry().params[3]->type, tir::Type::scalar(DType::kI32));
}

// Sums of data are none of the kernel's positions.
TEST(IndexWidth, DataKeepsItsType) {
  const tir::Module wide =
      tir::widen_indices(module_of("let total#5: int32 = load(q#1, n#2)\nlet b#6: int32 = load(q#1, m#3)\n"
                                   "set total#5 = (b#6 min total#5)\nstore q#1[n#2] = total#5\n"));
  EXPECT_EQ(tir::verify(wide).message(), "");
  EXPECT_THAT(tir::print_module(wide), HasSubstr("set total#5 = (b#6 min total#5)"));
  EXPECT_THAT(tir::print_module(wide), HasSubstr("let total#5: int32"));
  EXPECT_EQ(tir::find_narrow_index(wide), "");
}

// What a user writes is taken as it is; with int64 it has no limit.
TEST(IndexWidth, KernelsOfUsers) {
  for (const bool wide : {false, true}) {
    kernels::TemplateLibrary library;
    library.add_source("user.py", std::string(R"(from aipu import script as S
@S.prim_func
def doubled(x: S.ptr("i8", "global"), y: S.ptr("i8", "global"), n: )") +
                                      (wide ? "S.i64" : "S.i32") + R"():
    for i in range(S.get_local_id() * 16, n, S.get_local_size() * 16):
        mask = S.tail_mask(S.min(n - i, 16), 16)
        S.vstore(S.vload(x + i, lanes=16, mask=mask), y + i, mask=mask)
)");
    const auto kernel = library.instantiate("user.py", "doubled", {}, "doubled", true);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_EQ((*kernel)->entry().params[2]->type, tir::Type::scalar(wide ? DType::kI64 : DType::kI32));
    EXPECT_EQ(tir::find_narrow_index(**kernel).empty(), wide) << tir::print_module(**kernel);
  }
}

TEST(IndexWidth, ReachOfEachParameter) {
  const tir::Target host = *tir::find_target("host-baseline"), x2 = *tir::find_target("X2_1204");
  const tir::Module narrow = module_of("store p#0[(n#2 * m#3)] = 0.0\n"), wide = tir::widen_indices(narrow);
  const uint64_t reach = 4 * uint64_t{kNarrowIndexElements};
  EXPECT_EQ(tir::addressable_bytes(narrow, host), (std::vector<uint64_t>{reach, reach, 0, 0, 0}));
  EXPECT_EQ(tir::addressable_bytes(wide, host), (std::vector<uint64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(tir::addressable_bytes(wide, x2), (std::vector<uint64_t>{reach, reach, 0, 0, 0}));
}

}  // namespace
}  // namespace aipu
