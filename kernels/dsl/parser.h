// Source text to syntax tree. The depth of the tree is bounded, so that nothing that walks it can overflow the stack.
#pragma once

#include "kernels/dsl/ast.h"
#include "kernels/dsl/diagnostics.h"

namespace aipu::dsl {

// Reports syntax errors and throws Diagnosed at the first one.
ast::Module parse_source(const SourceFilePtr& file, Diagnostics& diagnostics);

// One expression, which starts at `start` of the file. Throws Diagnosed.
ast::ExprPtr parse_expression(const SourceFilePtr& file, std::string_view text, Position start,
                              Diagnostics& diagnostics);

}  // namespace aipu::dsl
