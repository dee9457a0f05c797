#include "tests/runtime/model_builder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/seal.h"
#include "test_paths.h"

namespace aipu::test {

uint32_t ModelBuilder::symbol(std::string name, uint32_t tensor_index, uint32_t index, fb::SymbolKind kind) {
  symbols.push_back({std::move(name), kind, tensor_index, index});
  return expression(fb::ExpressionOp::kSymbol, static_cast<uint32_t>(symbols.size() - 1));
}

uint32_t ModelBuilder::tensor(std::string name, DType dtype, std::vector<uint32_t> shape, fb::TensorKind kind) {
  uint32_t size = constant(static_cast<int64_t>(dtype_bytes(dtype)));
  for (const uint32_t extent : shape) size = mul(size, extent);
  const auto index = static_cast<uint32_t>(tensors.size());
  TensorRow row;
  row.name = std::move(name);
  row.dtype = dtype;
  row.shape = std::move(shape);
  row.size_bytes = size;
  row.kind = kind;
  tensors.push_back(std::move(row));
  if (kind == fb::TensorKind::kInput) inputs.push_back(index);
  if (kind == fb::TensorKind::kOutput) outputs.push_back(index);
  return index;
}

fb::Argument ModelBuilder::word(float value) { return word(uint64_t{std::bit_cast<uint32_t>(value)}); }

void ModelBuilder::launch(uint32_t kernel, std::vector<fb::Argument> list, uint32_t max_tecs, uint32_t program,
                          std::vector<fb::Wait> wait_for) {
  programs[program].tec.emplace_back(next_sequence++, kernel, static_cast<uint32_t>(arguments.size()),
                                     static_cast<uint32_t>(list.size()), static_cast<uint32_t>(waits.size()),
                                     static_cast<uint32_t>(wait_for.size()), max_tecs, kNone);
  arguments.insert(arguments.end(), list.begin(), list.end());
  waits.insert(waits.end(), wait_for.begin(), wait_for.end());
}

void ModelBuilder::copy(uint32_t destination, uint32_t destination_offset, uint32_t source, uint32_t source_offset,
                        uint32_t width, uint32_t times, uint32_t destination_stride, uint32_t source_stride,
                        uint32_t program, std::vector<fb::Wait> wait_for) {
  programs[program].dma.emplace_back(next_sequence++, destination, source, destination_offset, source_offset, width,
                                     times, destination_stride, source_stride, static_cast<uint32_t>(waits.size()),
                                     static_cast<uint32_t>(wait_for.size()), kNone);
  waits.insert(waits.end(), wait_for.begin(), wait_for.end());
}

void ModelBuilder::host(fb::HostOp op, uint32_t a, uint32_t b, uint32_t c, uint32_t program,
                        std::vector<fb::Wait> wait_for) {
  programs[program].host.emplace_back(next_sequence++, op, a, b, c, 0, static_cast<uint32_t>(waits.size()),
                                      static_cast<uint32_t>(wait_for.size()), kNone);
  waits.insert(waits.end(), wait_for.begin(), wait_for.end());
}

flatbuffers::Offset<fb::Model> ModelBuilder::table(
    flatbuffers::FlatBufferBuilder& builder, const std::vector<flatbuffers::Offset<fb::Section>>& section_rows) const {
  const auto string_list = [&](const std::vector<std::string>& list) { return builder.CreateVectorOfStrings(list); };
  std::vector<flatbuffers::Offset<fb::Symbol>> symbol_rows;
  for (const SymbolRow& row : symbols)
    symbol_rows.push_back(fb::CreateSymbol(builder, builder.CreateString(row.name), row.kind, row.tensor, row.index));
  std::vector<flatbuffers::Offset<fb::Tensor>> tensor_rows;
  for (const TensorRow& row : tensors) {
    const auto name = builder.CreateString(row.name);
    const auto shape = builder.CreateVector(row.shape);
    tensor_rows.push_back(fb::CreateTensor(builder, name, static_cast<uint8_t>(row.dtype), shape, row.size_bytes,
                                           row.kind, row.offset_bytes, row.base, row.view_offset, row.first_use,
                                           row.last_use, row.in_place_of, false, row.memory));
  }
  std::vector<flatbuffers::Offset<fb::Kernel>> kernel_rows;
  for (const KernelRow& row : kernels) {
    const auto name = builder.CreateString(row.name);
    const auto pointers = builder.CreateVector(row.pointers);
    const auto bits = row.argument_bits.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint8_t>>()
                                                : builder.CreateVector(row.argument_bits);
    const auto addressable = row.addressable_bytes.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint64_t>>()
                                                           : builder.CreateVector(row.addressable_bytes);
    const auto is_signed = row.signed_arguments.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint8_t>>()
                                                        : builder.CreateVector(row.signed_arguments);
    kernel_rows.push_back(fb::CreateKernel(builder, name, static_cast<uint32_t>(row.pointers.size()), pointers,
                                           row.lsram_bytes, row.shared_bytes, row.uses_barrier, 0, bits,
                                           row.reports_faults, addressable, is_signed));
  }
  std::vector<flatbuffers::Offset<fb::Program>> program_rows;
  const auto program_of = [&](const ProgramRow& row) {
    const auto tec = builder.CreateVectorOfStructs(row.tec);
    const auto dma = builder.CreateVectorOfStructs(row.dma);
    const auto host_commands = builder.CreateVectorOfStructs(row.host);
    const auto operations = row.tec_operations.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint32_t>>()
                                                       : builder.CreateVector(row.tec_operations);
    const auto faults = builder.CreateVectorOfStructs(row.faults);
    return fb::CreateProgram(builder, tec, dma, host_commands, operations, faults);
  };
  for (const ProgramRow& row : programs) program_rows.push_back(program_of(row));
  const bool has_host = first_host_kernel != kNone;
  const auto host_part = has_host
                             ? fb::CreateHostPartDirect(builder, "host-baseline", "host", nullptr, first_host_kernel)
                             : flatbuffers::Offset<fb::HostPart>();
  const bool has_work = !host_work.tec.empty() || !host_work.dma.empty();
  const auto work = has_work ? program_of(host_work) : flatbuffers::Offset<fb::Program>();
  const auto producer = builder.CreateString("test");
  const auto name = builder.CreateString("model");
  const auto target_text = builder.CreateString(target);
  const auto feature_list = string_list(features);
  const auto section_list = builder.CreateVector(section_rows);
  const auto expression_list = builder.CreateVectorOfStructs(expressions);
  const auto symbol_list = builder.CreateVector(symbol_rows);
  const auto tensor_list = builder.CreateVector(tensor_rows);
  const auto input_list = builder.CreateVector(inputs);
  const auto output_list = builder.CreateVector(outputs);
  const auto kernel_list = builder.CreateVector(kernel_rows);
  const auto argument_list = builder.CreateVectorOfStructs(arguments);
  const auto wait_list = builder.CreateVectorOfStructs(waits);
  const auto program_list = builder.CreateVector(program_rows);
  const auto strings_list = string_list(strings);
  const auto origin_list = string_list(origins);
  const auto loop_list = builder.CreateVectorOfStructs(batch_loops);
  std::vector<flatbuffers::Offset<fb::Call>> call_rows;
  for (const CallRow& row : calls) {
    std::vector<flatbuffers::Offset<fb::Given>> given_rows;
    for (const auto& given : row.given) given_rows.push_back(fb::CreateGiven(builder, builder.CreateVector(given)));
    const auto body_list = builder.CreateVector(row.bodies);
    const auto call_inputs = builder.CreateVector(row.inputs);
    const auto backward_sequences = builder.CreateVector(row.backward_sequences);
    const auto backward_stacks = builder.CreateVector(row.backward_stacks);
    const auto given_list = builder.CreateVector(given_rows);
    call_rows.push_back(fb::CreateCall(builder, body_list, row.condition, row.trip_count, call_inputs, row.states,
                                       row.sequences, backward_sequences, backward_stacks, given_list, row.extents));
  }
  std::vector<flatbuffers::Offset<fb::Model>> body_rows;
  for (const ModelBuilder& body : bodies) body_rows.push_back(body.table(builder, {}));
  const auto call_list = builder.CreateVector(call_rows);
  std::vector<flatbuffers::Offset<fb::TextCall>> text_rows;
  for (const TextCallRow& row : text_calls) {
    const auto operation = builder.CreateString(row.operation);
    const auto texts = string_list(row.texts);
    const auto numbers = builder.CreateVector(row.numbers);
    const auto text_inputs = builder.CreateVector(row.inputs);
    const auto text_outputs = builder.CreateVector(row.outputs);
    text_rows.push_back(
        fb::CreateTextCall(builder, operation, texts, numbers, text_inputs, text_outputs, row.needed, row.library));
  }
  const auto text_list = builder.CreateVector(text_rows);
  const auto pool = string_pool.empty()
                        ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>()
                        : string_list(string_pool);
  const auto description_text = builder.CreateString(description);
  std::vector<flatbuffers::Offset<fb::Property>> property_rows;
  for (const auto& [key, value] : properties) {
    const auto key_text = builder.CreateString(key);
    property_rows.push_back(fb::CreateProperty(builder, key_text, builder.CreateString(value)));
  }
  const auto property_list = builder.CreateVector(property_rows);
  std::vector<flatbuffers::Offset<fb::TensorList>> list_rows;
  for (const ListRow& row : lists) {
    const auto list_name = builder.CreateString(row.name);
    list_rows.push_back(
        fb::CreateTensorList(builder, list_name, row.is_input, row.kind, row.absent, row.first, row.count));
  }
  const auto tensor_lists = builder.CreateVector(list_rows);
  const auto all_bodies = builder.CreateVector(body_rows);
  const auto backend_text =
      backend.empty() ? flatbuffers::Offset<flatbuffers::String>() : builder.CreateString(backend);
  const auto costs =
      cost_figures.empty() ? flatbuffers::Offset<flatbuffers::Vector<double>>() : builder.CreateVector(cost_figures);
  const auto entry_text =
      entry_name.empty() ? flatbuffers::Offset<flatbuffers::String>() : builder.CreateString(entry_name);
  std::vector<flatbuffers::Offset<fb::Model>> entry_rows;
  for (const ModelBuilder& entry : entries) entry_rows.push_back(entry.table(builder, {}));
  const auto all_entries = entries.empty() ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Model>>>()
                                           : builder.CreateVector(entry_rows);
  const auto loop_conditions = batch_loop_conditions.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint32_t>>()
                                                             : builder.CreateVector(batch_loop_conditions);
  return fb::CreateModel(builder, format_version, producer, name, target_text, feature_list, tec_count, section_list,
                         expression_list, symbol_list, tensor_list, input_list, output_list, kernel_list, argument_list,
                         wait_list, program_list, strings_list, origin_list, false, loop_list, call_list, all_bodies,
                         backend_text, description_text, property_list, tensor_lists, costs, text_list, pool, 1,
                         entry_text, all_entries, host_part, work, loop_conditions);
}

std::vector<std::byte> ModelBuilder::build() const {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<SectionRow> all_sections = sections;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].tir.empty()) continue;
    const auto bytes = as_bytes(kernels[i].tir);
    all_sections.push_back({fb::SectionKind::kTir, static_cast<uint32_t>(i), {bytes.begin(), bytes.end()}});
  }
  std::vector<std::byte> blobs;
  std::vector<flatbuffers::Offset<fb::Section>> section_rows;
  for (const SectionRow& section : all_sections) {
    blobs.resize((blobs.size() + 63) / 64 * 64);
    const Hash128 hash = hash_bytes(section.bytes);
    section_rows.push_back(fb::CreateSection(builder, section.kind, section.index, blobs.size(), section.bytes.size(),
                                             hash.high, hash.low));
    blobs.insert(blobs.end(), section.bytes.begin(), section.bytes.end());
  }
  builder.FinishSizePrefixed(table(builder, section_rows), fb::ModelIdentifier());

  const auto* root = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  std::vector<std::byte> file(root, root + builder.GetSize());
  const size_t root_size = file.size();
  file.resize((file.size() + 63) / 64 * 64);
  file.insert(file.end(), blobs.begin(), blobs.end());
  const auto seal = make_seal(std::span(file).first(root_size), file.size() + kSealBytes);
  file.insert(file.end(), seal.begin(), seal.end());
  return file;
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

const std::vector<std::byte>& compile_module(const std::string& c_text) {
  static std::map<std::string, std::vector<std::byte>> compiled;
  auto& module = compiled[c_text];
  if (!module.empty()) return module;
  std::string folder = ::testing::TempDir() + "aipu_module_XXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_TRUE(write_file_atomically(folder + "/k.c", std::string_view(c_text)).ok());
  const char* compiler = std::getenv("CC");
#ifdef __SANITIZE_THREAD__
  const std::string flags = " -O1 -g1 -fsanitize=thread";  // or the sanitizer would not see what kernels do
#else
  const std::string flags = " -O1";
#endif
  const std::string command = std::string(compiler == nullptr ? "cc" : compiler) + flags +
                              " -fPIC -shared -I" AIPU_SOURCE_DIR " -o " + folder + "/k.so " + folder + "/k.c";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  auto file = MappedFile::open(folder + "/k.so");
  EXPECT_TRUE(file.ok());
  if (file.ok()) module.assign(file->bytes().begin(), file->bytes().end());
  for (const char* name : {"/k.c", "/k.so"}) ::unlink((folder + name).c_str());
  ::rmdir(folder.c_str());
  return module;
}

}  // namespace aipu::test
