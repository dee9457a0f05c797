#include "kernels/dsl/call_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/targets/target.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

template <size_t kCount>
bool one_of(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Status native_only(const tir::Type& type) {
  if (is_native_vector(type)) return {};
  return invalid_argument(
      fmt::format("This API expect hardware native vector types, but got: \"{}\".", type_text(type)));
}

Status no_flexible_width(const tir::Type& type) {
  const bool multiple = type.element == DType::kBool ? type.lanes % 8 == 0
                                                     : type.lanes * dtype_bits(type.element) % kNativeVectorBits == 0;
  if (multiple) return {};
  return invalid_argument(
      fmt::format("This API does not support the feature Flexible Width Vector, but got: \"{}\"", type_text(type)));
}

}  // namespace

bool is_internal_intrinsic(std::string_view name) {
  static constexpr std::string_view kInternal[] = {"vpart", "alloc_event", "is_nullptr"};
  return one_of(name, kInternal);
}

bool is_extension(std::string_view name) {
  static constexpr std::string_view kExtensions[] = {"prefetch", "maximum", "minimum", "report_fault"};
  return one_of(name, kExtensions);
}

Status check_strict_call(const tir::IntrinsicCall& call) {
  const std::string_view name = call.intrinsic->name;
  if (call.args.empty() || call.args[0] == nullptr) return {};
  const tir::Type& first = call.args[0]->type;
  static constexpr std::string_view kNative[] = {"vrpmax", "vrpmin"};
  static constexpr std::string_view kNativeOrMultiple[] = {"vrpadd", "vconcat", "vrevs", "vshfl", "vsldl", "vreplic"};
  if (one_of(name, kNative)) return native_only(first);
  if (one_of(name, kNativeOrMultiple)) AIPU_RETURN_IF_ERROR(no_flexible_width(first));
  if (name == "vzip" && call.attribute("part") != 0) AIPU_RETURN_IF_ERROR(no_flexible_width(first));
  if (name == "vshfl" && !tir::as_int(call.args[1])) return native_only(first);
  if (name == "fma" && first.element != DType::kF32) return invalid_argument("Only support float32 instruction.");
  if (name == "vload_gather" || name == "vstore_scatter") {
    const tir::Type& indices = call.args[name == "vload_gather" ? 1 : 2]->type;
    if (dtype_bits(indices.element) != 16)
      return invalid_argument("The arg \"indices\" expect a 16-bit integer vector");
  }
  return {};
}

Status check_target_call(const tir::IntrinsicCall& call, std::string_view target) {
  const std::string_view name = call.intrinsic->name;
  const auto refused = [&] {
    return invalid_argument(fmt::format("The \"{}\" does not support the target \"{}\".", name, target));
  };
  if (target.empty()) return {};
  const auto found = tir::find_target(target);
  const int generation = found.ok() ? found->generation : 0;
  if (generation == 3) {
    if (name == "vmml" || name == "vmma") return refused();
    if (name == "vqdpa" && is_floating(call.args[1]->type.element)) return refused();
  }
  if (generation == 2 && (name == "vrpmax" || name == "vrpmin") && call.attribute("return_idx") != 0) {
    return invalid_argument(fmt::format("The arg \"return_idx\" does not support the target \"{}\".", target));
  }
  return {};
}

}  // namespace aipu::dsl
