#include "runtime/loader/check.h"

#include <algorithm>

#include "runtime/loader/expressions.h"

namespace aipu::runtime {
namespace {

template <typename... Pieces>
Status bad(const Pieces&... pieces) {
  return invalid_model(str_cat(pieces...));
}

// What the checks of one command have in common.
struct CommandPlace {
  uint32_t program;
  fb::Engine engine;
  uint32_t index;
  uint32_t sequence;
  uint32_t stage;

  std::string text() const {
    return str_cat("program ", program, ", ",
                   engine == fb::Engine::kTec   ? "tec"
                   : engine == fb::Engine::kDma ? "dma"
                                                : "host",
                   " command ", index);
  }
};

// The command that runs a call.
struct CallCommand {
  fb::HostOp op = fb::HostOp::kLoop;
  CommandPlace place = {};
  bool exists = false;
};

class Checker {
 public:
  // A body has a caller.
  Checker(const ModelFile& file, const fb::Model& model, bool is_body)
      : file_(file), model_(model), is_body_(is_body) {}

  Result<ModelTables> run(Meter* meter) {
    if (meter != nullptr) AIPU_RETURN_IF_ERROR(meter->take(bytes_of_tables()));
    for (const auto check :
         {&Checker::check_expressions, &Checker::check_symbols, &Checker::check_tensors, &Checker::check_interface,
          &Checker::check_kernels, &Checker::check_sequences, &Checker::find_stages, &Checker::check_constants,
          &Checker::check_views, &Checker::check_commands, &Checker::check_program_tree, &Checker::schedule,
          &Checker::check_batch_loops}) {
      AIPU_RETURN_IF_ERROR((this->*check)());
      if (meter != nullptr) AIPU_RETURN_IF_ERROR(meter->check_time());
    }
    // Nesting is bounded by the verifier of the tables.
    const auto bodies = items(model_.bodies());
    for (uint32_t i = 0; i < bodies.size(); ++i) {
      auto body = Checker(file_, *bodies[i], true).run(meter);
      if (!body.ok()) return std::move(body).status().context(str_cat("body ", i));
      tables_.bodies.push_back(std::move(*body));
    }
    AIPU_RETURN_IF_ERROR(check_calls());
    return std::move(tables_);
  }

 private:
  Status check_expressions();
  Status check_symbols();
  Status check_tensors();
  Status check_interface();
  Status check_kernels();
  Status check_sequences();
  Status find_stages();
  Status check_constants();
  Status check_views();
  Status check_commands();
  Status check_program_tree();
  Status schedule();
  int64_t bytes_of_tables() const;
  Status check_batch_loops();

  Status check_waits(const CommandPlace& place, uint32_t first, uint32_t count);
  Status check_expression_use(const CommandPlace& place, uint32_t expression) const;
  Status check_tensor_use(const CommandPlace& place, uint32_t tensor, bool writes) const;
  Status check_tec(const CommandPlace& place, const fb::TecCommand& command);
  Status check_dma(const CommandPlace& place, const fb::DmaCommand& command);
  Status check_host(const CommandPlace& place, const fb::HostCommand& command);
  Status check_faults(uint32_t program) const;
  Status check_origin(const CommandPlace& place, uint32_t origin) const;

  bool expression_exists(uint32_t id) const { return id < expression_count_; }
  uint32_t stage_of_sequence(uint32_t sequence) const {
    return static_cast<uint32_t>(std::lower_bound(stage_starts_.begin(), stage_starts_.end(), sequence) -
                                 stage_starts_.begin());
  }

  Status check_calls();
  Status check_call(uint32_t index, const CallCommand& command);
  Status check_call_input(const CommandPlace& place, uint32_t tensor, const fb::Model& body, uint32_t input,
                          uint32_t missing_axes) const;

  const ModelFile& file_;
  const fb::Model& model_;
  const bool is_body_;
  std::vector<CallCommand> call_commands_;  // per call
  struct Fetch {
    CommandPlace place;
    uint32_t call, result, tensor;
  };
  std::vector<Fetch> fetches_;
  std::vector<bool> body_is_used_;
  ModelTables tables_;
  uint32_t expression_count_ = 0;
  uint32_t tensor_count_ = 0;
  // Each command has rows of its own, or a small file could describe commands of any total size.
  uint64_t waits_used_ = 0, arguments_used_ = 0;
  std::vector<uint32_t> stage_starts_;  // sequence numbers of the BindSymbols commands, ascending
  struct Call {
    uint32_t sequence, caller, callee;
  };
  std::vector<Call> calls_;
};

std::string tensor_text(const fb::Model& model, uint32_t tensor) {
  return str_cat("tensor ", tensor, " '", text(items(model.tensors())[tensor]->name()), "'");
}

Status Checker::check_expressions() {
  const auto rows = items(model_.expressions());
  const uint32_t symbols = items(model_.symbols()).size();
  expression_count_ = rows.size();
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const fb::Expression& row = *rows[i];
    if (row.op() > fb::ExpressionOp::MAX)
      return bad("expression ", i, " has the unknown op ", static_cast<int>(row.op()));
    if (row.op() == fb::ExpressionOp::kConstant) continue;
    if (row.op() == fb::ExpressionOp::kSymbol) {
      if (row.a() >= symbols) return bad("expression ", i, " refers to symbol ", row.a(), " of ", symbols);
      continue;
    }
    const bool has_third = row.op() == fb::ExpressionOp::kSelect;
    if (row.a() >= i || row.b() >= i || (has_third && row.c() >= i))
      return bad("expression ", i, " has an operand that is not an earlier expression");
  }
  return {};
}

Status Checker::check_symbols() {
  const auto symbols = items(model_.symbols());
  const auto tensors = items(model_.tensors());
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    const fb::Symbol& symbol = *symbols[i];
    if (symbol.kind() > fb::SymbolKind::MAX)
      return bad("symbol ", i, " has the unknown kind ", static_cast<int>(symbol.kind()));
    if (symbol.tensor() >= tensors.size())
      return bad("symbol ", i, " refers to tensor ", symbol.tensor(), " of ", tensors.size());
    const fb::Tensor& tensor = *tensors[symbol.tensor()];
    if (symbol.kind() == fb::SymbolKind::kInputExtent) {
      if (tensor.kind() != fb::TensorKind::kInput)
        return bad("symbol ", i, " is an extent of a tensor that is not an input");
      if (symbol.index() >= items(tensor.shape()).size())
        return bad("symbol ", i, " is extent ", symbol.index(), " of a tensor of rank ", items(tensor.shape()).size());
    } else if (symbol.kind() == fb::SymbolKind::kGiven) {
      if (!is_body_ || symbol.tensor() != 0) return bad("symbol ", i, " is given by a caller, of which there is none");
    } else if (symbol.kind() == fb::SymbolKind::kTecCount) {
      if (symbol.tensor() != 0 || symbol.index() != 0)
        return bad("symbol ", i, " is the number of TECs, but refers to a tensor");
    } else {
      const auto dtype = static_cast<DType>(tensor.dtype());
      if (tensor.dtype() >= kDTypeCount || !(is_integer(dtype) || is_bool(dtype)))
        return bad("symbol ", i, " is an element of a tensor that has no integers");
    }
  }
  return {};
}

Status Checker::check_tensors() {
  const auto tensors = items(model_.tensors());
  tensor_count_ = tensors.size();
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    const fb::Tensor& tensor = *tensors[i];
    if (tensor.dtype() == 0 || tensor.dtype() >= kDTypeCount)
      return bad(tensor_text(model_, i), " has the unknown dtype ", static_cast<int>(tensor.dtype()));
    if (static_cast<DType>(tensor.dtype()) == DType::kString)
      return unsupported(str_cat(tensor_text(model_, i), " holds strings, which this runtime cannot do"));
    if (tensor.kind() > fb::TensorKind::MAX)
      return bad(tensor_text(model_, i), " has the unknown kind ", static_cast<int>(tensor.kind()));
    const auto shape = items(tensor.shape());
    if (shape.size() > kMaxRank) return bad(tensor_text(model_, i), " has rank ", shape.size(), "; at most ", kMaxRank);
    for (uint32_t k = 0; k < shape.size(); ++k) {
      if (!expression_exists(shape[k]))
        return bad(tensor_text(model_, i), ": extent ", k, " is expression ", shape[k], " of ", expression_count_);
    }
    if (!expression_exists(tensor.size_bytes()))
      return bad(tensor_text(model_, i), ": its size is expression ", tensor.size_bytes(), " of ", expression_count_);
    if (tensor.kind() == fb::TensorKind::kView) {
      if (tensor.base() >= tensor_count_)
        return bad(tensor_text(model_, i), " is a view of tensor ", tensor.base(), " of ", tensor_count_);
      if (!expression_exists(tensor.view_offset()))
        return bad(tensor_text(model_, i), ": its offset is expression ", tensor.view_offset(), " of ",
                   expression_count_);
    }
    if (tensor.kind() == fb::TensorKind::kArena) {
      if (tensor.first_use() > tensor.last_use())
        return bad(tensor_text(model_, i), " is used last (", tensor.last_use(), ") before it is used first (",
                   tensor.first_use(), ")");
      if (tensor.in_place_of() != kNone &&
          (tensor.in_place_of() >= tensor_count_ || tensors[tensor.in_place_of()]->kind() != fb::TensorKind::kArena)) {
        return bad(tensor_text(model_, i), " is in place of tensor ", tensor.in_place_of(),
                   ", which is no arena tensor");
      }
    }
  }

  // Roots through views; a chain that is longer than there are tensors has a cycle. Chains are followed once per
  // tensor, with what is known already.
  tables_.tensor_root.assign(tensor_count_, kNone);
  std::vector<uint32_t> chain;
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    uint32_t at = i;
    chain.clear();
    while (tables_.tensor_root[at] == kNone && tensors[at]->kind() == fb::TensorKind::kView) {
      chain.push_back(at);
      if (chain.size() > tensor_count_) return bad(tensor_text(model_, i), " is a view of itself");
      at = tensors[at]->base();
    }
    const uint32_t root = tables_.tensor_root[at] == kNone ? at : tables_.tensor_root[at];
    tables_.tensor_root[at] = root;
    for (const uint32_t view : chain) tables_.tensor_root[view] = root;
  }
  return {};
}

Status Checker::check_interface() {
  const auto tensors = items(model_.tensors());
  const auto check = [&](auto list, fb::TensorKind kind, std::string_view what,
                         std::vector<uint32_t>& position_of) -> Status {
    position_of.assign(tensor_count_, kNone);
    for (uint32_t i = 0; i < list.size(); ++i) {
      if (list[i] >= tensor_count_) return bad(what, " ", i, " is tensor ", list[i], " of ", tensor_count_);
      if (tensors[list[i]]->kind() != kind)
        return bad(what, " ", i, " is ", tensor_text(model_, list[i]), ", which is not of the kind ", what);
      if (position_of[list[i]] != kNone) return bad(tensor_text(model_, list[i]), " is listed twice as ", what);
      position_of[list[i]] = i;
    }
    for (uint32_t i = 0; i < tensor_count_; ++i) {
      if (tensors[i]->kind() == kind && position_of[i] == kNone)
        return bad(tensor_text(model_, i), " is of the kind ", what, ", but is not listed as one");
    }
    return {};
  };
  AIPU_RETURN_IF_ERROR(check(items(model_.inputs()), fb::TensorKind::kInput, "input", tables_.input_of_tensor));
  return check(items(model_.outputs()), fb::TensorKind::kOutput, "output", tables_.output_of_tensor);
}

Status Checker::check_kernels() {
  const auto kernels = items(model_.kernels());
  if (is_body_ && (kernels.size() != 0 || items(model_.sections()).size() != 0))
    return bad("it has kernels or sections of its own");
  if (model_.tec_count() > kMaxTecs) return bad("the model wants ", model_.tec_count(), " TECs; at most ", kMaxTecs);
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    const fb::Kernel& kernel = *kernels[i];
    const std::string name = str_cat("kernel ", i, " '", text(kernel.name()), "'");
    if (text(kernel.name()).empty()) return bad("kernel ", i, " has no name");
    if (items(kernel.pointer_arguments()).size() != kernel.argument_count()) {
      return bad(name, " has ", kernel.argument_count(), " arguments, but pointer flags for ",
                 items(kernel.pointer_arguments()).size());
    }
    const auto bits = items(kernel.argument_bits());
    if (kernel.argument_bits() != nullptr && bits.size() != kernel.argument_count()) {
      return bad(name, " has ", kernel.argument_count(), " arguments, but widths for ", bits.size());
    }
    for (uint32_t k = 0; k < bits.size(); ++k) {
      if (bits[k] > 64) return bad(name, ": argument ", k, " is ", static_cast<int>(bits[k]), " bits wide");
    }
    const size_t reaches = items(kernel.addressable_bytes()).size();
    if (kernel.addressable_bytes() != nullptr && reaches != kernel.argument_count())
      return bad(name, " has ", kernel.argument_count(), " arguments, but addressable bytes for ", reaches);
    if (kernel.signed_arguments() != nullptr && items(kernel.signed_arguments()).size() != kernel.argument_count())
      return bad(name, " has ", kernel.argument_count(), " arguments, but signs for ",
                 items(kernel.signed_arguments()).size());
    if (kernel.lsram_bytes() > (16u << 20) || kernel.shared_bytes() > (64u << 20)) {
      return bad(name, " wants ", kernel.lsram_bytes(), " bytes of local and ", kernel.shared_bytes(),
                 " bytes of shared memory");
    }
  }
  const auto sections = items(model_.sections());
  for (uint32_t i = 0; i < sections.size(); ++i) {
    if (sections[i]->kind() == fb::SectionKind::kTir && sections[i]->index() >= kernels.size()) {
      return bad("section ", i, " is the TIR of kernel ", sections[i]->index(), " of ", kernels.size());
    }
  }
  return {};
}

Status Checker::check_sequences() {
  const auto programs = items(model_.programs());
  if (programs.size() == 0) return bad("the model has no program");
  std::vector<uint32_t> all;
  const auto collect = [&](auto buffer, uint32_t program, std::string_view engine) -> Status {
    for (uint32_t i = 0; i < buffer.size(); ++i) {
      const uint32_t sequence = buffer[i]->sequence();
      if (sequence == kNone) return bad("program ", program, ", ", engine, " command ", i, " has no sequence number");
      if (i > 0 && sequence <= buffer[i - 1]->sequence())
        return bad("program ", program, ", ", engine, " command ", i, " is out of sequence");
      all.push_back(sequence);
    }
    return {};
  };
  for (uint32_t p = 0; p < programs.size(); ++p) {
    AIPU_RETURN_IF_ERROR(collect(items(programs[p]->tec()), p, "tec"));
    AIPU_RETURN_IF_ERROR(collect(items(programs[p]->dma()), p, "dma"));
    AIPU_RETURN_IF_ERROR(collect(items(programs[p]->host()), p, "host"));
  }
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice != all.end()) return bad("two commands have the sequence number ", *twice);
  return {};
}

Status Checker::find_stages() {
  const auto programs = items(model_.programs());
  const auto symbols = items(model_.symbols());
  struct Bind {
    uint32_t sequence, first, count;
  };
  std::vector<Bind> binds;
  for (uint32_t p = 0; p < programs.size(); ++p) {
    const auto host = items(programs[p]->host());
    for (uint32_t i = 0; i < host.size(); ++i) {
      const fb::HostCommand& command = *host[i];
      if (command.op() != fb::HostOp::kBindSymbols) continue;
      if (command.a() > symbols.size() || command.b() > symbols.size() - command.a() || command.b() == 0) {
        return bad("program ", p, ", host command ", i, " binds ", command.b(), " symbols from ", command.a(),
                   " on, of ", symbols.size());
      }
      binds.push_back({command.sequence(), command.a(), command.b()});
    }
  }
  std::sort(binds.begin(), binds.end(), [](const Bind& a, const Bind& b) { return a.sequence < b.sequence; });
  std::vector<uint32_t> symbol_stage(symbols.size(), kNone);
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i]->kind() != fb::SymbolKind::kTensorElement) symbol_stage[i] = 0;
  }
  for (const Bind& bind : binds) {
    stage_starts_.push_back(bind.sequence);
    for (uint32_t s = bind.first; s < bind.first + bind.count; ++s) {
      if (symbol_stage[s] != kNone) return bad("symbol ", s, " '", text(symbols[s]->name()), "' is bound twice");
      symbol_stage[s] = static_cast<uint32_t>(stage_starts_.size());
    }
  }
  tables_.stage_count = static_cast<uint32_t>(stage_starts_.size()) + 1;
  tables_.stage_symbols.resize(tables_.stage_count);
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    if (symbol_stage[i] != kNone) tables_.stage_symbols[symbol_stage[i]].push_back(i);
  }

  const auto rows = items(model_.expressions());
  auto& stage = tables_.expression_stage;
  stage.assign(rows.size(), 0);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const fb::Expression& row = *rows[i];
    switch (row.op()) {
      case fb::ExpressionOp::kConstant:
        break;
      case fb::ExpressionOp::kSymbol:
        stage[i] = symbol_stage[row.a()];
        if (stage[i] == kNone) return bad("symbol ", row.a(), " '", text(symbols[row.a()]->name()), "' is never bound");
        break;
      case fb::ExpressionOp::kSelect:
        stage[i] = std::max({stage[row.a()], stage[row.b()], stage[row.c()]});
        break;
      default:
        stage[i] = std::max(stage[row.a()], stage[row.b()]);
        break;
    }
  }
  return {};
}

Status Checker::check_constants() {
  const auto tensors = items(model_.tensors());
  // Without symbols exactly the constant expressions have values.
  ExpressionValues values;
  const std::vector<SymbolValue> unbound(items(model_.symbols()).size());
  values.evaluate(model_, unbound);
  const uint64_t section_size = file_.section(fb::SectionKind::kConstants).size();
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    const fb::Tensor& tensor = *tensors[i];
    if (tensor.kind() != fb::TensorKind::kConstant) continue;
    const auto shape = items(tensor.shape());
    for (uint32_t k = 0; k < shape.size(); ++k) {
      if (!values.has_value(shape[k]))
        return bad("constant ", tensor_text(model_, i), ": extent ", k, " is not a constant expression");
    }
    const auto size = values.get(tensor.size_bytes());
    if (!size.ok() || *size < 0)
      return bad("constant ", tensor_text(model_, i), ": its size is not a constant expression");
    if (tensor.offset_bytes() % 64 != 0) return bad("constant ", tensor_text(model_, i), " is not 64-byte aligned");
    if (tensor.offset_bytes() > section_size || static_cast<uint64_t>(*size) > section_size - tensor.offset_bytes()) {
      return bad("constant ", tensor_text(model_, i), " is outside of the constants: ", *size, " bytes at ",
                 tensor.offset_bytes(), " of ", section_size);
    }
  }
  return {};
}

Status Checker::check_views() {
  const auto tensors = items(model_.tensors());
  auto& stage = tables_.tensor_stage;
  stage.assign(tensor_count_, 0);
  const auto own_stage = [&](const fb::Tensor& tensor) {
    uint32_t result = tables_.expression_stage[tensor.size_bytes()];
    const auto shape = items(tensor.shape());
    for (uint32_t k = 0; k < shape.size(); ++k) result = std::max(result, tables_.expression_stage[shape[k]]);
    if (tensor.kind() == fb::TensorKind::kView)
      result = std::max(result, tables_.expression_stage[tensor.view_offset()]);
    return result;
  };
  std::vector<uint32_t> own(tensor_count_);
  for (uint32_t i = 0; i < tensor_count_; ++i) own[i] = own_stage(*tensors[i]);
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    // Views of views are rare and short; a long chain in a hostile file is bounded by kMaxRank.
    uint32_t length = 0;
    stage[i] = own[i];
    for (uint32_t at = i; tensors[at]->kind() == fb::TensorKind::kView; at = tensors[at]->base()) {
      if (++length > kMaxRank)
        return bad(tensor_text(model_, i), " is a view of a view of a view ... more than ", kMaxRank, " times");
      stage[i] = std::max(stage[i], own[tensors[at]->base()]);
    }
    if (tensors[i]->kind() == fb::TensorKind::kArena && stage[i] > 0 &&
        stage_of_sequence(tensors[i]->first_use()) < stage[i]) {
      return bad(tensor_text(model_, i), " is used (", tensors[i]->first_use(), ") before its size is known");
    }
    if (tensors[i]->kind() == fb::TensorKind::kInput && stage[i] > 0)
      return bad("input ", tensor_text(model_, i), " has a size that is only known while running");
  }
  tables_.stage_tensors.resize(tables_.stage_count);
  tables_.tensor_slot.resize(tensor_count_);
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    tables_.tensor_slot[i] = static_cast<uint32_t>(tables_.stage_tensors[stage[i]].size());
    tables_.stage_tensors[stage[i]].push_back(i);
  }
  return {};
}

Status Checker::check_origin(const CommandPlace& place, uint32_t origin) const {
  if (origin != kNone && origin >= items(model_.origins()).size())
    return bad(place.text(), " has origin ", origin, " of ", items(model_.origins()).size());
  return {};
}

Status Checker::check_waits(const CommandPlace& place, uint32_t first, uint32_t count) {
  const auto waits = items(model_.waits());
  if (uint64_t{first} + count > waits.size())
    return bad(place.text(), " waits ", first, "+", count, " of ", waits.size());
  if ((waits_used_ += count) > waits.size()) return bad(place.text(), " shares its waits with other commands");
  const fb::Program& program = *items(model_.programs())[place.program];
  for (uint32_t i = first; i < first + count; ++i) {
    const fb::Wait& wait = *waits[i];
    uint32_t size = 0;
    uint32_t sequence = 0;
    const auto look_up = [&](auto buffer) {
      size = buffer.size();
      if (wait.command() < size) sequence = buffer[wait.command()]->sequence();
    };
    switch (wait.engine()) {
      case fb::Engine::kTec:
        look_up(items(program.tec()));
        break;
      case fb::Engine::kDma:
        look_up(items(program.dma()));
        break;
      case fb::Engine::kHost:
        look_up(items(program.host()));
        break;
      default:
        return bad(place.text(), " waits for the unknown engine ", static_cast<int>(wait.engine()));
    }
    if (wait.command() >= size) return bad(place.text(), " waits for command ", wait.command(), " of ", size);
    if (sequence >= place.sequence)
      return bad(place.text(), " waits for a command that comes later (", sequence, " after ", place.sequence,
                 "): a deadlock");
  }
  return {};
}

Status Checker::check_expression_use(const CommandPlace& place, uint32_t expression) const {
  if (!expression_exists(expression))
    return bad(place.text(), " uses expression ", expression, " of ", expression_count_);
  if (tables_.expression_stage[expression] > place.stage)
    return bad(place.text(), " uses expression ", expression, " before its symbols are bound");
  return {};
}

Status Checker::check_tensor_use(const CommandPlace& place, uint32_t tensor, bool writes) const {
  if (tensor >= tensor_count_) return bad(place.text(), " uses tensor ", tensor, " of ", tensor_count_);
  if (tables_.tensor_stage[tensor] > place.stage)
    return bad(place.text(), " uses ", tensor_text(model_, tensor), " before its size is known");
  const uint32_t root = tables_.tensor_root[tensor];
  const fb::Tensor& memory = *items(model_.tensors())[root];
  if (writes && (memory.kind() == fb::TensorKind::kInput || memory.kind() == fb::TensorKind::kConstant)) {
    return bad(place.text(), " writes to ", tensor_text(model_, tensor), ", which is read-only");
  }
  if (memory.kind() == fb::TensorKind::kArena &&
      (place.sequence < memory.first_use() || place.sequence > memory.last_use())) {
    return bad(place.text(), " (sequence ", place.sequence, ") uses ", tensor_text(model_, tensor),
               " outside of its lifetime ", memory.first_use(), "..", memory.last_use());
  }
  return {};
}

Status Checker::check_tec(const CommandPlace& place, const fb::TecCommand& command) {
  const auto kernels = items(file_.root().kernels());
  if (command.kernel() >= kernels.size())
    return bad(place.text(), " runs kernel ", command.kernel(), " of ", kernels.size());
  const fb::Kernel& kernel = *kernels[command.kernel()];
  const auto arguments = items(model_.arguments());
  if (command.argument_count() != kernel.argument_count()) {
    return bad(place.text(), " gives ", command.argument_count(), " arguments to kernel '", text(kernel.name()),
               "', which takes ", kernel.argument_count());
  }
  if (uint64_t{command.first_argument()} + command.argument_count() > arguments.size()) {
    return bad(place.text(), " has arguments ", command.first_argument(), "+", command.argument_count(), " of ",
               arguments.size());
  }
  if ((arguments_used_ += command.argument_count()) > arguments.size())
    return bad(place.text(), " shares its arguments with other commands");
  for (uint32_t i = 0; i < command.argument_count(); ++i) {
    const fb::Argument& argument = *arguments[command.first_argument() + i];
    const bool is_pointer = items(kernel.pointer_arguments())[i] != 0;
    if (argument.kind() > fb::ArgumentKind::MAX)
      return bad(place.text(), ": argument ", i, " has the unknown kind ", static_cast<int>(argument.kind()));
    if (is_pointer != (argument.kind() == fb::ArgumentKind::kTensor)) {
      return bad(place.text(), ": argument ", i, " of kernel '", text(kernel.name()), "' is ",
                 is_pointer ? "a pointer, but gets a number" : "a number, but gets a tensor");
    }
    if (argument.kind() == fb::ArgumentKind::kTensor) {
      AIPU_RETURN_IF_ERROR(check_tensor_use(place, argument.index(), argument.writes()));
      AIPU_RETURN_IF_ERROR(check_expression_use(place, argument.offset()));
    } else if (argument.kind() == fb::ArgumentKind::kExpression) {
      AIPU_RETURN_IF_ERROR(check_expression_use(place, argument.index()));
    }
  }
  AIPU_RETURN_IF_ERROR(check_expression_use(place, command.max_tecs()));
  AIPU_RETURN_IF_ERROR(check_waits(place, command.first_wait(), command.wait_count()));
  return check_origin(place, command.origin());
}

Status Checker::check_dma(const CommandPlace& place, const fb::DmaCommand& command) {
  AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.destination(), true));
  AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.source(), false));
  for (const uint32_t expression : {command.destination_offset(), command.source_offset(), command.width(),
                                    command.times(), command.destination_stride(), command.source_stride()}) {
    AIPU_RETURN_IF_ERROR(check_expression_use(place, expression));
  }
  AIPU_RETURN_IF_ERROR(check_waits(place, command.first_wait(), command.wait_count()));
  return check_origin(place, command.origin());
}

Status Checker::check_host(const CommandPlace& place, const fb::HostCommand& command) {
  switch (command.op()) {
    case fb::HostOp::kBindSymbols:
      for (uint32_t s = command.a(); s < command.a() + command.b(); ++s) {
        AIPU_RETURN_IF_ERROR(check_tensor_use(place, items(model_.symbols())[s]->tensor(), false));
      }
      break;
    case fb::HostOp::kCheck:
      AIPU_RETURN_IF_ERROR(check_expression_use(place, command.a()));
      if (command.b() >= items(model_.strings()).size())
        return bad(place.text(), " has message ", command.b(), " of ", items(model_.strings()).size());
      for (const uint32_t number : {command.c(), command.d()}) {
        if (number != 0) AIPU_RETURN_IF_ERROR(check_expression_use(place, number - 1));
      }
      break;
    case fb::HostOp::kIf: {
      AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.a(), false));
      const fb::Tensor& condition = *items(model_.tensors())[command.a()];
      if (static_cast<DType>(condition.dtype()) != DType::kBool)
        return bad(place.text(), ": the condition is not a bool tensor");
      for (const uint32_t program : {command.b(), command.c()}) {
        if (program == 0 || program >= items(model_.programs()).size())
          return bad(place.text(), " runs program ", program, " of ", items(model_.programs()).size());
        calls_.push_back({place.sequence, place.program, program});
      }
      break;
    }
    case fb::HostOp::kLoop:
    case fb::HostOp::kScan:
    case fb::HostOp::kBranch: {
      if (command.a() >= call_commands_.size())
        return bad(place.text(), " runs call ", command.a(), " of ", call_commands_.size());
      if (call_commands_[command.a()].exists) return bad("call ", command.a(), " is run from two places");
      call_commands_[command.a()] = {command.op(), place, true};
      break;
    }
    case fb::HostOp::kFetch: {
      // Commands of the host come in order, so the one that runs the call has been seen.
      const CallCommand* call = command.a() < call_commands_.size() ? &call_commands_[command.a()] : nullptr;
      if (call == nullptr || !call->exists || call->place.program != place.program)
        return bad(place.text(), " fetches a result of call ", command.a(), ", which has not been run");
      AIPU_RETURN_IF_ERROR(check_tensor_use(place, command.c(), true));
      fetches_.push_back({place, command.a(), command.b(), command.c()});
      break;
    }
    default:
      return bad(place.text(), " has the unknown op ", static_cast<int>(command.op()));
  }
  AIPU_RETURN_IF_ERROR(check_waits(place, command.first_wait(), command.wait_count()));
  return check_origin(place, command.origin());
}

Status Checker::check_faults(uint32_t program) const {
  const auto tec = items(items(model_.programs())[program]->tec());
  const auto faults = items(items(model_.programs())[program]->faults());
  for (uint32_t i = 0; i < faults.size(); ++i) {
    const fb::Fault& fault = *faults[i];
    if (fault.command() >= tec.size() || fault.message() >= items(model_.strings()).size() ||
        fault.origin() >= items(model_.origins()).size()) {
      return bad("program ", program, ", fault ", i, " refers to a command, message or origin that is not there");
    }
    if (fault.needed() != kNone) {
      const uint32_t sequence = tec[fault.command()]->sequence();
      const CommandPlace place = {program, fb::Engine::kTec, fault.command(), sequence, stage_of_sequence(sequence)};
      AIPU_RETURN_IF_ERROR(check_expression_use(place, fault.needed()));
    }
    const auto key = [](const fb::Fault& row) { return std::pair(row.command(), row.code()); };
    if (i > 0 && key(*faults[i - 1]) >= key(fault)) return bad("program ", program, ", fault ", i, " is out of order");
  }
  return {};
}

Status Checker::check_commands() {
  const auto programs = items(model_.programs());
  call_commands_.resize(items(model_.calls()).size());
  for (uint32_t p = 0; p < programs.size(); ++p) {
    const auto tec = items(programs[p]->tec());
    const auto operations = items(programs[p]->tec_operations());
    if (operations.size() != 0 && operations.size() != tec.size()) {
      return bad("program ", p, " has operation counts for ", operations.size(), " of ", tec.size(), " tec commands");
    }
    for (uint32_t i = 0; i < operations.size(); ++i) {
      if (operations[i] != kNone && !expression_exists(operations[i])) {
        return bad("program ", p, " counts operations by expression ", operations[i], " of ", expression_count_);
      }
    }
    AIPU_RETURN_IF_ERROR(check_faults(p));
    const auto needed = items(programs[p]->tec_needed());
    if (needed.size() != 0 && needed.size() != tec.size())
      return bad("program ", p, " says of ", needed.size(), " of ", tec.size(), " tec commands when they are needed");
    for (uint32_t i = 0; i < tec.size(); ++i) {
      const CommandPlace place = {p, fb::Engine::kTec, i, tec[i]->sequence(), stage_of_sequence(tec[i]->sequence())};
      AIPU_RETURN_IF_ERROR(check_tec(place, *tec[i]));
      if (i < needed.size() && needed[i] != kNone) AIPU_RETURN_IF_ERROR(check_expression_use(place, needed[i]));
    }
    const auto dma = items(programs[p]->dma());
    for (uint32_t i = 0; i < dma.size(); ++i) {
      AIPU_RETURN_IF_ERROR(
          check_dma({p, fb::Engine::kDma, i, dma[i]->sequence(), stage_of_sequence(dma[i]->sequence())}, *dma[i]));
    }
    const auto host = items(programs[p]->host());
    for (uint32_t i = 0; i < host.size(); ++i) {
      AIPU_RETURN_IF_ERROR(
          check_host({p, fb::Engine::kHost, i, host[i]->sequence(), stage_of_sequence(host[i]->sequence())}, *host[i]));
    }
  }
  return {};
}

Status Checker::check_program_tree() {
  const auto programs = items(model_.programs());
  std::vector<uint32_t> depth(programs.size(), kNone);
  depth[0] = 0;
  // A caller is called before it calls, so in order of sequence its depth is known first.
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) { return a.sequence < b.sequence; });
  for (const Call& call : calls_) {
    if (depth[call.callee] != kNone) return bad("program ", call.callee, " is run from two places");
    if (depth[call.caller] == kNone)
      return bad("program ", call.caller, " runs program ", call.callee, " before it is run itself");
    depth[call.callee] = depth[call.caller] + 1;
    if (depth[call.callee] > kMaxProgramDepth) return bad("programs are nested deeper than ", kMaxProgramDepth);
    const auto starts_early = [&](auto buffer) { return buffer.size() > 0 && buffer[0]->sequence() <= call.sequence; };
    const fb::Program& callee = *programs[call.callee];
    if (starts_early(items(callee.tec())) || starts_early(items(callee.dma())) || starts_early(items(callee.host()))) {
      return bad("program ", call.callee, " has commands that come before the one that runs it");
    }
  }
  for (uint32_t p = 0; p < programs.size(); ++p) {
    if (depth[p] == kNone) return bad("program ", p, " is never run");
  }
  return {};
}

// What an input of a body gets: a tensor without its first `missing_axes` axes.
Status Checker::check_call_input(const CommandPlace& place, uint32_t tensor, const fb::Model& body, uint32_t input,
                                 uint32_t missing_axes) const {
  AIPU_RETURN_IF_ERROR(check_tensor_use(place, tensor, false));
  const fb::Tensor& given = *items(model_.tensors())[tensor];
  const fb::Tensor& taken = *items(body.tensors())[items(body.inputs())[input]];
  if (given.dtype() != taken.dtype() || items(given.shape()).size() != items(taken.shape()).size() + missing_axes)
    return bad(place.text(), " gives ", tensor_text(model_, tensor), " to input ", input,
               " of its body, which takes another type or rank");
  return {};
}

Status Checker::check_call(uint32_t index, const CallCommand& command) {
  const fb::Call& call = *items(model_.calls())[index];
  const CommandPlace& place = command.place;
  const auto inputs = items(call.inputs());
  const auto bodies = items(call.bodies());
  if (bodies.size() != (command.op == fb::HostOp::kBranch ? 2u : 1u) || items(call.given()).size() != bodies.size())
    return bad(place.text(), " has ", bodies.size(), " bodies and what ", items(call.given()).size(), " are given");
  for (uint32_t b = 0; b < bodies.size(); ++b) {
    if (bodies[b] >= body_is_used_.size() || body_is_used_[bodies[b]])
      return bad(place.text(), " runs body ", bodies[b], ", which is not there or another's");
    body_is_used_[bodies[b]] = true;
    const auto given = items(items(call.given())[b]->expressions());
    for (uint32_t k = 0; k < given.size(); ++k) AIPU_RETURN_IF_ERROR(check_expression_use(place, given[k]));
    const auto symbols = items(items(model_.bodies())[bodies[b]]->symbols());
    for (uint32_t s = 0; s < symbols.size(); ++s) {
      if (symbols[s]->kind() == fb::SymbolKind::kGiven && symbols[s]->index() >= given.size())
        return bad(place.text(), " does not give symbol ", s, " of its body");
    }
  }
  const fb::Model& body = *items(model_.bodies())[bodies[0]];
  const auto type_of = [](const fb::Model& model, uint32_t tensor) {
    const fb::Tensor& row = *items(model.tensors())[tensor];
    return std::pair(static_cast<DType>(row.dtype()), items(row.shape()).size());
  };
  const auto input_type = [&](uint32_t i) { return type_of(body, items(body.inputs())[i]); };
  const auto output_type = [&](const fb::Model& model, uint32_t i) {
    return type_of(model, items(model.outputs())[i]);
  };
  if (call.condition() != kNone) {
    AIPU_RETURN_IF_ERROR(check_tensor_use(place, call.condition(), false));
    if (type_of(model_, call.condition()).first != DType::kBool)
      return bad(place.text(), ": the condition is not a bool tensor");
  }
  if (call.trip_count() != kNone) {
    AIPU_RETURN_IF_ERROR(check_tensor_use(place, call.trip_count(), false));
    if (type_of(model_, call.trip_count()).first != DType::kI64)
      return bad(place.text(), ": the trip count is not an int64 tensor");
  }
  if (call.extents() != kNone) {
    AIPU_RETURN_IF_ERROR(check_tensor_use(place, call.extents(), true));
    if (type_of(model_, call.extents()).first != DType::kI64)
      return bad(place.text(), ": the extents are not an int64 tensor");
  }
  const uint32_t body_inputs = items(body.inputs()).size(), body_outputs = items(body.outputs()).size();
  if (command.op == fb::HostOp::kBranch) {
    if (call.condition() == kNone) return bad(place.text(), " has no condition");
    const fb::Model& otherwise = *items(model_.bodies())[bodies[1]];
    if (uint64_t{body_inputs} + items(otherwise.inputs()).size() != inputs.size() ||
        body_outputs != items(otherwise.outputs()).size())
      return bad(place.text(), ": its branches do not fit each other or their inputs");
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      AIPU_RETURN_IF_ERROR(i < body_inputs ? check_call_input(place, inputs[i], body, i, 0)
                                           : check_call_input(place, inputs[i], otherwise, i - body_inputs, 0));
    }
    for (uint32_t i = 0; i < body_outputs; ++i) {
      if (output_type(body, i) != output_type(otherwise, i))
        return bad(place.text(), ": its branches give unlike results ", i);
    }
    return {};
  }
  const bool scans = command.op == fb::HostOp::kScan;
  const uint32_t before = scans ? 0 : 2, first_output = scans ? 0 : 1;  // iteration and condition
  const uint64_t carried = uint64_t{call.states()} + call.sequences();
  if (body_inputs != uint64_t{before} + inputs.size() || carried > inputs.size() ||
      body_outputs < uint64_t{first_output} + call.states() || (scans ? call.sequences() == 0 : call.sequences() != 0))
    return bad(place.text(), " does not fit the inputs and outputs of its body");
  if (!scans && (input_type(0) != std::pair(DType::kI64, 0u) || input_type(1) != std::pair(DType::kBool, 0u) ||
                 output_type(body, 0).first != DType::kBool))
    return bad(place.text(), ": its body does not take an iteration and a condition, or does not give one");
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const bool is_sequence = i >= call.states() && i < carried;
    AIPU_RETURN_IF_ERROR(check_call_input(place, inputs[i], body, before + i, is_sequence ? 1 : 0));
  }
  for (uint32_t i = 0; i < call.states(); ++i) {
    if (input_type(before + i) != output_type(body, first_output + i))
      return bad(place.text(), ": state ", i, " changes its type or rank");
  }
  const auto fits = [](auto flags, uint64_t count) { return flags.size() == 0 || flags.size() == count; };
  if (!fits(items(call.backward_sequences()), call.sequences()) ||
      !fits(items(call.backward_stacks()), body_outputs - first_output - call.states()))
    return bad(place.text(), " has directions for other sequences than it has");
  return {};
}

Status Checker::check_calls() {
  const auto calls = items(model_.calls());
  const auto bodies = items(model_.bodies());
  body_is_used_.assign(bodies.size(), false);
  for (uint32_t i = 0; i < calls.size(); ++i) {
    if (!call_commands_[i].exists) return bad("call ", i, " is never run");
    AIPU_RETURN_IF_ERROR(check_call(i, call_commands_[i]));
  }
  const auto unused = std::find(body_is_used_.begin(), body_is_used_.end(), false);
  if (unused != body_is_used_.end()) return bad("body ", unused - body_is_used_.begin(), " is never run");
  for (const Fetch& fetch : fetches_) {
    const fb::HostOp op = call_commands_[fetch.call].op;
    const fb::Model& body = *bodies[items(calls[fetch.call]->bodies())[0]];
    if (fetch.result >= result_count(op, body))
      return bad(fetch.place.text(), " fetches result ", fetch.result, " of ", result_count(op, body));
    const uint32_t output = items(body.outputs())[fetch.result + (op == fb::HostOp::kLoop ? 1 : 0)];
    if (items(body.tensors())[output]->dtype() != items(model_.tensors())[fetch.tensor]->dtype())
      return bad(fetch.place.text(), " fetches a result of another type");
  }
  return {};
}

// What is kept in ModelTables and needed on the way there, with room for vectors that grow.
int64_t Checker::bytes_of_tables() const {
  const auto programs = items(model_.programs());
  int64_t commands = 0, host_commands = 0;
  for (uint32_t p = 0; p < programs.size(); ++p) {
    host_commands += items(programs[p]->host()).size();
    commands += int64_t{items(programs[p]->tec()).size()} + items(programs[p]->dma()).size();
  }
  constexpr int64_t kPerCommand = 2 * sizeof(ModelTables::ScheduledCommand) + 32;
  constexpr int64_t kPerStage = 4 * sizeof(std::vector<uint32_t>) + 64;
  return items(model_.expressions()).size() * int64_t{24} + items(model_.symbols()).size() * int64_t{48} +
         items(model_.tensors()).size() * int64_t{64} + programs.size() * int64_t{64} + commands * kPerCommand +
         host_commands * (kPerCommand + kPerStage) +
         items(model_.batch_loops()).size() * int64_t{2 * sizeof(ModelTables::BatchLoop)};
}

// Plays the engines: of the heads of the three buffers the one with the smallest sequence runs. Its waits all have
// smaller sequences, so they are done.
Status Checker::schedule() {
  const auto programs = items(model_.programs());
  tables_.stages.resize(tables_.stage_count);
  tables_.programs.resize(programs.size());
  for (uint32_t p = 0; p < programs.size(); ++p) {
    const auto tec = items(programs[p]->tec());
    const auto dma = items(programs[p]->dma());
    const auto host = items(programs[p]->host());
    std::array<uint32_t, 3> head = {};
    auto& order = tables_.programs[p];
    while (true) {
      const std::array<uint32_t, 3> sequences = {head[0] < tec.size() ? tec[head[0]]->sequence() : kNone,
                                                 head[1] < dma.size() ? dma[head[1]]->sequence() : kNone,
                                                 head[2] < host.size() ? host[head[2]]->sequence() : kNone};
      const auto engine =
          static_cast<uint32_t>(std::min_element(sequences.begin(), sequences.end()) - sequences.begin());
      if (sequences[engine] == kNone) break;
      const uint32_t stage = stage_of_sequence(sequences[engine]);
      auto& stage_commands = tables_.stages[stage];
      order.push_back({static_cast<fb::Engine>(engine), head[engine]++, sequences[engine], stage,
                       static_cast<uint32_t>(stage_commands.size())});
      stage_commands.emplace_back(p, static_cast<uint32_t>(order.size() - 1));
    }
  }
  return {};
}

// That samples are independent cannot be seen here; that nothing outside of the tensors is touched is checked when the
// shapes are bound.
Status Checker::check_batch_loops() {
  const auto loops = items(model_.batch_loops());
  const auto symbols = items(model_.symbols());
  const auto tensors = items(model_.tensors());
  const auto& order = tables_.programs[0];
  tables_.loop_of_tensor.assign(tensor_count_, kNone);
  uint32_t free_from = 0;  // position
  for (uint32_t i = 0; i < loops.size(); ++i) {
    const fb::BatchLoop& loop = *loops[i];
    const auto by_sequence = [](const auto& command, uint32_t sequence) { return command.sequence < sequence; };
    const auto first = std::lower_bound(order.begin(), order.end(), loop.first(), by_sequence);
    const auto last = std::lower_bound(order.begin(), order.end(), loop.last(), by_sequence);
    if (loop.first() > loop.last() || first == order.end() || first->sequence != loop.first() || last == order.end() ||
        last->sequence != loop.last()) {
      return bad("batch loop ", i, " goes from command ", loop.first(), " to ", loop.last(),
                 " of program 0, which are not there");
    }
    const auto first_position = static_cast<uint32_t>(first - order.begin());
    if (i > 0 && first_position < free_from) return bad("batch loop ", i, " begins within the one before it");
    if (loop.symbol() >= symbols.size() || symbols[loop.symbol()]->kind() != fb::SymbolKind::kInputExtent)
      return bad("batch loop ", i, " is over symbol ", loop.symbol(), ", which is no extent of an input");
    if (std::any_of(first, last + 1, [](const auto& command) { return command.engine == fb::Engine::kHost; }))
      return bad("batch loop ", i, " has host commands");
    free_from = static_cast<uint32_t>(last - order.begin()) + 1;
    tables_.batch_loops.push_back({first_position, free_from - 1, loop.symbol(), first->stage});
  }
  for (uint32_t t = 0; t < tensor_count_ && loops.size() > 0; ++t) {
    const fb::Tensor& root = *tensors[tables_.tensor_root[t]];
    if (root.kind() != fb::TensorKind::kArena) continue;
    const auto loop =
        std::partition_point(tables_.batch_loops.begin(), tables_.batch_loops.end(),
                             [&](const auto& candidate) { return order[candidate.last].sequence < root.first_use(); });
    if (loop != tables_.batch_loops.end() && root.first_use() >= order[loop->first].sequence &&
        root.last_use() <= order[loop->last].sequence)
      tables_.loop_of_tensor[t] = static_cast<uint32_t>(loop - tables_.batch_loops.begin());
  }
  return {};
}

}  // namespace

Result<ModelTables> check_model(const ModelFile& file, Meter* meter) {
  return Checker(file, file.root(), false).run(meter);
}

}  // namespace aipu::runtime
