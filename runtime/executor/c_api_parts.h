// What the functions of the C API share: handles, errors as return values, options of other versions.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/aipu.h"
#include "runtime/base/guarded.h"
#include "runtime/model.h"
#include "runtime/session.h"

struct aipu_model {
  std::atomic<int> references{1};
  std::shared_ptr<const aipu::runtime::Model> model;
  std::vector<std::vector<int64_t>> input_shapes, output_shapes;
};

struct aipu_pool {
  std::shared_ptr<aipu::runtime::WorkerPool> pool;
};

struct aipu_session {
  std::unique_ptr<aipu::runtime::Session> session;
  bool keeps_profile = false;
  bool counts_cycles = false;
  // What aipu_session_profile() took, with texts that end with a zero.
  struct Row {
    aipu::runtime::Session::ProfileRow row;
    std::string engine, name, origin;
  };
  std::vector<Row> rows;

  aipu::Status check_profile() const {
    if (keeps_profile) return {};
    return aipu::invalid_argument("the session keeps no profile: set aipu_session_options.profile");
  }
};

struct aipu_run {
  std::shared_ptr<const aipu::runtime::Run> run;
};

namespace aipu::runtime::c_api {

// Keeps the message for aipu_last_error().
aipu_status finish(const Status& status) noexcept;

template <typename Body>
aipu_status guarded(Body&& body) noexcept {
  return finish(aipu::guarded(std::forward<Body>(body)));
}

struct Argument {
  const char* name;
  const void* value;
};
// That none is null.
Status require(std::initializer_list<Argument> arguments);

// Limits of 0 are none.
Status check_limits(std::initializer_list<double> limits);

// The options that a caller has, whose version may know fewer fields or more; null: all zero. The first version had
// `first_version_bytes`.
template <typename Options>
Result<Options> known_options(const Options* given, size_t first_version_bytes, std::string_view type) {
  Options options = {};
  if (given == nullptr) return options;
  if (given->struct_bytes < first_version_bytes) {
    return invalid_argument(
        str_cat("the struct_bytes of ", type, " are ", given->struct_bytes, "; set them to sizeof(", type, ")"));
  }
  // What a caller has that was compiled for a later version is not known here: it must say nothing.
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof options; i < given->struct_bytes; ++i) {
    if (bytes[i] != 0) return unsupported(str_cat(type, " asks for something that this runtime does not know"));
  }
  std::memcpy(&options, given, std::min(given->struct_bytes, sizeof options));
  return options;
}

}  // namespace aipu::runtime::c_api
