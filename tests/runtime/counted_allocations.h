// Linked with a test, counts what the program takes by operator new.
#pragma once

#include <cstdint>

namespace aipu::test {

// How often, from the start of the process.
int64_t allocation_count();

}  // namespace aipu::test
