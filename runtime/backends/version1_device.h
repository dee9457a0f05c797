// A back end of version 1 as a device (device_api.h): all of its memory is this process's and mapped, one queue for
// kernels and one for copies, each played by a thread. What speaks only of devices sees every back end through it.
#pragma once

#include "runtime/backends/backend_api.h"
#include "runtime/backends/device_api.h"

namespace aipu::runtime {

// The same table for the same back end, for the life of the process. `before` is called by the thread of a queue before
// each command, for devices that are to be slower.
const aipu_device_driver* device_of(const aipu_backend& backend,
                                    void (*before)(const aipu_device_command& command) = nullptr);

}  // namespace aipu::runtime
