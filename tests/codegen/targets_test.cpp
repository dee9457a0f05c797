// The table of targets, the registry of code generators, and libraries that add to both.
#include "codegen/targets/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/native_c/translation_unit.h"
#include "codegen/targets/target_library.h"
#include "codegen/tir/text.h"

namespace aipu::tir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Target npu(const std::string& name) {
  return {.name = name,
          .codegen = "native_c",
          .backend = "null",
          .vector_bits = 128,
          .memories = {{.name = "ddr"}, {.name = "scratch", .reach = Reach::kTec, .bytes = 4096}},
          .engines = {{.kind = EngineKind::kTec, .count = 2, .takes_launches = true}}};
}

std::string refusal(const std::function<void(Target&)>& change) {
  Target target = npu("refused_npu");
  change(target);
  const std::string message = add_targets({target}).message();
  EXPECT_FALSE(find_target("refused_npu").ok());
  return message;
}

TEST(TargetRows, SayWhoMakesTheirCodeAndWhatTheyHave) {
  for (const Target& target : all_targets()) {
    EXPECT_TRUE(find_code_generator(target.codegen).ok()) << target.name;
    EXPECT_NE(target.memory(Reach::kAll), nullptr) << target.name;
    EXPECT_FALSE(target.backend.empty()) << target.name;
  }
  const Target x2 = *find_target("X2_1204"), host = *find_target("host-avx2");
  EXPECT_EQ(x2.backend, "x2");
  EXPECT_EQ(x2.codegen, "compass_c");
  EXPECT_EQ(x2.lsram_bytes(), 32 * 1024);
  EXPECT_EQ(x2.cache_bytes(), 0);
  EXPECT_TRUE(x2.costs.has_value());
  EXPECT_EQ(x2.lsram_bytes(), npu_timing::kX2Machine.lsram_bytes) << "as the back end has it";
  EXPECT_EQ(x2.shared_bytes(), npu_timing::kX2Machine.shared_bytes);
  EXPECT_EQ(x2.tec_count(), static_cast<int>(npu_timing::kX2Machine.tecs));
  EXPECT_EQ(x2.memory(Reach::kAll)->bytes_per_cycle, x2.costs->commands.global_bytes_per_cycle);
  EXPECT_EQ(host.backend, "host");
  EXPECT_EQ(host.tec_count(), 0);
  EXPECT_GT(host.cache_bytes(), 0);
  EXPECT_FALSE(host.costs.has_value());
}

TEST(TargetRows, CostsAreAListInFiles) {
  CostFigures costs;
  double next = 1;
  for (const auto figure : npu_timing::kCommandFigures) costs.commands.*figure = next++;
  for (const auto figure : kKernelFigures) costs.*figure = next++;
  const std::vector<double> numbers = costs.numbers();
  ASSERT_EQ(numbers.size() * sizeof(double), sizeof(CostFigures)) << "each figure once";
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<double>(i + 1));
  EXPECT_EQ(CostFigures::from(numbers).numbers(), numbers);
  // Of a file that knows fewer: the others are as they stand.
  const CostFigures old = CostFigures::from(std::span(numbers).first(9));
  EXPECT_EQ(old.barrier, 9);
  EXPECT_EQ(old.branch, CostFigures().branch);
}

TEST(TargetRows, AreAddedIfTheirFactsFitTogether) {
  ASSERT_EQ(add_targets({npu("first_npu"), npu("second_npu")}).message(), "");
  EXPECT_EQ(find_target("second_npu")->lsram_bytes(), 4096);
  EXPECT_EQ(find_target("compass -mcpu=first_npu")->tec_count(), 2);
  EXPECT_THAT(find_target("none").status().message(), HasSubstr("first_npu, second_npu"));
  EXPECT_THAT(print_targets(), HasSubstr("memories  ddr as much as there is, scratch 4 KiB per TEC\n"));

  EXPECT_EQ(add_targets({npu("third_npu"), npu("X2_1204")}).message(),
            "target 'X2_1204': there is one of that name already");
  EXPECT_FALSE(find_target("third_npu").ok()) << "all or none";
  EXPECT_FALSE(add_targets({npu("twice"), npu("twice")}).ok());
  for (const char* name : {"", "host", "compass_x", "a b", "a'b"})
    EXPECT_THAT(add_targets({npu(name)}).message(), HasSubstr("is not a name for a target")) << name;
  EXPECT_THAT(refusal([](Target& t) { t.vector_bits = 96; }), HasSubstr("registers of 96 bits"));
  EXPECT_THAT(refusal([](Target& t) { t.vector_bits = 1024; }), HasSubstr("registers of 1024 bits"));
  EXPECT_THAT(refusal([](Target& t) { t.vector_registers = 1; }), HasSubstr("1 vector registers are too few"));
  EXPECT_THAT(refusal([](Target& t) { t.address_bits = 16; }), HasSubstr("addresses of 16 bits"));
  EXPECT_THAT(refusal([](Target& t) { t.backend = "../x"; }), HasSubstr("is not a name of a back end"));
  EXPECT_THAT(refusal([](Target& t) { t.memories.clear(); }), HasSubstr("no memory that everything may address"));
  EXPECT_THAT(refusal([](Target& t) { t.memories.push_back({.name = "b"}); }), HasSubstr("two memories that 'all'"));
  EXPECT_THAT(refusal([](Target& t) { t.memories[1].bytes = -1; }), HasSubstr("'scratch' is smaller than 0"));
  EXPECT_THAT(refusal([](Target& t) { t.engines.push_back(t.engines[0]); }), HasSubstr("two rows of engines 'tec'"));
  EXPECT_THAT(refusal([](Target& t) { t.engines.clear(); }), HasSubstr("no TECs that take launches"));
  EXPECT_THAT(refusal([](Target& t) { t.costs.emplace().barrier = -1; }), HasSubstr("a cost of -1"));
  EXPECT_THAT(refusal([](Target& t) { t.costs.emplace().commands.dma_bytes_per_cycle = 0; }), HasSubstr("a cost of 0"));
  EXPECT_THAT(refusal([](Target& t) { t.engines[0].takes_launches = false; }), HasSubstr("no TECs that take launches"));
  EXPECT_THAT(refusal([](Target& t) { t.core_count = 0; }), HasSubstr("no cores"));
}

// Hosts' C, in modules that nobody can load.
class TestC : public CodeGenerator {
 public:
  explicit TestC(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  std::string prelude(const Target& target) const override { return host_prelude(target); }
  Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks) const override {
    return print_host_kernel(kernel, target, line_marks);
  }
  Result<CompiledModule> compile(std::span<const KernelSource> kernels, const Target& target,
                                 const CompileOptions&) const override {
    CompiledModule module;
    for (const KernelSource& kernel : kernels) {
      AIPU_ASSIGN_OR_RETURN(const KernelText text, print_kernel(kernel, target, false));
      module.c_code += text.c;
    }
    module.shared_object.assign(kernels.size(), std::byte{42});
    return module;
  }

 private:
  std::string name_;
};

Status install(std::vector<Target> targets, const std::vector<std::string>& generators) {
  TargetLibrary library;
  for (Target& target : targets) library.add_target(std::move(target));
  for (const std::string& name : generators) library.add_code_generator(std::make_unique<TestC>(name));
  return std::move(library).install();
}

Target made_by(Target target, std::string codegen) {
  target.codegen = std::move(codegen);
  return target;
}

TEST(TargetLibrary, BringsATargetWithItsCodeGenerator) {
  Target target = made_by(npu("library_npu"), "library_c");
  target.types = {DType::kI32, DType::kF32};
  ASSERT_EQ(install({target}, {"library_c"}).message(), "");
  const Target found = *find_target("library_npu");

  const Module module = *parse_module("func f(x#0: global float32*) -> void {\n  store x#0[0] = 1.0\n}\n");
  const Result<KernelSource> source = kernel_source("k", module, module, found);
  ASSERT_TRUE(source.ok()) << source.status().message();
  const Result<CompiledModule> compiled = compile_kernels(std::span(&*source, 1), found);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_THAT(compiled->shared_object, ElementsAre(std::byte{42}));
  EXPECT_THAT(compiled->c_code, HasSubstr("aipu_entry_k"));

  const Module wide = *parse_module("func f(x#0: global float64*) -> void {\n  store x#0[0] = 1.0:float64\n}\n");
  EXPECT_EQ(kernel_source("k", wide, wide, found).status().message(),
            "it takes float64, which target 'library_npu' lacks");
}

TEST(TargetLibrary, AddsAllOrNothing) {
  EXPECT_EQ(install({made_by(npu("orphan"), "nobody_c")}, {}).message(),
            "target 'orphan': there is no code generator 'nobody_c' (there are: native_c, compass_c, cuda_c" +
                std::string(find_code_generator("library_c").ok() ? ", library_c)" : ")"));
  EXPECT_EQ(install({npu("one")}, {"native_c"}).message(),
            "code generator 'native_c': there is one of that name already");
  EXPECT_FALSE(install({npu("one")}, {"same_c", "same_c"}).ok());
  EXPECT_EQ(install({npu("one")}, {"a b"}).message(), "'a b' is not a name for a code generator");
  EXPECT_FALSE(install({npu("X2_1204")}, {"late_c"}).ok());
  EXPECT_EQ(install({}, {"late_c"}).message(), "it registers no target");
  EXPECT_FALSE(find_target("one").ok());
  EXPECT_FALSE(find_target("orphan").ok());
  for (const char* name : {"same_c", "late_c"}) EXPECT_FALSE(find_code_generator(name).ok()) << name;
}

}  // namespace
}  // namespace aipu::tir
