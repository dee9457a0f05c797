#include "runtime/tools/layer_profile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "runtime/base/npu_timing.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

namespace aipu::tools {
namespace {

using Row = runtime::Session::ProfileRow;

struct Layer {
  Row row;
  std::vector<int64_t> durations;
  double nanoseconds = 0;
  size_t order = 0;
};

std::string line(const char* share, double nanoseconds, const std::string& rates, const std::string& what) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%10.1f %6s ", nanoseconds / 1e3, share);
  return buffer + rates + " " + what + "\n";
}

std::string percent(double part, double whole) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f%%", whole > 0 ? 100 * part / whole : 0);
  return buffer;
}

// Columns of fixed width: GFLOP/s and share of the peak, GB/s and share of the peak.
std::string rates(const Layer& layer, const MachinePeak& peak) {
  char buffer[96];
  // per nanosecond: giga per second
  const double operations = static_cast<double>(layer.row.operations) / layer.nanoseconds;
  const double bytes = static_cast<double>(layer.row.bytes) / layer.nanoseconds;
  if (layer.row.operations > 0) {
    std::snprintf(buffer, sizeof buffer, "%9.1f %6s %8.1f %6s", operations,
                  percent(operations * 1e9, peak.float_operations).c_str(), bytes,
                  percent(bytes * 1e9, peak.memory_bytes).c_str());
  } else {
    std::snprintf(buffer, sizeof buffer, "%9s %6s %8.1f %6s", "", "", bytes,
                  percent(bytes * 1e9, peak.memory_bytes).c_str());
  }
  return buffer;
}

std::string json_line(const Layer& layer) {
  return str_cat("{\"engine\": ", json_string(layer.row.engine),
                 ", \"kernel\": ", json_string(shortened(layer.row.name)),
                 ", \"nodes\": ", json_string(shortened(layer.row.origin)), ", \"command\": ", layer.row.command,
                 ", \"threads\": ", layer.row.threads, ", \"median_us\": ", layer.nanoseconds / 1e3,
                 ", \"operations\": ", layer.row.operations, ", \"bytes\": ", layer.row.bytes, "}");
}

// Of a command in virtual time. The samples of a batch are one layer.
struct CycleLayer {
  Row row;
  int64_t cycles = 0;
};

std::string_view bound_of(const CycleLayer& layer) {
  constexpr npu_timing::Figures kFigures = npu_timing::kX2;
  const double moving = static_cast<double>(layer.row.bytes) / kFigures.global_bytes_per_cycle;
  return moving >= 0.9 * static_cast<double>(layer.cycles) ? "memory" : layer.row.engine;
}

std::string cycle_line(const CycleLayer& layer, double all_cycles) {
  const auto cycles = static_cast<double>(std::max<int64_t>(layer.cycles, 1));
  const double bytes = static_cast<double>(layer.row.bytes) / cycles;
  char buffer[128];
  std::snprintf(buffer, sizeof buffer, "%12lld %12lld %6s %8.1f %8.1f %6s %-6s ",
                static_cast<long long>(layer.row.start_cycles), static_cast<long long>(layer.cycles),
                percent(static_cast<double>(layer.cycles), all_cycles).c_str(),
                static_cast<double>(layer.row.operations) / cycles, bytes,
                percent(bytes, npu_timing::kX2.global_bytes_per_cycle).c_str(), std::string(bound_of(layer)).c_str());
  return str_cat(buffer, layer.row.engine, " ", shortened(layer.row.name),
                 layer.row.threads > 1 ? str_cat(" x", layer.row.threads) : "", "  ", shortened(layer.row.origin),
                 "\n");
}

std::string cycle_json(const CycleLayer& layer) {
  return str_cat("{\"engine\": ", json_string(layer.row.engine),
                 ", \"kernel\": ", json_string(shortened(layer.row.name)),
                 ", \"nodes\": ", json_string(shortened(layer.row.origin)), ", \"command\": ", layer.row.command,
                 ", \"tecs\": ", layer.row.threads, ", \"start_cycles\": ", layer.row.start_cycles,
                 ", \"cycles\": ", layer.cycles, ", \"operations\": ", layer.row.operations,
                 ", \"bytes\": ", layer.row.bytes, ", \"bound\": ", json_string(bound_of(layer)), "}");
}

}  // namespace

LayerProfile cycle_profile(const std::vector<Row>& rows, int64_t makespan, bool by_cycles, bool all) {
  std::vector<CycleLayer> layers;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view, uint32_t>, size_t> places;
  for (const Row& row : rows) {
    if (row.cycles < 0) continue;
    const auto [place, is_new] = places.try_emplace({row.engine, row.name, row.origin, row.command}, layers.size());
    if (is_new) {
      layers.push_back({row, row.cycles});
      continue;
    }
    CycleLayer& layer = layers[place->second];
    layer.cycles += row.cycles;
    layer.row.operations += row.operations;
    layer.row.bytes += row.bytes;
  }
  if (by_cycles) {
    std::stable_sort(layers.begin(), layers.end(),
                     [](const CycleLayer& a, const CycleLayer& b) { return a.cycles > b.cycles; });
  }
  LayerProfile profile;
  char head[160];
  std::snprintf(head, sizeof head, "%12s %12s %6s %8s %8s %6s %-6s %s\n", "start", "cycles", "run", "op/cycle",
                "B/cycle", "memory", "bound", "engine, kernel and ONNX nodes");
  profile.text = head;
  std::map<std::string_view, int64_t> engines;
  size_t small = 0;
  int64_t small_cycles = 0;
  for (const CycleLayer& layer : layers) {
    profile.json += (profile.json.empty() ? "\n    " : ",\n    ") + cycle_json(layer);
    if (layer.row.engine != "host") engines[layer.row.engine] += layer.cycles;
    if (!all && static_cast<double>(layer.cycles) < 5e-4 * static_cast<double>(makespan)) {
      ++small;
      small_cycles += layer.cycles;
      continue;
    }
    profile.text += cycle_line(layer, static_cast<double>(std::max<int64_t>(makespan, 1)));
  }
  if (small > 0) profile.text += str_cat(small, " small commands: ", small_cycles, " cycles\n");
  int64_t busy = 0;
  for (const auto& [engine, cycles] : engines) {
    profile.text += str_cat(engine, " busy ", cycles, " cycles\n");
    busy += cycles;
  }
  profile.text += str_cat("all: ", makespan, " cycles, of which ", std::max<int64_t>(busy - makespan, 0),
                          " have more than one engine at work\n");
  return profile;
}

LayerProfile layer_profile(const std::vector<Row>& rows, const MachinePeak& peak, bool by_time, bool all) {
  std::map<std::tuple<std::string_view, std::string_view, std::string_view, uint32_t>, Layer> layers;
  for (const Row& row : rows) {
    Layer& layer = layers[{row.engine, row.name, row.origin, row.command}];
    if (layer.durations.empty()) {
      layer.row = row;
      layer.order = layers.size();
      layer.row.operations = layer.row.bytes = 0;
    }
    // The samples of a batch are one run of the layer.
    const int64_t duration = row.duration_ns / row.lanes;
    if (row.sample == 0 || layer.durations.empty()) {
      layer.durations.push_back(duration);
    } else {
      layer.durations.back() += duration;
    }
    if (layer.durations.size() == 1) {
      layer.row.operations += row.operations;
      layer.row.bytes += row.bytes;
    }
  }
  std::vector<Layer*> sorted;
  double total = 0;
  double operations = 0;
  for (auto& [key, layer] : layers) {
    auto middle = layer.durations.begin() + static_cast<ptrdiff_t>(layer.durations.size() / 2);
    std::nth_element(layer.durations.begin(), middle, layer.durations.end());
    layer.nanoseconds = std::max<double>(static_cast<double>(*middle), 1);
    total += layer.nanoseconds;
    operations += static_cast<double>(layer.row.operations);
    sorted.push_back(&layer);
  }
  std::sort(sorted.begin(), sorted.end(), [&](const Layer* a, const Layer* b) {
    return by_time && a->nanoseconds != b->nanoseconds ? a->nanoseconds > b->nanoseconds : a->order < b->order;
  });
  char head[160];
  std::snprintf(head, sizeof head, "machine: %.1f GFLOP/s, %.1f GB/s from memory\n%10s %6s %9s %6s %8s %6s %s\n",
                peak.float_operations / 1e9, peak.memory_bytes / 1e9, "us", "time", "GFLOP/s", "peak", "GB/s", "memory",
                "kernel and ONNX nodes");
  LayerProfile profile;
  std::string& text = profile.text;
  text = head;
  for (const Layer* layer : sorted) profile.json += (profile.json.empty() ? "\n    " : ",\n    ") + json_line(*layer);
  double small = 0;
  size_t small_count = 0;
  for (const Layer* layer : sorted) {
    if (!all && layer->nanoseconds < total * 5e-4) {
      small += layer->nanoseconds;
      ++small_count;
      continue;
    }
    text += line(percent(layer->nanoseconds, total).c_str(), layer->nanoseconds, rates(*layer, peak),
                 str_cat(shortened(layer->row.name), layer->row.threads > 1 ? str_cat(" x", layer->row.threads) : "",
                         "  ", shortened(layer->row.origin)));
  }
  if (small_count > 0)
    text += line(percent(small, total).c_str(), small, std::string(33, ' '), str_cat(small_count, " small commands"));
  Layer sum;
  sum.row.operations = static_cast<int64_t>(operations);
  sum.nanoseconds = std::max(total, 1.0);
  text += line("", total, rates(sum, peak), str_cat("all ", layers.size(), " commands"));
  return profile;
}

}  // namespace aipu::tools
