// Profiles: rows of what the engines did, and Chrome's trace format.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/executor/model_state.h"
#include "runtime/session.h"

namespace aipu::runtime {

struct TraceEvent {
  const detail::ModelState* model;  // or body
  uint32_t program;
  const ModelTables::ScheduledCommand* command;
  uint32_t sample;  // of a batch loop
  uint32_t lanes;   // of it: samples side by side
  uint32_t threads;
  int64_t start_ns;
  int64_t duration_ns;
  int64_t operations;
  int64_t bytes;
};

Session::ProfileRow profile_row(const TraceEvent& event);
Status write_trace(const std::string& path, const detail::ModelState& model, std::span<const Session::ProfileRow> rows);

}  // namespace aipu::runtime
