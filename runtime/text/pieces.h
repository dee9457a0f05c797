// Operations that take strings apart. A Finder has `for_each_piece(text, visit)`, whose visit gives a Status, and
// `fill()`, which rows with fewer pieces than others end with.
#pragma once

#include <utility>

#include "runtime/text/operation.h"

namespace aipu::text {

template <typename Finder>
class CountOfPieces final : public Operation {
 public:
  explicit CountOfPieces(Finder finder) : finder_(std::move(finder)) {}

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kI64, arguments.inputs[0].count));
    for (size_t k = 0; k < arguments.inputs[0].count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      int64_t count = 0;
      AIPU_RETURN_IF_ERROR(finder_.for_each_piece(text, [&](std::string_view) -> Status {
        ++count;
        return {};
      }));
      store(arguments.outputs[0], k, count);
    }
    return {};
  }

 private:
  Finder finder_;
};

template <typename Finder>
class RowsOfPieces final : public Operation {
 public:
  explicit RowsOfPieces(Finder finder) : finder_(std::move(finder)) {}

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    const size_t rows = arguments.inputs[0].count;
    if (rows == 0) return {};
    const size_t width = arguments.outputs[0].count / rows;
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kI64, rows * width));
    for (size_t k = 0; k < rows; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      size_t piece = 0;
      AIPU_RETURN_IF_ERROR(finder_.for_each_piece(text, [&](std::string_view part) -> Status {
        if (piece == width) return invalid_argument(str_cat("element ", k, " has more than ", width, " pieces"));
        return arguments.put(arguments.outputs[0], k * width + piece++, part);
      }));
      while (piece < width)
        AIPU_RETURN_IF_ERROR(arguments.put(arguments.outputs[0], k * width + piece++, finder_.fill()));
    }
    return {};
  }

 private:
  Finder finder_;
};

}  // namespace aipu::text
