#include "gbuilder/tools/entry_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "gbuilder/build_options.h"

namespace aipu::gbuilder {

namespace {

// NAME=16000, NAME=0.5, NAME=[1,2], NAME=true
graph::ConstantPtr constant_of(std::string list) {
  const bool is_list = list.size() >= 2 && list.front() == '[' && list.back() == ']';
  if (is_list) list = list.substr(1, list.size() - 2);
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  std::vector<uint8_t> flags;
  size_t count = 0;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ','); ++count) {
    if (item == "true" || item == "false") {
      flags.push_back(item == "true" ? 1 : 0);
      continue;
    }
    const char* end = item.data() + item.size();
    int64_t integer = 0;
    double number = 0;
    if (const auto r = std::from_chars(item.data(), end, integer); r.ec == std::errc() && r.ptr == end)
      integers.push_back(integer);
    if (const auto r = std::from_chars(item.data(), end, number); r.ec != std::errc() || r.ptr != end) return nullptr;
    numbers.push_back(number);
  }
  if (count == 0 || (!is_list && count != 1)) return nullptr;
  const std::vector<int64_t> shape =
      is_list ? std::vector<int64_t>{static_cast<int64_t>(count)} : std::vector<int64_t>{};
  using graph::Constant;
  if (flags.size() == count) return Constant::of<uint8_t>(DType::kBool, shape, flags);
  if (integers.size() == count) return Constant::of<int64_t>(DType::kI64, shape, integers);
  if (numbers.size() != count) return nullptr;
  const std::vector<float> floats(numbers.begin(), numbers.end());
  return Constant::of<float>(DType::kF32, shape, floats);
}

// Sets the constant in `entry`; what is wrong, "" if nothing is. `text` is the option as it was given.
std::string add_constant(const std::string& value, const std::string& text, EntryOptions* entry) {
  const size_t equals = value.find('=');
  const auto constant = equals == std::string::npos || equals == 0 ? nullptr : constant_of(value.substr(equals + 1));
  if (constant == nullptr)
    return fmt::format(
        "--constant {}: expected NAME=VALUE or NAME=[VALUE,...], of integers, of numbers with a point, or of true and "
        "false",
        text);
  const std::string name = value.substr(0, equals);
  if (!entry->constant_inputs.emplace(name, constant).second)
    return fmt::format("--constant {}: the input '{}' is given twice", text, name);
  return "";
}

std::string list_entries(const EntryArguments& arguments, std::vector<EntryOptions>* entries) {
  for (const std::string& file : arguments.models) {
    EntryOptions* before = entries->empty() ? nullptr : &entries->back();
    const bool is_model = file.ends_with(".onnx") || file.ends_with(".txt");
    if (before != nullptr && !is_model && before->weights.empty()) {
      const bool is_ir = !before->model.ends_with(".onnx");
      if (!is_ir && file.ends_with(".bin"))
        return fmt::format("weights '{}' beside an ONNX model, which has its own", file);
      if (is_ir) {
        before->weights = file;
        continue;
      }
    }
    entries->emplace_back().model = file;
  }
  for (const std::string& text : arguments.entries) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return fmt::format("--entry {}: expected NAME=MODEL", text);
    EntryOptions& entry = entries->emplace_back();
    entry.entry = text.substr(0, equals);
    entry.model = text.substr(equals + 1);
  }
  return entries->empty() ? "which model? Give MODEL.onnx (see --help)" : "";
}

}  // namespace

std::string set_entries(const EntryArguments& arguments, BuildOptions* build) {
  std::vector<EntryOptions> entries;
  if (std::string error = list_entries(arguments, &entries); !error.empty()) return error;
  static_cast<EntryOptions&>(*build) = entries.front();
  build->more_entries.assign(std::next(entries.begin()), entries.end());
  const auto names = entry_names(*build);
  if (!names.ok()) return names.status().message();
  std::vector<EntryOptions*> all = {build};
  for (EntryOptions& entry : build->more_entries) all.push_back(&entry);

  // Names of inputs may have colons too: what is in front of one is an entry if there is one of that name.
  const auto distribute = [&](const std::vector<std::string>& texts, const auto& add) {
    for (const std::string& text : texts) {
      const size_t colon = text.find(':');
      const auto named =
          colon == std::string::npos ? names->end() : std::find(names->begin(), names->end(), text.substr(0, colon));
      for (size_t e = 0; e < all.size(); ++e) {
        if (named == names->end()) {
          add(text, text, all[e]);
        } else if (static_cast<ptrdiff_t>(e) == std::distance(names->begin(), named)) {
          add(text.substr(colon + 1), text, all[e]);
        }
      }
    }
  };
  using List = std::vector<std::string> EntryOptions::*;
  const std::pair<const std::vector<std::string>*, List> lists[] = {
      {&arguments.shapes, &EntryOptions::shapes},
      {&arguments.sequence_lengths, &EntryOptions::sequence_lengths},
      {&arguments.exposed, &EntryOptions::exposed},
      {&arguments.preprocess, &EntryOptions::preprocess},
      {&arguments.postprocess, &EntryOptions::postprocess}};
  for (const auto& [texts, list] : lists) {
    distribute(*texts, [list = list](const std::string& value, const std::string&, EntryOptions* entry) {
      (entry->*list).push_back(value);
    });
  }
  std::string error;
  distribute(arguments.constants, [&](const std::string& value, const std::string& text, EntryOptions* entry) {
    if (error.empty()) error = add_constant(value, text, entry);
  });
  distribute(arguments.cache_lengths, [&](const std::string& value, const std::string& text, EntryOptions* entry) {
    const bool digits =
        !value.empty() && value.size() < 10 && value.find_first_not_of("0123456789") == std::string::npos;
    entry->cache_length = digits ? std::strtoll(value.c_str(), nullptr, 10) : 0;
    if (error.empty() && entry->cache_length == 0)
      error = fmt::format("--cache-length {}: expected a number of rows", text);
  });
  return error;
}

}  // namespace aipu::gbuilder
