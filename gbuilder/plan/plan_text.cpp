// What a plan says about its commands, and the plan as text. Everything here is safe on decoded plans: an index out of
// range prints as such.
#include <algorithm>

#include "gbuilder/plan/plan.h"
#include "runtime/base/text.h"

namespace aipu::gbuilder {

std::string_view engine_name(Engine engine) {
  switch (engine) {
    case Engine::kTec:
      return "tec";
    case Engine::kDma:
      return "dma";
    case Engine::kHost:
      return "host";
  }
  return "?";
}

std::string_view tensor_kind_name(TensorKind kind) {
  switch (kind) {
    case TensorKind::kInput:
      return "input";
    case TensorKind::kOutput:
      return "output";
    case TensorKind::kConstant:
      return "constant";
    case TensorKind::kArena:
      return "arena";
    case TensorKind::kView:
      return "view";
  }
  return "?";
}

std::string_view host_op_name(HostOp op) {
  switch (op) {
    case HostOp::kBindSymbols:
      return "bind_symbols";
    case HostOp::kCheck:
      return "check";
    case HostOp::kIf:
      return "if";
    case HostOp::kLoop:
      return "loop";
    case HostOp::kScan:
      return "scan";
    case HostOp::kBranch:
      return "branch";
    case HostOp::kFetch:
      return "fetch";
    case HostOp::kText:
      return "text";
    case HostOp::kLaunch:
      return "launch";
    case HostOp::kCopy:
      return "copy";
  }
  return "?";
}

uint32_t root_tensor(const Plan& plan, uint32_t tensor) {
  if (tensor < plan.tensors.size() && plan.tensors[tensor].kind == TensorKind::kView &&
      plan.tensors[tensor].base < plan.tensors.size()) {
    return plan.tensors[tensor].base;
  }
  return tensor;
}

const PlanCall* call_of(const Plan& plan, const HostBody& host) {
  return runs_bodies(host.op) && host.a < plan.calls.size() ? &plan.calls[host.a] : nullptr;
}

const PlanTextCall* text_call_of(const Plan& plan, const HostBody& host) {
  return host.op == HostOp::kText && host.a < plan.text_calls.size() ? &plan.text_calls[host.a] : nullptr;
}

bool is_host_work(const Command& command) {
  const auto* host = std::get_if<HostBody>(&command.body);
  return host != nullptr && (host->op == HostOp::kLaunch || host->op == HostOp::kCopy);
}

const TecBody* launch_of(const Plan& plan, const Command& command) {
  const auto* host = std::get_if<HostBody>(&command.body);
  if (host == nullptr) return std::get_if<TecBody>(&command.body);
  return host->op == HostOp::kLaunch && host->a < plan.host_launches.size() ? &plan.host_launches[host->a] : nullptr;
}

const DmaBody* copy_of(const Plan& plan, const Command& command) {
  const auto* host = std::get_if<HostBody>(&command.body);
  if (host == nullptr) return std::get_if<DmaBody>(&command.body);
  return host->op == HostOp::kCopy && host->a < plan.host_copies.size() ? &plan.host_copies[host->a] : nullptr;
}

bool is_on_both(const Plan& plan, const PlanTensor& root) {
  return root.kind == TensorKind::kConstant || (root.kind == TensorKind::kInput && !plan.is_body);
}

std::vector<Access> command_accesses(const Plan& plan, const Command& command) {
  std::vector<Access> accesses;
  if (const auto* tec = launch_of(plan, command)) {
    for (const PlanArgument& argument : tec->arguments) {
      if (argument.kind == PlanArgument::Kind::kTensor) accesses.push_back({argument.index, argument.writes});
    }
  } else if (const auto* dma = copy_of(plan, command)) {
    accesses = {{dma->source, false}, {dma->destination, true}};
  } else {
    const auto& host = std::get<HostBody>(command.body);
    if (host.op == HostOp::kBindSymbols) {
      for (uint64_t i = host.a; i < uint64_t{host.a} + host.b && i < plan.symbols.size(); ++i)
        accesses.push_back({plan.symbols[i].tensor, false});
    } else if (host.op == HostOp::kIf) {
      accesses.push_back({host.a, false});
    } else if (host.op == HostOp::kFetch) {
      accesses.push_back({host.c, true});
    } else if (const PlanCall* call = call_of(plan, host)) {
      for (const uint32_t tensor : {call->condition, call->trip_count}) {
        if (tensor != kNone) accesses.push_back({tensor, false});
      }
      for (const uint32_t tensor : call->inputs) accesses.push_back({tensor, false});
      if (call->extents != kNone) accesses.push_back({call->extents, true});
    } else if (const PlanTextCall* text = text_call_of(plan, host)) {
      for (const uint32_t tensor : text->inputs) accesses.push_back({tensor, false});
      for (const uint32_t tensor : text->outputs) accesses.push_back({tensor, true});
    }
  }
  return accesses;
}

std::vector<ExpressionId> command_expressions(const Plan& plan, const Command& command) {
  std::vector<ExpressionId> ids;
  if (const auto* tec = launch_of(plan, command)) {
    ids.push_back(tec->max_tecs);
    if (tec->needed != kNone) ids.push_back(tec->needed);
    for (const PlanArgument& argument : tec->arguments) {
      if (argument.kind == PlanArgument::Kind::kTensor) ids.push_back(argument.offset);
      if (argument.kind == PlanArgument::Kind::kExpression) ids.push_back(argument.index);
    }
    for (const PlanFault& fault : tec->faults) {
      if (fault.needed != kNone) ids.push_back(fault.needed);
    }
  } else if (const auto* dma = copy_of(plan, command)) {
    ids = {dma->destination_offset, dma->source_offset, dma->width, dma->times,
           dma->destination_stride, dma->source_stride};
  } else if (const auto& host = std::get<HostBody>(command.body); host.op == HostOp::kCheck) {
    ids.push_back(host.a);
    for (const uint32_t number : {host.c, host.d}) {
      if (number != 0) ids.push_back(number - 1);
    }
  } else if (const PlanCall* call = call_of(plan, host)) {
    for (const auto& given : call->given) ids.insert(ids.end(), given.begin(), given.end());
  } else if (const PlanTextCall* text = text_call_of(plan, host); text != nullptr && text->needed != kNone) {
    ids.push_back(text->needed);
  }
  for (const Access& access : command_accesses(plan, command)) {
    if (access.tensor >= plan.tensors.size()) continue;
    const PlanTensor& tensor = plan.tensors[access.tensor];
    ids.push_back(tensor.size_bytes);
    ids.insert(ids.end(), tensor.shape.begin(), tensor.shape.end());
    if (tensor.kind == TensorKind::kView) {
      ids.push_back(tensor.view_offset);
      if (tensor.base < plan.tensors.size()) ids.push_back(plan.tensors[tensor.base].size_bytes);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

namespace {

// Tensors print by number and name: names need not be unique (a value and the output that it is given out as).
std::string tensor_text(const Plan& plan, uint32_t tensor) {
  if (tensor >= plan.tensors.size()) return str_cat("?t", tensor);
  return str_cat("t", tensor, ":", shortened(plan.tensors[tensor].name));
}

std::string expression_text(const Plan& plan, ExpressionId id) {
  constexpr size_t kMostBytes = 2000;
  return shortened(plan.expressions.text(id, plan.symbols), kMostBytes);
}

std::string hex(uint64_t word) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[word & 15u]);
    word >>= 4;
  } while (word != 0);
  return "0x" + text;
}

// " + offset" unless that is zero.
std::string offset_text(const Plan& plan, ExpressionId id) {
  if (plan.expressions.constant_value(id) == 0) return "";
  return str_cat("+", expression_text(plan, id));
}

constexpr int64_t kAllTecs = int64_t{1} << 20;

std::string string_at(const std::vector<std::string>& strings, uint32_t id) {
  return id < strings.size() ? shortened(strings[id]) : str_cat("?string", id);
}

std::string tec_text(const Plan& plan, const TecBody& body) {
  std::string text =
      body.kernel < plan.kernels.size() ? shortened(plan.kernels[body.kernel].symbol) : str_cat("?k", body.kernel);
  text += '(';
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    const PlanArgument& argument = body.arguments[i];
    if (i > 0) text += ", ";
    switch (argument.kind) {
      case PlanArgument::Kind::kTensor:
        text +=
            str_cat(argument.writes ? "&" : "", tensor_text(plan, argument.index), offset_text(plan, argument.offset));
        break;
      case PlanArgument::Kind::kExpression:
        text += expression_text(plan, argument.index);
        break;
      case PlanArgument::Kind::kImmediate:
        // Small words are counts and extents; large ones are negative numbers or float patterns.
        text += argument.word < (uint64_t{1} << 24) ? std::to_string(argument.word) : hex(argument.word);
        break;
    }
  }
  text += ')';
  if (plan.expressions.constant_value(body.max_tecs) != kAllTecs)
    text += str_cat(" tecs<=", expression_text(plan, body.max_tecs));
  if (body.needed != kNone) text += str_cat(" if ", expression_text(plan, body.needed));
  return text;
}

std::string dma_text(const Plan& plan, const DmaBody& body) {
  std::string text = str_cat("copy ", tensor_text(plan, body.destination), offset_text(plan, body.destination_offset),
                             " <- ", tensor_text(plan, body.source), offset_text(plan, body.source_offset), " width ",
                             expression_text(plan, body.width));
  if (plan.expressions.constant_value(body.times) != 1) {
    text += str_cat(" times ", expression_text(plan, body.times), " strides ",
                    expression_text(plan, body.destination_stride), " ", expression_text(plan, body.source_stride));
  }
  return text;
}

std::string call_text(const Plan& plan, const HostBody& body) {
  const PlanCall* call = call_of(plan, body);
  if (call == nullptr) return str_cat(" ?call", body.a);
  std::string text = str_cat(" call ", body.a, ":");
  for (const uint32_t callee : call->bodies) text += str_cat(" body ", callee);
  if (call->trip_count != kNone) text += str_cat(" times ", tensor_text(plan, call->trip_count));
  if (call->condition != kNone) text += str_cat(" if ", tensor_text(plan, call->condition));
  text += " (";
  for (size_t i = 0; i < call->inputs.size(); ++i) {
    if (i > 0) text += i == call->states || i == call->states + call->sequences ? "; " : ", ";
    text += tensor_text(plan, call->inputs[i]);
  }
  text += ')';
  if (call->extents != kNone) text += str_cat(" extents ", tensor_text(plan, call->extents));
  return text;
}

std::string text_call_text(const Plan& plan, const HostBody& body) {
  const PlanTextCall* call = text_call_of(plan, body);
  if (call == nullptr) return str_cat(" ?text", body.a);
  std::string text = str_cat(" ", shortened(call->operation), "(");
  const auto list = [&](const std::vector<uint32_t>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) text += str_cat(i > 0 ? ", " : "", tensor_text(plan, tensors[i]));
  };
  list(call->inputs);
  for (const std::string& given : call->texts) text += str_cat(", \"", shortened(given), "\"");
  for (const int64_t number : call->numbers) text += str_cat(", ", number);
  text += ") -> ";
  list(call->outputs);
  if (call->needed != kNone) text += str_cat(" if ", expression_text(plan, call->needed));
  return text;
}

std::string host_text(const Plan& plan, const HostBody& body) {
  std::string text(host_op_name(body.op));
  switch (body.op) {
    case HostOp::kBindSymbols:
      for (uint64_t i = body.a; i < uint64_t{body.a} + body.b && i < plan.symbols.size(); ++i) {
        const PlanSymbol& symbol = plan.symbols[i];
        text += str_cat(i == body.a ? " " : ", ", shortened(symbol.name), " = ", tensor_text(plan, symbol.tensor), "[",
                        symbol.index, "]");
      }
      break;
    case HostOp::kCheck:
      text += str_cat(" ", expression_text(plan, body.a), " else \"", string_at(plan.strings, body.b), "\"");
      break;
    case HostOp::kIf:
      text += str_cat(" ", tensor_text(plan, body.a), " then program ", body.b, " else program ", body.c);
      break;
    case HostOp::kFetch:
      text += str_cat(" ", tensor_text(plan, body.c), " = result ", body.b, " of call ", body.a);
      break;
    case HostOp::kLoop:
    case HostOp::kScan:
    case HostOp::kBranch:
      text += call_text(plan, body);
      break;
    case HostOp::kText:
      text += text_call_text(plan, body);
      break;
    case HostOp::kLaunch:
      text += body.a < plan.host_launches.size() ? " " + tec_text(plan, plan.host_launches[body.a])
                                                 : str_cat(" ?launch", body.a);
      break;
    case HostOp::kCopy:  // the text of a copy says so
      text = body.a < plan.host_copies.size() ? dma_text(plan, plan.host_copies[body.a]) : str_cat("?copy", body.a);
      break;
  }
  return text;
}

}  // namespace

std::string print_command(const Plan& plan, const Command& command) {
  std::string text = str_cat("#", command.sequence, " ", engine_name(command.engine()), "[", command.index, "] ");
  if (const auto* tec = std::get_if<TecBody>(&command.body)) text += tec_text(plan, *tec);
  if (const auto* dma = std::get_if<DmaBody>(&command.body)) text += dma_text(plan, *dma);
  if (const auto* host = std::get_if<HostBody>(&command.body)) text += host_text(plan, *host);
  for (size_t i = 0; i < command.waits.size(); ++i) {
    text += str_cat(i == 0 ? " waits " : ", ", engine_name(command.waits[i].engine), "[", command.waits[i].index, "]");
  }
  const std::string origin = string_at(plan.origins, command.origin);
  if (!origin.empty()) text += str_cat("  // ", origin);
  return text;
}

std::string targets_text(const Plan& plan) {
  return plan.host_target.empty() ? plan.target : str_cat(plan.target, "+", plan.host_target);
}

std::string print_tensors(const Plan& plan) {
  std::string text;
  if (!plan.symbols.empty()) {
    text += "symbols\n";
    for (const PlanSymbol& symbol : plan.symbols) {
      if (symbol.kind == SymbolKind::kTecCount) {
        text += str_cat("  ", shortened(symbol.name), " = the number of TECs\n");
        continue;
      }
      if (symbol.kind == SymbolKind::kHostTecCount) {
        text += str_cat("  ", shortened(symbol.name), " = the number of the host's TECs\n");
        continue;
      }
      if (symbol.kind == SymbolKind::kGiven) {
        text += str_cat("  ", shortened(symbol.name), " = given by the caller\n");
        continue;
      }
      text +=
          str_cat("  ", shortened(symbol.name), " = ", symbol.kind == SymbolKind::kInputExtent ? "extent " : "element ",
                  symbol.index, " of ", tensor_text(plan, symbol.tensor), "\n");
    }
    text += '\n';
  }
  text += "tensors\n";
  for (uint32_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    text += str_cat("  ", tensor_text(plan, t), " ", dtype_name(tensor.dtype), "[");
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      text += str_cat(i > 0 ? "," : "", expression_text(plan, tensor.shape[i]));
    text += str_cat("] ", tensor_kind_name(tensor.kind), " bytes ", expression_text(plan, tensor.size_bytes));
    if (tensor.memory == Memory::kHost) text += " on the host";
    if (tensor.kind == TensorKind::kConstant) text += str_cat(" at ", tensor.offset_bytes);
    if (tensor.kind == TensorKind::kView)
      text += str_cat(" of ", tensor_text(plan, tensor.base), " at ", expression_text(plan, tensor.view_offset));
    if (tensor.kind == TensorKind::kArena) {
      if (tensor.workspace) text += " workspace";
      if (tensor.first_use != kNone) text += str_cat(" life #", tensor.first_use, "..#", tensor.last_use);
    }
    if (tensor.in_place_of != kNone) text += str_cat(" in place of ", tensor_text(plan, tensor.in_place_of));
    text += '\n';
  }
  const auto list = [&](std::string_view title, const std::vector<uint32_t>& tensors) {
    text += str_cat("\n", title);
    for (size_t i = 0; i < tensors.size(); ++i) text += str_cat(i > 0 ? ", " : " ", tensor_text(plan, tensors[i]));
  };
  list("inputs", plan.inputs);
  list("outputs", plan.outputs);
  return text + str_cat("\nconstants ", plan.constant_bytes, " bytes\n");
}

std::string print_kernels(const Plan& plan) {
  std::string text = "kernels\n";
  for (const PlanKernel& kernel : plan.kernels) {
    if (!plan.host_target.empty() && &kernel == plan.kernels.data() + plan.first_host_kernel)
      text += str_cat("kernels of ", plan.host_target, "\n");
    text += str_cat("  ", shortened(kernel.symbol), " arguments ", kernel.argument_count);
    if (kernel.lsram_bytes != 0) text += str_cat(" lsram ", kernel.lsram_bytes);
    if (kernel.shared_bytes != 0) text += str_cat(" shared ", kernel.shared_bytes);
    if (kernel.uses_barrier) text += " barrier";
    if (kernel.reports_faults) text += " faults";
    text += str_cat("  // ", shortened(kernel.source), "\n");
  }
  return text;
}

std::string print_commands(const Plan& plan) {
  std::string text;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    text += str_cat(p > 0 ? "\n" : "", "program ", p, "\n");
    for (const Command& command : plan.programs[p].commands) text += str_cat("  ", print_command(plan, command), "\n");
  }
  for (const PlanBatchLoop& loop : plan.batch_loops) {
    text += str_cat("\n#", loop.first, "..#", loop.last, " may be run for one of ",
                    loop.symbol < plan.symbols.size() ? shortened(plan.symbols[loop.symbol].name) : "?", " at a time",
                    loop.condition == kNone
                        ? ""
                        : str_cat(" by each thread, if ", plan.expressions.text(loop.condition, plan.symbols)),
                    "\n");
  }
  return text;
}

std::string print_bodies(const Plan& plan, const std::function<std::string(const Plan&)>& text,
                         const std::string& outer) {
  std::string all;
  for (size_t i = 0; i < plan.bodies.size(); ++i) {
    const std::string number = str_cat(outer, i);
    all += str_cat("\nbody ", number, "\n\n", text(plan.bodies[i]), print_bodies(plan.bodies[i], text, number + "."));
  }
  return all;
}

std::string print_plan(const Plan& plan) {
  return str_cat(
      "plan \"", shortened(plan.model_name), "\" target ", targets_text(plan), plan.fast_math ? " fast-math" : "",
      "\n\n", print_tensors(plan), "\n", print_kernels(plan), "\n", print_commands(plan),
      print_bodies(plan, [](const Plan& body) { return print_tensors(body) + "\n" + print_commands(body); }));
}

}  // namespace aipu::gbuilder
