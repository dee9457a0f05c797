#include "runtime/tools/layer_profile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "runtime/base/status.h"
#include "runtime/base/text.h"

namespace aipu::tools {
namespace {

using Row = runtime::Session::ProfileRow;

// The least width of a column of counts.
constexpr size_t kColumn = 14;
// A layer that takes more than this of the larger of its parts waits.
constexpr double kOverlapped = 1.1;

std::string padded(const std::string& text) {
  return std::string(text.size() < kColumn ? kColumn - text.size() : 0, ' ') + text + " ";
}

struct Layer {
  Row row;
  std::vector<int64_t> durations;
  std::vector<std::vector<int64_t>> counts;  // by event, then by run; none where a run was not counted
  std::vector<int64_t> typical_counts;
  double nanoseconds = 0;
};

int64_t take_median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of one more command: of a new run, or of another sample of the run at hand.
void add_counts(const Row& row, bool is_new_run, Layer* layer) {
  if (layer->durations.size() == 1 && is_new_run) layer->counts.resize(row.counts.size());
  if (row.counts.size() != layer->counts.size()) layer->counts.clear();
  for (size_t e = 0; e < layer->counts.size(); ++e) {
    if (is_new_run) {
      layer->counts[e].push_back(row.counts[e]);
    } else {
      layer->counts[e].back() += row.counts[e];
    }
  }
}

std::string heads(const std::vector<CountedEvent>& events) {
  std::string text;
  for (const CountedEvent& event : events) text += padded(event.name + (event.bytes_of_one > 0 ? " GB/s" : ""));
  return text;
}

// A column for each event.
std::string columns(const std::vector<int64_t>& counts, double nanoseconds, const std::vector<CountedEvent>& events) {
  std::string text;
  for (size_t e = 0; e < events.size(); ++e) {
    char number[32] = "-";
    if (!counts.empty() && events[e].bytes_of_one > 0) {
      std::snprintf(number, sizeof number, "%.1f",
                    static_cast<double>(counts[e]) * events[e].bytes_of_one / nanoseconds);
    } else if (!counts.empty()) {
      std::snprintf(number, sizeof number, "%lld", static_cast<long long>(counts[e]));
    }
    text += padded(number);
  }
  return text;
}

std::string counts_json(const std::vector<int64_t>& counts, const std::vector<CountedEvent>& events) {
  if (events.empty()) return "";
  std::string text;
  for (size_t e = 0; e < counts.size(); ++e)
    text += str_cat(e == 0 ? "" : ", ", json_string(events[e].name), ": ", counts[e]);
  return str_cat(", \"counts\": ", counts.empty() ? "null" : str_cat("{", text, "}"));
}

std::string line(const char* share, double nanoseconds, const std::string& rates, const std::string& what) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%10.1f %6s ", nanoseconds / 1e3, share);
  return buffer + rates + what + "\n";
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

std::string json_line(const Layer& layer, const std::vector<CountedEvent>& events) {
  return str_cat("{\"engine\": ", json_string(layer.row.engine),
                 ", \"kernel\": ", json_string(shortened(layer.row.name)),
                 ", \"nodes\": ", json_string(shortened(layer.row.origin)), ", \"command\": ", layer.row.command,
                 ", \"threads\": ", layer.row.threads, ", \"median_us\": ", layer.nanoseconds / 1e3,
                 ", \"operations\": ", layer.row.operations, ", \"bytes\": ", layer.row.bytes,
                 counts_json(layer.typical_counts, events), "}");
}

// Of a command in virtual time. The samples of a batch are one layer.
struct CycleLayer {
  Row row;
  int64_t cycles = 0;
};

int64_t larger_part(const CycleLayer& layer) { return std::max(layer.row.compute_cycles, layer.row.dma_cycles); }

// What it would not be faster without: the larger of its parts, where the rest is overlapped.
std::string_view bound_of(const CycleLayer& layer) {
  if (larger_part(layer) < 0) return layer.row.engine;
  if (static_cast<double>(layer.cycles) > kOverlapped * static_cast<double>(larger_part(layer))) return "waits";
  return layer.row.compute_cycles >= layer.row.dma_cycles ? "compute" : "dma";
}

std::string counted(int64_t cycles) { return cycles < 0 ? "-" : std::to_string(cycles); }

std::string cycle_line(const CycleLayer& layer, double all_cycles) {
  const auto cycles = static_cast<double>(std::max<int64_t>(layer.cycles, 1));
  const double bytes = static_cast<double>(layer.row.bytes) / cycles;
  char ratio[32] = "-";
  if (larger_part(layer) > 0)
    std::snprintf(ratio, sizeof ratio, "%.2f",
                  static_cast<double>(layer.cycles) / static_cast<double>(larger_part(layer)));
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, "%12lld %12lld %6s %8.1f %8.1f %12s %12s %6s %-7s ",
                static_cast<long long>(layer.row.start_cycles), static_cast<long long>(layer.cycles),
                percent(static_cast<double>(layer.cycles), all_cycles).c_str(),
                static_cast<double>(layer.row.operations) / cycles, bytes, counted(layer.row.compute_cycles).c_str(),
                counted(layer.row.dma_cycles).c_str(), ratio, std::string(bound_of(layer)).c_str());
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
                 ", \"bytes\": ", layer.row.bytes, ", \"compute_cycles\": ", layer.row.compute_cycles,
                 ", \"dma_cycles\": ", layer.row.dma_cycles, ", \"bound\": ", json_string(bound_of(layer)), "}");
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
    if (row.compute_cycles < 0 || layer.row.compute_cycles < 0) {
      layer.row.compute_cycles = layer.row.dma_cycles = -1;
    } else {
      layer.row.compute_cycles += row.compute_cycles;
      layer.row.dma_cycles += row.dma_cycles;
    }
  }
  if (by_cycles) {
    std::stable_sort(layers.begin(), layers.end(),
                     [](const CycleLayer& a, const CycleLayer& b) { return a.cycles > b.cycles; });
  }
  LayerProfile profile;
  char head[160];
  std::snprintf(head, sizeof head, "%12s %12s %6s %8s %8s %12s %12s %6s %-7s %s\n", "start", "cycles", "run",
                "op/cycle", "B/cycle", "compute", "dma", "of it", "bound", "engine, kernel and ONNX nodes");
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

namespace {

// By what they are, in the order in which they have begun.
std::vector<Layer> layers_of(const std::vector<Row>& rows) {
  std::vector<Layer> layers;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view, uint32_t>, size_t> places;
  for (const Row& row : rows) {
    const auto [place, is_new] = places.try_emplace({row.engine, row.name, row.origin, row.command}, layers.size());
    if (is_new) {
      layers.push_back({row, {}, {}, {}});
      layers.back().row.operations = layers.back().row.bytes = 0;
    }
    Layer& layer = layers[place->second];
    // The samples of a batch are one run of the layer.
    const int64_t duration = row.duration_ns / row.lanes;
    const bool is_new_run = row.sample == 0 || layer.durations.empty();
    if (is_new_run) {
      layer.durations.push_back(duration);
    } else {
      layer.durations.back() += duration;
    }
    add_counts(row, is_new_run, &layer);
    if (layer.durations.size() == 1) {
      layer.row.operations += row.operations;
      layer.row.bytes += row.bytes;
    }
  }
  for (Layer& layer : layers) {
    layer.nanoseconds = std::max<double>(static_cast<double>(take_median(layer.durations)), 1);
    for (std::vector<int64_t>& counts : layer.counts) layer.typical_counts.push_back(take_median(counts));
  }
  return layers;
}

// No counts if one of them has none.
Layer sum_of(const std::vector<Layer>& layers, size_t event_count) {
  Layer sum;
  sum.typical_counts.resize(event_count);
  for (const Layer& layer : layers) {
    sum.nanoseconds += layer.nanoseconds;
    sum.row.operations += layer.row.operations;
    if (layer.typical_counts.size() != sum.typical_counts.size()) sum.typical_counts.clear();
    for (size_t e = 0; e < sum.typical_counts.size(); ++e) sum.typical_counts[e] += layer.typical_counts[e];
  }
  sum.nanoseconds = std::max(sum.nanoseconds, 1.0);
  return sum;
}

}  // namespace

LayerProfile layer_profile(const std::vector<Row>& rows, const MachinePeak& peak, bool by_time, bool all,
                           const std::vector<CountedEvent>& events) {
  std::vector<Layer> layers = layers_of(rows);
  if (by_time) {
    std::stable_sort(layers.begin(), layers.end(),
                     [](const Layer& a, const Layer& b) { return a.nanoseconds > b.nanoseconds; });
  }
  const Layer sum = sum_of(layers, events.size());
  LayerProfile profile;
  std::string& text = profile.text;
  char head[160];
  std::snprintf(head, sizeof head, "machine: %.1f GFLOP/s, %.1f GB/s from memory\n%10s %6s %9s %6s %8s %6s ",
                peak.float_operations / 1e9, peak.memory_bytes / 1e9, "us", "time", "GFLOP/s", "peak", "GB/s",
                "memory");
  text = str_cat(head, heads(events), "kernel and ONNX nodes\n");
  const auto add_line = [&](const std::string& share, const Layer& layer, const std::string& what) {
    text += line(share.c_str(), layer.nanoseconds,
                 rates(layer, peak) + " " + columns(layer.typical_counts, layer.nanoseconds, events), what);
  };
  double small = 0;
  size_t small_count = 0;
  for (const Layer& layer : layers) {
    profile.json += (profile.json.empty() ? "\n    " : ",\n    ") + json_line(layer, events);
    if (!all && layer.nanoseconds < sum.nanoseconds * 5e-4) {
      small += layer.nanoseconds;
      ++small_count;
      continue;
    }
    add_line(percent(layer.nanoseconds, sum.nanoseconds), layer,
             str_cat(shortened(layer.row.name), layer.row.threads > 1 ? str_cat(" x", layer.row.threads) : "", "  ",
                     shortened(layer.row.origin)));
  }
  if (small_count > 0)
    text += line(percent(small, sum.nanoseconds).c_str(), small,
                 std::string(33, ' ') + " " + columns({}, small, events), str_cat(small_count, " small commands"));
  add_line("", sum, str_cat("all ", layers.size(), " commands"));
  return profile;
}

}  // namespace aipu::tools
