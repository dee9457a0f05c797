#include "kernels/dsl/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace aipu::dsl {
namespace {

void append_text(const Captured& captured, std::string* out) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          *out += "None";
        } else if constexpr (std::is_same_v<T, bool>) {
          *out += v ? "True" : "False";
        } else if constexpr (std::is_same_v<T, int64_t>) {
          *out += std::to_string(v);
        } else if constexpr (std::is_same_v<T, double>) {
          *out += fmt::format("{:a}", v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          *out += fmt::format("{}\"{}\"", v.size(), v);  // the length keeps texts with quotes apart
        } else if constexpr (std::is_same_v<T, CapturedList>) {
          *out += '[';
          for (const Captured& c : v) {
            append_text(c, out);
            *out += ',';
          }
          *out += ']';
        } else if constexpr (std::is_same_v<T, CapturedTuple>) {
          *out += '(';
          for (const Captured& c : v.items) {
            append_text(c, out);
            *out += ',';
          }
          *out += ')';
        } else if constexpr (std::is_same_v<T, CapturedDict>) {
          *out += '{';
          for (size_t i = 0; i < v.keys.size(); ++i) {
            append_text(v.keys[i], out);
            *out += ':';
            append_text(v.values[i], out);
            *out += ',';
          }
          *out += '}';
        } else if constexpr (std::is_same_v<T, CapturedArray>) {
          *out += fmt::format("array({}", dtype_name(v.dtype));
          for (const int64_t d : v.shape) *out += fmt::format(",{}", d);
          *out += ':';
          for (const std::byte b : v.bytes) *out += fmt::format("{:02x}", static_cast<int>(b));
          *out += ')';
        } else if constexpr (std::is_same_v<T, CapturedType>) {
          *out += fmt::format("type({}{})", v.size_var ? "size " : "", v.type.text());
        } else if constexpr (std::is_same_v<T, CapturedRecordType>) {
          *out += fmt::format("record type({})", v.name);
        } else if constexpr (std::is_same_v<T, CapturedRecord>) {
          *out += fmt::format("record({},", v.type.name);
          for (const Captured& c : v.values) {
            append_text(c, out);
            *out += ',';
          }
          *out += ')';
        } else if constexpr (std::is_same_v<T, CapturedFunction>) {
          *out += fmt::format("function({})", static_cast<const void*>(v.definition.get()));
        } else {
          *out += fmt::format("object({})", static_cast<const void*>(v.object.get()));
        }
      },
      captured.value);
}

}  // namespace

Result<Captured> Environment::attribute(const Captured&, std::string_view name) {
  return unsupported(fmt::format("The object has no attribute \"{}\" that a kernel can use.", name));
}

Result<Captured> Environment::call(const Captured&, const CapturedList&,
                                   const std::vector<std::pair<std::string, Captured>>&) {
  return unsupported("The object can't be called in a kernel.");
}

Result<Captured> Environment::operate(std::string_view operation, const CapturedList&) {
  return unsupported(fmt::format("The object does not support \"{}\" in a kernel.", operation));
}

std::optional<Captured> Environment::annotation(std::string_view) { return std::nullopt; }

std::optional<Captured> Environment::default_value(std::string_view) { return std::nullopt; }

std::optional<ParameterCount> Environment::parameter_count(std::string_view) { return std::nullopt; }

TemplateParams& TemplateParams::set(std::string name, const std::vector<int64_t>& v) {
  CapturedList list;
  for (const int64_t i : v) list.emplace_back().value = i;
  return set(std::move(name), Captured{std::move(list)});
}
TemplateParams& TemplateParams::set(std::string name, std::vector<std::string> v) {
  CapturedList list;
  for (std::string& s : v) list.emplace_back().value = std::move(s);
  return set(std::move(name), Captured{std::move(list)});
}
TemplateParams& TemplateParams::set(std::string name, const std::vector<bool>& v) {
  CapturedList list;
  for (const bool b : v) list.emplace_back().value = b;
  return set(std::move(name), Captured{std::move(list)});
}

TemplateParams& TemplateParams::set_function(std::string name, FileFunction function) {
  functions_[std::move(name)] = std::make_shared<const FileFunction>(std::move(function));
  return *this;
}

std::string TemplateParams::text() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    text += name + "=";
    append_text(value, &text);
    text += ';';
  }
  for (const auto& [name, source] : sources_) text += fmt::format("{}:{}\"{}\";", name, source.size(), source);
  for (const auto& [name, f] : functions_) {
    text +=
        fmt::format("{}:{} {}\"{}\"{} {}(", name, f->file, f->text.size(), f->text, f->name, fmt::join(f->lanes, ","));
    text += f->params.text() + ");";
  }
  for (const auto& [name, count] : counts_) text += fmt::format("{}*{};", name, count.items.value_or(-1));
  return text;
}

}  // namespace aipu::dsl
