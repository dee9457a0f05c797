#include <fmt/format.h>

#include <algorithm>

#include "aipu_generated.h"
#include "gbuilder/file/encode.h"
#include "runtime/base/seal.h"
#include "runtime/base/signature_block.h"

namespace aipu::gbuilder {

namespace {

std::string text(const flatbuffers::String* string) { return string == nullptr ? std::string() : string->str(); }

// FlatBuffers vectors may be absent; fn(i, item) for those that are there.
template <typename T, typename Fn>
void each(const flatbuffers::Vector<T>* vector, Fn fn) {
  if (vector == nullptr) return;
  for (uint32_t i = 0; i < vector->size(); ++i) fn(vector->Get(i));
}

template <typename T>
uint32_t size_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

class Decoder {
 public:
  Decoder(const fb::Model& model, std::span<const std::byte> blobs, bool is_body = false)
      : model_(model), blobs_(blobs) {
    plan_.is_body = is_body;
  }

  Result<DecodedModel> run() {
    result_.entry_name = text(model_.entry_name() != nullptr ? model_.entry_name() : model_.model_name());
    result_.producer = text(model_.producer());
    result_.backend = text(model_.backend());
    if (model_.cost_figures() != nullptr)
      result_.cost_figures.assign(model_.cost_figures()->begin(), model_.cost_figures()->end());
    plan_.model_name = text(model_.model_name());
    plan_.target = text(model_.target());
    plan_.fast_math = model_.fast_math();
    plan_.description = text(model_.description());
    each(model_.properties(),
         [&](const fb::Property* p) { plan_.properties.emplace_back(text(p->key()), text(p->value())); });
    each(model_.tensor_lists(), [&](const fb::TensorList* list) {
      plan_.lists.push_back({text(list->name()), list->is_input(), static_cast<uint8_t>(list->kind()), list->absent(),
                             list->first(), list->count()});
    });
    plan_.tec_count = model_.tec_count();
    plan_.core_count = model_.core_count();
    each(model_.required_cpu_features(), [&](const auto* s) { result_.required_cpu_features.push_back(text(s)); });
    if (const fb::HostPart* part = model_.host_part()) {
      plan_.host_target = text(part->target());
      plan_.first_host_kernel = part->first_kernel();
      result_.host_backend = text(part->backend());
      auto& features = result_.required_cpu_features;
      each(part->required_cpu_features(), [&](const auto* s) {
        if (std::find(features.begin(), features.end(), text(s)) == features.end()) features.push_back(text(s));
      });
    }
    each(model_.strings(), [&](const auto* s) { plan_.strings.push_back(text(s)); });
    each(model_.origins(), [&](const auto* s) { plan_.origins.push_back(text(s)); });
    AIPU_RETURN_IF_ERROR(read_sections());
    AIPU_RETURN_IF_ERROR(read_expressions());
    each(model_.symbols(), [&](const fb::Symbol* s) {
      plan_.symbols.push_back({.name = text(s->name()),
                               .kind = static_cast<SymbolKind>(s->kind()),
                               .tensor = s->tensor(),
                               .index = s->index()});
    });
    AIPU_RETURN_IF_ERROR(read_tensors());
    each(model_.inputs(), [&](uint32_t t) { plan_.inputs.push_back(t); });
    each(model_.outputs(), [&](uint32_t t) { plan_.outputs.push_back(t); });
    each(model_.kernels(), [&](const fb::Kernel* k) { read_kernel(*k); });
    if (model_.programs() != nullptr) {
      for (uint32_t p = 0; p < model_.programs()->size(); ++p)
        AIPU_RETURN_IF_ERROR(read_program(*model_.programs()->Get(p)));
    }
    if (model_.host_work() != nullptr) AIPU_RETURN_IF_ERROR(read_host_work(*model_.host_work()));
    each(model_.batch_loops(), [&](const fb::BatchLoop* loop) {
      const size_t i = plan_.batch_loops.size();
      plan_.batch_loops.push_back({loop->first(), loop->last(), loop->symbol(),
                                   i < size_of(model_.batch_loop_conditions())
                                       ? model_.batch_loop_conditions()->Get(static_cast<uint32_t>(i))
                                       : kNone});
    });
    AIPU_RETURN_IF_ERROR(read_calls());
    each(model_.text_calls(), [&](const fb::TextCall* call) { read_text_call(*call); });
    each(model_.string_pool(), [&](const flatbuffers::String* string) { plan_.string_pool.push_back(text(string)); });
    if (model_.bodies() != nullptr) {
      for (uint32_t i = 0; i < model_.bodies()->size(); ++i) {
        // Nesting is bounded by the verifier of the tables.
        AIPU_ASSIGN_OR_RETURN(DecodedModel body, Decoder(*model_.bodies()->Get(i), blobs_, true).run());
        plan_.bodies.push_back(std::move(body.plan));
      }
    }
    if (model_.entries() != nullptr) {
      for (const fb::Model* entry : *model_.entries()) {
        AIPU_ASSIGN_OR_RETURN(DecodedModel decoded, Decoder(*entry, blobs_).run());
        decoded.plan.host_target = plan_.host_target;
        decoded.plan.first_host_kernel = plan_.first_host_kernel;
        result_.more_entries.push_back(std::move(decoded));
      }
    }
    result_.plan = std::move(plan_);
    return std::move(result_);
  }

 private:
  Status read_sections() {
    Status status;
    each(model_.sections(), [&](const fb::Section* s) {
      if (s->kind() > fb::SectionKind::MAX || s->offset_bytes() > blobs_.size() ||
          s->size_bytes() > blobs_.size() - s->offset_bytes()) {
        status = invalid_model("a section is outside of the file");
        return;
      }
      const auto bytes = blobs_.subspan(s->offset_bytes(), s->size_bytes());
      result_.sections.push_back(
          {static_cast<SectionKind>(s->kind()), s->index(), s->offset_bytes(), bytes, {s->hash_high(), s->hash_low()}});
      if (s->kind() == fb::SectionKind::kConstants) plan_.constant_bytes = s->size_bytes();
    });
    return status;
  }

  Status read_expressions() {
    bool good = true;
    each(model_.expressions(), [&](const fb::Expression* e) {
      const Expression row{static_cast<ExpressionOp>(e->op()), e->a(), e->b(), e->c(), e->value()};
      good = good && plan_.expressions.append_decoded(row, size_of(model_.symbols()));
    });
    return good ? Status() : invalid_model("the expression table refers to rows that are not there");
  }

  Status read_tensors() {
    bool good = true;
    each(model_.tensors(), [&](const fb::Tensor* t) {
      good = good && t->kind() <= fb::TensorKind::MAX && t->dtype() < kDTypeCount && t->memory() <= fb::Memory::MAX;
      PlanTensor tensor;
      tensor.name = text(t->name());
      tensor.dtype = static_cast<DType>(t->dtype());
      each(t->shape(), [&](uint32_t extent) { tensor.shape.push_back(extent); });
      tensor.size_bytes = t->size_bytes();
      tensor.kind = static_cast<TensorKind>(t->kind());
      tensor.offset_bytes = t->offset_bytes();
      tensor.base = t->base();
      tensor.view_offset = t->view_offset();
      tensor.first_use = t->first_use();
      tensor.last_use = t->last_use();
      tensor.in_place_of = t->in_place_of();
      tensor.workspace = t->workspace();
      tensor.memory = static_cast<Memory>(t->memory());
      plan_.tensors.push_back(std::move(tensor));
    });
    return good ? Status() : invalid_model("a tensor has an unknown kind or dtype");
  }

  void read_kernel(const fb::Kernel& k) {
    PlanKernel kernel;
    kernel.symbol = text(k.name());
    kernel.argument_count = k.argument_count();
    each(k.pointer_arguments(), [&](uint8_t pointer) { kernel.pointer_arguments.push_back(pointer != 0); });
    each(k.argument_bits(), [&](uint8_t bits) { kernel.argument_bits.push_back(bits); });
    each(k.signed_arguments(), [&](uint8_t is_signed) { kernel.signed_arguments.push_back(is_signed != 0); });
    each(k.addressable_bytes(), [&](uint64_t bytes) { kernel.addressable_bytes.push_back(bytes); });
    kernel.lsram_bytes = k.lsram_bytes();
    kernel.shared_bytes = k.shared_bytes();
    kernel.uses_barrier = k.uses_barrier();
    kernel.reports_faults = k.reports_faults();
    kernel.source = text(k.source());
    plan_.kernels.push_back(std::move(kernel));
  }

  // The part of a command that all engines share; false if its waits are outside of their table.
  template <typename Record>
  bool read_common(const Record& record, Command* command) const {
    command->sequence = record.sequence();
    command->origin = record.origin();
    if (uint64_t{record.first_wait()} + record.wait_count() > size_of(model_.waits())) return false;
    for (uint32_t i = 0; i < record.wait_count(); ++i) {
      const fb::Wait* wait = model_.waits()->Get(record.first_wait() + i);
      command->waits.push_back({static_cast<Engine>(wait->engine()), wait->command()});
    }
    return true;
  }

  bool read_tec(const fb::TecCommand& record, Command* command) const {
    TecBody body;
    body.kernel = record.kernel();
    body.max_tecs = record.max_tecs();
    if (uint64_t{record.first_argument()} + record.argument_count() > size_of(model_.arguments())) return false;
    for (uint32_t i = 0; i < record.argument_count(); ++i) {
      const fb::Argument* argument = model_.arguments()->Get(record.first_argument() + i);
      if (argument->kind() > fb::ArgumentKind::MAX) return false;
      body.arguments.push_back({static_cast<PlanArgument::Kind>(argument->kind()), argument->writes(),
                                argument->index(), argument->offset(), argument->word()});
    }
    command->body = std::move(body);
    return read_common(record, command);
  }

  Status read_calls() {
    bool good = true;
    each(model_.calls(), [&](const fb::Call* c) {
      PlanCall call;
      each(c->bodies(), [&](uint32_t body) { call.bodies.push_back(body); });
      call.condition = c->condition();
      call.trip_count = c->trip_count();
      each(c->inputs(), [&](uint32_t tensor) { call.inputs.push_back(tensor); });
      call.states = c->states();
      call.sequences = c->sequences();
      each(c->backward_sequences(), [&](uint8_t backward) { call.backward_sequences.push_back(backward != 0); });
      each(c->backward_stacks(), [&](uint8_t backward) { call.backward_stacks.push_back(backward != 0); });
      each(c->given(), [&](const fb::Given* given) {
        std::vector<ExpressionId>& list = call.given.emplace_back();
        each(given->expressions(), [&](uint32_t expression) { list.push_back(expression); });
      });
      call.extents = c->extents();
      const uint32_t bodies = size_of(model_.bodies());
      good = good && std::all_of(call.bodies.begin(), call.bodies.end(), [&](uint32_t body) { return body < bodies; });
      plan_.calls.push_back(std::move(call));
    });
    return good ? Status() : invalid_model("a call runs a body that is not there");
  }

  void read_text_call(const fb::TextCall& c) {
    PlanTextCall call;
    call.library = static_cast<OperationLibrary>(c.library());
    call.operation = text(c.operation());
    each(c.texts(), [&](const flatbuffers::String* given) { call.texts.push_back(text(given)); });
    each(c.numbers(), [&](int64_t number) { call.numbers.push_back(number); });
    each(c.inputs(), [&](uint32_t tensor) { call.inputs.push_back(tensor); });
    each(c.outputs(), [&](uint32_t tensor) { call.outputs.push_back(tensor); });
    call.needed = c.needed();
    plan_.text_calls.push_back(std::move(call));
  }

  // What the host does is read as a program is, and kept by row.
  Status read_host_work(const fb::Program& work) {
    AIPU_RETURN_IF_ERROR(read_program(work));
    std::vector<Command>& commands = plan_.programs.back().commands;
    std::stable_sort(commands.begin(), commands.end(), [](const Command& a, const Command& b) {
      return std::pair(a.engine(), a.index) < std::pair(b.engine(), b.index);
    });
    for (Command& command : commands) {
      if (auto* tec = std::get_if<TecBody>(&command.body)) plan_.host_launches.push_back(std::move(*tec));
      if (auto* dma = std::get_if<DmaBody>(&command.body)) plan_.host_copies.push_back(*dma);
    }
    plan_.programs.pop_back();
    return {};
  }

  Status read_program(const fb::Program& program) {
    Program result;
    bool good = true;
    uint32_t index = 0;
    const auto add = [&](Command command) {
      command.index = index++;
      result.commands.push_back(std::move(command));
    };
    each(program.tec(), [&](const fb::TecCommand* record) {
      Command command;
      good = good && read_tec(*record, &command);
      if (index < size_of(program.tec_operations()))
        std::get<TecBody>(command.body).operations = program.tec_operations()->Get(index);
      if (index < size_of(program.tec_needed()))
        std::get<TecBody>(command.body).needed = program.tec_needed()->Get(index);
      add(std::move(command));
    });
    each(program.faults(), [&](const fb::Fault* r) {
      good = good && r->command() < index;
      if (good)
        std::get<TecBody>(result.commands[r->command()].body)
            .faults.push_back({r->code(), r->message(), r->origin(), r->needed()});
    });
    index = 0;
    each(program.dma(), [&](const fb::DmaCommand* r) {
      Command command;
      command.body = DmaBody{r->destination(), r->source(), r->destination_offset(), r->source_offset(),
                             r->width(),       r->times(),  r->destination_stride(), r->source_stride()};
      good = good && read_common(*r, &command);
      add(std::move(command));
    });
    index = 0;
    each(program.host(), [&](const fb::HostCommand* r) {
      Command command;
      command.body = HostBody{static_cast<HostOp>(r->op()), r->a(), r->b(), r->c(), r->d()};
      good = good && r->op() <= fb::HostOp::MAX && read_common(*r, &command);
      add(std::move(command));
    });
    if (!good) return invalid_model("a command refers to arguments or waits that are not there");
    std::stable_sort(result.commands.begin(), result.commands.end(),
                     [](const Command& a, const Command& b) { return a.sequence < b.sequence; });
    plan_.programs.push_back(std::move(result));
    return {};
  }

  const fb::Model& model_;
  std::span<const std::byte> blobs_;
  DecodedModel result_;
  Plan plan_;
};

// Bodies have the kernels of the outermost plan, and its targets.
void share_kernels(Plan* plan) {
  for (Plan& body : plan->bodies) {
    body.kernels = plan->kernels;
    body.first_host_kernel = plan->first_host_kernel;
    share_kernels(&body);
  }
}

// And so have the other models of the file, which have its constants too.
void share_with_entries(DecodedModel* model) {
  share_kernels(&model->plan);
  for (DecodedModel& entry : model->more_entries) {
    entry.plan.kernels = model->plan.kernels;
    entry.plan.constant_bytes = model->plan.constant_bytes;
    share_with_entries(&entry);
  }
}

}  // namespace

const DecodedSection* DecodedModel::section(SectionKind kind, uint32_t index) const {
  for (const DecodedSection& section : sections) {
    if (section.kind == kind && section.index == index) return &section;
  }
  return nullptr;
}

std::vector<const DecodedModel*> DecodedModel::entries() const {
  std::vector<const DecodedModel*> all = {this};
  for (const DecodedModel& entry : more_entries) all.push_back(&entry);
  return all;
}

Result<DecodedModel> decode(std::span<const std::byte> file) {
  const auto bytes = without_signature(file);
  // The size prefix is part of what the verifier looks at; the root ends where it says.
  constexpr size_t kPrefix = sizeof(flatbuffers::uoffset_t);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 64 + kSealBytes) return invalid_model("not an aipu.bin: too short");
  const uint64_t root_bytes = uint64_t{flatbuffers::ReadScalar<flatbuffers::uoffset_t>(data)} + kPrefix;
  if (!flatbuffers::BufferHasIdentifier(data, fb::ModelIdentifier(), true))
    return invalid_model("not an aipu.bin: the identifier is missing");
  if (root_bytes > bytes.size() - kSealBytes) return invalid_model("the file ends before its tables do");
  constexpr uint32_t kMostNested = 17;  // as the runtime takes them
  flatbuffers::Verifier verifier(data, root_bytes, kMostNested, 10'000'000);
  if (!fb::VerifySizePrefixedModelBuffer(verifier)) return invalid_model("the tables of the file are damaged");
  const uint64_t blobs_begin = std::min<uint64_t>((root_bytes + 63) / 64 * 64, bytes.size() - kSealBytes);
  const auto blobs = bytes.subspan(blobs_begin, bytes.size() - kSealBytes - blobs_begin);
  AIPU_ASSIGN_OR_RETURN(DecodedModel model, Decoder(*fb::GetSizePrefixedModel(data), blobs).run());
  share_with_entries(&model);
  if (const auto block = signature_block(file); !block.empty()) {
    for (const std::byte byte : block.first(kSignerKeyBytes))
      model.signer += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return model;
}

}  // namespace aipu::gbuilder
