// Errors are values. Status says what went wrong in one line; Result<T> is a T or such a Status.
//
// A message names what was found, what was expected and, where one exists, the way out. Each layer that passes an error
// on may add one sentence in front with context(): "model.onnx: node 'conv1' (Conv): ...".
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace aipu {

enum class ErrorCode : uint8_t {
  kOk,
  kInvalidArgument,  // the caller's or the command line's fault
  kInvalidModel,     // the ONNX model, kernel file or aipu.bin is malformed or inconsistent
  kUnsupported,      // well-formed, but not something this build can do
  kNotFound,         // a file, symbol, input name
  kIo,               // the operating system said no
  kOutOfRange,       // sizes that overflow or exceed a stated limit
  kInternal,         // our bug
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : rep_(std::make_unique<Rep>(Rep{code, std::move(message)})) {}
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return rep_ == nullptr; }
  ErrorCode code() const { return rep_ ? rep_->code : ErrorCode::kOk; }
  const std::string& message() const;

  // Puts "where: " in front of the message of an error; does nothing to success.
  Status&& context(std::string_view where) &&;

 private:
  struct Rep {
    ErrorCode code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(Status error) : value_(std::move(error)) {}  // NOLINT: implicit on purpose, so that `return error;` works
  template <typename U>
  requires(std::convertible_to<U&&, T> && !std::same_as<std::remove_cvref_t<U>, Status> &&
           !std::same_as<std::remove_cvref_t<U>, Result>) Result(U&& value)
      : value_(std::in_place_index<1>, std::forward<U>(value)) {}  // NOLINT: as above

  bool ok() const { return value_.index() == 1; }
  Status status() const& { return ok() ? Status() : std::get<0>(value_); }
  Status status() && { return ok() ? Status() : std::move(std::get<0>(value_)); }
  T& value() & { return std::get<1>(value_); }
  const T& value() const& { return std::get<1>(value_); }
  T&& value() && { return std::get<1>(std::move(value_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<Status, T> value_;
};

// Concatenates strings, characters and integers; the runtime's stand-in for fmt, which it must not depend on.
namespace detail {
inline void append(std::string& out, std::string_view piece) { out += piece; }
inline void append(std::string& out, char piece) { out += piece; }
template <std::integral T>
requires(!std::same_as<T, char>) void append(std::string& out, T piece) { out += std::to_string(piece); }
inline void append(std::string& out, double piece) { out += std::to_string(piece); }
}  // namespace detail

template <typename... Pieces>
std::string str_cat(const Pieces&... pieces) {
  std::string out;
  (detail::append(out, pieces), ...);
  return out;
}

inline Status invalid_argument(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }
inline Status invalid_model(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }
inline Status unsupported(std::string message) { return {ErrorCode::kUnsupported, std::move(message)}; }
inline Status not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
inline Status io_error(std::string message) { return {ErrorCode::kIo, std::move(message)}; }
inline Status out_of_range(std::string message) { return {ErrorCode::kOutOfRange, std::move(message)}; }
inline Status internal_error(std::string message) { return {ErrorCode::kInternal, std::move(message)}; }

#define AIPU_RETURN_IF_ERROR(expression)                                  \
  do {                                                                    \
    if (::aipu::Status aipu_status_ = (expression); !aipu_status_.ok()) { \
      return aipu_status_;                                                \
    }                                                                     \
  } while (false)

#define AIPU_CONCAT_INNER(a, b) a##b
#define AIPU_CONCAT(a, b) AIPU_CONCAT_INNER(a, b)
// AIPU_ASSIGN_OR_RETURN(auto x, make_x());
#define AIPU_ASSIGN_OR_RETURN(declaration, expression) \
  AIPU_ASSIGN_OR_RETURN_INNER(AIPU_CONCAT(aipu_result_, __LINE__), declaration, expression)
#define AIPU_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                        \
  if (!temporary.ok()) return std::move(temporary).status();            \
  declaration = std::move(temporary).value()

}  // namespace aipu
