// Makes the n-th call of a kind fail: allocations, threads, what reads and writes files. Linked into a test program, or
// preloaded into any (libaipu_fault_injector.so), it stands in front of the C library's functions:
//
//   AIPU_INJECT=allocation:17 AIPU_INJECT_LOG=calls.txt LD_PRELOAD=build/release/lib/libaipu_fault_injector.so aipurun ...
//
// fails the 17th allocation (`allocation:17+`: all from there on) and writes to calls.txt how many calls there were.
// AIPU_INJECT_TRACE=1 prints where a call failed. What
// the C library does inside itself (malloc's own mmap, buffered output) is not seen, nor are child processes.
#pragma once

#ifdef __cplusplus
#include <cstdint>
extern "C" {
#else
#include <stdint.h>
#endif

enum aipu_inject_kind {
  AIPU_INJECT_ALLOCATION,  // malloc and its relatives, operator new: no memory
  AIPU_INJECT_THREAD,      // pthread_create: EAGAIN
  AIPU_INJECT_MMAP,        // ENOMEM
  AIPU_INJECT_OPEN,        // open, mkstemp, memfd_create: EMFILE
  AIPU_INJECT_READ,        // read, pread: EIO
  AIPU_INJECT_WRITE,       // write, pwrite: ENOSPC
  AIPU_INJECT_FSYNC,       // EIO
  AIPU_INJECT_RENAME,      // EIO
  AIPU_INJECT_KINDS
};

// From now on calls of `kind` are counted, by all threads together; number `n` (from 1) fails, and with `onwards` all
// after it. n = 0: they are only counted.
void aipu_inject_arm(int kind, uint64_t n, int onwards);
// Nothing fails any more. Returns how many calls there were since aipu_inject_arm().
uint64_t aipu_inject_disarm(void);
// The name as in AIPU_INJECT.
const char* aipu_inject_name(int kind);

#ifdef __cplusplus
}
#endif
