// aipubench: measures latency and throughput of an aipu.bin.
//
//  single-stream  one query after the other: latency percentiles
//  offline        as many sessions as fit the threads, all busy: throughput
//  server         queries arrive at random (Poisson) at --rate per second; latency counts from arrival, queueing
//                 included; what is not begun when the time is over is counted, and longer than anything
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <thread>

#include "runtime/base/file.h"
#include "runtime/base/parallel.h"
#include "runtime/base/text.h"
#include "runtime/tools/cli.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/inputs.h"
#include "runtime/tools/layer_profile.h"
#include "runtime/tools/limits.h"

namespace aipu::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, entry, backend, scenario = "single-stream", json;
  std::vector<std::string> shapes;
  Limits limits;
  int threads = 0;
  double duration = 3, rate = 0;
  uint64_t seed = 1;
  std::vector<std::string> counters;
  bool layers = false, layers_by_time = false, all_layers = false, cycles = false, overlap = false;
};

struct Measurement {
  std::vector<double> latencies;  // seconds
  double seconds = 0;             // from first query to last answer
  double load_seconds = 0, first_run_seconds = 0;
  int threads = 0, streams = 1;
  double rate = 0;
  size_t runs = 0;        // with --layers
  size_t unfinished = 0;  // queries that an overloaded server did not begin in its time
  std::optional<int64_t> cycles;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Of sorted latencies and others that are longer than all of them; infinite if it is one of those.
double percentile(const std::vector<double>& sorted, size_t unfinished, double p) {
  const size_t count = sorted.size() + unfinished;
  if (count == 0) return 0;
  const auto rank = static_cast<size_t>(std::ceil(p / 100 * static_cast<double>(count)));
  const size_t place = std::min(count - 1, rank == 0 ? 0 : rank - 1);
  return place < sorted.size() ? sorted[place] : std::numeric_limits<double>::infinity();
}

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}

  Result<Measurement> run() {
    const auto start = Clock::now();
    AIPU_ASSIGN_OR_RETURN(auto session, open_session(options_.threads));
    result_.threads = session->threads();
    result_.load_seconds += seconds_since(start);
    const auto first = Clock::now();
    AIPU_RETURN_IF_ERROR(session->run());
    result_.first_run_seconds = seconds_since(first);
    for (int i = 0; i < 3; ++i) AIPU_RETURN_IF_ERROR(session->run());

    Status status;
    if (options_.scenario == "single-stream") {
      status = single_stream(*session);
    } else if (options_.scenario == "offline") {
      status = offline();
    } else {
      status = server(*session);
    }
    AIPU_RETURN_IF_ERROR(std::move(status));
    std::sort(result_.latencies.begin(), result_.latencies.end());
    if (options_.cycles) AIPU_RETURN_IF_ERROR(count_cycles());
    return result_;
  }

  // Runs with profiling for the duration: where the time goes.
  Result<LayerProfile> layers() {
    std::vector<CountedEvent> events;
    for (const std::string& text : options_.counters) {
      AIPU_ASSIGN_OR_RETURN(CountedEvent event, CountedEvent::parse(text));
      events.push_back(std::move(event));
    }
    std::optional<EventCounters> counters;
    runtime::SessionOptions session_options;
    if (!events.empty()) {
      AIPU_ASSIGN_OR_RETURN(counters, EventCounters::open(events));
      session_options.counters = counters->for_profile();
    }
    session_options.threads = options_.threads;
    options_.limits.apply(&session_options);
    session_options.profile = true;
    session_options.overlap = options_.overlap;
    session_options.cycles = !options_.overlap;
    AIPU_ASSIGN_OR_RETURN(const auto session, runtime::Session::create(model_, session_options));
    AIPU_RETURN_IF_ERROR(bind_all(*session, inputs_));
    if (session_options.cycles) {
      // Of a device that has a timing model the time of this machine says nothing.
      AIPU_RETURN_IF_ERROR(session->run());
      if (const auto cycles = session->cycles(); cycles) {
        if (!events.empty())
          return unsupported(str_cat("--counters are of kernels on this machine: the layers of ", model_->target(),
                                     " are shown in its cycles"));
        return layers_in_cycles(*session, *cycles);
      }
    }
    for (int i = 0; i < 3; ++i) AIPU_RETURN_IF_ERROR(session->run());
    session->clear_profile();
    constexpr size_t kMaxRows = 2'000'000;
    const auto start = Clock::now();
    size_t runs = 0;
    size_t rows = 0;
    do {
      AIPU_RETURN_IF_ERROR(session->run());
      ++runs;
      if (runs == 1) rows = std::max<size_t>(session->profile().size(), 1);
    } while (seconds_since(start) < options_.duration && runs < kMaxRows / rows);
    LayerProfile profile = layer_profile(session->profile(), measure_machine_peak(session->threads()),
                                         options_.layers_by_time, options_.all_layers, events);
    profile.text = str_cat(options_.model, ": medians of ", runs, " runs, ", session->threads(),
                           session->threads() == 1 ? " thread, " : " threads, ", session->arena_bytes(),
                           " bytes of arena\n", profile.text);
    result_.threads = session->threads();
    result_.runs = runs;
    return profile;
  }

  // One run is all there is to know: virtual time does not vary.
  Result<LayerProfile> layers_in_cycles(const runtime::Session& session, int64_t cycles) {
    LayerProfile profile = cycle_profile(session.profile(), cycles, options_.layers_by_time, options_.all_layers);
    profile.text = str_cat(options_.model, ": one run on ", model_->target(), ", cycles by '", model_->backend(), "', ",
                           session.arena_bytes(), " bytes of arena\n", profile.text);
    result_.threads = session.threads();
    result_.runs = 1;
    result_.cycles = cycles;
    return profile;
  }

  const Measurement& measurement() const { return result_; }
  const runtime::Model& model() const { return *model_; }
  const std::vector<Array>& inputs() const { return inputs_; }

  // Loads the model and makes its inputs. First.
  Status open() {
    const auto start = Clock::now();
    runtime::LoadOptions load_options;
    load_options.backend = options_.backend;
    load_options.entry = options_.entry;
    options_.limits.apply(&load_options);
    AIPU_ASSIGN_OR_RETURN(model_, runtime::Model::load(options_.model, load_options));
    AIPU_ASSIGN_OR_RETURN(const auto given, named_shapes(options_.shapes, *model_));
    AIPU_ASSIGN_OR_RETURN(const auto shapes, complete_shapes(*model_, given, OpenExtents::kRefuse));
    for (size_t i = 0; i < shapes.size(); ++i) {
      AIPU_ASSIGN_OR_RETURN(Array array, random_array(model_->inputs()[i].dtype, shapes[i], options_.seed + i));
      inputs_.push_back(std::move(array));
    }
    result_.load_seconds = seconds_since(start);
    return {};
  }

 private:
  // In a session that does nothing else: what counts is not what is measured.
  Status count_cycles() {
    runtime::SessionOptions options;
    options.threads = options_.threads;
    options_.limits.apply(&options);
    options.cycles = true;
    AIPU_ASSIGN_OR_RETURN(const auto session, runtime::Session::create(model_, options));
    AIPU_RETURN_IF_ERROR(bind_all(*session, inputs_));
    AIPU_RETURN_IF_ERROR(session->run());
    result_.cycles = session->cycles();
    return result_.cycles ? Status() : no_cycles(model_->target(), model_->backend());
  }

  Result<std::unique_ptr<runtime::Session>> open_session(int threads) {
    runtime::SessionOptions options;
    options.threads = threads;
    options.overlap = options_.overlap;
    options_.limits.apply(&options);
    AIPU_ASSIGN_OR_RETURN(auto session, runtime::Session::create(model_, options));
    AIPU_RETURN_IF_ERROR(bind_all(*session, inputs_));
    return session;
  }

  Status single_stream(runtime::Session& session) {
    const auto start = Clock::now();
    do {
      const auto query = Clock::now();
      AIPU_RETURN_IF_ERROR(session.run());
      result_.latencies.push_back(seconds_since(query));
    } while (seconds_since(start) < options_.duration);
    result_.seconds = seconds_since(start);
    return {};
  }

  // One single-threaded session per thread: nothing is lost to hand-offs.
  Status offline() {
    const int streams = result_.threads;
    std::vector<std::unique_ptr<runtime::Session>> sessions;
    for (int i = 0; i < streams; ++i) {
      AIPU_ASSIGN_OR_RETURN(auto session, open_session(1));
      AIPU_RETURN_IF_ERROR(session->run());
      sessions.push_back(std::move(session));
    }
    std::vector<std::vector<double>> latencies(static_cast<size_t>(streams));
    std::vector<Status> statuses(static_cast<size_t>(streams));
    const auto start = Clock::now();
    {
      ThreadTeam threads;
      for (size_t i = 0; i < sessions.size(); ++i) {
        const bool started = threads.start([&, i] {
          do {
            const auto query = Clock::now();
            statuses[i] = sessions[i]->run();
            latencies[i].push_back(seconds_since(query));
          } while (statuses[i].ok() && seconds_since(start) < options_.duration);
        });
        if (!started) statuses[i] = out_of_range(str_cat("the system has no thread for stream ", i + 1));
      }
    }
    result_.seconds = seconds_since(start);
    result_.streams = streams;
    for (size_t i = 0; i < sessions.size(); ++i) {
      AIPU_RETURN_IF_ERROR(std::move(statuses[i]));
      result_.latencies.insert(result_.latencies.end(), latencies[i].begin(), latencies[i].end());
    }
    return {};
  }

  Status server(runtime::Session& session) {
    double rate = options_.rate;
    if (rate <= 0) {
      // Without --rate: 70 % of what one query after the other achieves.
      const auto start = Clock::now();
      int runs = 0;
      do {
        AIPU_RETURN_IF_ERROR(session.run());
        ++runs;
      } while (seconds_since(start) < 0.2);
      rate = 0.7 * runs / seconds_since(start);
    }
    result_.rate = rate;
    uint64_t state = options_.seed * 0x9e3779b97f4a7c15ULL + 1;
    const auto uniform = [&] {
      state ^= state >> 12;
      state ^= state << 25;
      state ^= state >> 27;
      return static_cast<double>((state * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-53;
    };
    std::vector<double> arrivals;
    for (double time = 0; time < options_.duration && arrivals.size() < 10'000'000;
         time -= std::log1p(-uniform()) / rate)
      arrivals.push_back(time);
    const auto before = Clock::now();
    AIPU_RETURN_IF_ERROR(session.run());
    // A little longer than the queries come, for those that were due at the end. Who is overloaded never catches up.
    const double end = 1.05 * options_.duration + 3 * seconds_since(before);
    const auto start = Clock::now();
    for (const double arrival : arrivals) {
      if (seconds_since(start) >= end) break;
      const auto due = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arrival));
      if (due - Clock::now() > std::chrono::milliseconds(1))
        std::this_thread::sleep_until(due - std::chrono::microseconds(200));
      while (Clock::now() < due) {
      }
      AIPU_RETURN_IF_ERROR(session.run());
      result_.latencies.push_back(seconds_since(due));
    }
    result_.seconds = seconds_since(start);
    result_.unfinished = arrivals.size() - result_.latencies.size();
    return {};
  }

  Options options_;
  std::shared_ptr<const runtime::Model> model_;
  std::vector<Array> inputs_;
  Measurement result_;
};

// As JSON and people have it; what is infinite, neither has.
std::string number(double value) {
  if (std::isinf(value)) return "null";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

constexpr std::pair<const char*, double> kPercentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}};

// Samples of a run: the first extent, where all inputs and outputs have the same there; else a run is one.
int64_t samples_per_run(const Bench& bench) {
  const runtime::DimSpec* first = nullptr;
  for (const auto specs : {bench.model().inputs(), bench.model().outputs()}) {
    for (const runtime::TensorSpec& spec : specs) {
      if (spec.shape.empty()) return 1;
      const runtime::DimSpec& dim = spec.shape.front();
      if (dim.extent < 0 && (dim.symbol.empty() || dim.symbol == "?")) return 1;
      if (first != nullptr && (dim.extent != first->extent || dim.symbol != first->symbol)) return 1;
      first = &dim;
    }
  }
  return bench.inputs().empty() ? 1 : bench.inputs().front().shape.front();
}

double samples_per_second(const Bench& bench, const Measurement& m) {
  return static_cast<double>(m.latencies.size()) * static_cast<double>(samples_per_run(bench)) / m.seconds;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// "x float32[1,3,224,224], mask bool[1]"
std::string shapes_text(const Bench& bench) {
  std::string text;
  for (size_t i = 0; i < bench.inputs().size(); ++i) {
    const Array& array = bench.inputs()[i];
    text += str_cat(i == 0 ? "" : ", ", bench.model().inputs()[i].name, " ", dtype_name(array.dtype),
                    shape_text(array.shape));
  }
  return text;
}

void print(const Options& options, const Bench& bench, const Measurement& m) {
  const runtime::Model& model = bench.model();
  tools::print(str_cat(options.model, "  target ", model.target(), ", back end ", model.backend(), ", ",
                       options.scenario, ", ", m.threads, m.threads == 1 ? " thread\n" : " threads\n"));
  tools::print(str_cat("inputs ", shapes_text(bench), "\n"));
  std::printf("load %.3f ms, first run %.3f ms\n", m.load_seconds * 1e3, m.first_run_seconds * 1e3);
  if (m.rate > 0) std::printf("arrival rate %.3f per second\n", m.rate);
  std::printf("%zu runs in %.3f s: %.3f per second, %.3f samples per second\n", m.latencies.size(), m.seconds,
              static_cast<double>(m.latencies.size()) / m.seconds, samples_per_second(bench, m));
  if (m.unfinished > 0)
    std::printf("OVERLOADED: %zu of %zu queries were not begun when the time was over\n", m.unfinished,
                m.unfinished + m.latencies.size());
  std::printf("latency ms: min %.4f  mean %.4f", m.latencies.front() * 1e3, mean(m.latencies) * 1e3);
  for (const auto& [name, p] : kPercentiles) {
    const double value = percentile(m.latencies, m.unfinished, p) * 1e3;
    if (std::isinf(value)) {
      std::printf("  %s never", name);
    } else {
      std::printf("  %s %.4f", name, value);
    }
  }
  std::printf("  max %.4f\n", m.latencies.back() * 1e3);
  if (m.cycles) std::printf("%lld cycles on the NPU\n", static_cast<long long>(*m.cycles));
}

// The start of both results: what was measured.
std::string json_head(const Options& options, const Bench& bench) {
  std::string text =
      str_cat("{\n  \"model\": ", json_string(options.model), ",\n  \"target\": ", json_string(bench.model().target()),
              ",\n  \"backend\": ", json_string(bench.model().backend()), ",\n  \"inputs\": {");
  for (size_t i = 0; i < bench.inputs().size(); ++i)
    text += str_cat(i == 0 ? "" : ", ", json_string(bench.model().inputs()[i].name), ": ",
                    shape_text(bench.inputs()[i].shape));
  return text + "}";
}

std::string json(const Options& options, const Bench& bench, const LayerProfile& profile) {
  return str_cat(json_head(options, bench), ",\n  \"threads\": ", bench.measurement().threads,
                 ",\n  \"runs\": ", bench.measurement().runs, ",\n  \"layers\": [", profile.json, "]\n}\n");
}

std::string json(const Options& options, const Bench& bench, const Measurement& m) {
  std::string text = str_cat(
      json_head(options, bench), ",\n  \"scenario\": ", json_string(options.scenario), ",\n  \"threads\": ", m.threads,
      ",\n  \"streams\": ", m.streams, ",\n  \"runs\": ", m.latencies.size(), ",\n  \"seconds\": ", number(m.seconds),
      ",\n  \"runs_per_second\": ", number(static_cast<double>(m.latencies.size()) / m.seconds),
      ",\n  \"samples_per_second\": ", number(samples_per_second(bench, m)), ",\n  \"unfinished\": ", m.unfinished,
      ",\n  \"load_ms\": ", number(m.load_seconds * 1e3), ",\n  \"first_run_ms\": ", number(m.first_run_seconds * 1e3));
  if (m.rate > 0) text += str_cat(",\n  \"rate\": ", number(m.rate));
  if (m.cycles) text += str_cat(",\n  \"cycles\": ", *m.cycles);
  text += str_cat(",\n  \"latency_ms\": {\"min\": ", number(m.latencies.front() * 1e3),
                  ", \"mean\": ", number(mean(m.latencies) * 1e3));
  for (const auto& [name, p] : kPercentiles)
    text += str_cat(", ", json_string(name), ": ", number(percentile(m.latencies, m.unfinished, p) * 1e3));
  return text + str_cat(", \"max\": ", number(m.latencies.back() * 1e3), "}\n}\n");
}

void add_options(Tool& tool, Options& options) {
  CLI::App& app = tool.app;
  app.add_option("model", options.model, "an aipu.bin")->required()->type_name("FILE");
  add_entry(app, options.entry);
  const char* group = "What to measure";
  add_list(app, "--shape", options.shapes, "NAME=8x3x224x224: shape of an input; needed where the model leaves it open")
      ->type_name("NAME=SHAPE")
      ->group(group);
  app.add_option("--scenario", options.scenario,
                 "single-stream: latencies, one after the other; offline: throughput, a session per thread; server: "
                 "latencies of queries that arrive at random")
      ->check(CLI::IsMember({"single-stream", "offline", "server"}))
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_option("--rate", options.rate,
                 "queries per second of the server scenario; default: 70 % of the sequential rate")
      ->check(positive_number(1e9))
      ->type_name("X")
      ->group(group);
  app.add_option("--duration", options.duration, "seconds to measure")
      ->check(positive_number(1e6))
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", options.seed, "of inputs and arrivals")
      ->check(seed_number())
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  group = "What to show";
  app.add_flag("--layers", options.layers,
               "where the time goes: a line per command instead of latencies; of an NPU in cycles")
      ->group(group);
  app.add_flag("--layers-by-time", options.layers_by_time, "the same, slowest first")->group(group);
  app.add_flag("--all-layers", options.all_layers, "the same without summing up the small ones")->group(group);
  app.add_option("--counters", options.counters,
                 "with --layers: events to count, as libpfm4 names them; cache-misses*64 is shown in GB/s")
      ->type_name("EVENT,...")
      ->delimiter(',')
      ->group(group);
  auto* cycles = app.add_flag("--cycles", options.cycles,
                              "how many cycles a run would take on the NPU: x2 estimates, interp counts")
                     ->group(group);
  app.add_option("--json", options.json, "write the result to a file; - for the standard output")
      ->type_name("FILE")
      ->group(group);
  group = "How to run";
  app.add_flag("--overlap", options.overlap,
               "copies beside the kernels that they do not wait for, on a thread of their own")
      ->excludes(cycles)
      ->group(group);
  add_threads(app, options.threads)->group(group);
  add_limit_options(app, &options.limits);
  app.add_option("--backend", options.backend, "native, sim, interp, null or the name of a back end library")
      ->type_name("NAME")
      ->group(group);
}

bool wants_layers(const Options& options) { return options.layers || options.layers_by_time || options.all_layers; }

// Options that would change nothing.
std::string usage_error(const Tool& tool, const Options& options) {
  const auto given = [&](const char* option) { return tool.app.count(option) > 0; };
  if (given("--rate") && options.scenario != "server") return "--rate is of --scenario server";
  if (wants_layers(options) && given("--scenario"))
    return "--layers measures one query after the other: --scenario does not fit";
  if (!options.counters.empty() && !wants_layers(options)) return "--counters go with --layers";
  if (!options.counters.empty() && options.overlap)
    return "--counters are of one command at a time: --overlap does not fit";
  if (wants_layers(options) && options.cycles) return "--cycles is of whole runs: --layers does not fit";
  return "";
}

// The text for the terminal, and the result where --json says.
Status show(const Options& options, const std::function<void()>& print_text, const std::string& json_text) {
  if (options.json == "-") {
    std::fputs(json_text.c_str(), stdout);
    return {};
  }
  print_text();
  return options.json.empty() ? Status() : write_file_atomically(options.json, json_text);
}

Status measure(const Tool& tool, const Options& options) {
  if (!options.json.empty() && options.json != "-") AIPU_RETURN_IF_ERROR(prepare_output(options.json));
  Bench bench(options);
  AIPU_RETURN_IF_ERROR(bench.open());
  warn_of_null(tool, bench.model().backend());
  if (wants_layers(options)) {
    AIPU_ASSIGN_OR_RETURN(const LayerProfile profile, bench.layers());
    return show(
        options, [&] { tools::print(str_cat("inputs ", shapes_text(bench), "\n", profile.text)); },
        json(options, bench, profile));
  }
  AIPU_ASSIGN_OR_RETURN(const Measurement result, bench.run());
  return show(
      options, [&] { print(options, bench, result); }, json(options, bench, result));
}

int main_body(const Tool& tool, const Options& options) {
  if (const std::string error = usage_error(tool, options); !error.empty()) return tool.fail_usage(error);
  warn_of_threads(tool, options.threads);
  const Status status = measure(tool, options);
  return status.ok() ? 0 : tool.fail(status);
}

}  // namespace
}  // namespace aipu::tools

int main(int argc, char** argv) {
  aipu::runtime::enable_crash_reports();
  aipu::tools::Options options;
  aipu::tools::Tool tool("aipubench", "Measures an aipu.bin with random inputs.",
                         "resnet18.aipu.bin --shape input=8x3x224x224 --threads 2");
  aipu::tools::add_options(tool, options);
  return tool.run(argc, argv, [&] { return aipu::tools::main_body(tool, options); });
}
