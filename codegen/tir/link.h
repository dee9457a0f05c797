// Modules put together: functions of one stand for the entries of others.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// `module` with the entry of each of the others, and what it calls, in place of the function of that name. Such an
// entry is called by one TEC, so that it sees one: its id is 0, their number 1. Errors: there is no such function, its
// parameters are not those of the entry, an entry waits for other TECs.
Result<Module> link_modules(const Module& module, std::span<const std::pair<std::string, const Module*>> entries);

}  // namespace aipu::tir
