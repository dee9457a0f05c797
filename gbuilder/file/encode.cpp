#include "gbuilder/file/encode.h"

#include <algorithm>

#include "aipu_generated.h"
#include "gbuilder/file/constant_writer.h"
#include "runtime/base/file.h"
#include "runtime/base/seal.h"

namespace aipu::gbuilder {

namespace {

constexpr uint64_t kAlignment = 64;

template <typename Ours, typename Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<uint8_t>(ours) == static_cast<uint8_t>(theirs);
}
static_assert(same(ExpressionOp::kSelect, fb::ExpressionOp::kSelect) &&
              same(ExpressionOp::kFloorDiv, fb::ExpressionOp::kFloorDiv) &&
              same(ExpressionOp::kEq, fb::ExpressionOp::kEq));
static_assert(same(SymbolKind::kTensorElement, fb::SymbolKind::kTensorElement) &&
              same(SymbolKind::kTecCount, fb::SymbolKind::kTecCount) &&
              same(SymbolKind::kGiven, fb::SymbolKind::kGiven) &&
              same(SymbolKind::kHostTecCount, fb::SymbolKind::kHostTecCount));
static_assert(same(TensorKind::kView, fb::TensorKind::kView) && same(TensorKind::kArena, fb::TensorKind::kArena));
static_assert(same(Engine::kTec, fb::Engine::kTec) && same(Engine::kHost, fb::Engine::kHost));
static_assert(same(PlanArgument::Kind::kImmediate, fb::ArgumentKind::kImmediate));
static_assert(same(HostOp::kBindSymbols, fb::HostOp::kBindSymbols) && same(HostOp::kLoop, fb::HostOp::kLoop) &&
              same(HostOp::kFetch, fb::HostOp::kFetch) && same(HostOp::kText, fb::HostOp::kText) &&
              same(HostOp::kLaunch, fb::HostOp::kLaunch) && same(HostOp::kCopy, fb::HostOp::kCopy));
static_assert(same(Memory::kDevice, fb::Memory::kDevice) && same(Memory::kHost, fb::Memory::kHost));
static_assert(same(OperationLibrary::kText, fb::OperationLibrary::kText) &&
              same(OperationLibrary::kImage, fb::OperationLibrary::kImage));
static_assert(same(SectionKind::kDebug, fb::SectionKind::kDebug) && same(SectionKind::kTir, fb::SectionKind::kTir));
static_assert(kNone == 0xffffffffu);

uint64_t aligned(uint64_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }

// A stretch of the file after the root. The constants section has no bytes here.
struct Blob {
  SectionKind kind;
  uint32_t index;
  std::span<const std::byte> bytes;
  uint64_t size = 0;
  uint64_t offset = 0;
  Hash128 hash;
};

std::vector<const EncodeEntry*> entries_of(const EncodeInput& input) {
  std::vector<const EncodeEntry*> entries = {&input};
  for (const EncodeEntry& entry : input.more_entries) entries.push_back(&entry);
  return entries;
}

std::vector<Blob> list_blobs(const EncodeInput& input) {
  std::vector<Blob> blobs;
  const auto add = [&](SectionKind kind, uint32_t index, std::span<const std::byte> bytes) {
    if (!bytes.empty())
      blobs.push_back({.kind = kind, .index = index, .bytes = bytes, .size = bytes.size(), .hash = hash_bytes(bytes)});
  };
  if (input.plan->constant_bytes > 0)
    blobs.push_back({.kind = SectionKind::kConstants, .index = 0, .bytes = {}, .size = input.plan->constant_bytes});
  add(SectionKind::kNativeModule, 0, input.native_module);
  add(SectionKind::kNativeModule, 1, input.host_module);
  for (uint32_t k = 0; k < input.tir.size(); ++k) add(SectionKind::kTir, k, std::as_bytes(std::span(input.tir[k])));
  add(SectionKind::kC, 0, std::as_bytes(std::span(input.c_code)));
  const auto entries = entries_of(input);
  for (uint32_t e = 0; e < entries.size(); ++e)
    add(SectionKind::kCompassIr, e, std::as_bytes(std::span(entries[e]->compass_ir)));
  for (uint32_t e = 0; e < entries.size(); ++e)
    add(SectionKind::kDebug, e, std::as_bytes(std::span(entries[e]->debug)));
  uint64_t offset = 0;
  for (Blob& blob : blobs) {
    blob.offset = offset;
    offset = aligned(offset + blob.size);
  }
  return blobs;
}

// Translates a plan and its recording to FlatBuffers, table by table.
class ModelBuilder {
 public:
  // `entry_name`: "" of what has none.
  ModelBuilder(flatbuffers::FlatBufferBuilder& builder, const Plan& plan, const Recording& recording,
               std::string_view entry_name = {})
      : builder_(builder), plan_(plan), recording_(recording), entry_name_(entry_name) {}

  // `file` and `blobs`: of the outermost model; null for bodies and other entries.
  flatbuffers::Offset<fb::Model> build(const EncodeInput* file, const std::vector<Blob>* blobs) {
    // Children come before parents; the order is fixed, so equal plans give equal bytes.
    const auto producer = builder_.CreateString(file != nullptr ? "aipu 0.1.0" : "");
    const auto model_name = builder_.CreateString(plan_.model_name);
    const auto target = builder_.CreateString(plan_.target);
    const auto features =
        builder_.CreateVectorOfStrings(file != nullptr ? file->required_cpu_features : std::vector<std::string>());
    const auto sections = build_sections(blobs != nullptr ? *blobs : std::vector<Blob>());
    const auto expressions = build_expressions();
    const auto symbols = build_symbols();
    const auto tensors = build_tensors();
    const auto inputs = builder_.CreateVector(plan_.inputs);
    const auto outputs = builder_.CreateVector(plan_.outputs);
    const auto kernels = build_kernels(file != nullptr ? plan_.kernels : std::vector<PlanKernel>());
    const auto arguments = build_arguments();
    const auto waits = build_waits();
    const auto programs = build_programs();
    const auto strings = builder_.CreateVectorOfStrings(plan_.strings);
    const auto origins = builder_.CreateVectorOfStrings(plan_.origins);
    const auto batch_loops = build_batch_loops();
    // Absent in most files, which stay as they were.
    const auto loop_conditions = build_batch_loop_conditions();
    const auto calls = plan_.calls.empty() ? decltype(build_calls())() : build_calls();
    const auto bodies = plan_.bodies.empty() ? decltype(build_bodies())() : build_bodies();
    const auto backend =
        file != nullptr ? builder_.CreateString(file->backend) : flatbuffers::Offset<flatbuffers::String>();
    const auto description = plan_.description.empty() ? flatbuffers::Offset<flatbuffers::String>()
                                                       : builder_.CreateString(plan_.description);
    const auto properties = plan_.properties.empty() ? decltype(build_properties())() : build_properties();
    const auto lists = plan_.lists.empty() ? decltype(build_lists())() : build_lists();
    const auto costs = file == nullptr || file->cost_figures.empty()
                           ? flatbuffers::Offset<flatbuffers::Vector<double>>()
                           : builder_.CreateVector(file->cost_figures);
    const auto text_calls = plan_.text_calls.empty() ? decltype(build_text_calls())() : build_text_calls();
    const auto string_pool = plan_.string_pool.empty() ? decltype(builder_.CreateVectorOfStrings(plan_.string_pool))()
                                                       : builder_.CreateVectorOfStrings(plan_.string_pool);
    const auto entry_name = entry_name_.empty() ? flatbuffers::Offset<flatbuffers::String>()
                                                : builder_.CreateString(entry_name_.data(), entry_name_.size());
    const auto entries =
        file == nullptr || file->more_entries.empty() ? decltype(build_entries(*file))() : build_entries(*file);
    const auto host_part =
        file == nullptr || plan_.host_target.empty() ? flatbuffers::Offset<fb::HostPart>() : build_host_part(*file);
    const auto host_work = recording_.host_work.tec.empty() && recording_.host_work.dma.empty()
                               ? flatbuffers::Offset<fb::Program>()
                               : build_program(recording_.host_work);
    return fb::CreateModel(builder_, 1, producer, model_name, target, features, plan_.tec_count, sections, expressions,
                           symbols, tensors, inputs, outputs, kernels, arguments, waits, programs, strings, origins,
                           plan_.fast_math, batch_loops, calls, bodies, backend, description, properties, lists, costs,
                           text_calls, string_pool, plan_.core_count, entry_name, entries, host_part, host_work,
                           loop_conditions);
  }

 private:
  // Zeros are stored too: the size of the tables does not depend on what the hashes are.
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Section>>> build_sections(
      const std::vector<Blob>& blobs) {
    builder_.ForceDefaults(true);
    std::vector<flatbuffers::Offset<fb::Section>> rows;
    for (const Blob& blob : blobs) {
      rows.push_back(fb::CreateSection(builder_, static_cast<fb::SectionKind>(blob.kind), blob.index, blob.offset,
                                       blob.size, blob.hash.high, blob.hash.low));
    }
    builder_.ForceDefaults(false);
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<const fb::Expression*>> build_expressions() {
    std::vector<fb::Expression> rows;
    for (const Expression& row : plan_.expressions.rows()) {
      rows.emplace_back(static_cast<fb::ExpressionOp>(row.op), row.a, row.b, row.c, row.value);
    }
    return builder_.CreateVectorOfStructs(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Symbol>>> build_symbols() {
    std::vector<flatbuffers::Offset<fb::Symbol>> rows;
    for (const PlanSymbol& symbol : plan_.symbols) {
      const auto name = builder_.CreateString(symbol.name);
      rows.push_back(
          fb::CreateSymbol(builder_, name, static_cast<fb::SymbolKind>(symbol.kind), symbol.tensor, symbol.index));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>>> build_tensors() {
    std::vector<flatbuffers::Offset<fb::Tensor>> rows;
    for (const PlanTensor& tensor : plan_.tensors) {
      const auto name = builder_.CreateString(tensor.name);
      const auto shape = builder_.CreateVector(tensor.shape);
      rows.push_back(fb::CreateTensor(builder_, name, static_cast<uint8_t>(tensor.dtype), shape, tensor.size_bytes,
                                      static_cast<fb::TensorKind>(tensor.kind), tensor.offset_bytes, tensor.base,
                                      tensor.view_offset, tensor.first_use, tensor.last_use, tensor.in_place_of,
                                      tensor.workspace, static_cast<fb::Memory>(tensor.memory)));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Kernel>>> build_kernels(
      const std::vector<PlanKernel>& kernels) {
    std::vector<flatbuffers::Offset<fb::Kernel>> rows;
    for (const PlanKernel& kernel : kernels) {
      const auto name = builder_.CreateString(kernel.symbol);
      const auto pointers =
          builder_.CreateVector(std::vector<uint8_t>(kernel.pointer_arguments.begin(), kernel.pointer_arguments.end()));
      const auto source = builder_.CreateString(kernel.source);
      const auto bits = builder_.CreateVector(kernel.argument_bits);
      const auto addressable = builder_.CreateVector(kernel.addressable_bytes);
      const auto is_signed =
          builder_.CreateVector(std::vector<uint8_t>(kernel.signed_arguments.begin(), kernel.signed_arguments.end()));
      rows.push_back(fb::CreateKernel(builder_, name, kernel.argument_count, pointers, kernel.lsram_bytes,
                                      kernel.shared_bytes, kernel.uses_barrier, source, bits, kernel.reports_faults,
                                      addressable, is_signed));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<const fb::Argument*>> build_arguments() {
    std::vector<fb::Argument> rows;
    for (const PlanArgument& argument : recording_.arguments) {
      rows.emplace_back(static_cast<fb::ArgumentKind>(argument.kind), argument.writes, argument.index, argument.offset,
                        argument.word);
    }
    return builder_.CreateVectorOfStructs(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<const fb::Wait*>> build_waits() {
    std::vector<fb::Wait> rows;
    for (const CommandId& wait : recording_.waits) rows.emplace_back(static_cast<fb::Engine>(wait.engine), wait.index);
    return builder_.CreateVectorOfStructs(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<const fb::BatchLoop*>> build_batch_loops() {
    std::vector<fb::BatchLoop> rows;
    for (const PlanBatchLoop& loop : plan_.batch_loops) rows.emplace_back(loop.first, loop.last, loop.symbol);
    return builder_.CreateVectorOfStructs(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> build_batch_loop_conditions() {
    std::vector<uint32_t> rows;
    for (const PlanBatchLoop& loop : plan_.batch_loops) rows.push_back(loop.condition);
    const bool always = std::all_of(rows.begin(), rows.end(), [](uint32_t condition) { return condition == kNone; });
    return always ? flatbuffers::Offset<flatbuffers::Vector<uint32_t>>() : builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Call>>> build_calls() {
    std::vector<flatbuffers::Offset<fb::Call>> rows;
    const auto flags = [&](const std::vector<bool>& list) {
      return builder_.CreateVector(std::vector<uint8_t>(list.begin(), list.end()));
    };
    for (const PlanCall& call : plan_.calls) {
      std::vector<flatbuffers::Offset<fb::Given>> given;
      for (const auto& expressions : call.given)
        given.push_back(fb::CreateGiven(builder_, builder_.CreateVector(expressions)));
      const auto bodies = builder_.CreateVector(call.bodies);
      const auto inputs = builder_.CreateVector(call.inputs);
      const auto backward_sequences = flags(call.backward_sequences);
      const auto backward_stacks = flags(call.backward_stacks);
      const auto given_rows = builder_.CreateVector(given);
      rows.push_back(fb::CreateCall(builder_, bodies, call.condition, call.trip_count, inputs, call.states,
                                    call.sequences, backward_sequences, backward_stacks, given_rows, call.extents));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Property>>> build_properties() {
    std::vector<flatbuffers::Offset<fb::Property>> rows;
    for (const auto& [key, value] : plan_.properties) {
      const auto key_text = builder_.CreateString(key);
      const auto value_text = builder_.CreateString(value);
      rows.push_back(fb::CreateProperty(builder_, key_text, value_text));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::TensorList>>> build_lists() {
    std::vector<flatbuffers::Offset<fb::TensorList>> rows;
    for (const PlanList& list : plan_.lists) {
      const auto name = builder_.CreateString(list.name);
      rows.push_back(fb::CreateTensorList(builder_, name, list.is_input, static_cast<fb::TensorListKind>(list.kind),
                                          list.absent, list.first, list.count));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::TextCall>>> build_text_calls() {
    std::vector<flatbuffers::Offset<fb::TextCall>> rows;
    for (const PlanTextCall& call : plan_.text_calls) {
      const auto operation = builder_.CreateString(call.operation);
      const auto texts = builder_.CreateVectorOfStrings(call.texts);
      const auto numbers = builder_.CreateVector(call.numbers);
      const auto inputs = builder_.CreateVector(call.inputs);
      const auto outputs = builder_.CreateVector(call.outputs);
      const auto library = static_cast<fb::OperationLibrary>(call.library);
      rows.push_back(fb::CreateTextCall(builder_, operation, texts, numbers, inputs, outputs, call.needed, library));
    }
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Model>>> build_bodies() {
    std::vector<flatbuffers::Offset<fb::Model>> rows;
    for (size_t i = 0; i < plan_.bodies.size(); ++i)
      rows.push_back(ModelBuilder(builder_, plan_.bodies[i], recording_.bodies[i]).build(nullptr, nullptr));
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Model>>> build_entries(const EncodeInput& file) {
    std::vector<flatbuffers::Offset<fb::Model>> rows;
    for (const EncodeEntry& entry : file.more_entries)
      rows.push_back(ModelBuilder(builder_, *entry.plan, *entry.recording, entry.entry_name).build(nullptr, nullptr));
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Program>>> build_programs() {
    std::vector<flatbuffers::Offset<fb::Program>> rows;
    for (const RecordedProgram& program : recording_.programs) rows.push_back(build_program(program));
    return builder_.CreateVector(rows);
  }

  flatbuffers::Offset<fb::HostPart> build_host_part(const EncodeInput& file) {
    const auto target = builder_.CreateString(plan_.host_target);
    const auto backend = builder_.CreateString(file.host_backend);
    const auto features = builder_.CreateVectorOfStrings(file.host_cpu_features);
    return fb::CreateHostPart(builder_, target, backend, features, plan_.first_host_kernel);
  }

  flatbuffers::Offset<fb::Program> build_program(const RecordedProgram& program) {
    std::vector<fb::TecCommand> tec;
    std::vector<uint32_t> operations, needed;
    for (const TecRecord& r : program.tec) {
      tec.emplace_back(r.sequence, r.kernel, r.first_argument, r.argument_count, r.first_wait, r.wait_count, r.max_tecs,
                       r.origin);
      operations.push_back(r.operations);
      needed.push_back(r.needed);
    }
    std::vector<fb::DmaCommand> dma;
    for (const DmaRecord& r : program.dma) {
      dma.emplace_back(r.sequence, r.destination, r.source, r.destination_offset, r.source_offset, r.width, r.times,
                       r.destination_stride, r.source_stride, r.first_wait, r.wait_count, r.origin);
    }
    std::vector<fb::HostCommand> host;
    for (const HostRecord& r : program.host) {
      host.emplace_back(r.sequence, static_cast<fb::HostOp>(r.op), r.a, r.b, r.c, r.d, r.first_wait, r.wait_count,
                        r.origin);
    }
    std::vector<fb::Fault> faults;
    for (const FaultRecord& r : program.faults) faults.emplace_back(r.command, r.code, r.message, r.origin, r.needed);
    const bool always = std::all_of(needed.begin(), needed.end(), [](uint32_t row) { return row == kNone; });
    return fb::CreateProgramDirect(builder_, &tec, &dma, &host, &operations, faults.empty() ? nullptr : &faults,
                                   always ? nullptr : &needed);
  }

  flatbuffers::FlatBufferBuilder& builder_;
  const Plan& plan_;
  const Recording& recording_;
  const std::string_view entry_name_;
};

// Translates the plans and their recordings to FlatBuffers, table by table.
class RootBuilder {
 public:
  RootBuilder(const EncodeInput& input, const std::vector<Blob>& blobs) : input_(input), blobs_(blobs) {}

  std::span<const std::byte> build() {
    ModelBuilder model(builder_, *input_.plan, *input_.recording, input_.entry_name);
    builder_.FinishSizePrefixed(model.build(&input_, &blobs_), fb::ModelIdentifier());
    return std::as_bytes(std::span(builder_.GetBufferPointer(), builder_.GetSize()));
  }

 private:
  const EncodeInput& input_;
  const std::vector<Blob>& blobs_;
  flatbuffers::FlatBufferBuilder builder_{64 * 1024};
};

}  // namespace

std::string_view section_kind_name(SectionKind kind) {
  switch (kind) {
    case SectionKind::kConstants:
      return "constants";
    case SectionKind::kNativeModule:
      return "native module";
    case SectionKind::kTir:
      return "tir";
    case SectionKind::kC:
      return "c";
    case SectionKind::kCompassIr:
      return "compass_ir";
    case SectionKind::kDebug:
      return "debug";
  }
  return "?";
}

Result<EncodeReport> encode(const EncodeInput& input, const std::string& path) {
  std::vector<Blob> blobs = list_blobs(input);
  std::vector<const Plan*> plans;
  for (const EncodeEntry* entry : entries_of(input)) plans.push_back(entry->plan);
  const uint64_t root_bytes = RootBuilder(input, blobs).build().size();
  const uint64_t blobs_begin = aligned(root_bytes);
  AIPU_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  uint64_t end = blobs_begin;
  for (Blob& blob : blobs) {
    end = blobs_begin + blob.offset + blob.size;
    if (blob.kind == SectionKind::kConstants) {
      AIPU_ASSIGN_OR_RETURN(blob.hash, write_constants(plans, file, blobs_begin + blob.offset, input.jobs));
    } else {
      AIPU_RETURN_IF_ERROR(file.write_at(blobs_begin + blob.offset, blob.bytes));
    }
  }
  RootBuilder builder(input, blobs);  // again, now that all hashes are known
  const std::span<const std::byte> root = builder.build();
  if (root.size() != root_bytes) return internal_error("the tables of aipu.bin have changed their size");
  AIPU_RETURN_IF_ERROR(file.write_at(0, root));
  AIPU_RETURN_IF_ERROR(file.write_at(end, make_seal(root, end + kSealBytes)));
  end += kSealBytes;
  if (input.sign) {
    AIPU_ASSIGN_OR_RETURN(const MappedFile written, file.written());
    AIPU_ASSIGN_OR_RETURN(const SignatureBlock block, input.sign(written.bytes()));
    AIPU_RETURN_IF_ERROR(file.write_at(end, block));
    end += block.size();
  }
  AIPU_RETURN_IF_ERROR(file.commit());
  return EncodeReport{.file_bytes = end, .root_bytes = root.size(), .constant_bytes = input.plan->constant_bytes};
}

}  // namespace aipu::gbuilder
