// What a Model is inside.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/backend_api.h"
#include "runtime/executor/device.h"
#include "runtime/loader/check.h"
#include "runtime/loader/model_file.h"
#include "runtime/model.h"
#include "runtime/sandbox/sandbox.h"
#include "runtime/text/text_operation.h"

namespace aipu::runtime::detail {

// Kernels that the host runs beside the device (aipu.fbs, HostPart).
struct HostKernels {
  const aipu_backend* backend = nullptr;  // null: there are none, or the model's back end runs them with the others
  void* module = nullptr;
  std::string target;
  std::vector<const char*> features;
  aipu_backend_model shown = {};
};

struct ModelState {
  std::unique_ptr<const sandbox::Model> sandbox;  // of one in a sandbox, which has the names and nothing below them
  std::unique_ptr<ModelFile> file;                // null in bodies and other entries
  const fb::Model* model = nullptr;
  const fb::Model* outermost = nullptr;  // which has the kernels
  // Of the model that was loaded from the file: the others, as model->entries(), and what all of them are asked for by.
  std::vector<std::unique_ptr<ModelState>> entries;
  std::vector<std::string> entry_names;
  const ModelState* whole = this;  // that one; of itself too
  // Why it cannot run here although other models of the file may.
  Status problem;
  ModelTables tables;
  // Of loops and branches, as model->bodies(). They share the back end's module and the constants.
  std::vector<std::unique_ptr<ModelState>> bodies;
  std::vector<TextOperation> text_operations;  // as model->text_calls()
  bool has_strings = false;                    // the model or a body of it
  bool no_strings = false;                     // it is refused if it does
  std::string name, target, backend_name;
  std::vector<TensorSpec> inputs, outputs;
  ModelDescription description;
  const std::byte* constants = nullptr;

  // One of the two: a back end of version 1, which works on this process's memory, or a device.
  const aipu_backend* backend = nullptr;
  std::shared_ptr<Device> device;
  uint64_t capabilities = 0;
  void* module = nullptr;
  TensorBuffer device_constants;
  HostKernels host_kernels;       // of the outermost model
  uint32_t host_kernel_base = 0;  // the number that the first one of theirs has in the file
  // What the back end was shown; it may keep pointers into it.
  std::vector<const char*> features;
  std::vector<aipu_backend_kernel> kernels;
  aipu_backend_model backend_model = {};
  std::vector<aipu_device_kernel> device_kernels;
  aipu_device_model device_model = {};

  ModelState() = default;
  ModelState(const ModelState&) = delete;
  ModelState& operator=(const ModelState&) = delete;
  ~ModelState() {
    if (host_kernels.module != nullptr) host_kernels.backend->unload(host_kernels.module);
    if (module == nullptr || file == nullptr) return;
    if (backend != nullptr) backend->unload(module);
    if (device != nullptr && device->is_ours()) device->driver().unload(device->handle(), module);
  }

  const fb::Model& root() const { return *model; }
  const fb::Kernel& kernel(uint32_t index) const { return *items(outermost->kernels())[index]; }
};

}  // namespace aipu::runtime::detail
