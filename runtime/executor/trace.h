// Profiles: rows of what the engines did, and Chrome's trace format.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/engines/engine.h"
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
  uint32_t lane;                // that played the sample
  int64_t start_cycles = 0;     // in virtual time
  CommandCycles cycles = {-1};  // -1: not kept
  uint32_t count_count = 0;     // 0: not counted
  std::array<int64_t, ProfileCounters::kMost> counts = {};
};

// The rows of events in the order in which they were played.
std::vector<Session::ProfileRow> profile_rows(std::span<const TraceEvent> events);
Status write_trace(const std::string& path, const detail::ModelState& model, std::span<const Session::ProfileRow> rows);

}  // namespace aipu::runtime
