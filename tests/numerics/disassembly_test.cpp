// The inner loops of the register tiles must not touch the stack: a spilled accumulator or address halves their speed,
// and nothing else would tell. Models that need every kind of tile are converted for each target (compiling needs no
// such CPU, but a compiler for it), and objdump shows their loops.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/targets/target.h"
#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::NamedAttributes;
using models::OnnxBuilder;
using models::TensorData;

struct Instruction {
  uint64_t address = 0;
  std::string mnemonic, operands;
};
struct Function {
  std::string name;
  std::vector<Instruction> code;
};

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  return ::pclose(pipe) == 0 ? text : "";
}

// The kernel module of an aipu.bin as a file that objdump reads (what follows the module does not disturb it).
std::string extract_module(const std::string& aipu_bin) {
  std::ifstream in(aipu_bin, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  const std::string content = bytes.str();
  const size_t at = content.find(std::string("\x7f") + "ELF");
  if (at == std::string::npos) return "";
  std::ofstream(aipu_bin + ".so", std::ios::binary) << content.substr(at);
  return aipu_bin + ".so";
}

// How the assembly of a kind of CPU is read.
struct Reader {
  std::string objdump;
  bool (*multiplies)(const Instruction&);
  bool (*multiplies_integers)(const Instruction&);
  bool (*touches_stack)(const Instruction&, bool has_frame_pointer);
  // Where a branch goes; 0: it is none.
  uint64_t (*branches_to)(const Instruction&);
};
const Reader& reader_for(const std::string& target);

std::vector<Function> disassemble(const std::string& object, const std::string& target) {
  std::vector<Function> functions;
  std::istringstream lines(
      output_of(reader_for(target).objdump + " -d --no-show-raw-insn -w '" + object + "' 2>/dev/null"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == ':' && line.find('<') != std::string::npos) {
      functions.push_back({line.substr(line.find('<') + 1, line.rfind('>') - line.find('<') - 1), {}});
      continue;
    }
    const size_t colon = line.find(":\t");
    if (colon == std::string::npos || functions.empty()) continue;
    std::istringstream text(line.substr(colon + 2));
    Instruction i;
    i.address = std::strtoull(line.c_str(), nullptr, 16);
    text >> i.mnemonic;
    std::getline(text, i.operands);
    functions.back().code.push_back(std::move(i));
  }
  return functions;
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

const Reader kX86 = {
    "objdump",
    [](const Instruction& i) {
      return starts_with(i.mnemonic, "vfmadd") || i.mnemonic == "mulps" || i.mnemonic == "vmulps";
    },
    // Not the scaling of the sums, which is in the store.
    [](const Instruction& i) {
      return starts_with(i.mnemonic, "vpdpbusd") || i.mnemonic == "vpdpwssd" || i.mnemonic == "vpmaddwd";
    },
    [](const Instruction& i, bool has_frame_pointer) {
      return i.operands.find("(%rsp") != std::string::npos ||
             (has_frame_pointer && i.operands.find("(%rbp") != std::string::npos);
    },
    [](const Instruction& i) -> uint64_t {
      return i.mnemonic[0] == 'j' ? std::strtoull(i.operands.c_str(), nullptr, 16) : 0;
    },
};
const Reader kAarch64 = {
    "aarch64-linux-gnu-objdump",
    [](const Instruction& i) { return i.mnemonic == "fmla" && i.operands.find(".4s") != std::string::npos; },
    [](const Instruction& i) { return i.mnemonic == "sdot"; },
    [](const Instruction& i, bool) { return i.operands.find("[sp") != std::string::npos; },
    [](const Instruction& i) -> uint64_t {
      const bool is_branch = starts_with(i.mnemonic, "b.") || starts_with(i.mnemonic, "cb") ||
                             starts_with(i.mnemonic, "tb") || i.mnemonic == "b";
      // Behind it a comment has other names of the condition: "b088 <tile+0x88>  // b.lo, b.ul, b.last".
      const std::string operands = i.operands.substr(0, i.operands.find("//"));
      const size_t comma = operands.rfind(", ");
      return is_branch ? std::strtoull(operands.c_str() + (comma == std::string::npos ? 0 : comma + 2), nullptr, 16)
                       : 0;
    },
};

// Of pairs of bfloat16.
bool multiplies_pairs(const Instruction& i) { return starts_with(i.mnemonic, "vdpbf16ps") || i.mnemonic == "bfdot"; }

const Reader& reader_for(const std::string& target) {
  const auto row = tir::find_target(target);
  return row.ok() && row->machine == "aarch64" ? kAarch64 : kX86;
}

struct Loops {
  size_t count = 0;
  double greatest_share = 0, least_share = 1;  // of products among a loop's instructions
  std::string least_text;                      // the loop with the least
  std::vector<std::string> offenders;
};

// Innermost loops with at least `least` multiplications.
Loops tile_loops(const std::vector<Function>& functions, size_t least, const Reader& reader,
                 bool (*is_product)(const Instruction&)) {
  Loops loops;
  for (const Function& f : functions) {
    bool has_frame_pointer = false;
    std::vector<std::pair<size_t, size_t>> ranges;  // first and last instruction
    for (size_t at = 0; at < f.code.size(); ++at) {
      const Instruction& i = f.code[at];
      has_frame_pointer =
          has_frame_pointer || (i.mnemonic == "mov" && i.operands.find("%rsp,%rbp") != std::string::npos);
      const uint64_t target = reader.branches_to(i);
      if (target == 0 || target > i.address || target < f.code.front().address) continue;
      size_t begin = at;
      while (begin > 0 && f.code[begin].address > target) --begin;
      ranges.emplace_back(begin, at);
    }
    for (const auto& [begin, end] : ranges) {
      bool innermost = true;
      for (const auto& [other_begin, other_end] : ranges) {
        innermost =
            innermost && !(other_begin >= begin && other_end <= end && (other_begin != begin || other_end != end));
      }
      if (!innermost) continue;
      size_t products = 0, stack = 0;
      std::string text;
      for (size_t at = begin; at <= end; ++at) {
        products += is_product(f.code[at]) ? 1 : 0;
        stack += reader.touches_stack(f.code[at], has_frame_pointer) ? 1 : 0;
        text += "\n  " + f.code[at].mnemonic + f.code[at].operands;
      }
      if (products < least) continue;
      ++loops.count;
      const double share = static_cast<double>(products) / static_cast<double>(end - begin + 1);
      loops.greatest_share = std::max(loops.greatest_share, share);
      if (share < loops.least_share) loops.least_text = f.name + ": " + std::to_string(share) + text;
      loops.least_share = std::min(loops.least_share, share);
      if (stack > 0)
        loops.offenders.push_back(f.name + ": " + std::to_string(stack) + " stack accesses in a loop of " +
                                  std::to_string(products) + " products:" + text);
    }
  }
  return loops;
}

// A 7x7 stem, 3x3 convolutions in rows of whole tiles and of half ones, pointwise products of known and unknown row
// counts with and without a residual, a dense layer.
std::string tile_model() {
  OnnxBuilder b("tiles", 1);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{3}, int64_t{56}, int64_t{56}});
  x = b.relu(b.conv(x, 3, 64, {.kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}}));
  x = b.relu(b.conv(x, 64, 64, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .groups = 2}));
  std::string y = b.relu(b.conv(x, 64, 64, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  y = b.relu(b.op("Add", {b.conv(y, 64, 64, {.kernel = {1, 1}}), y}));
  y = b.conv(y, 64, 48, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}});
  y = b.relu(b.conv(y, 48, 48, {.kernel = {1, 1}}));
  y = b.op("Flatten", {b.op("GlobalAveragePool", {y})});
  b.output(b.op("Gemm", {y, b.weight({48, 96}, 0.3)}), "y", DType::kF32, {"N", int64_t{96}});
  const std::string path = temporary_path("tiles.onnx");
  return b.save(path).ok() ? path : "";
}

// What is expected beside registers. `part_of_name`: only functions with that in their names; what surrounds the tiles of
// some kernels multiplies as well. `product` none: of float32.
struct Expected {
  std::string part_of_name;
  bool fast_math = false;
  double least_share = 0;  // of one loop at least, and with `of_all` of each
  bool of_all = false;
  size_t products = 8;  // loops with fewer are not meant
  std::string precision;
  bool (*product)(const Instruction&) = nullptr;
};

void expect_registers(const std::string& model, const char* target, size_t least_loops, const Expected& expected = {}) {
  gbuilder::BuildOptions build;
  build.model = model;
  build.target = target;
  build.fast_math = expected.fast_math;
  build.precision = expected.precision;
  build.output = build.model + "." + build.target + ".aipu.bin";
  const auto report = gbuilder::build_model(build);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::string module = extract_module(build.output);
  ASSERT_FALSE(module.empty());
  const Reader& reader = reader_for(target);
  std::vector<Function> functions = disassemble(module, target);
  std::erase_if(functions, [&](const Function& f) { return f.name.find(expected.part_of_name) == std::string::npos; });
  const Loops loops = tile_loops(functions, expected.products, reader,
                                 expected.product != nullptr ? expected.product : reader.multiplies);
  // Fewer would mean that the test no longer finds them.
  EXPECT_GE(loops.count, least_loops);
  EXPECT_GE(loops.greatest_share, expected.least_share) << target << ", " << expected.part_of_name;
  if (expected.of_all) {
    EXPECT_GE(loops.least_share, expected.least_share) << target << ", " << loops.least_text;
  }
  for (const std::string& offender : loops.offenders) ADD_FAILURE() << target << ", " << offender;
}

// What a test of a target's code needs beside aipu: "" if it is there.
std::string missing_tool(const std::string& target) {
  const std::string objdump = reader_for(target).objdump;
  if (output_of(objdump + " --version 2>/dev/null").empty()) return objdump;
  const auto row = tir::find_target(target);
  if (!row.ok() || row->machine == tir::kThisMachine) return "";
  const std::string compiler = row->machine + "-linux-gnu-gcc";
  return output_of(compiler + " --version 2>/dev/null").empty() ? compiler : "";
}

class Disassembled : public testing::Test {
 protected:
  void SetUp() override { need_tools("host-avx512"); }
  static void need_tools(const std::string& target) {
    if (const std::string missing = missing_tool(target); !missing.empty()) GTEST_SKIP() << "there is no " << missing;
  }
};

class Disassembly : public Disassembled, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { need_tools(GetParam()); }
};

TEST_P(Disassembly, InnerLoopsOfTilesStayInRegisters) { expect_registers(tile_model(), GetParam(), 12); }

// Parts of a deep product, whose right operand is so large that few rows read it from memory.
std::string deep_model() {
  OnnxBuilder b("deep_product", 1);
  const std::string x = b.input("x", DType::kF32, {"N", int64_t{2560}});
  b.output(b.op("MatMul", {x, b.weight({2560, 832}, 0.1)}), "y", DType::kF32, {"N", int64_t{832}});
  const std::string path = temporary_path("deep_product.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_F(Disassembled, InnerLoopsOfDeepProductsStayInRegisters) { expect_registers(deep_model(), "host-avx512", 12); }

// One vector of columns or half of one: tall tiles of rows whose taps are unrolled (one channel and several), and of
// rows cut in two.
std::string narrow_model() {
  OnnxBuilder b("narrow_tiles", 1);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{1}, int64_t{28}, int64_t{28}});
  x = b.relu(b.conv(x, 1, 8, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}}));
  x = b.relu(b.conv(x, 8, 16, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}}));
  x = b.relu(b.conv(x, 16, 24, {.kernel = {5, 5}, .strides = {2, 2}, .pads = {2, 2, 2, 2}}));
  x = b.relu(b.conv(x, 24, 16, {.kernel = {1, 5}, .pads = {0, 23, 0, 23}}));
  b.output(b.conv(x, 16, 8, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}}), "y", DType::kF32,
           {"N", int64_t{8}, int64_t{14}, int64_t{56}});
  const std::string path = temporary_path("narrow_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_P(Disassembly, InnerLoopsOfNarrowTilesStayInRegisters) { expect_registers(narrow_model(), GetParam(), 4); }

// Rows of 7, 4 and 2 pixels, two at a time.
std::string short_rows_model() {
  OnnxBuilder b("short_rows", 1);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{64}, int64_t{14}, int64_t{14}});
  for (int i = 0; i < 3; ++i)
    x = b.relu(b.conv(x, 64, 64, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  b.output(x, "y", DType::kF32, {"N", int64_t{64}, int64_t{2}, int64_t{2}});
  const std::string path = temporary_path("short_rows.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_P(Disassembly, InnerLoopsOfShortRowsStayInRegisters) {
  expect_registers(short_rows_model(), GetParam(), 1, {.part_of_name = "rows_tile"});
}

// The phases of transposed convolutions, with taps outside the image and without.
std::string transposed_model() {
  OnnxBuilder b("transposed_tiles", 1);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{64}, int64_t{28}, int64_t{28}});
  x = b.op("ConvTranspose", {x, b.weight({64, 64, 2, 2}, 0.1)}, {{"strides", std::vector<int64_t>{2, 2}}});
  x = b.op("ConvTranspose", {b.relu(x), b.weight({64, 32, 4, 4}, 0.1)},
           {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  b.output(b.relu(x), "y", DType::kF32, {"N", int64_t{32}, int64_t{112}, int64_t{112}});
  const std::string path = temporary_path("transposed_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_P(Disassembly, InnerLoopsOfTransposedConvolutionsStayInRegisters) {
  expect_registers(transposed_model(), GetParam(), 4, {.part_of_name = "conv_tile"});
}

// The two products of an attention, with keys and values read through Transposes.
std::string attention_model() {
  OnnxBuilder b("attention_tiles", 1);
  for (const char* name : {"q", "k", "v"}) b.input(name, DType::kF32, {"N", "S", int64_t{4}, int64_t{64}});
  const std::string scores = b.op("MatMul", {b.transpose("q", {0, 2, 1, 3}), b.transpose("k", {0, 2, 3, 1})});
  b.node_to("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), b.transpose("v", {0, 2, 1, 3})}, {"y"});
  b.output("y");
  const std::string path = temporary_path("attention_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_P(Disassembly, InnerLoopsOfAttentionStayInRegisters) {
  expect_registers(attention_model(), GetParam(), 5, {.part_of_name = "_tile"});
}

// Of pairs of bfloat16; AArch64 multiplies float32 numbers there.
TEST_F(Disassembled, InnerLoopsOfAttentionOfPairsStayInRegisters) {
  expect_registers(attention_model(), "host-avx512-bf16", 5,
                   {.part_of_name = "_tile", .precision = "bf16", .product = multiplies_pairs});
}

// Few queries: the sums of values, and the products with keys whose channels follow each other (a tile of as many keys
// as lanes).
std::string attention_step_model() {
  OnnxBuilder b("attention_step_tiles", 1);
  b.input("q", DType::kF32, {"N", int64_t{4}, int64_t{4}, int64_t{64}});
  for (const char* name : {"k", "v"}) b.input(name, DType::kF32, {"N", int64_t{4}, "P", int64_t{64}});
  const std::string scores = b.op("MatMul", {"q", b.transpose("k", {0, 1, 3, 2})});
  b.node_to("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), "v"}, {"y"});
  b.output("y");
  const std::string path = temporary_path("attention_step_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_P(Disassembly, InnerLoopsOfAttentionOfFewQueriesStayInRegisters) {
  expect_registers(attention_step_model(), GetParam(), 1, {.part_of_name = "value_tile"});
  // Four lanes are fewer products than count as a tile's.
  if (tir::find_target(GetParam())->lanes(32) > 4)
    expect_registers(attention_step_model(), GetParam(), 1, {.part_of_name = "score_keys"});
}

// Without operands in memory and without broadcasts four of five instructions multiply: the rows' values are elements
// of registers.
TEST_F(Disassembled, MostInstructionsOfTilesForAArch64Multiply) {
  if (const std::string missing = missing_tool("aarch64-neon"); !missing.empty())
    GTEST_SKIP() << "there is no " << missing;
  for (const char* tile : {"gemm_tile", "conv_tile"}) {
    expect_registers(tile_model(), "aarch64-neon", 1, {.part_of_name = tile, .least_share = 0.8});
    expect_registers(tile_model(), "aarch64-bf16", 1,
                     {.part_of_name = tile, .least_share = 0.8, .precision = "bf16", .product = multiplies_pairs});
  }
}

// Products of every number of rows; of one it is less than four of five at best.
std::string few_rows_model(int64_t columns) {
  OnnxBuilder b("few_rows", 1);
  b.input("x", DType::kF32, {"N", int64_t{160}});
  b.output(b.op("Gemm", {"x", b.weight({160, columns}, 0.1), b.weight({columns}, 0.1)}), "y", DType::kF32,
           {"N", columns});
  const std::string path = temporary_path("few_rows_" + std::to_string(columns) + ".onnx");
  return b.save(path).ok() ? path : "";
}

// Registers of two elements, one per row: fewer of the right operand in a block than one instruction loads.
TEST_F(Disassembled, ProductsOfDoublesForAArch64) {
  if (const std::string missing = missing_tool("aarch64-neon"); !missing.empty())
    GTEST_SKIP() << "there is no " << missing;
  for (const int64_t columns : {1, 2, 4, 6}) {
    OnnxBuilder b("doubles", 1);
    b.input("x", DType::kF64, {"N", int64_t{7}});
    const std::vector<double> weights(static_cast<size_t>(7 * columns), 0.5);
    b.output(b.op("MatMul", {"x", b.initializer(TensorData::of(DType::kF64, {7, columns}, weights))}), "y", DType::kF64,
             {"N", columns});
    gbuilder::BuildOptions options;
    options.model = temporary_path("doubles.onnx");
    options.output = temporary_path("doubles.aipu.bin");
    options.target = "aarch64-neon";
    ASSERT_TRUE(b.save(options.model).ok());
    const auto built = gbuilder::build_model(options);
    EXPECT_TRUE(built.ok()) << columns << ": " << built.status().message();
  }
}

// kernels/README.md says why one row stays below four of five.
TEST_F(Disassembled, MostInstructionsOfProductsOfFewRowsForAArch64Multiply) {
  if (const std::string missing = missing_tool("aarch64-neon"); !missing.empty())
    GTEST_SKIP() << "there is no " << missing;
  const auto expect_share = [](int64_t columns, const char* target, const std::string& rows, double share) {
    Expected tile{.part_of_name = "gemm_tile_" + rows + "P", .least_share = share, .of_all = true};
    if (std::string(target) == "aarch64-bf16") {
      tile.precision = "bf16";
      tile.product = multiplies_pairs;
    }
    expect_registers(few_rows_model(columns), target, 1, tile);
  };
  for (const auto& [rows, share] :
       {std::pair("1", 0.75), {"2", 0.8}, {"3", 0.82}, {"4", 0.84}, {"6", 0.82}, {"8", 0.82}})
    expect_share(64, "aarch64-neon", rows, share);
  for (const auto& [rows, share] : {std::pair("1", 0.75), {"2", 0.8}, {"3", 0.82}}) {
    expect_share(64, "aarch64-bf16", rows, share);
    expect_share(36, "aarch64-neon", rows, share);  // three vectors of columns
  }
}

// Rows of 14 and 7 pixels, tiles of seven, of which six are inside of the image for taps at the ends; strided taps alone.
std::string low_tiles_model() {
  OnnxBuilder b("low_tiles", 1);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{64}, int64_t{14}, int64_t{14}});
  x = b.relu(b.conv(x, 64, 64, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .groups = 2}));
  const std::string y = b.conv(x, 64, 64, {.kernel = {1, 1}, .strides = {2, 2}});
  x = b.relu(b.conv(x, 64, 64, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  x = b.relu(b.op("Add", {b.conv(x, 64, 64, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .groups = 2}), y}));
  b.output(x, "y", DType::kF32, {"N", int64_t{64}, int64_t{7}, int64_t{7}});
  const std::string path = temporary_path("low_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

// Every loop, those at the ends of rows too.
TEST_F(Disassembled, MostInstructionsOfLowTilesForAArch64Multiply) {
  if (const std::string missing = missing_tool("aarch64-neon"); !missing.empty())
    GTEST_SKIP() << "there is no " << missing;
  const Expected all{.part_of_name = "conv_tile", .least_share = 0.8, .of_all = true};
  Expected pairs = all;
  pairs.precision = "bf16";
  pairs.product = multiplies_pairs;
  for (const std::string& model : {low_tiles_model(), tile_model()}) {
    expect_registers(model, "aarch64-neon", 5, all);
    expect_registers(model, "aarch64-bf16", 5, pairs);
  }
}

// Products of Winograd's algorithm with tiles of two and, with fast math, of four.
std::string winograd_model() {
  OnnxBuilder b("winograd_tiles", 1);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{64}, int64_t{28}, int64_t{28}});
  x = b.relu(b.conv(x, 64, 64, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  b.output(b.op("Add", {b.conv(x, 64, 64, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}), x}), "y", DType::kF32,
           {"N", int64_t{64}, int64_t{28}, int64_t{28}});
  const std::string path = temporary_path("winograd_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

TEST_P(Disassembly, InnerLoopsOfWinogradStayInRegisters) {
  for (const bool fast_math : {false, true})
    expect_registers(winograd_model(), GetParam(), 2, {.part_of_name = "product_tile", .fast_math = fast_math});
}

TEST_F(Disassembled, InnerLoopsOfWinogradOfBfloatsStayInRegisters) {
  expect_registers(winograd_model(), "host-avx512-bf16", 2,
                   {.part_of_name = "fixed_tile", .precision = "bf16", .product = kX86.multiplies_integers});
}

// The transform of a 6x6 patch works on a third of it at a time: with 32 registers no vector goes to the stack and back
// (addresses may).
TEST_F(Disassembled, PatchesOfWinogradStayInRegisters) {
  struct Transform {
    const char *part_of_name, *target, *precision;
  };
  for (const Transform& t :
       {Transform{"patch_4x4", "host-avx512", ""}, Transform{"patch_fixed", "host-avx512-bf16", "bf16"}}) {
    gbuilder::BuildOptions build;
    build.model = winograd_model();
    build.target = t.target;
    build.precision = t.precision;
    build.fast_math = true;
    build.output = build.model + ".aipu.bin";
    ASSERT_TRUE(gbuilder::build_model(build).ok());
    size_t transforms = 0;
    for (const Function& f : disassemble(extract_module(build.output), build.target)) {
      if (f.name.find(t.part_of_name) == std::string::npos) continue;
      ++transforms;
      size_t vectors = 0;
      for (const Instruction& i : f.code) {
        vectors += i.operands.find("%zmm") != std::string::npos ? 1 : 0;
        EXPECT_FALSE(kX86.touches_stack(i, true) && i.operands.find("%zmm") != std::string::npos)
            << f.name << ": " << i.mnemonic << i.operands;
      }
      EXPECT_GT(vectors, 150u) << f.name;
    }
    EXPECT_GE(transforms, 1u) << t.part_of_name;
  }
}

// Integer convolutions: padded and not, a residual, a dense layer.
std::string quantized_model() {
  OnnxBuilder b("integer_tiles", 1);
  const auto convolution = [&](const std::string& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    const std::string weights =
        b.op("QuantizeLinear", {b.weight({out, in, kernel, kernel}, 0.1), b.scalar(0.01f),
                                b.initializer(models::TensorData::of<int8_t>(DType::kI8, {}, {0}))});
    const std::string w = b.op("DequantizeLinear", {weights, b.scalar(0.01f)});
    const int64_t pad = kernel / 2;
    return b.op(
        "Conv", {x, w},
        {{"strides", std::vector<int64_t>{stride, stride}}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
  };
  const auto rounded = [&](const std::string& x) {
    const std::string zero = b.initializer(models::TensorData::of<uint8_t>(DType::kU8, {}, {0}));
    return b.op("DequantizeLinear", {b.op("QuantizeLinear", {x, b.scalar(0.05f), zero}), b.scalar(0.05f), zero});
  };
  std::string x = rounded(b.input("x", DType::kF32, {"N", int64_t{3}, int64_t{56}, int64_t{56}}));
  x = rounded(b.relu(convolution(x, 3, 64, 7, 2)));
  x = rounded(b.relu(b.op("Add", {rounded(convolution(x, 64, 64, 3, 1)), x})));
  x = rounded(b.relu(convolution(x, 64, 96, 3, 2)));
  b.output(rounded(convolution(x, 96, 64, 1, 1)), "y", DType::kF32, {"N", int64_t{64}, int64_t{14}, int64_t{14}});
  const std::string path = temporary_path("integer_tiles.onnx");
  return b.save(path).ok() ? path : "";
}

// The same layers as of the float32 tiles, of products of bfloat16.
TEST_F(Disassembled, InnerLoopsOfTilesOfPairsStayInRegisters) {
  for (const char* target : {"host-avx512-bf16", "aarch64-bf16"}) {
    if (!missing_tool(target).empty()) continue;
    for (const std::string& model : {tile_model(), short_rows_model()})
      expect_registers(model, target, 1, {.precision = "bf16", .product = multiplies_pairs});
  }
}

// Of weights of 4 bits, by three bytes of each number of x.
std::string few_bits_model() {
  OnnxBuilder b("few_bits", 1);
  b.set_opset(1, "com.microsoft");
  b.input("x", DType::kF32, {"N", int64_t{256}});
  const std::string codes = b.initializer(TensorData::of(DType::kU8, {128, 8, 16}, std::vector<uint8_t>(16384, 0x5a)));
  const NamedAttributes sizes = {{"K", 256}, {"N", 128}, {"bits", 4}, {"block_size", 32}};
  b.output(b.op("MatMulNBits", {"x", codes, b.weight({128, 8}, 0.1)}, sizes, "com.microsoft"), "y", DType::kF32,
           {"N", int64_t{128}});
  const std::string path = temporary_path("few_bits.onnx");
  return b.save(path).ok() ? path : "";
}

// One row and two by four vectors of columns, three and four by two: 24 sums in four rows, of 32 registers.
TEST_F(Disassembled, InnerLoopsOfProductsByCodesStayInRegisters) {
  const std::string model = few_bits_model();
  for (const char* tile : {"digits_tile_1_4", "digits_tile_2_4", "digits_tile_3_2", "digits_tile_4_2"}) {
    expect_registers(model, "host-avx512-vnni", 1,
                     {.part_of_name = tile, .least_share = 0.39, .product = kX86.multiplies_integers});
  }
}

class IntegerDisassembly : public Disassembly {
 protected:
  static void expect_tiles_in_registers(const std::vector<std::string>& disabled_plugins, size_t least_loops);
};

// By elements of registers four of five instructions multiply, in convolutions and in the product (the 1x1 one, the
// fourth).
TEST_F(Disassembled, MostInstructionsOfDotProductsForAArch64Multiply) {
  const std::string target = "aarch64-dotprod";
  if (const std::string missing = missing_tool(target); !missing.empty()) GTEST_SKIP() << "there is no " << missing;
  for (const auto& [kernel, least_loops] :
       {std::pair("quantized_conv__Conv", 8), std::pair("quantized_conv__Conv_3", 2)})
    expect_registers(
        quantized_model(), target.c_str(), static_cast<size_t>(least_loops),
        {.part_of_name = kernel, .least_share = 0.8, .of_all = true, .product = kAarch64.multiplies_integers});
}

void IntegerDisassembly::expect_tiles_in_registers(const std::vector<std::string>& disabled_plugins,
                                                   size_t least_loops) {
  gbuilder::BuildOptions build;
  build.model = quantized_model();
  build.target = GetParam();
  build.disabled_plugins = disabled_plugins;
  build.output = build.model + "." + build.target + ".aipu.bin";
  const auto report = gbuilder::build_model(build);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::string module = extract_module(build.output);
  ASSERT_FALSE(module.empty());
  const Reader& reader = reader_for(build.target);
  const std::vector<Function> functions = disassemble(module, build.target);
  const Loops loops = tile_loops(functions, 8, reader, reader.multiplies_integers);
  EXPECT_GE(loops.count, least_loops);
  for (const std::string& offender : loops.offenders) ADD_FAILURE() << GetParam() << ", " << offender;
}

TEST_P(IntegerDisassembly, InnerLoopsOfTilesStayInRegisters) { expect_tiles_in_registers({"winograd_bytes"}, 8); }

TEST_P(IntegerDisassembly, InnerLoopsOfWinogradStayInRegisters) { expect_tiles_in_registers({}, 5); }

// Where results become bytes again no lane is taken out of a register, which takes longer than the products.
TEST_P(IntegerDisassembly, BytesAreStoredAsVectors) {
  gbuilder::BuildOptions build;
  build.model = quantized_model();
  build.target = GetParam();
  build.output = build.model + "." + build.target + ".bytes.aipu.bin";
  ASSERT_TRUE(gbuilder::build_model(build).ok());
  size_t functions = 0;
  for (const Function& f : disassemble(extract_module(build.output), build.target)) {
    if (f.name.find("quantized_conv") == std::string::npos) continue;
    ++functions;
    for (const Instruction& i : f.code)
      EXPECT_FALSE(starts_with(i.mnemonic, "vpinsrb") || starts_with(i.mnemonic, "vpextrb"))
          << f.name << ": " << i.mnemonic << i.operands;
  }
  EXPECT_GE(functions, 4u);
}

INSTANTIATE_TEST_SUITE_P(Targets, IntegerDisassembly, testing::Values("host-avx512-vnni", "host-avx512", "host-avx2"),
                         [](const auto& p) {
                           std::string name = p.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(Targets, Disassembly,
                         testing::Values("host-avx512", "host-avx2", "host-baseline", "aarch64-neon"),
                         [](const auto& p) {
                           std::string name = p.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace aipu::test
