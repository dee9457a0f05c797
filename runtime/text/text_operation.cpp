#include "runtime/text/text_operation.h"

#include <array>

#include "runtime/backends/own_folders.h"

namespace aipu::runtime {
namespace {

constexpr size_t kMessageBytes = 512;

Result<const aipu_text_library*> find_library(fb::OperationLibrary library) {
  const bool is_text = library == fb::OperationLibrary::kText;
  const char* const file = is_text ? "libaipu_text.so" : "libaipu_image.so";
  AIPU_ASSIGN_OR_RETURN(void* const symbol, own_function(file, is_text ? AIPU_TEXT_SYMBOL : AIPU_IMAGE_SYMBOL,
                                                         is_text ? "operations on strings" : "encoded images"));
  const aipu_text_library* table = reinterpret_cast<aipu_text_function>(symbol)();
  if (table == nullptr || table->api_version != AIPU_TEXT_API_VERSION)
    return unsupported(str_cat(file, " is not the library of this runtime's version"));
  return table;
}

}  // namespace

Result<TextOperation> TextOperation::open(fb::OperationLibrary kind, const std::string& name,
                                          std::span<const std::string_view> texts, std::span<const int64_t> numbers) {
  AIPU_ASSIGN_OR_RETURN(const aipu_text_library* library, find_library(kind));
  std::vector<aipu_text> given;
  for (const std::string_view text : texts) given.push_back({text.data(), text.size()});
  std::array<char, kMessageBytes> message = {};
  void* operation = library->open(name.c_str(), given.data(), given.size(), numbers.data(), numbers.size(),
                                  message.data(), message.size());
  if (operation == nullptr) return unsupported(str_cat(name, ": ", message.data()));
  return TextOperation({operation, Close{library}});
}

Status TextOperation::run(const aipu_text_pool& pool, std::span<const aipu_text_tensor> inputs,
                          std::span<const aipu_text_tensor> outputs) const {
  std::array<char, kMessageBytes> message = {};
  const int failed =
      operation_.get_deleter().library->run(operation_.get(), &pool, inputs.data(), inputs.size(), outputs.data(),
                                            outputs.size(), message.data(), message.size());
  return failed == 0 ? Status() : invalid_argument(message.data());
}

}  // namespace aipu::runtime
