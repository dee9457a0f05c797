#include "runtime/executor/trace.h"

#include <cstdio>

#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace aipu::runtime {
namespace {

std::string microseconds(int64_t ns) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return buffer;
}

std::string_view host_name(fb::HostOp op) {
  switch (op) {
    case fb::HostOp::kBindSymbols:
      return "bind symbols";
    case fb::HostOp::kCheck:
      return "check";
    case fb::HostOp::kIf:
      return "if";
    case fb::HostOp::kLoop:
      return "loop";
    case fb::HostOp::kScan:
      return "scan";
    case fb::HostOp::kBranch:
      return "branch";
    case fb::HostOp::kFetch:
      return "fetch";
  }
  return "?";
}

}  // namespace

Session::ProfileRow profile_row(const TraceEvent& event) {
  const detail::ModelState& model = *event.model;
  const fb::Model& root = model.root();
  const fb::Program& program = *items(root.programs())[event.program];
  Session::ProfileRow row;
  uint32_t origin = kNone;
  switch (event.command->engine) {
    case fb::Engine::kTec: {
      const fb::TecCommand& command = *items(program.tec())[event.command->index];
      row.engine = "tec";
      row.name = text(model.kernel(command.kernel()).name());
      origin = command.origin();
      break;
    }
    case fb::Engine::kDma:
      row.engine = "dma";
      row.name = "copy";
      origin = items(program.dma())[event.command->index]->origin();
      break;
    case fb::Engine::kHost: {
      const fb::HostCommand& command = *items(program.host())[event.command->index];
      row.engine = "host";
      row.name = host_name(command.op());
      origin = command.origin();
      break;
    }
  }
  if (origin != kNone) row.origin = text(items(root.origins())[origin]);
  row.command = event.command->index;
  row.sample = event.sample;
  row.lanes = event.lanes;
  row.threads = event.threads;
  row.start_ns = event.start_ns;
  row.duration_ns = event.duration_ns;
  row.operations = event.operations;
  row.bytes = event.bytes;
  return row;
}

Status write_trace(const std::string& path, const detail::ModelState& model,
                   std::span<const Session::ProfileRow> rows) {
  std::string json = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"model\":" + json_string(shortened(model.name)) +
                     ",\"target\":" + json_string(model.target) + ",\"backend\":" + json_string(model.backend_name) +
                     "},\"traceEvents\":[\n";
  // One line per engine.
  json += "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"aipu\"}}";
  int tid = 0;
  for (const std::string_view engine : {"tec", "dma", "host"}) {
    json += str_cat(",\n{\"ph\":\"M\",\"pid\":1,\"tid\":", tid++,
                    ",\"name\":\"thread_name\",\"args\":{\"name\":", json_string(engine), "}}");
  }
  for (const Session::ProfileRow& row : rows) {
    const int line = row.engine == "tec" ? 0 : row.engine == "dma" ? 1 : 2;
    json += str_cat(",\n{\"ph\":\"X\",\"pid\":1,\"tid\":", line, ",\"name\":", json_string(shortened(row.name)),
                    ",\"cat\":", json_string(row.engine), ",\"ts\":", microseconds(row.start_ns),
                    ",\"dur\":", microseconds(row.duration_ns),
                    ",\"args\":{\"origin\":", json_string(shortened(row.origin)), ",\"command\":", row.command,
                    ",\"threads\":", row.threads, "}}");
  }
  json += "\n]}\n";
  return write_file_atomically(path, json);
}

}  // namespace aipu::runtime
