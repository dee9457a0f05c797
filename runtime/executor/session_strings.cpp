// Strings of a session: texts become numbers where a run begins, numbers texts where it ends, and operations on texts
// are handed to their library in between.
#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/base/checked_math.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {
namespace {

static_assert(sizeof(StringView) == 2 * sizeof(void*));

Status no_such_string(int64_t number) {
  return invalid_argument(str_cat("a tensor of strings has the number ", number, ", which no string of the run has"));
}

// What a library of texts sees of the session's pool.
struct PoolAccess {
  Session::Impl& session;
  Status status = {};

  static int text(void* self, int64_t number, aipu_text* text) {
    const auto found = static_cast<PoolAccess*>(self)->session.strings->text(number);
    if (!found) return 0;
    *text = {found->data(), found->size()};
    return 1;
  }
  static int64_t number(void* self, const char* data, size_t size) {
    auto& access = *static_cast<PoolAccess*>(self);
    const Result<int64_t> number = guarded_number(access.session, {data, size});
    if (number.ok()) return *number;
    access.status = number.status();
    return -1;
  }
  // Called from within C.
  static Result<int64_t> guarded_number(Session::Impl& session, std::string_view text) try {
    return session.number_of(text);
  } catch (const std::bad_alloc&) {
    return out_of_range("no memory for the strings of the run");
  }
};

}  // namespace

Result<int64_t> Session::Impl::number_of(std::string_view text) {
  AIPU_RETURN_IF_ERROR(hold_more(strings->growth(text.size())));
  const int64_t before = strings->bytes();
  AIPU_ASSIGN_OR_RETURN(const int64_t number, strings->intern(text));
  held_bytes += strings->bytes() - before;
  return number;
}

// The pool starts again from the strings of the file.
Status Session::Impl::number_inputs() {
  strings->reset();
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].is_text = state.outputs[i].dtype == DType::kString;
    outputs[i].has_texts = false;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (state.inputs[i].dtype != DType::kString) continue;
    Input& input = inputs[i];
    const int64_t bytes = input.bytes(DType::kString);
    AIPU_RETURN_IF_ERROR(hold(input.numbers, bytes, nullptr));
    const auto* texts = static_cast<const StringView*>(input.data);
    for (int64_t k = 0; k < bytes / 8; ++k) {
      if (texts[k].data == nullptr && texts[k].size != 0)
        return invalid_argument(str_cat("input '", state.inputs[i].name, "' has a string without data"));
      AIPU_ASSIGN_OR_RETURN(const int64_t number, number_of({texts[k].data, texts[k].size}));
      std::memcpy(input.numbers.data() + 8 * k, &number, 8);
    }
  }
  return {};
}

// Each output of strings gets memory of its own that holds the views and, behind them, the texts.
Status Session::Impl::tell_texts() {
  for (size_t i = 0; i < outputs.size(); ++i) {
    Output& output = outputs[i];
    if (!output.is_text) continue;
    const int64_t count = output.size / 8;
    std::vector<std::string_view> texts;
    int64_t bytes = count * static_cast<int64_t>(sizeof(StringView));
    for (int64_t k = 0; k < count; ++k) {
      int64_t number = 0;
      std::memcpy(&number, output.result + 8 * k, 8);
      const auto text = strings->text(number);
      if (!text) return no_such_string(number).context(str_cat("output '", state.outputs[i].name, "'"));
      texts.push_back(*text);
      const auto sum = checked_add(bytes, static_cast<int64_t>(text->size()));
      if (!sum) return out_of_range(str_cat("the texts of output '", state.outputs[i].name, "' are too long"));
      bytes = *sum;
    }
    AIPU_RETURN_IF_ERROR(hold(output.texts, bytes, nullptr));
    auto* views = reinterpret_cast<StringView*>(output.texts.data());
    auto* to = reinterpret_cast<char*>(views + count);
    for (size_t k = 0; k < texts.size(); ++k) {
      if (!texts[k].empty()) std::memcpy(to, texts[k].data(), texts[k].size());
      views[k] = {to, texts[k].size()};
      to += texts[k].size();
    }
    output.has_texts = true;
  }
  return {};
}

// The words are those of StagePlanner::fill_text: whether it is needed, inputs, outputs.
Status Session::Impl::run_text(const fb::HostCommand& command, const StagePlan& plan, const Step& step) {
  const fb::TextCall& call = *items(root.text_calls())[command.a()];
  const auto input_tensors = items(call.inputs()), output_tensors = items(call.outputs());
  std::vector<aipu_text_tensor> tensors;
  std::vector<std::vector<std::byte>> copies;  // of what a device has
  uint32_t at = step.first_word;
  const bool is_needed = plan.words[at++] != 0;
  const auto take = [&](uint32_t tensor, bool is_input) -> Status {
    const auto dtype = static_cast<DType>(items(root.tensors())[tensor]->dtype());
    const auto bytes = static_cast<size_t>(plan.extents[at]);
    auto* data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(plan.words[at++]));
    if (on_device != nullptr) {
      AIPU_RETURN_IF_ERROR(hold_more(static_cast<int64_t>(bytes)));
      auto& copy = copies.emplace_back(bytes);
      if (is_input) AIPU_RETURN_IF_ERROR(get(copy.data(), data, bytes));
      data = copy.data();
    }
    tensors.push_back({static_cast<uint32_t>(dtype), bytes / std::max<size_t>(1, dtype_bytes(dtype)), data});
    if (!is_input) std::memset(data, 0, bytes);
    return {};
  };
  for (uint32_t i = 0; i < input_tensors.size(); ++i) AIPU_RETURN_IF_ERROR(take(input_tensors[i], true));
  for (uint32_t i = 0; i < output_tensors.size(); ++i) AIPU_RETURN_IF_ERROR(take(output_tensors[i], false));
  const std::span<const aipu_text_tensor> all(tensors);
  if (is_needed) {
    PoolAccess access{*this};
    const aipu_text_pool pool = {&access, &PoolAccess::text, &PoolAccess::number};
    Status status = state.text_operations[command.a()].run(pool, all.first(input_tensors.size()),
                                                           all.subspan(input_tensors.size()));
    if (!access.status.ok()) status = access.status;
    const std::string_view origin =
        command.origin() == kNone ? std::string_view() : text(items(root.origins())[command.origin()]);
    if (!status.ok()) return std::move(status).context(str_cat("node ", origin));
  }
  at = step.first_word + 1 + input_tensors.size();
  for (uint32_t i = 0; on_device != nullptr && i < output_tensors.size(); ++i, ++at) {
    const auto& copy = copies[input_tensors.size() + i];
    AIPU_RETURN_IF_ERROR(
        put(reinterpret_cast<void*>(static_cast<uintptr_t>(plan.words[at])), copy.data(), copy.size()));
  }
  return {};
}

}  // namespace aipu::runtime
