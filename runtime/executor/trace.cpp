#include "runtime/executor/trace.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/executor/plan.h"

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
    case fb::HostOp::kText:
      return "text";
    case fb::HostOp::kLaunch:
      return "launch";
    case fb::HostOp::kCopy:
      return "copy";
  }
  return "?";
}

Session::ProfileRow profile_row(const TraceEvent& event) {
  const detail::ModelState& model = *event.model;
  const fb::Model& root = model.root();
  const fb::Program& program = *items(root.programs())[event.program];
  Session::ProfileRow row;
  uint32_t origin = kNone;
  switch (event.command->engine) {
    case fb::Engine::kTec:
      row.engine = "tec";
      origin = items(program.tec())[event.command->index]->origin();
      break;
    case fb::Engine::kDma: {
      const fb::DmaCommand& command = *items(program.dma())[event.command->index];
      const auto is_on_host = [&](uint32_t tensor) {
        return items(root.tensors())[model.tables.tensor_root[tensor]]->memory() == fb::Memory::kHost;
      };
      row.engine = "dma";
      row.name = is_on_host(command.destination()) ? "copy to host"
                 : is_on_host(command.source())    ? "copy from host"
                                                   : "copy";
      origin = command.origin();
      break;
    }
    case fb::Engine::kHost: {
      const fb::HostCommand& command = *items(program.host())[event.command->index];
      row.engine = "host";
      row.name = host_name(command.op());
      origin = command.origin();
      break;
    }
  }
  if (const LaunchRow launch = launch_row(root, event.program, *event.command))
    row.name = text(model.kernel((*launch).kernel()).name());
  if (origin != kNone) row.origin = text(items(root.origins())[origin]);
  row.command = event.command->index;
  row.sample = event.sample;
  row.lanes = event.lanes;
  row.threads = event.threads;
  row.start_ns = event.start_ns;
  row.duration_ns = event.duration_ns;
  row.operations = event.operations;
  row.bytes = event.bytes;
  row.counts.assign(event.counts.begin(), event.counts.begin() + event.count_count);
  row.lane = event.lane;
  row.start_cycles = event.start_cycles;
  row.cycles = event.cycles.all;
  row.compute_cycles = event.cycles.compute;
  row.dma_cycles = event.cycles.dma;
  return row;
}

// The lines of one kind of time, and the rows on them.
class TraceWriter {
 public:
  TraceWriter(int process, std::string_view name, const fb::Model& model, std::string* json)
      : process_(process), json_(*json) {
    if (model.core_count() > 1) core_tecs_ = model.tec_count() / model.core_count();
    event(str_cat("\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":", json_string(name), "}"));
  }

  using Time = int64_t Session::ProfileRow::*;
  // Rows, and arrows from what each waited for. Times are in nanoseconds.
  void add_all(std::span<const Session::ProfileRow> rows, Time start, Time duration, uint32_t* arrows) {
    for (const Session::ProfileRow& row : rows) {
      add(row, row.*start, row.*duration);
      for (const uint32_t wait : row.waits) {
        const Session::ProfileRow& before = rows[wait];
        add_wait((*arrows)++, before, before.*start + std::max<int64_t>(before.*duration - 1, 0), row, row.*start);
      }
    }
  }

 private:
  // A launch is on the lines of all cores that share it.
  void add(const Session::ProfileRow& row, int64_t start, int64_t duration) {
    const uint32_t cores = row.engine == "tec" && core_tecs_ > 0 ? (row.threads + core_tecs_ - 1) / core_tecs_ : 1;
    for (uint32_t core = 0; core < cores; ++core) add(row, core, start, duration);
  }
  void add(const Session::ProfileRow& row, uint32_t core, int64_t start, int64_t duration) {
    event(str_cat("\"ph\":\"X\",\"tid\":", line_of(row, core), ",\"name\":", json_string(shortened(row.name)),
                  ",\"cat\":", json_string(row.engine), ",\"ts\":", microseconds(start),
                  ",\"dur\":", microseconds(duration), ",\"args\":{\"origin\":", json_string(shortened(row.origin)),
                  ",\"command\":", row.command, ",\"threads\":", row.threads, parts_of(row), "}"));
  }
  // An arrow from within the last nanosecond of `before` to the beginning of `after`.
  void add_wait(uint32_t id, const Session::ProfileRow& before, int64_t end, const Session::ProfileRow& after,
                int64_t start) {
    const auto point = [&](const char* phase, const Session::ProfileRow& row, int64_t time) {
      event(str_cat("\"ph\":", phase, ",\"tid\":", line_of(row), ",\"name\":\"wait\",\"cat\":\"wait\",\"id\":", id,
                    ",\"ts\":", microseconds(time)));
    };
    point("\"s\"", before, end);
    point("\"f\",\"bp\":\"e\"", after, start);
  }

  static std::string parts_of(const Session::ProfileRow& row) {
    if (row.compute_cycles < 0) return {};
    return str_cat(",\"cycles\":", row.cycles, ",\"compute_cycles\":", row.compute_cycles,
                   ",\"dma_cycles\":", row.dma_cycles);
  }
  void event(const std::string& fields) { json_ += str_cat(",\n{\"pid\":", process_, ",", fields, "}"); }

  // One per engine and worker or core, named when it is first used. Devices with cores have no workers.
  uint32_t line_of(const Session::ProfileRow& row, uint32_t core = 0) {
    const uint32_t engine = row.engine == "tec" ? 0 : row.engine == "dma" ? 1 : 2;
    const uint32_t line = (row.lane + core) * 3 + engine;
    if (lines_.insert(line).second) {
      std::string name(row.engine);
      if (row.lane > 0) name += str_cat(" of worker ", row.lane);
      if (core > 0) name += str_cat(" of core ", core);
      event(str_cat("\"ph\":\"M\",\"tid\":", line, ",\"name\":\"thread_name\",\"args\":{\"name\":", json_string(name),
                    "}"));
    }
    return line;
  }

  int process_;
  uint32_t core_tecs_ = 0;  // 0: the device has no cores
  std::string& json_;
  std::set<uint32_t> lines_;
};

}  // namespace

std::vector<Session::ProfileRow> profile_rows(std::span<const TraceEvent> events) {
  std::vector<Session::ProfileRow> rows;
  rows.reserve(events.size());
  // Which row a command has been last: that of the same sample or iteration, which come one after the other.
  std::map<std::tuple<const detail::ModelState*, uint32_t, fb::Engine, uint32_t>, uint32_t> last;
  for (const TraceEvent& event : events) {
    Session::ProfileRow row = profile_row(event);
    for_each_wait(event.model->root(), event.program, *event.command, [&](const fb::Wait& wait) {
      const auto found = last.find({event.model, event.program, wait.engine(), wait.command()});
      if (found != last.end()) row.waits.push_back(found->second);
    });
    last[{event.model, event.program, event.command->engine, event.command->index}] =
        static_cast<uint32_t>(rows.size());
    rows.push_back(std::move(row));
  }
  return rows;
}

Status write_trace(const std::string& path, const detail::ModelState& model,
                   std::span<const Session::ProfileRow> rows) {
  std::string json = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"model\":" + json_string(shortened(model.name)) +
                     ",\"target\":" + json_string(model.target) + ",\"backend\":" + json_string(model.backend_name) +
                     "},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_labels\",\"args\":{\"labels\":" +
                     json_string(model.backend_name) + "}}";
  uint32_t arrows = 0;
  TraceWriter real(1, "aipu", model.root(), &json);
  real.add_all(rows, &Session::ProfileRow::start_ns, &Session::ProfileRow::duration_ns, &arrows);
  const auto in_virtual_time = [](const Session::ProfileRow& row) { return row.cycles >= 0; };
  if (std::any_of(rows.begin(), rows.end(), in_virtual_time)) {
    TraceWriter virtual_time(2, "virtual time, a nanosecond per cycle", model.root(), &json);
    virtual_time.add_all(rows, &Session::ProfileRow::start_cycles, &Session::ProfileRow::cycles, &arrows);
  }
  json += "\n]}\n";
  return write_file_atomically(path, json);
}

}  // namespace aipu::runtime
