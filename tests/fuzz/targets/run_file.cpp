#include "tests/fuzz/targets/run_file.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/model.h"
#include "runtime/session.h"

namespace aipu::fuzz {
namespace {

// What a symbol of an input's shape is.
constexpr int64_t kExtent = 2;

Status run(const runtime::Model& model, runtime::Session& session) {
  static const std::vector<std::byte> zeros(1 << 16);
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    std::vector<int64_t> shape;
    int64_t bytes = 8;
    for (const runtime::DimSpec& dim : model.inputs()[i].shape) {
      shape.push_back(dim.extent >= 0 ? dim.extent : kExtent);
      bytes = std::min<int64_t>(bytes, 1 << 20) * std::min<int64_t>(shape.back(), 1 << 20);
    }
    if (bytes > static_cast<int64_t>(zeros.size())) return {};
    AIPU_RETURN_IF_ERROR(session.bind_input(i, {model.inputs()[i].dtype, shape, zeros.data()}));
  }
  return session.run();
}

}  // namespace

FileOutcome run_file(std::span<const std::byte> file) {
  ::setenv("AIPU_INTERP_MAX_STEPS", "20000", 0);
  FileOutcome outcome;
  runtime::LoadOptions options;
  options.backend = "interp";
  options.budget = {256 << 20, 10};
  const auto model = runtime::Model::from_bytes(file, options);
  outcome.load = model.status();
  if (!model.ok()) return outcome;
  runtime::SessionOptions session_options;
  session_options.threads = 1;
  session_options.memory_limit_bytes = 16 << 20;
  session_options.run_seconds = 10;
  // The last error is told.
  for (const std::string& name : (*model)->entries()) {
    const auto entry = (*model)->open(name);
    const auto session = entry.ok() ? runtime::Session::create(*entry, session_options) : entry.status();
    const Status status = session.ok() ? run(**entry, **session) : session.status();
    if (!status.ok()) outcome.run = status;
  }
  return outcome;
}

}  // namespace aipu::fuzz
