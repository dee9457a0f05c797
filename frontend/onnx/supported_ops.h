// What can be imported, as a page of Markdown made from the table of converters and the op records.
#pragma once

#include <string>

namespace aipu::frontend {

// The page frontend/SUPPORTED_OPS.md (`aipugb --supported-ops`).
std::string supported_ops_page();

}  // namespace aipu::frontend
