#include "tests/runtime/counted_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};

// noinline: or gcc sees through one half of a pair and warns about the other.
[[gnu::noinline]] void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  ++allocations;
  return memory;
}
[[gnu::noinline]] void release(void* memory) { std::free(memory); }

}  // namespace

void* operator new(size_t bytes) { return counted(std::malloc(bytes == 0 ? 1 : bytes)); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }

namespace aipu::test {

int64_t allocation_count() { return allocations; }

}  // namespace aipu::test
