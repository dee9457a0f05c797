// c_code is C: behind its prelude a C++ compiler takes it, and what it computes is what the interpreter says that the
// kernel means, bit by bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "codegen/c_spelling/c_names.h"
#include "codegen/compass_c/c_text.h"
#include "codegen/compass_c/cxx_text.h"
#include "codegen/native_c/translation_unit.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "runtime/base/file.h"
#include "runtime/base/temporary.h"
#include "tests/codegen/agreement_cases.h"
#include "tests/codegen/cc_run.h"

namespace aipu::tir::testing {
namespace {

constexpr size_t kKernelsPerUnit = 400;

// Lanes that are off are 0 in the interpreter and whatever the destination holds with this pass.
const std::vector<std::string> kDisabled = {"ReviseParamR"};

Module named(Module module, std::string name) {
  PrimFunc entry = module.entry();
  entry.name = std::move(name);
  module.functions[0] = std::make_shared<const PrimFunc>(std::move(entry));
  return module;
}

// A temporary one with the prelude in it.
struct Folder {
  explicit Folder(const Target& target) : folder(Temporary::create_folder("c-text")) {
    path = folder.ok() ? folder->path() : "";
    EXPECT_TRUE(make_folder(path + "/compass").ok());
    EXPECT_TRUE(write_file_atomically(path + "/compass/dsl.h", compass_prelude(target), Sync::kNo).ok());
  }
  Result<Temporary> folder;
  std::string path;
};

// The C++ of a kernel with the wrapper that a module's table calls.
KernelText wrapped(const Module& shown, const std::string& c_code) {
  const PrimFunc& entry = shown.entry();
  std::string arguments;
  for (size_t i = 0; i < entry.params.size(); ++i)
    arguments += fmt::format("{}__argument<{}>(arguments[{}])", i == 0 ? "" : ", ", c_type(entry.params[i]->type), i);
  KernelText text;
  text.entry = "call_" + entry.name;
  text.c = fmt::format(
      "{}\nextern \"C\" __hidden void {}(const aipu_tec_context* context, const unsigned long long* arguments) {{\n"
      "  __tec = context;\n  {}({});\n}}\n",
      cxx_of_compass_c(c_code), text.entry, entry.name, arguments);
  text.table_row = fmt::format("{{\"{}\", {}, {}, 0, 0, 1}}", entry.name, text.entry, entry.params.size());
  return text;
}

// What the driver asks of a compiler, with less optimisation.
std::unique_ptr<LoadedModule> compiled(const std::string& folder, const std::string& compiler, const Target& target,
                                       std::span<const KernelText> kernels) {
  std::string text = "#include <compass/dsl.h>\n";
  for (const KernelText& kernel : kernels) text += kernel.c;
  text += print_module_table(kernels, false);
  EXPECT_TRUE(write_file_atomically(folder + "/unit.cpp", text, Sync::kNo).ok());
  std::string command = "cd " + folder + " && " + compiler +
                        " -x c++ -std=gnu++17 -O1 -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv"
                        " -fno-strict-aliasing -fsigned-char -fPIC -fno-exceptions -fno-rtti -fno-builtin -nostdinc -I."
                        " -w -shared -nostartfiles -o unit.so";
  for (const std::string& flag : target.compiler_flags) command += " " + flag;
  command += " unit.cpp > messages 2>&1";
  if (std::system(command.c_str()) != 0) {
    const auto messages = read_text_file(folder + "/messages");
    ADD_FAILURE() << (messages.ok() ? messages->substr(0, 4000) : "");
    return nullptr;
  }
  const auto object = MappedFile::read(folder + "/unit.so");
  if (!object.ok()) return nullptr;
  return std::make_unique<LoadedModule>(object->bytes());
}

// The lanes of each result that the language defines. Of others the interpreter makes 0, and C what it likes: lanes that
// no operand of a conversion fills, masks of more lanes than there are, floats that are beyond the integer they become.
int64_t defined_lanes(const AgreementCase& one) {
  const bool to_integer = one.name.starts_with("convert_") && one.output.is_scalar() &&
                          is_floating(one.inputs[0].element) && is_integer(one.output.element);
  if (one.name.starts_with("tail_") || to_integer) return 0;
  if (one.name.starts_with("merge_")) return static_cast<int64_t>(one.inputs.size()) * one.inputs[0].lanes;
  return one.output.lanes;
}

// The first difference; "" if there is none.
std::string difference(const AgreementCase& one, const AgreementBuffers& expected, const AgreementBuffers& actual) {
  const size_t bytes = dtype_bytes(one.output.element), lanes = static_cast<size_t>(one.output.lanes);
  for (size_t at = 0; at < expected.output.size() / bytes; ++at) {
    const std::byte *e = expected.output.data() + at * bytes, *a = actual.output.data() + at * bytes;
    if (static_cast<int64_t>(at % lanes) >= defined_lanes(one) || same_lane(one.output.element, e, a)) continue;
    return fmt::format("lane {}: interpreter {}, compiled {}", at % lanes, hex_lane(one.output.element, e),
                       hex_lane(one.output.element, a));
  }
  return "";
}

void expect_agreement(const AgreementCase& one, uint64_t seed, const LoadedModule& loaded,
                      const aipu_kernel_info& kernel, const std::string& c_code) {
  AgreementBuffers expected = agreement_buffers(one, seed), actual = expected;
  const Status status = run_interpreter(one.module, expected);
  ASSERT_TRUE(status.ok()) << one.name << ": " << status.message();
  std::vector<uint64_t> arguments;
  for (const auto& input : actual.inputs) arguments.push_back(reinterpret_cast<uint64_t>(input.data()));
  arguments.push_back(reinterpret_cast<uint64_t>(actual.output.data()));
  loaded.run(kernel, arguments);
  EXPECT_EQ(difference(one, expected, actual), "") << one.name << "\n" << c_code;
}

class CompiledCText : public ::testing::TestWithParam<const char*> {};

TEST_P(CompiledCText, EqualsTheInterpreter) {
  const std::string compiler = compiler_path(GetParam());
  if (compiler.empty()) GTEST_SKIP() << GetParam() << " is not installed";
  const Target target = *find_target("X2_1204");
  std::vector<AgreementCase> cases = operator_cases(target.vector_bits);
  for (AgreementCase& one : intrinsic_cases(target.vector_bits)) cases.push_back(std::move(one));
  std::vector<KernelText> kernels;
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].module = named(cases[i].module, fmt::format("k{}", i));
    const Result<std::string> text = compass_c_text(cases[i].module, target, kDisabled);
    ASSERT_TRUE(text.ok()) << text.status().message();
    kernels.push_back(wrapped(*compass_c_module(cases[i].module, target, kDisabled), *text));
  }
  const Folder folder(target);
  for (size_t first = 0; first < cases.size(); first += kKernelsPerUnit) {
    const size_t count = std::min(kKernelsPerUnit, cases.size() - first);
    const auto loaded = compiled(folder.path, compiler, target, std::span(kernels).subspan(first, count));
    ASSERT_NE(loaded, nullptr);
    ASSERT_EQ(loaded->error(), "");
    for (size_t k = 0; k < count; ++k)
      expect_agreement(cases[first + k], first + k, *loaded, loaded->table()->kernels[k], kernels[first + k].c);
  }
}

TEST_P(CompiledCText, MovesMemoryAsTheInterpreter) {
  const std::string compiler = compiler_path(GetParam());
  if (compiler.empty()) GTEST_SKIP() << GetParam() << " is not installed";
  const Target target = *find_target("X2_1204");
  std::vector<Module> modules;
  std::vector<DType> types;
  std::vector<KernelText> kernels;
  for (const DType dtype : {DType::kI8, DType::kU16, DType::kF16, DType::kF32, DType::kI32, DType::kF64}) {
    for (const char* program : memory_programs()) {
      Result<Module> module = parse_module(with_type(program, std::string(dtype_name(dtype))));
      ASSERT_TRUE(module.ok()) << module.status().message();
      types.push_back(dtype);
      modules.push_back(named(*module, fmt::format("k{}", modules.size())));
      const Result<std::string> text = compass_c_text(modules.back(), target, kDisabled);
      ASSERT_TRUE(text.ok()) << text.status().message();
      kernels.push_back(wrapped(*compass_c_module(modules.back(), target, kDisabled), *text));
    }
  }
  const Folder folder(target);
  const auto loaded = compiled(folder.path, compiler, target, kernels);
  ASSERT_NE(loaded, nullptr);
  ASSERT_EQ(loaded->error(), "");
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (uint64_t n = 1; n <= 8; ++n) {
      const size_t bytes = dtype_bytes(types[k]);
      std::vector<std::byte> x = agreement_input(Type::scalar(types[k]), 256, k), expected(1024 * bytes),
                             actual(1024 * bytes);
      std::vector<int16_t> indices = {3, 0, 63, 7, 7, 20, 1, 40};
      const Status status =
          interpret_all(modules[k], 1,
                        std::vector<InterpreterArgument>{{x.data(), x.size(), 0, true},
                                                         {reinterpret_cast<std::byte*>(indices.data()), 16, 0, true},
                                                         {expected.data(), expected.size(), 0, true},
                                                         {nullptr, 0, n, false}});
      ASSERT_TRUE(status.ok()) << status.message();
      loaded->run(loaded->table()->kernels[k],
                  {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(indices.data()),
                   reinterpret_cast<uint64_t>(actual.data()), n});
      EXPECT_EQ(expected, actual) << "n = " << n << "\n" << kernels[k].c;
    }
  }
}

// Lists in casts of vectors, and nothing else.
TEST(CxxText, ChangesVectorLiteralsOnly) {
  EXPECT_EQ(cxx_of_compass_c("int8 x = (int8)(1,2,(int)(a + b),max(c, d),5,6,7,8);\n"),
            "int8 x = int8(1,2,(int)(a + b),max(c, d),5,6,7,8);\n");
  EXPECT_EQ(cxx_of_compass_c("m = (bool16)((bool8)(true,false),t);"), "m = bool16(bool8(true,false),t);");
  for (const char* same : {"x = (float8)(a * max(b, c));", "y = (float8)((__global float*)p)[i];", "f(a)(b, c);",
                           "printf(\"(int8)(1,2) \\\" (int8)(1,2)\");", "z = (int)(a, b);", "(int8)(1"})
    EXPECT_EQ(cxx_of_compass_c(same), same);
}

INSTANTIATE_TEST_SUITE_P(Compilers, CompiledCText, ::testing::Values("g++", "clang++"));

}  // namespace
}  // namespace aipu::tir::testing
