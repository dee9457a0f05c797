#include "runtime/loader/check.h"

#include "runtime/base/npu_timing.h"
#include "runtime/loader/checker.h"
#include "runtime/loader/expressions.h"

namespace aipu::runtime {

Result<ModelTables> Checker::run(Meter* meter) {
  if (meter != nullptr) AIPU_RETURN_IF_ERROR(meter->take(bytes_of_tables()));
  for (const auto check :
       {&Checker::check_expressions, &Checker::check_symbols, &Checker::check_tensors, &Checker::check_interface,
        &Checker::check_kernels, &Checker::check_sequences, &Checker::find_stages, &Checker::check_constants,
        &Checker::check_views, &Checker::check_texts, &Checker::check_commands, &Checker::check_program_tree,
        &Checker::schedule, &Checker::check_batch_loops}) {
    AIPU_RETURN_IF_ERROR((this->*check)());
    if (meter != nullptr) AIPU_RETURN_IF_ERROR(meter->check_time());
  }
  // Nesting is bounded by the verifier of the tables.
  const auto bodies = items(model_.bodies());
  for (uint32_t i = 0; i < bodies.size(); ++i) {
    auto body = check_table(file_, *bodies[i], Role::kBody, meter);
    if (!body.ok()) return std::move(body).status().context(str_cat("body ", i));
    tables_.bodies.push_back(std::move(*body));
  }
  AIPU_RETURN_IF_ERROR(check_calls());
  return std::move(tables_);
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
    } else if (symbol.kind() == fb::SymbolKind::kTecCount || symbol.kind() == fb::SymbolKind::kHostTecCount) {
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
    if (is_body_ && static_cast<DType>(tensor.dtype()) == DType::kString)
      return bad(tensor_text(model_, i), " of a body has texts, which only inputs and outputs of the model can have");
    if (tensor.kind() > fb::TensorKind::MAX)
      return bad(tensor_text(model_, i), " has the unknown kind ", static_cast<int>(tensor.kind()));
    if (tensor.memory() > fb::Memory::MAX ||
        (tensor.memory() == fb::Memory::kHost &&
         (is_body_ ? tensor.kind() != fb::TensorKind::kArena
                   : tensor.kind() == fb::TensorKind::kConstant || tensor.kind() == fb::TensorKind::kView)))
      return bad(tensor_text(model_, i), " cannot be in memory ", static_cast<int>(tensor.memory()));
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
          (tensor.in_place_of() >= tensor_count_ || tensors[tensor.in_place_of()]->kind() != fb::TensorKind::kArena ||
           tensors[tensor.in_place_of()]->memory() != tensor.memory())) {
        return bad(tensor_text(model_, i), " is in place of tensor ", tensor.in_place_of(),
                   ", which is no arena tensor of its memory");
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
  if (role_ != Role::kOutermost &&
      (kernels.size() + items(model_.sections()).size() + items(model_.entries()).size() != 0))
    return bad("it has kernels, sections or entries of its own");
  const fb::HostPart* const host_part = model_.host_part();
  if (host_part != nullptr && (role_ != Role::kOutermost || host_part->first_kernel() > kernels.size()))
    return bad("it has a host part that begins with kernel ", host_part->first_kernel(), " of ", kernels.size());
  if (model_.tec_count() > kMaxTecs) return bad("the model wants ", model_.tec_count(), " TECs; at most ", kMaxTecs);
  if (model_.core_count() == 0 || model_.tec_count() % model_.core_count() != 0)
    return bad("it has ", model_.tec_count(), " TECs in ", model_.core_count(), " cores");
  const auto figures = items(model_.cost_figures());
  for (uint32_t i = 0; i < figures.size(); ++i) {
    const bool may_be_none = i < npu_timing::kCommandFigures.size() &&
                             npu_timing::kCommandFigures[i] == &npu_timing::Figures::host && figures[i] == 0;
    if (!may_be_none && !(figures[i] >= npu_timing::kLeastFigure && figures[i] <= npu_timing::kMostFigure))
      return bad("cost figure ", i, " is out of range");
  }
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
  tables_.stage_expressions.resize(tables_.stage_count);
  for (uint32_t i = 0; i < rows.size(); ++i) tables_.stage_expressions[stage[i]].push_back(i);
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
  for (uint32_t i = 0; i < tensor_count_; ++i) {
    own[i] = own_stage(*tensors[i]);
    // What a batch loop keeps to itself gets its memory with the loop, for the samples at hand.
    if (tensors[i]->kind() == fb::TensorKind::kArena && loop_around(*tensors[i]) != kNone)
      own[i] = std::max(own[i], stage_of_sequence(tensors[i]->first_use()));
  }
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
  return items(model_.text_calls()).size() * int64_t{64} + items(model_.string_pool()).size() * int64_t{64} +
         items(model_.expressions()).size() * int64_t{24} + items(model_.symbols()).size() * int64_t{48} +
         items(model_.tensors()).size() * int64_t{64} + programs.size() * int64_t{64} + commands * kPerCommand +
         host_commands * (kPerCommand + kPerStage) +
         items(model_.batch_loops()).size() * int64_t{2 * sizeof(ModelTables::BatchLoop)};
}

Result<ModelTables> check_table(const ModelFile& file, const fb::Model& model, Role role, Meter* meter) {
  return Checker(file, model, role).run(meter);
}

Result<ModelTables> check_model(const ModelFile& file, Meter* meter) {
  const fb::Model& root = file.root();
  AIPU_ASSIGN_OR_RETURN(ModelTables tables, check_table(file, root, Role::kOutermost, meter));
  const auto entries = items(root.entries());
  if (entries.size() > kMaxEntries) return bad("there are ", entries.size(), " more entries; at most ", kMaxEntries);
  // They are asked for by name.
  const auto name_of = [&](uint32_t i) { return text((i == 0 ? root : *entries[i - 1]).entry_name()); };
  for (uint32_t i = 1; i <= entries.size(); ++i) {
    const std::string_view name = name_of(i);
    for (uint32_t before = 0; before < i; ++before) {
      if (name.empty() || name_of(before).empty() || name_of(before) == name)
        return bad("entry ", i, " has no name that tells it from entry ", before);
    }
    auto entry = check_table(file, *entries[i - 1], Role::kEntry, meter);
    if (!entry.ok()) return std::move(entry).status().context(str_cat("entry ", i));
    tables.entries.push_back(std::move(*entry));
  }
  return tables;
}

}  // namespace aipu::runtime
