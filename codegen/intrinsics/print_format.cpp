#include "codegen/intrinsics/print_format.h"

#include <fmt/format.h>

#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

struct Specifier {
  std::string_view text;  // "%d", "%v8hlf", "%%"
  size_t begin = 0;
  bool known = false;
};

// Longer ones first.
constexpr std::string_view kSpecifiers[] = {"%v32hhx", "%v16hx", "%v8hlx", "%v16hf", "%v8hlf", "%d", "%i", "%u",
                                            "%o",      "%x",     "%X",     "%f",     "%c",     "%s", "%p", "%%"};

std::vector<Specifier> find_specifiers(std::string_view format) {
  std::vector<Specifier> result;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    Specifier found{format.substr(i, 2), i, false};
    for (const std::string_view candidate : kSpecifiers) {
      if (format.substr(i, candidate.size()) == candidate) {
        found = {candidate, i, true};
        break;
      }
    }
    i += found.text.size() - 1;
    result.push_back(found);
  }
  return result;
}

// Six decimals, cut and not rounded.
std::string truncated(double value) {
  std::string text = fmt::format("{:.12f}", value);
  if (text.size() > 6 && text.find('.') != std::string::npos) text.resize(text.size() - 6);
  return text;
}

uint32_t pattern32(const LaneRef& value) {
  if (value.type.element == DType::kF16 || value.type.element == DType::kBF16 || is_floating(value.type.element)) {
    const auto single = static_cast<float>(read_float_lane(value.type, value.data, 0));
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    return bits;
  }
  return static_cast<uint32_t>(read_int_lane(value.type, value.data, 0));
}

std::string format_vector(std::string_view spec, const LaneRef& value) {
  std::string out;
  const int bytes = spec.find("hhx") != spec.npos ? 1 : spec.find("hl") != spec.npos ? 4 : 2;
  const int lanes = 32 / bytes;
  for (int i = 0; i < lanes; ++i) {
    if (i > 0) out += ',';
    if (spec.back() == 'f') {
      out += truncated(read_float_lane(value.type, value.data, i));
    } else {
      uint32_t lane = 0;
      std::memcpy(&lane, value.data + i * bytes, static_cast<size_t>(bytes));
      out += fmt::format("0x{:x}", lane);
    }
  }
  return out;
}

}  // namespace

Status check_print_format(std::string_view format, std::span<const Type> arguments) {
  size_t used = 0;
  const std::vector<Specifier> specifiers = find_specifiers(format);
  for (const Specifier& spec : specifiers) {
    if (!spec.known) return invalid_argument(fmt::format("Unsupported specifier \"{}\".", spec.text));
    used += spec.text != "%%";
  }
  if (used != arguments.size()) {
    return invalid_argument(
        fmt::format("The specifier count \"{}\" not equal to the argument count \"{}\".", used, arguments.size()));
  }
  size_t next = 0;
  for (const Specifier& spec : specifiers) {
    if (spec.text == "%%") continue;
    const Type type = arguments[next++];
    const auto only = [&](bool accepted, std::string_view what) {
      return accepted ? Status()
                      : invalid_argument(fmt::format("Specifier \"{}\" only accept {} value.", spec.text, what));
    };
    const bool integer = type.is_scalar() && (is_integer(type.element) || is_bool(type.element));
    const bool floating = type.is_scalar() && is_floating(type.element);
    const char last = spec.text.back();
    if (spec.text[1] == 'v') {
      const bool native = type.is_vector() && type.bytes() == 32 && !is_bool(type.element);
      AIPU_RETURN_IF_ERROR(last == 'f' ? only(native && is_floating(type.element), "256-bit float vector")
                                       : only(native, "256-bit vector"));
    } else if (last == 'x' || last == 'X') {
      AIPU_RETURN_IF_ERROR(only(integer || floating, "scalar"));
    } else if (last == 'f') {
      AIPU_RETURN_IF_ERROR(only(floating, "float scalar"));
    } else if (last == 's') {
      AIPU_RETURN_IF_ERROR(only(type.element == DType::kString, "string"));
    } else if (last == 'p') {
      AIPU_RETURN_IF_ERROR(only(type.pointer, "pointer"));
    } else {
      AIPU_RETURN_IF_ERROR(only(integer, "integer scalar"));
    }
  }
  return {};
}

std::string format_print(std::string_view format, std::span<const LaneRef> arguments,
                         std::span<const std::string_view> strings, MachineState& machine) {
  std::string out;
  size_t position = 0, next = 0;
  for (const Specifier& spec : find_specifiers(format)) {
    out += format.substr(position, spec.begin - position);
    position = spec.begin + spec.text.size();
    if (spec.text == "%%") {
      out += '%';
      continue;
    }
    if (next >= arguments.size()) break;
    const size_t index = next++;
    const LaneRef& value = arguments[index];
    if (spec.text[1] == 'v') {
      out += format_vector(spec.text, value);
      continue;
    }
    switch (spec.text[1]) {
      case 'd':
      case 'i':
        out += fmt::format("{}", static_cast<int32_t>(pattern32(value)));
        break;
      case 'u':
        out += fmt::format("{}", pattern32(value));
        break;
      case 'o':
        out += fmt::format("0{:o}", pattern32(value));
        break;
      case 'x':
        out += fmt::format("0x{:x}", pattern32(value));
        break;
      case 'X':
        out += fmt::format("0x{:X}", pattern32(value));
        break;
      case 'f':
        out += truncated(read_float_lane(value.type, value.data, 0));
        break;
      case 'c':
        out += static_cast<char>(pattern32(value));
        break;
      case 's':
        out += strings[index];
        break;
      default:
        out += fmt::format("0x{:x}", machine.address_of(value.get<Pointer>()));
        break;
    }
  }
  out += format.substr(std::min(position, format.size()));
  return out;
}

}  // namespace aipu::tir
