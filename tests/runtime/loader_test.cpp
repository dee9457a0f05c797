#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "runtime/base/file.h"
#include "runtime/base/seal.h"
#include "runtime/loader/check.h"
#include "runtime/loader/expressions.h"
#include "runtime/loader/model_file.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::HasSubstr;

// Loads and checks; the message of what is wrong, or "".
std::string problem(std::span<const std::byte> bytes, VerifyLevel level = VerifyLevel::kUsual) {
  auto file = ModelFile::from_bytes(bytes, level);
  if (!file.ok()) return file.status().message();
  const auto tables = check_model(**file);
  return tables.ok() ? std::string() : tables.status().message();
}
std::string problem(const ModelBuilder& builder) { return problem(builder.build()); }

TEST(Loader, AcceptsTheSampleModels) {
  for (const ModelBuilder& b : {test::chain_model(), test::positive_model(), test::branch_model(),
                                test::barrier_model(), test::loop_model(), test::two_entries()})
    EXPECT_EQ(problem(b), "");
}

TEST(Loader, RefusesEveryTruncation) {
  const auto bytes = test::chain_model().build();
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97)
    EXPECT_NE(problem(std::span(bytes).first(size)), "") << size;
  // A tail too many is as wrong as one that is missing.
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THAT(problem(longer), HasSubstr("incomplete or damaged"));
}

TEST(Loader, RefusesOtherFiles) {
  EXPECT_THAT(problem(test::as_bytes("")), HasSubstr("not an aipu.bin"));
  EXPECT_THAT(problem(test::as_bytes(std::string(1000, 'x'))), HasSubstr("the identifier 'AIPU' is missing"));
  EXPECT_FALSE(ModelFile::open("/nonexistent/file", VerifyLevel::kUsual).ok());
  EXPECT_FALSE(ModelFile::open("/", VerifyLevel::kUsual).ok());
}

TEST(Loader, FindsFlippedBits) {
  const auto original = test::chain_model().build();
  const uint32_t root_size = flatbuffers::ReadScalar<uint32_t>(original.data()) + 4;
  auto bytes = original;
  for (size_t i = 0; i < root_size; ++i) {
    bytes[i] ^= std::byte{1} << (i % 8);
    EXPECT_NE(problem(bytes), "") << "byte " << i;
    bytes[i] = original[i];
  }
  // The native module is always hashed.
  bytes[(root_size + 63) / 64 * 64 + 5000] ^= std::byte{4};
  EXPECT_THAT(problem(bytes), HasSubstr("section 0 (native module) is damaged"));
}

TEST(Loader, HashesLargeConstantsOnRequestOnly) {
  ModelBuilder b = test::chain_model();
  b.sections[1].bytes.resize(kConstantsHashedAlways + 1);
  auto bytes = b.build();
  EXPECT_EQ(problem(bytes, VerifyLevel::kFull), "");
  bytes[bytes.size() - kSealBytes - 100] ^= std::byte{1};
  EXPECT_EQ(problem(bytes, VerifyLevel::kUsual), "");
  EXPECT_THAT(problem(bytes, VerifyLevel::kFull), HasSubstr("section 1 (constants) is damaged"));

  b.sections[1].bytes.resize(kConstantsHashedAlways);
  bytes = b.build();
  bytes[bytes.size() - kSealBytes - 100] ^= std::byte{1};
  EXPECT_THAT(problem(bytes, VerifyLevel::kUsual), HasSubstr("damaged"));
}

TEST(Loader, UsesBytesInPlaceOnlyIfAskedAndAligned) {
  const auto bytes = test::chain_model().build();
  std::vector<std::byte> buffer(bytes.size() + 128);
  const size_t begin = 64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64;
  for (const size_t shift : {0, 1, 3, 8, 33}) {
    for (const bool in_place : {false, true}) {
      std::memcpy(buffer.data() + begin + shift, bytes.data(), bytes.size());
      auto file =
          ModelFile::from_bytes(std::span(buffer).subspan(begin + shift, bytes.size()), VerifyLevel::kUsual, in_place);
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_TRUE(check_model(**file).ok());
      const auto* module = (*file)->section(fb::SectionKind::kNativeModule).data();
      EXPECT_EQ(module >= buffer.data() && module < buffer.data() + buffer.size(), in_place && shift == 0);
    }
  }
}

// FlatBuffers aligns an empty vector like its length only.
TEST(Loader, AcceptsModelsThatOnlyCopy) {
  for (int names = 0; names < 8; ++names) {
    ModelBuilder b;
    const uint32_t one = b.constant(1), zero = b.constant(0), four = b.constant(4);
    b.tensor("x", DType::kF32, {one}, fb::TensorKind::kInput);
    b.tensor("y", DType::kF32, {one}, fb::TensorKind::kOutput);
    b.copy(1, zero, 0, zero, four, one, zero, zero);
    b.strings = {std::string(static_cast<size_t>(names) * 3, 's')};  // moves everything that is written after it
    EXPECT_EQ(problem(b), "");
  }
}

TEST(Loader, RefusesMisalignedStructs) {
  // Moves the vector of expressions by four bytes, which the FlatBuffers verifier does not mind.
  auto bytes = test::chain_model().build();
  const size_t root_size = flatbuffers::ReadScalar<uint32_t>(bytes.data()) + 4;
  const auto* model = fb::GetSizePrefixedModel(bytes.data());
  const auto* field = reinterpret_cast<const std::byte*>(model->expressions());
  const auto* table = reinterpret_cast<const std::byte*>(model);
  const auto* offset_at = table;
  while (offset_at + flatbuffers::ReadScalar<uint32_t>(offset_at) != field) offset_at += 4;
  auto* where = bytes.data() + (offset_at - bytes.data());
  flatbuffers::WriteScalar<uint32_t>(where, flatbuffers::ReadScalar<uint32_t>(where) + 4);
  flatbuffers::WriteScalar<uint32_t>(bytes.data() + (field - bytes.data()) + 4, 1);
  const auto seal = make_seal(std::span(bytes).first(root_size), bytes.size());
  std::memcpy(bytes.data() + bytes.size() - kSealBytes, seal.data(), kSealBytes);
  EXPECT_THAT(problem(bytes), HasSubstr("misaligned"));
}

struct Edit {
  const char* message;
  std::function<void(ModelBuilder&)> edit;
};

fb::TecCommand tec(uint32_t sequence, uint32_t kernel, uint32_t first_argument, uint32_t arguments, uint32_t max_tecs,
                   uint32_t origin = kNone) {
  return {sequence, kernel, first_argument, arguments, 0, 0, max_tecs, origin};
}
fb::HostCommand host(uint32_t sequence, fb::HostOp op, uint32_t a, uint32_t b, uint32_t c = 0) {
  return {sequence, op, a, b, c, 0, 0, 0, kNone};
}

// Each edit makes chain_model() wrong in one way.
TEST(Loader, NamesWhatIsWrong) {
  const uint32_t kHuge = 1000000;
  const Edit edits[] = {
      {"format version 2", [](auto& b) { b.format_version = 2; }},
      {"the model has no program", [](auto& b) { b.programs.clear(); }},
      {"wants 65 TECs", [](auto& b) { b.tec_count = 65; }},
      {"unknown op 12",
       [](auto& b) { b.expressions[0] = fb::Expression(static_cast<fb::ExpressionOp>(12), 0, 0, 0, 0); }},
      {"not an earlier expression",
       [](auto& b) { b.expressions[2] = fb::Expression(fb::ExpressionOp::kAdd, 1, 2, 0, 0); }},
      {"not an earlier expression",
       [](auto& b) { b.expressions[2] = fb::Expression(fb::ExpressionOp::kSelect, 0, 1, 2, 0); }},
      {"refers to symbol 1 of 1",
       [](auto& b) { b.expressions[4] = fb::Expression(fb::ExpressionOp::kSymbol, 1, 0, 0, 0); }},
      {"symbol 0 refers to tensor 9 of 4", [](auto& b) { b.symbols[0].tensor = 9; }},
      {"symbol 0 is extent 2 of a tensor of rank 2", [](auto& b) { b.symbols[0].index = 2; }},
      {"a tensor that is not an input", [](auto& b) { b.symbols[0].tensor = 1; }},
      {"symbol 0 has the unknown kind 9", [](auto& b) { b.symbols[0].kind = static_cast<fb::SymbolKind>(9); }},
      {"that has no integers", [](auto& b) { b.symbols[0].kind = fb::SymbolKind::kTensorElement; }},
      {"symbol 0 is the number of TECs, but refers to a tensor",
       [](auto& b) {
         b.symbols[0] = {"N", fb::SymbolKind::kTecCount, 0, 1};
       }},
      {"symbol 0 'N' is never bound",
       [](auto& b) {
         b.symbols[0] = {"N", fb::SymbolKind::kTensorElement, 0, 0};
         b.tensors[0].dtype = DType::kI64;
       }},
      {"unknown dtype 0", [](auto& b) { b.tensors[1].dtype = DType::kVoid; }},
      {"unknown dtype 77", [](auto& b) { b.tensors[1].dtype = static_cast<DType>(77); }},
      {"unknown kind 7", [](auto& b) { b.tensors[1].kind = static_cast<fb::TensorKind>(7); }},
      {"extent 1 is expression 1000000", [=](auto& b) { b.tensors[1].shape[1] = kHuge; }},
      {"its size is expression 1000000", [=](auto& b) { b.tensors[1].size_bytes = kHuge; }},
      {"has rank 65", [](auto& b) { b.tensors[1].shape.assign(65, 0); }},
      {"is a view of tensor 1000000",
       [=](auto& b) {
         b.tensors[1].kind = fb::TensorKind::kView;
         b.tensors[1].base = kHuge;
       }},
      {"its offset is expression 1000000",
       [=](auto& b) {
         b.tensors[1].kind = fb::TensorKind::kView;
         b.tensors[1].base = 2;
         b.tensors[1].view_offset = kHuge;
       }},
      {"is a view of itself",
       [](auto& b) {
         b.tensors[1].kind = b.tensors[2].kind = fb::TensorKind::kView;
         b.tensors[1].base = 2;
         b.tensors[2].base = 1;
       }},
      {"is used last (2) before it is used first (3)", [](auto& b) { b.tensors[1].first_use = 3; }},
      {"outside of its lifetime 2..2", [](auto& b) { b.tensors[1].first_use = 2; }},
      {"outside of its lifetime 1..1", [](auto& b) { b.tensors[1].last_use = 1; }},
      {"which is no arena tensor", [](auto& b) { b.tensors[2].in_place_of = 0; }},
      {"is in place of tensor 99", [](auto& b) { b.tensors[2].in_place_of = 99; }},
      {"input 0 is tensor 99 of 4", [](auto& b) { b.inputs[0] = 99; }},
      {"not of the kind input", [](auto& b) { b.inputs.push_back(1); }},
      {"listed twice as output", [](auto& b) { b.outputs.push_back(3); }},
      {"is not listed as one", [](auto& b) { b.outputs.clear(); }},
      {"constant tensor 1 't': extent 0 is not a constant expression",
       [](auto& b) { b.tensors[1].kind = fb::TensorKind::kConstant; }},
      {"is outside of the constants: 16 bytes at 256 of 256",
       [](auto& b) {
         b.tensors[1].kind = fb::TensorKind::kConstant;
         b.tensors[1].shape.clear();
         b.tensors[1].size_bytes = b.constant(16);
         b.tensors[1].offset_bytes = 256;
       }},
      {"is not 64-byte aligned",
       [](auto& b) {
         b.tensors[1].kind = fb::TensorKind::kConstant;
         b.tensors[1].shape.clear();
         b.tensors[1].size_bytes = b.constant(16);
         b.tensors[1].offset_bytes = 8;
       }},
      {"writes to tensor 1 't', which is read-only",
       [](auto& b) {
         b.tensors[1].kind = fb::TensorKind::kConstant;
         b.tensors[1].shape.clear();
         b.tensors[1].size_bytes = b.constant(16);
       }},
      {"writes to tensor 0 'x', which is read-only",
       [](auto& b) { b.arguments[1] = ModelBuilder::pointer(0, true, 0); }},
      {"kernel 0 has no name", [](auto& b) { b.kernels[0].name.clear(); }},
      {"widths for 2", [](auto& b) { b.kernels[0].argument_bits.resize(2); }},
      {"addressable bytes for 1", [](auto& b) { b.kernels[0].addressable_bytes.resize(1); }},
      {"argument 2 is 65 bits wide", [](auto& b) { b.kernels[0].argument_bits[2] = 65; }},
      {"bytes of local and", [](auto& b) { b.kernels[0].lsram_bytes = 1u << 30; }},
      {"the TIR of kernel 5 of 2",
       [](auto& b) {
         b.sections.push_back({fb::SectionKind::kTir, 5, std::vector<std::byte>(4)});
       }},
      {"is there twice", [](auto& b) { b.sections.push_back(b.sections[0]); }},
      {"unknown kind 99", [](auto& b) { b.sections[1].kind = static_cast<fb::SectionKind>(99); }},
      {"runs kernel 7 of 2", [](auto& b) { b.programs[0].tec[0] = tec(1, 7, 0, 4, 0); }},
      {"gives 3 arguments to kernel 'scale', which takes 4",
       [](auto& b) { b.programs[0].tec[0] = tec(1, 0, 0, 3, 0); }},
      {"has arguments 4294967295+4 of 8", [](auto& b) { b.programs[0].tec[0] = tec(1, 0, 0xffffffffu, 4, 0); }},
      {"uses expression 1000000", [=](auto& b) { b.programs[0].tec[0] = tec(1, 0, 0, 4, kHuge); }},
      {"has origin 5 of 1", [](auto& b) { b.programs[0].tec[0] = tec(1, 0, 0, 4, 0, 5); }},
      {"has no sequence number", [](auto& b) { b.programs[0].tec[1] = tec(0xffffffffu, 0, 0, 4, 0); }},
      {"is out of sequence", [](auto& b) { b.programs[0].tec[1] = tec(1, 1, 4, 4, 0); }},
      {"two commands have the sequence number 3",
       [](auto& b) { b.programs[0].host = {host(3, fb::HostOp::kCheck, 0, 0)}; }},
      {"is a number, but gets a tensor", [](auto& b) { b.arguments[2] = ModelBuilder::pointer(0, false, 0); }},
      {"is a pointer, but gets a number", [](auto& b) { b.arguments[0] = ModelBuilder::number(0); }},
      {"has the unknown kind 3",
       [](auto& b) { b.arguments[0] = fb::Argument(static_cast<fb::ArgumentKind>(3), false, 0, 0, 0); }},
      {"uses tensor 8 of 4", [](auto& b) { b.arguments[0] = ModelBuilder::pointer(8, false, 0); }},
      {"uses expression 1000000", [=](auto& b) { b.arguments[0] = ModelBuilder::pointer(0, false, kHuge); }},
      {"waits for the unknown engine 3", [](auto& b) { b.waits[0] = fb::Wait(static_cast<fb::Engine>(3), 0); }},
      {"waits for command 2 of 2", [](auto& b) { b.waits[0] = fb::Wait(fb::Engine::kTec, 2); }},
      {"a deadlock", [](auto& b) { b.waits[0] = fb::Wait(fb::Engine::kDma, 0); }},
      {"waits 0+2 of 1",
       [](auto& b) { b.programs[0].dma[0] = fb::DmaCommand(3, 3, 2, 0, 0, 0, 1, 0, 0, 0, 2, kNone); }},
      {"uses tensor 9 of 4",
       [](auto& b) { b.programs[0].dma[0] = fb::DmaCommand(3, 9, 2, 0, 0, 0, 1, 0, 0, 0, 0, kNone); }},
      {"which is read-only",
       [](auto& b) { b.programs[0].dma[0] = fb::DmaCommand(3, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, kNone); }},
      {"binds 2 symbols from 0 on, of 1",
       [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kBindSymbols, 0, 2)}; }},
      {"binds 0 symbols", [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kBindSymbols, 0, 0)}; }},
      {"'N' is bound twice", [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kBindSymbols, 0, 1)}; }},
      {"has message 0 of 0", [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kCheck, 0, 0)}; }},
      {"has the unknown op 17", [](auto& b) { b.programs[0].host = {host(4, static_cast<fb::HostOp>(17), 0, 0)}; }},
      {"runs call 0 of 0", [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kLoop, 0, 0)}; }},
      {"fetches a result of call 0, which has not been run",
       [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kFetch, 0, 0)}; }},
      {"symbol 1 is given by a caller, of which there is none",
       [](auto& b) { b.symbol("n", 0, 0, fb::SymbolKind::kGiven); }},
      {"call 0 is never run", [](auto& b) { b.calls.emplace_back(); }},
      {"cost figure 1 is out of range", [](auto& b) { b.cost_figures = {200, 0}; }},
      {"cost figure 0 is out of range", [](auto& b) { b.cost_figures = {std::nan("")}; }},
      {"cost figure 2 is out of range", [](auto& b) { b.cost_figures = {1, 1, 1e300}; }},
      {"body 0 is never run", [](auto& b) { b.bodies.push_back(test::loop_model().bodies[0]); }},
      {"the condition is not a bool tensor", [](auto& b) { b.programs[0].host = {host(4, fb::HostOp::kIf, 0, 1, 2)}; }},
      {"has operation counts for 1 of 2 tec commands", [](auto& b) { b.programs[0].tec_operations = {kNone}; }},
      {"counts operations by expression 1000000",
       [=](auto& b) {
         b.programs[0].tec_operations = {kNone, kHuge};
       }},
      {"fault 0 refers to a command, message or origin that is not there",
       [](auto& b) { b.programs[0].faults = {fb::Fault(2, 0, 0, 0, kNone)}; }},
      {"fault 0 refers to a command, message or origin that is not there",
       [](auto& b) { b.programs[0].faults = {fb::Fault(0, 0, 9, 0, kNone)}; }},
      {"fault 0 refers to a command, message or origin that is not there",
       [](auto& b) {
         b.strings = {"no"};
         b.programs[0].faults = {fb::Fault(0, 0, 0, 9, kNone)};
       }},
      {"fault 1 is out of order",
       [](auto& b) {
         b.strings = {"no"};
         b.programs[0].faults = {fb::Fault(1, 0, 0, 0, kNone), fb::Fault(0, 7, 0, 0, kNone)};
       }},
      {"uses expression 1000000",
       [=](auto& b) {
         b.strings = {"no"};
         b.programs[0].faults = {fb::Fault(0, 0, 0, 0, kHuge)};
       }},
      {"uses expression 999999",
       [=](auto& b) {
         b.strings = {"no"};
         b.programs[0].host = {fb::HostCommand(4, fb::HostOp::kCheck, 1, 0, kHuge, 0, 0, 0, kNone)};
       }},
      {"program 1 is never run", [](auto& b) { b.programs.resize(2); }},
      {"batch loop 0 goes from command 2 to 1 of program 0", [](auto& b) { b.batch_loops = {fb::BatchLoop(2, 1, 0)}; }},
      {"batch loop 0 goes from command 1 to 7 of program 0", [](auto& b) { b.batch_loops = {fb::BatchLoop(1, 7, 0)}; }},
      {"batch loop 1 begins within the one before it",
       [](auto& b) {
         b.batch_loops = {fb::BatchLoop(1, 2, 0), fb::BatchLoop(2, 3, 0)};
       }},
      {"there are conditions for 2 of 1 batch loops",
       [](auto& b) {
         b.batch_loops = {fb::BatchLoop(1, 2, 0)};
         b.batch_loop_conditions = {0, 0};
       }},
      {"batch loop 0 is run if expression 1000000",
       [=](auto& b) {
         b.batch_loops = {fb::BatchLoop(1, 2, 0)};
         b.batch_loop_conditions = {kHuge};
       }},
      {"batch loop 0 is over symbol 1", [](auto& b) { b.batch_loops = {fb::BatchLoop(1, 2, 1)}; }},
      {"batch loop 0 has host commands",
       [](auto& b) {
         b.strings = {"no"};
         b.programs[0].host = {host(4, fb::HostOp::kCheck, 1, 0)};
         b.batch_loops = {fb::BatchLoop(1, 4, 0)};
       }},
  };
  for (const Edit& edit : edits) {
    ModelBuilder b = test::chain_model();
    edit.edit(b);
    EXPECT_THAT(problem(b), HasSubstr(edit.message));
  }
}

// The host computes `a` in its own memory, and a copy brings it to the device's `y`.
ModelBuilder two_memories() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), four = b.constant(4), bytes = b.constant(16);
  const uint32_t x = b.tensor("x", DType::kF32, {four}, fb::TensorKind::kInput);
  const uint32_t a = b.tensor("a", DType::kF32, {four}, fb::TensorKind::kArena);
  const uint32_t y = b.tensor("y", DType::kF32, {four}, fb::TensorKind::kOutput);
  b.tensors[a].memory = fb::Memory::kHost;
  b.kernel({"device_kernel", {true, true}});
  b.first_host_kernel = b.kernel({"host_kernel", {true, true}});
  b.arguments = {ModelBuilder::pointer(x, false, zero), ModelBuilder::pointer(a, true, zero)};
  b.host_work.tec = {tec(b.next_sequence, 1, 0, 2, one)};
  b.host(fb::HostOp::kLaunch, 0, 0, 0, 0, {});
  b.copy(y, zero, a, zero, bytes, one, zero, zero, 0, {fb::Wait(fb::Engine::kHost, 0)});
  return b;
}

TEST(Loader, EachSideHasItsMemory) {
  ASSERT_EQ(problem(two_memories()), "");
  const auto also_launch = [](ModelBuilder& b, uint32_t kernel, uint32_t tensor) {
    b.launch(kernel, {ModelBuilder::pointer(0, false, 0), ModelBuilder::pointer(tensor, true, 0)}, 1);
  };
  const Edit edits[] = {
      {"tec command 0 runs a kernel of the host's", [=](auto& b) { also_launch(b, 1, 2); }},
      {"tec command 0 uses the host's memory: tensor 1 'a'", [=](auto& b) { also_launch(b, 0, 1); }},
      {"host command 0 runs a kernel that is not the host's", [](auto& b) { b.host_work.tec = {tec(1, 0, 0, 2, 1)}; }},
      {"host command 0 uses the device's memory: tensor 2 'y'",
       [](auto& b) { b.arguments[1] = ModelBuilder::pointer(2, true, 0); }},
      {"copies within the host's memory", [](auto& b) { b.tensors[2].memory = fb::Memory::kHost; }},
      {"cannot be in memory 7", [](auto& b) { b.tensors[1].memory = static_cast<fb::Memory>(7); }},
      {"cannot be in memory 1",
       [](auto& b) {
         b.tensors[1].kind = fb::TensorKind::kView;
         b.tensors[1].base = 2;
       }},
      {"has work for a host, of which there is none", [](auto& b) { b.host_work = {}; }},
      {"has work for a host, of which there is none", [](auto& b) { b.first_host_kernel = kNone; }},
      {"begins with kernel 9 of 2", [](auto& b) { b.first_host_kernel = 9; }},
      {"host command 1 does work of the host's that is not its own",
       [](auto& b) { b.host(fb::HostOp::kLaunch, 0, 0, 0, 0, {}); }},
      {"have unlike sequence numbers", [](auto& b) { b.host_work.tec = {tec(7, 1, 0, 2, 1)}; }},
      {"writes to tensor 0 'x', which is read-only",
       [](auto& b) { b.arguments[1] = ModelBuilder::pointer(0, true, 0); }},
      {"the host's work has operation counts for 3 of 1",
       [](auto& b) {
         b.host_work.tec_operations = {0, 0, 0};
       }},
      {"symbol 0 is the number of TECs, but refers to a tensor",
       [](auto& b) { b.symbol("n", 0, 1, fb::SymbolKind::kHostTecCount); }},
  };
  for (const Edit& edit : edits) {
    ModelBuilder b = two_memories();
    edit.edit(b);
    EXPECT_THAT(problem(b), HasSubstr(edit.message));
  }
}

TEST(Loader, CallsFitTheirBodies) {
  ASSERT_EQ(problem(test::loop_model()), "");
  struct Edit {
    const char* message;
    void (*edit)(ModelBuilder&);
  };
  const Edit edits[] = {
      {"body 0: input 0 is tensor 99 of 5", [](auto& b) { b.bodies[0].inputs[0] = 99; }},
      {"body 0: it has kernels, sections or entries of its own",
       [](auto& b) {
         b.bodies[0].kernels = {{"k", {}}};
       }},
      {"has 0 bodies", [](auto& b) { b.calls[0].bodies.clear(); }},
      {"has 2 bodies",
       [](auto& b) {
         b.calls[0].bodies = {0, 0};
       }},
      {"runs body 7, which is not there or another's", [](auto& b) { b.calls[0].bodies = {7}; }},
      {"body 1 is never run", [](auto& b) { b.bodies.push_back(b.bodies[0]); }},
      {"has 1 bodies and what 0 are given", [](auto& b) { b.calls[0].given.clear(); }},
      {"uses expression 999", [](auto& b) { b.calls[0].given = {{999}}; }},
      {"does not give symbol 1 of its body", [](auto& b) { b.bodies[0].symbol("n", 0, 3, fb::SymbolKind::kGiven); }},
      {"uses tensor 99", [](auto& b) { b.calls[0].condition = 99; }},
      {"the condition is not a bool tensor", [](auto& b) { b.calls[0].condition = 0; }},
      {"the trip count is not an int64 tensor", [](auto& b) { b.calls[0].trip_count = 0; }},
      {"the extents are not an int64 tensor", [](auto& b) { b.calls[0].extents = 2; }},
      {"writes to tensor 1 'trips', which is read-only", [](auto& b) { b.calls[0].extents = 1; }},
      {"does not fit the inputs and outputs of its body", [](auto& b) { b.calls[0].inputs.clear(); }},
      {"does not fit the inputs and outputs of its body", [](auto& b) { b.calls[0].states = 2; }},
      {"does not fit the inputs and outputs of its body", [](auto& b) { b.calls[0].states = 0xffffffffu; }},
      {"does not fit the inputs and outputs of its body", [](auto& b) { b.calls[0].sequences = 1; }},
      {"does not take an iteration and a condition",
       [](auto& b) { std::swap(b.bodies[0].inputs[0], b.bodies[0].inputs[1]); }},
      {"gives tensor 1 'trips' to input 2 of its body, which takes another type or rank",
       [](auto& b) { b.calls[0].inputs = {1}; }},
      {"has directions for other sequences", [](auto& b) { b.calls[0].backward_stacks = {true}; }},
      {"has no condition",
       [](auto& b) {
         b.programs[0].host[0] = host(1, fb::HostOp::kBranch, 0, 0);
         b.bodies.push_back(b.bodies[0]);
         b.calls[0].bodies = {0, 1};
         b.calls[0].given = {{}, {}};
       }},
      {"is run from two places", [](auto& b) { b.programs[0].host.push_back(host(9, fb::HostOp::kLoop, 0, 0)); }},
      {"fetches result 1 of 1", [](auto& b) { b.programs[0].host[1] = host(2, fb::HostOp::kFetch, 0, 1, 2); }},
      {"which has not been run", [](auto& b) { b.programs[0].host[1] = host(2, fb::HostOp::kFetch, 4, 0, 2); }},
      {"which has not been run",
       [](auto& b) {
         b.programs[0].host = {host(1, fb::HostOp::kFetch, 0, 0, 2), host(2, fb::HostOp::kLoop, 0, 0)};
       }},
      {"uses tensor 99", [](auto& b) { b.programs[0].host[1] = host(2, fb::HostOp::kFetch, 0, 0, 99); }},
      {"which is read-only", [](auto& b) { b.programs[0].host[1] = host(2, fb::HostOp::kFetch, 0, 0, 0); }},
  };
  for (const Edit& edit : edits) {
    ModelBuilder b = test::loop_model();
    edit.edit(b);
    EXPECT_THAT(problem(b), HasSubstr(edit.message));
  }
}

TEST(Loader, ProgramsFormATree) {
  ModelBuilder b = test::branch_model();
  b.programs[0].host[0] = host(1, fb::HostOp::kIf, 0, 1, 1);
  EXPECT_THAT(problem(b), HasSubstr("program 1 is run from two places"));
  b = test::branch_model();
  b.programs[0].host[0] = host(1, fb::HostOp::kIf, 0, 0, 1);
  EXPECT_THAT(problem(b), HasSubstr("runs program 0"));
  b = test::branch_model();
  b.programs[1].host.push_back(host(4, fb::HostOp::kIf, 0, 1, 2));
  EXPECT_THAT(problem(b), HasSubstr("is run from two places"));
  b = test::branch_model();
  b.programs[0].host[0] = host(9, fb::HostOp::kIf, 0, 1, 2);
  EXPECT_THAT(problem(b), HasSubstr("has commands that come before the one that runs it"));

  // Nesting is bounded, as the executor recurses.
  b = test::branch_model();
  b.programs.assign(2 * kMaxProgramDepth + 5, {});
  uint32_t sequence = 1;
  for (uint32_t p = 0; p + 2 < b.programs.size(); p += 2)
    b.programs[p].host = {host(sequence++, fb::HostOp::kIf, 0, p + 1, p + 2)};
  EXPECT_THAT(problem(b), HasSubstr("nested deeper than 32"));
}

TEST(Loader, ExpressionsThatNeedRunSymbolsComeAfterThem) {
  ModelBuilder b = test::positive_model();
  // The first launch uses K.
  b.arguments[2] = ModelBuilder::number(b.tensors[2].shape[0]);
  EXPECT_THAT(problem(b), HasSubstr("before its symbols are bound"));
  b = test::positive_model();
  b.arguments[1] = ModelBuilder::pointer(2, true, 0);
  b.tensors[2].first_use = 1;
  EXPECT_THAT(problem(b), HasSubstr("before its size is known"));
}

TEST(Loader, ExpressionArithmetic) {
  ModelBuilder b = test::chain_model();
  struct Case {
    fb::ExpressionOp op;
    int64_t a, b;
    std::optional<int64_t> value;
  };
  using Op = fb::ExpressionOp;
  const Case cases[] = {{Op::kAdd, 2, 3, 5},
                        {Op::kAdd, INT64_MAX, 1, std::nullopt},
                        {Op::kMul, -4, 3, -12},
                        {Op::kMul, INT64_MIN, -1, std::nullopt},
                        {Op::kFloorDiv, 7, 2, 3},
                        {Op::kFloorDiv, -7, 2, -4},
                        {Op::kFloorDiv, 7, -2, -4},
                        {Op::kFloorDiv, -7, -2, 3},
                        {Op::kFloorDiv, 7, 0, std::nullopt},
                        {Op::kFloorDiv, INT64_MIN, -1, std::nullopt},
                        {Op::kCeilDiv, 7, 2, 4},
                        {Op::kCeilDiv, -7, 2, -3},
                        {Op::kCeilDiv, 8, 2, 4},
                        {Op::kCeilDiv, 7, -2, -3},
                        {Op::kCeilDiv, 1, 0, std::nullopt},
                        {Op::kMod, 7, 3, 1},
                        {Op::kMod, -7, 3, 2},
                        {Op::kMod, 7, -3, -2},
                        {Op::kMod, INT64_MIN, -1, 0},
                        {Op::kMod, 1, 0, std::nullopt},
                        {Op::kMin, 2, -3, -3},
                        {Op::kMax, 2, -3, 2},
                        {Op::kEq, 4, 4, 1},
                        {Op::kEq, 4, 5, 0},
                        {Op::kLt, 4, 5, 1},
                        {Op::kLt, 5, 5, 0}};
  std::vector<uint32_t> rows;
  for (const Case& c : cases) rows.push_back(b.expression(c.op, b.constant(c.a), b.constant(c.b)));
  const uint32_t unbound = b.expression(Op::kAdd, b.tensors[0].shape[0], b.constant(1));
  const uint32_t picked = b.expression(Op::kSelect, b.constant(0), unbound, b.constant(42));
  auto file = ModelFile::from_bytes(b.build(), VerifyLevel::kUsual);
  ASSERT_TRUE(file.ok());
  ExpressionValues values;
  values.evaluate((*file)->root(), std::vector<SymbolValue>(1));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(values.has_value(rows[i]), cases[i].value.has_value()) << i;
    if (cases[i].value) {
      EXPECT_EQ(values.value_or_zero(rows[i]), *cases[i].value) << i;
    }
  }
  EXPECT_THAT(values.get(unbound).status().message(), HasSubstr("it depends on 'N'"));
  EXPECT_EQ(*values.get(picked), 42);
}

}  // namespace
}  // namespace aipu::runtime
