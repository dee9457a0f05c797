// Builds aipu.bin files by hand, for tests of the runtime that do not want a compiler in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "aipu_generated.h"
#include "runtime/base/dtype.h"

namespace aipu::test {

constexpr uint32_t kNone = 0xffffffffu;

struct TensorRow {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint32_t> shape;  // expressions
  uint32_t size_bytes = 0;      // expression
  fb::TensorKind kind = fb::TensorKind::kArena;
  uint64_t offset_bytes = 0;
  uint32_t base = 0, view_offset = 0;
  uint32_t first_use = 0, last_use = 1000000;
  uint32_t in_place_of = kNone;
  fb::Memory memory = fb::Memory::kDevice;
};

struct SymbolRow {
  std::string name;
  fb::SymbolKind kind = fb::SymbolKind::kInputExtent;
  uint32_t tensor = 0, index = 0;
};

struct KernelRow {
  std::string name;
  std::vector<bool> pointers;
  uint32_t lsram_bytes = 0, shared_bytes = 0;
  bool uses_barrier = false;
  std::vector<uint8_t> argument_bits = {};
  std::string tir = {};
  bool reports_faults = false;
  std::vector<uint64_t> addressable_bytes = {};
  std::vector<bool> signed_arguments = {};
};

struct ProgramRow {
  std::vector<fb::TecCommand> tec;
  std::vector<fb::DmaCommand> dma;
  std::vector<fb::HostCommand> host;
  std::vector<uint32_t> tec_operations;  // empty: absent
  std::vector<fb::Fault> faults;
};

struct SectionRow {
  fb::SectionKind kind;
  uint32_t index = 0;
  std::vector<std::byte> bytes;
};

struct CallRow {
  std::vector<uint32_t> bodies;
  uint32_t condition = kNone, trip_count = kNone;
  std::vector<uint32_t> inputs;
  uint32_t states = 0, sequences = 0;
  std::vector<bool> backward_sequences = {}, backward_stacks = {};
  std::vector<std::vector<uint32_t>> given = {{}};
  uint32_t extents = kNone;
};

struct TextCallRow {
  std::string operation;
  std::vector<std::string> texts = {};
  std::vector<int64_t> numbers = {};
  std::vector<uint32_t> inputs = {}, outputs = {};
  uint32_t needed = kNone;
  fb::OperationLibrary library = fb::OperationLibrary::kText;
};

struct ListRow {
  std::string name;
  bool is_input = false;
  fb::TensorListKind kind = fb::TensorListKind::kSequence;
  bool absent = false;
  uint32_t first = 0, count = 0;
};

// The tables of a file, open to edits. Helpers return the index of what they add.
struct ModelBuilder {
  uint32_t format_version = 1;
  std::string target = "host-baseline", backend = {};  // backend: of files that say theirs
  std::vector<std::string> features;
  std::vector<double> cost_figures;  // empty: a file without
  uint32_t tec_count = 0;
  std::vector<fb::Expression> expressions;
  std::vector<SymbolRow> symbols;
  std::vector<TensorRow> tensors;
  std::vector<uint32_t> inputs, outputs;
  std::vector<KernelRow> kernels;
  std::vector<fb::Argument> arguments;
  std::vector<fb::Wait> waits;
  std::vector<ProgramRow> programs = std::vector<ProgramRow>(1);
  std::vector<std::string> strings, origins;
  std::vector<SectionRow> sections;
  std::vector<fb::BatchLoop> batch_loops;
  std::vector<uint32_t> batch_loop_conditions;  // empty: absent
  std::vector<CallRow> calls;
  std::vector<TextCallRow> text_calls;
  std::vector<std::string> string_pool;
  std::string description;
  std::vector<std::pair<std::string, std::string>> properties;
  std::vector<ListRow> lists;
  std::vector<ModelBuilder> bodies;    // without sections and kernels
  std::string entry_name;              // "": absent
  std::vector<ModelBuilder> entries;   // further models of the file, without sections and kernels too
  uint32_t first_host_kernel = kNone;  // none: the file has no host part
  ProgramRow host_work;
  uint32_t next_sequence = 1;

  uint32_t constant(int64_t value) { return expression(fb::ExpressionOp::kConstant, 0, 0, 0, value); }
  uint32_t expression(fb::ExpressionOp op, uint32_t a, uint32_t b = 0, uint32_t c = 0, int64_t value = 0) {
    expressions.emplace_back(op, a, b, c, value);
    return static_cast<uint32_t>(expressions.size() - 1);
  }
  uint32_t mul(uint32_t a, uint32_t b) { return expression(fb::ExpressionOp::kMul, a, b); }
  // The expression that is the symbol.
  uint32_t symbol(std::string name, uint32_t tensor, uint32_t index,
                  fb::SymbolKind kind = fb::SymbolKind::kInputExtent);
  // The size is computed from the shape. Inputs and outputs are listed as such.
  uint32_t tensor(std::string name, DType dtype, std::vector<uint32_t> shape, fb::TensorKind kind);
  uint32_t kernel(KernelRow row) {
    kernels.push_back(std::move(row));
    return static_cast<uint32_t>(kernels.size() - 1);
  }

  static fb::Argument pointer(uint32_t tensor, bool writes, uint32_t offset) {
    return {fb::ArgumentKind::kTensor, writes, tensor, offset, 0};
  }
  static fb::Argument number(uint32_t expression) { return {fb::ArgumentKind::kExpression, false, expression, 0, 0}; }
  static fb::Argument word(uint64_t bits) { return {fb::ArgumentKind::kImmediate, false, 0, 0, bits}; }
  static fb::Argument word(float value);

  void launch(uint32_t kernel, std::vector<fb::Argument> list, uint32_t max_tecs, uint32_t program = 0,
              std::vector<fb::Wait> wait_for = {});
  void copy(uint32_t destination, uint32_t destination_offset, uint32_t source, uint32_t source_offset, uint32_t width,
            uint32_t times, uint32_t destination_stride, uint32_t source_stride, uint32_t program = 0,
            std::vector<fb::Wait> wait_for = {});
  void host(fb::HostOp op, uint32_t a, uint32_t b, uint32_t c = 0, uint32_t program = 0,
            std::vector<fb::Wait> wait_for = {});

  std::vector<std::byte> build() const;

 private:
  flatbuffers::Offset<fb::Model> table(flatbuffers::FlatBufferBuilder& builder,
                                       const std::vector<flatbuffers::Offset<fb::Section>>& section_rows) const;
};

std::span<const std::byte> as_bytes(std::string_view text);

// Compiles C to a shared object with the system's compiler; the same text is compiled once per process. Fails the test
// if that does not work.
const std::vector<std::byte>& compile_module(const std::string& c_text);

// The kernels that the tests use, as a module: see kernels.cpp.
const std::vector<std::byte>& test_kernels();
// Their rows: {name, pointer flags, ...}.
KernelRow scale_kernel();  // (const float* x, float* y, int n, float a): y = a * x, split over the TECs
KernelRow add_kernel();    // (const float* a, const float* b, float* c, int n): c = a + b
// (const float* x, float* y, int n): y = reversed x; writes everything, meets at a barrier, then copies through shared
// memory
KernelRow reverse_kernel();
KernelRow count_kernel();     // (const float* x, int64* count, int n): how many are > 0
KernelRow positive_kernel();  // (const float* x, float* y, int n): those that are > 0, in order
KernelRow tecs_kernel();      // (int* seen, int n): seen[t] = tec_count for every TEC t < n
KernelRow meet_kernel();      // the same, once all of them have met at a barrier
// Of faulty_kernels(): (const float* x, float* y, int n, int code): y = x; fault `code` with an x < 0 and its position.
KernelRow root_kernel();
const std::vector<std::byte>& faulty_kernels();
KernelRow crash_kernel();  // (float* x): divides by zero in a way that raises SIGFPE

}  // namespace aipu::test
