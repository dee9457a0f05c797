#include "codegen/compass_c/c_text.h"

#include "codegen/compass_c/c_printer.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/verifier.h"

namespace aipu::tir {

Result<std::string> compass_c_text(const Module& parsed, const Target& target, std::span<const std::string>) {
  AIPU_RETURN_IF_ERROR(verify(parsed));
  AIPU_ASSIGN_OR_RETURN(const Module lowered, lower(parsed, target));
  return print_c(lowered, target);
}

}  // namespace aipu::tir
