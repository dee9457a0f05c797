// The border of a library of operations (text_api.h).
#include "runtime/text/library.h"

#include <algorithm>
#include <cstdio>
#include <exception>

namespace aipu::text {
namespace {

MadeOperation made(std::string_view name, const Given& given) {
  const auto [file, rows] = contents();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  if (row == rows.end()) return unsupported(str_cat(file, " does not know this operation; use a newer one"));
  if (given.texts.size() != row->texts || given.numbers.size() != row->numbers)
    return unsupported(str_cat(file, " knows this operation with other parameters; use a newer one"));
  return row->make(given);
}

// The status of `body`, whatever happens in it.
template <typename Body>
Status guarded(const Body& body) try {
  return body();
} catch (const std::exception& error) {
  return out_of_range(error.what());
}

void tell(const Status& status, char* message, size_t message_bytes) {
  std::snprintf(message, message_bytes, "%s", status.message().c_str());
}

void* open(const char* name, const aipu_text* texts, size_t text_count, const int64_t* numbers, size_t number_count,
           char* message, size_t message_bytes) {
  std::unique_ptr<Operation> operation;
  const Status status = guarded([&]() -> Status {
    AIPU_ASSIGN_OR_RETURN(operation, made(name, {{texts, text_count}, {numbers, number_count}}));
    return {};
  });
  if (!status.ok()) tell(status, message, message_bytes);
  return status.ok() ? operation.release() : nullptr;
}

void close(void* operation) { delete static_cast<Operation*>(operation); }

int run(const void* operation, const aipu_text_pool* pool, const aipu_text_tensor* inputs, size_t input_count,
        const aipu_text_tensor* outputs, size_t output_count, char* message, size_t message_bytes) {
  const Status status = guarded([&] {
    const Arguments arguments = {*pool, {inputs, input_count}, {outputs, output_count}};
    return static_cast<const Operation*>(operation)->run(arguments);
  });
  if (!status.ok()) tell(status, message, message_bytes);
  return status.ok() ? 0 : 1;
}

constexpr aipu_text_library kBorder = {AIPU_TEXT_API_VERSION, &open, &close, &run};

}  // namespace

const aipu_text_library* library() { return &kBorder; }

}  // namespace aipu::text
