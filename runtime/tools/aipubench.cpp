// aipubench: measures latency and throughput of an aipu.bin.
//
//  single-stream  one query after the other: latency percentiles
//  offline        as many sessions as fit the threads, all busy: throughput
//  server         queries arrive at random (Poisson) at --rate per second; latency counts from arrival, queueing
//                 included
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <thread>

#include <CLI/CLI.hpp>

#include "runtime/base/file.h"
#include "runtime/base/parallel.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/inputs.h"
#include "runtime/tools/layer_profile.h"

namespace aipu::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, backend, scenario = "single-stream", json;
  std::vector<std::string> shapes;
  int threads = 0;
  double duration = 3, rate = 0;
  uint64_t seed = 1;
  bool layers = false, layers_by_time = false, all_layers = false;
};

struct Measurement {
  std::vector<double> latencies;  // seconds
  double seconds = 0;             // from first query to last answer
  double load_seconds = 0, first_run_seconds = 0;
  int threads = 0, streams = 1;
  double rate = 0;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(p / 100 * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size() - 1, rank == 0 ? 0 : rank - 1)];
}

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}

  Result<Measurement> run() {
    const auto start = Clock::now();
    AIPU_RETURN_IF_ERROR(open());
    AIPU_ASSIGN_OR_RETURN(auto session, open_session(options_.threads));
    result_.threads = session->threads();
    result_.load_seconds = seconds_since(start);
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
    return std::move(result_);
  }

  // Runs with profiling for the duration: where the time goes.
  Result<std::string> layers() {
    AIPU_RETURN_IF_ERROR(open());
    runtime::SessionOptions session_options;
    session_options.threads = options_.threads;
    session_options.profile = true;
    AIPU_ASSIGN_OR_RETURN(const auto session, runtime::Session::create(model_, session_options));
    AIPU_RETURN_IF_ERROR(bind_all(*session, inputs_));
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
    const MachinePeak peak = measure_machine_peak(session->threads());
    return str_cat(options_.model, ": medians of ", runs, " runs, ", session->threads(),
                   session->threads() == 1 ? " thread, " : " threads, ", session->arena_bytes(), " bytes of arena\n",
                   layer_profile(session->profile(), peak, options_.layers_by_time, options_.all_layers));
  }

  const runtime::Model& model() const { return *model_; }

 private:
  // Loads the model and makes its inputs.
  Status open() {
    runtime::LoadOptions load_options;
    load_options.backend = options_.backend;
    AIPU_ASSIGN_OR_RETURN(model_, runtime::Model::load(options_.model, load_options));
    std::map<size_t, std::vector<int64_t>> given;
    for (const std::string& text : options_.shapes) {
      AIPU_ASSIGN_OR_RETURN(const auto named, split_named(text, model_->inputs(), "input"));
      AIPU_ASSIGN_OR_RETURN(given[named.first], parse_shape(named.second));
    }
    AIPU_ASSIGN_OR_RETURN(const auto shapes, complete_shapes(*model_, given));
    for (size_t i = 0; i < shapes.size(); ++i) {
      AIPU_ASSIGN_OR_RETURN(Array array, random_array(model_->inputs()[i].dtype, shapes[i], options_.seed + i));
      inputs_.push_back(std::move(array));
    }
    return {};
  }

  Result<std::unique_ptr<runtime::Session>> open_session(int threads) {
    runtime::SessionOptions options;
    options.threads = threads;
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
    const auto start = Clock::now();
    for (const double arrival : arrivals) {
      const auto due = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arrival));
      if (due - Clock::now() > std::chrono::milliseconds(1))
        std::this_thread::sleep_until(due - std::chrono::microseconds(200));
      while (Clock::now() < due) {
      }
      AIPU_RETURN_IF_ERROR(session.run());
      result_.latencies.push_back(seconds_since(due));
    }
    result_.seconds = seconds_since(start);
    return {};
  }

  Options options_;
  std::shared_ptr<const runtime::Model> model_;
  std::vector<Array> inputs_;
  Measurement result_;
};

std::string number(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

constexpr std::pair<const char*, double> kPercentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void print(const Options& options, const runtime::Model& model, const Measurement& m) {
  std::printf("%s  target %s, back end %s, %s, %d thread%s\n", options.model.c_str(), model.target().c_str(),
              model.backend().c_str(), options.scenario.c_str(), m.threads, m.threads == 1 ? "" : "s");
  std::printf("load %.3f ms, first run %.3f ms\n", m.load_seconds * 1e3, m.first_run_seconds * 1e3);
  if (m.rate > 0) std::printf("arrival rate %.3f per second\n", m.rate);
  std::printf("%zu runs in %.3f s: %.3f per second\n", m.latencies.size(), m.seconds,
              static_cast<double>(m.latencies.size()) / m.seconds);
  std::printf("latency ms: min %.4f  mean %.4f", m.latencies.front() * 1e3, mean(m.latencies) * 1e3);
  for (const auto& [name, p] : kPercentiles) std::printf("  %s %.4f", name, percentile(m.latencies, p) * 1e3);
  std::printf("  max %.4f\n", m.latencies.back() * 1e3);
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

std::string json(const Options& options, const runtime::Model& model, const Measurement& m) {
  std::string text = str_cat(
      "{\n  \"model\": ", json_string(options.model), ",\n  \"target\": ", json_string(model.target()),
      ",\n  \"backend\": ", json_string(model.backend()), ",\n  \"scenario\": ", json_string(options.scenario),
      ",\n  \"threads\": ", m.threads, ",\n  \"streams\": ", m.streams, ",\n  \"runs\": ", m.latencies.size(),
      ",\n  \"seconds\": ", number(m.seconds),
      ",\n  \"runs_per_second\": ", number(static_cast<double>(m.latencies.size()) / m.seconds),
      ",\n  \"load_ms\": ", number(m.load_seconds * 1e3), ",\n  \"first_run_ms\": ", number(m.first_run_seconds * 1e3));
  if (m.rate > 0) text += str_cat(",\n  \"rate\": ", number(m.rate));
  text += str_cat(",\n  \"latency_ms\": {\"min\": ", number(m.latencies.front() * 1e3),
                  ", \"mean\": ", number(mean(m.latencies) * 1e3));
  for (const auto& [name, p] : kPercentiles)
    text += str_cat(", ", json_string(name), ": ", number(percentile(m.latencies, p) * 1e3));
  return text + str_cat(", \"max\": ", number(m.latencies.back() * 1e3), "}\n}\n");
}

int main_inner(int argc, char** argv) {
  Options options;
  CLI::App app("Measures an aipu.bin with random inputs.", "aipubench");
  app.add_option("model", options.model, "aipu.bin")->required();
  app.add_option("--shape", options.shapes, "NAME=8x3x224x224: shape of an input; symbols that are not given are 1")
      ->take_all();
  app.add_option("--threads", options.threads, "threads; 0: one per CPU")->check(CLI::NonNegativeNumber);
  app.add_option("--duration", options.duration, "seconds to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--scenario", options.scenario)
      ->check(CLI::IsMember({"single-stream", "offline", "server"}))
      ->capture_default_str();
  app.add_option("--rate", options.rate,
                 "queries per second of the server scenario; default: 70 % of the sequential rate");
  app.add_option("--seed", options.seed, "of inputs and arrivals");
  app.add_option("--backend", options.backend, "native, sim, interp, null or the name of a back end library");
  app.add_flag("--layers", options.layers, "where the time goes: a line per command instead of latencies");
  app.add_flag("--layers-by-time", options.layers_by_time, "the same, slowest first");
  app.add_flag("--all-layers", options.all_layers, "the same without summing up the small ones");
  app.add_option("--json", options.json, "write the result to a file; - for the standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (!options.json.empty() && options.json != "-") {
    if (const Status status = prepare_output(options.json); !status.ok()) {
      std::fprintf(stderr, "aipubench: %s\n", status.message().c_str());
      return 1;
    }
  }
  Bench bench(options);
  if (options.layers || options.layers_by_time || options.all_layers) {
    const auto text = bench.layers();
    if (text.ok()) {
      std::fputs(text->c_str(), stdout);
    } else {
      std::fprintf(stderr, "aipubench: %s\n", text.status().message().c_str());
    }
    return text.ok() ? 0 : 1;
  }
  auto result = bench.run();
  Status status = result.ok() ? Status() : result.status();
  if (status.ok()) {
    if (options.json != "-") print(options, bench.model(), *result);
    if (options.json == "-") {
      std::fputs(json(options, bench.model(), *result).c_str(), stdout);
    } else if (!options.json.empty()) {
      status = write_file_atomically(options.json, json(options, bench.model(), *result));
    }
  }
  if (!status.ok()) std::fprintf(stderr, "aipubench: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace aipu::tools

int main(int argc, char** argv) {
  aipu::runtime::enable_crash_reports();
  try {
    return aipu::tools::main_inner(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "aipubench: %s\n", error.what());
    return 1;
  }
}
