/* libaipu_counters.so: counts events of the processor and of the kernel (perf_event_open) for aipubench, which loads it
 * by its name when it is to count. Apart from it because it links libpfm4, which knows what events a processor has.
 */
#ifndef AIPU_RUNTIME_COUNTERS_COUNTERS_API_H_
#define AIPU_RUNTIME_COUNTERS_COUNTERS_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AIPU_COUNTERS_API_VERSION 1u
#define AIPU_COUNTERS_SYMBOL "aipu_counters_v1"

/* Nothing throws. */
typedef struct aipu_counters_library {
  uint32_t api_version; /* AIPU_COUNTERS_API_VERSION */
  /* Counts from now on, in the calling thread and in those that it starts later. Names as libpfm4 has them, which takes
   * those of perf ("cycles", "page-faults") and of the processor, with modifiers (":u:k"); without them what is done
   * for the kernel is left out. Null, and a line of at most `message_bytes` with its terminator, where there is no such
   * event or the system does not let it be counted. */
  void* (*open)(const char* const* names, size_t count, char* message, size_t message_bytes);
  void (*close)(void* counters);
  /* What each has counted since open(), of threads that have ended too. Where events take turns, as a processor counts
   * only so many at a time, what they would have counted all the time. */
  void (*read)(void* counters, int64_t* values);
} aipu_counters_library;

typedef const aipu_counters_library* (*aipu_counters_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* AIPU_RUNTIME_COUNTERS_COUNTERS_API_H_ */
