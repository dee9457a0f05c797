/* A device that works, to start one's own from (README.md): memory that the runtime does not touch, and one engine,
 * which does everything within submit(). It runs the native modules of models for the host, with one TEC. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/abi/kernel_abi.h"
#include "runtime/backends/device_api.h"

enum { kInvalid = 1, kUnsupported = 3, kOutOfRange = 6, kMostQueues = 100000 }; /* the first three: aipu_status */

typedef struct Queue {
  struct Device* device;
  uint32_t number;
  uint64_t submitted, done;
  uint64_t first_left_out, left_out; /* by cancel(): those behind the first, up to the other */
  int code;                          /* of the error that has stopped it, that of command `failed` */
  aipu_device_event failed;
} Queue;

typedef struct Device {
  aipu_device_services services;
  uint32_t opened;
  Queue* queues[kMostQueues]; /* by number */
} Device;

typedef struct Module {
  const aipu_device_model* model;
  void* library;
  const aipu_kernel_module* found;
} Module;

static int fail(aipu_device_error* error, int code, const char* text) {
  snprintf(error->message, sizeof error->message, "%s", text);
  return code;
}

static uint32_t count(const aipu_device_driver* driver) { return driver != NULL; }

static int open_device(const aipu_device_driver* driver, uint32_t number, const aipu_device_services* services,
                       void** result, aipu_device_error* error) {
  Device* device = number < count(driver) ? calloc(1, sizeof *device) : NULL;
  if (device == NULL) return fail(error, kInvalid, "there is one device, with the number 0");
  device->services = *services;
  *result = device;
  return 0;
}

static void close_device(void* device) { free(device); }
static void properties(void* device, aipu_device_properties* result) {
  static const aipu_device_space kSpaces[] = {{"memory", 0, 64, 0}};
  static const aipu_device_engine kEngines[] = {
      {"all", AIPU_DEVICE_TAKES_LAUNCHES | AIPU_DEVICE_TAKES_COPIES | AIPU_DEVICE_TAKES_TRANSFERS, 1, 0}};
  *result = (aipu_device_properties){sizeof *result, 1, kSpaces, kEngines, 1, 1, 1, 0, 0};
}

static int allocate(void* device, uint32_t space, uint64_t bytes, uint64_t* address, aipu_device_error* error) {
  void* memory = NULL;
  if (posix_memalign(&memory, 64, bytes) != 0) return fail(error, kOutOfRange, "no memory");
  *address = (uintptr_t)memory;
  return 0;
}

static void free_memory(void* device, uint32_t space, uint64_t address) {
  free((void*)(uintptr_t)address);
}

static void unload(void* device, void* handle) {
  if (((Module*)handle)->library != NULL) dlclose(((Module*)handle)->library);
  free(handle);
}

static const char* open_library(const aipu_device_model* model, Module* module) {
  char path[] = "/tmp/kernels-XXXXXX";
  const int file = mkstemp(path);
  const ssize_t written = write(file, model->native_module, model->native_module_bytes);
  aipu_kernel_module_function function = NULL;
  close(file);
  if (written == (ssize_t)model->native_module_bytes) module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (module->library == NULL) return "the module is not an ELF file that this machine can load";
  *(void**)&function = dlsym(module->library, AIPU_KERNEL_MODULE_SYMBOL);
  module->found = function == NULL ? NULL : function();
  return module->found == NULL ? "the module has no kernels" : NULL;
}

static int load(void* device, const aipu_device_model* model, void** result, aipu_device_error* error) {
  Module* module = calloc(1, sizeof *module);
  const char* problem = module == NULL ? "no memory" : model->kernel_count == 0 ? NULL : open_library(model, module);
  if (module != NULL) module->model = model;
  if (problem != NULL && module != NULL) unload(device, module);
  *result = module;
  return problem == NULL ? 0 : fail(error, kUnsupported, problem);
}

static int open_queue(void* handle, uint32_t engine, void** result, uint32_t* number, aipu_device_error* error) {
  Device* device = handle;
  Queue* queue = calloc(1, sizeof *queue);
  *number = __atomic_fetch_add(&device->opened, 1, __ATOMIC_SEQ_CST); /* sessions in several threads open queues */
  if (queue == NULL || engine != 0 || *number >= kMostQueues) return fail(error, kOutOfRange, "too many queues");
  queue->device = device;
  queue->number = *number;
  *result = device->queues[*number] = queue;
  return 0;
}

static void close_queue(void* queue) { free(queue); } /* nobody waits for what it has done any more */

static void barrier(const aipu_tec_context* context) {} /* one TEC meets nobody */

static void print(const aipu_tec_context* context, const char* text, unsigned long size) {
  ((Device*)context->backend)->services.print(((Device*)context->backend)->services.self, text, size);
}

static int launch(Queue* queue, const aipu_device_command* command) {
  const Module* module = command->module;
  const aipu_device_kernel* kernel = &module->model->kernels[command->kernel];
  unsigned char* memory = aligned_alloc(64, (kernel->lsram_bytes + kernel->shared_bytes + 256) / 64 * 64);
  unsigned char* shared = memory + (kernel->lsram_bytes + 63) / 64 * 64;
  const aipu_tec_context context = {0,       1,     memory,        kernel->lsram_bytes, shared, kernel->shared_bytes,
                                    barrier, print, queue->device, (aipu_fault_record*)command->fault};
  uint32_t k = 0;
  while (k < module->found->kernel_count && strcmp(module->found->kernels[k].name, kernel->name) != 0) ++k;
  const int good = memory != NULL && k < module->found->kernel_count;
  if (good) module->found->kernels[k].entry(&context, command->words);
  free(memory);
  return good ? 0 : kUnsupported;
}

static int run(Queue* queue, const aipu_device_command* command) {
  char* to = (char*)(uintptr_t)command->destination;
  const char* from = (const char*)(uintptr_t)command->source;
  if (command->kind == AIPU_DEVICE_LAUNCH) return launch(queue, command);
  if (command->kind > AIPU_DEVICE_FILL) return kUnsupported;
  if (command->width == 0) return 0;
  if (command->kind == AIPU_DEVICE_COPY_IN) memcpy(to, command->host_source, command->width);
  if (command->kind == AIPU_DEVICE_COPY_OUT) memcpy(command->host_destination, from, command->width);
  if (command->kind == AIPU_DEVICE_FILL) memset(to, 0, command->width);
  for (int64_t row = 0; command->kind == AIPU_DEVICE_COPY && row < (int64_t)command->rows; ++row)
    memmove(to + row * command->destination_stride, from + row * command->source_stride, command->width);
  return 0;
}

static int64_t clock_ns(void* device) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int state(Device* device, aipu_device_event event, aipu_device_event* failed) {
  const Queue* queue = event.queue < kMostQueues ? device->queues[event.queue] : NULL;
  const int left_out = queue != NULL && event.command > queue->first_left_out && event.command <= queue->left_out;
  if (queue == NULL || (event.command <= queue->done && !left_out)) return 0;
  *failed = left_out ? event : queue->failed;
  return left_out ? kInvalid : queue->code;
}

static int submit(void* handle, const aipu_device_command* commands, uint32_t number, uint32_t command_bytes,
                  aipu_device_error* error) {
  Queue* queue = handle;
  for (uint32_t i = 0; i < number; ++i) {
    const aipu_device_command* command = (const void*)((const char*)commands + (size_t)i * command_bytes);
    const int64_t begin = clock_ns(NULL);
    ++queue->submitted;
    for (uint32_t w = 0; w < command->wait_count && queue->code == 0; ++w)
      queue->code = state(queue->device, command->waits[w], &queue->failed);
    if (queue->code != 0) continue;
    queue->code = run(queue, command);
    if (queue->code != 0) queue->failed = (aipu_device_event){queue->number, 0, queue->submitted};
    if (queue->code == 0) queue->done = queue->submitted;
    if (command->times != NULL) *command->times = (aipu_device_times){begin, clock_ns(NULL)};
  }
  return 0;
}

static int wait_for(void* device, aipu_device_event event, int64_t deadline_ns, aipu_device_event* failed,
                    aipu_device_error* error) {
  const int code = state(device, event, failed);
  return code == 0 ? 0 : fail(error, code, "a command has failed or was left out");
}

static void cancel(void* handle) {
  Queue* queue = handle;
  queue->first_left_out = queue->done;
  queue->left_out = queue->done = queue->submitted;
  queue->code = 0;
}

const aipu_device_driver* aipu_device_v2(void) {
  static const aipu_device_driver kDriver = {
      AIPU_DEVICE_API_VERSION, sizeof(aipu_device_driver), "sample", "one TEC, one thing at a time",
      AIPU_DEVICE_COMPUTES | AIPU_DEVICE_NATIVE | AIPU_DEVICE_BARRIERS | AIPU_DEVICE_FAULTS, NULL, count, open_device,
      close_device, properties, allocate, free_memory, NULL, load, unload, open_queue, close_queue, submit, wait_for,
      cancel, clock_ns};
  return &kDriver;
}
