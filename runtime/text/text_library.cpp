// libaipu_text.so (text_api.h): the table of operations, and the border.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "runtime/text/operation.h"

namespace {

using aipu::Status;
using aipu::text::Arguments;
using aipu::text::Given;
using aipu::text::MadeOperation;
using aipu::text::Operation;

struct Row {
  std::string_view name;
  size_t texts, numbers;  // that it is told
  MadeOperation (*make)(const Given&);
};

constexpr Row kRows[] = {
    {"ChangeCase", 2, 0, aipu::text::make_change_case},
    {"CountPieces", 1, 1, aipu::text::make_count_pieces},
    {"NumberToText", 0, 0, aipu::text::make_number_to_text},
    {"RegexFullMatch", 1, 0, aipu::text::make_regex_full_match},
    {"SplitPieces", 1, 1, aipu::text::make_split_pieces},
    {"StringConcat", 0, 0, aipu::text::make_string_concat},
    {"TextToNumber", 0, 0, aipu::text::make_text_to_number},
};

MadeOperation made(std::string_view name, const Given& given) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  if (row == std::end(kRows)) return aipu::unsupported("libaipu_text.so does not know this operation; use a newer one");
  if (given.texts.size() != row->texts || given.numbers.size() != row->numbers)
    return aipu::unsupported("libaipu_text.so knows this operation with other parameters; use a newer one");
  return row->make(given);
}

// The status of `body`, whatever happens in it.
template <typename Body>
Status guarded(const Body& body) try {
  return body();
} catch (const std::exception& error) {
  return aipu::out_of_range(error.what());
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

constexpr aipu_text_library kLibrary = {AIPU_TEXT_API_VERSION, &open, &close, &run};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_text_library* aipu_text_v1() { return &kLibrary; }
