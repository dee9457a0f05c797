// Source text to syntax tree. The depth of the tree is bounded, so that nothing that walks it can overflow the stack.
#pragma once

#include "kernels/dsl/ast.h"
#include "kernels/dsl/diagnostics.h"

namespace aipu::dsl {

// Reports syntax errors and throws Diagnosed at the first one.
ast::Module parse_source(const SourceFilePtr& file, Diagnostics& diagnostics);

}  // namespace aipu::dsl
