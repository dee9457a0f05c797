// The constants section of aipu.bin on its way to the file.
#pragma once

#include <cstdint>
#include <span>

#include "gbuilder/plan/plan.h"
#include "runtime/base/file.h"

namespace aipu::gbuilder {

// Writes the constants of the plans of a file, one at least, to where their offsets say, counted from `begin`, what
// several share once. Returns the hash of the whole section, padding included. Half a megabyte at a time is made (if it
// is deferred), hashed and copied to the block that is written next, while it is in the cache, on up to `jobs` threads
// (0: one per CPU).
Result<Hash128> write_constants(std::span<const Plan* const> plans, const AtomicFile& file, uint64_t begin, int jobs);

}  // namespace aipu::gbuilder
