// The kernels of the runtime's tests, as the compiler would deliver them: a module behind the kernel ABI.
#include "tests/runtime/model_builder.h"

namespace aipu::test {
namespace {

constexpr const char* kText = R"(
#include "runtime/abi/kernel_abi.h"
typedef const aipu_tec_context* Context;
typedef const unsigned long long* Words;
static float as_float(unsigned long long word) { union { unsigned int bits; float value; } u; u.bits = (unsigned int)word; return u.value; }

static void scale(Context c, Words w) {
  const float* x = (const float*)w[0]; float* y = (float*)w[1]; int n = (int)w[2]; float a = as_float(w[3]);
  for (int i = c->tec_id; i < n; i += c->tec_count) y[i] = a * x[i];
}
static void add(Context c, Words w) {
  const float* a = (const float*)w[0]; const float* b = (const float*)w[1]; float* y = (float*)w[2]; int n = (int)w[3];
  for (int i = c->tec_id; i < n; i += c->tec_count) y[i] = a[i] + b[i];
}
static void reverse(Context c, Words w) {
  const float* x = (const float*)w[0]; float* y = (float*)w[1]; int n = (int)w[2];
  float* shared = (float*)c->shared; float* mine = (float*)c->lsram;
  for (int round = 0; round < 8; ++round) {
    for (int i = c->tec_id; i < n; i += c->tec_count) { mine[0] = x[i]; shared[i] = mine[0] + round; }
    c->barrier(c);
    for (int i = c->tec_id; i < n; i += c->tec_count) y[i] = shared[n - 1 - i] - round;
    c->barrier(c);
  }
}
static void count(Context c, Words w) {
  const float* x = (const float*)w[0]; long long* y = (long long*)w[1]; int n = (int)w[2];
  if (c->tec_id != 0) return;
  *y = 0;
  for (int i = 0; i < n; ++i) *y += x[i] > 0;
}
static void positive(Context c, Words w) {
  const float* x = (const float*)w[0]; float* y = (float*)w[1]; int n = (int)w[2];
  if (c->tec_id != 0) return;
  for (int i = 0; i < n; ++i) if (x[i] > 0) *y++ = x[i];
}
static void tecs(Context c, Words w) {
  int* seen = (int*)w[0]; int n = (int)w[1];
  if (c->tec_id < n) seen[c->tec_id] = c->tec_count;
}
static void meet(Context c, Words w) {
  c->barrier(c);
  tecs(c, w);
}
static void crash(Context c, Words w) {
  volatile int zero = 0;
  ((float*)w[0])[0] = (float)(c->tec_count / zero);
}
static const aipu_kernel_info kKernels[] = {
  {"scale", scale, 4, 0, 0, 0}, {"add", add, 4, 0, 0, 0}, {"reverse", reverse, 3, 64, 4096, 1}, {"count", count, 3, 0, 0, 0},
  {"positive", positive, 3, 0, 0, 0}, {"tecs", tecs, 2, 0, 0, 0}, {"crash", crash, 1, 0, 0, 0},
  {"meet", meet, 2, 0, 0, 1}};
static const aipu_kernel_module kModule = {AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS, sizeof(aipu_kernel_info), 8, kKernels};
const aipu_kernel_module* aipu_kernel_module_v1(void) { return &kModule; }
)";

constexpr const char* kFaultyText = R"(
#include "runtime/abi/kernel_abi.h"
static void root(const aipu_tec_context* c, const unsigned long long* w) {
  const float* x = (const float*)w[0]; float* y = (float*)w[1]; int n = (int)w[2];
  for (int i = c->tec_id; i < n; i += c->tec_count) {
    y[i] = x[i];
    if (x[i] < 0) aipu_report_fault(c->fault, (int)w[3], (long long)x[i], i);
  }
}
static const aipu_kernel_info kKernels[] = {{"root", root, 4, 0, 0, 0}};
static const aipu_kernel_module kModule = {AIPU_KERNEL_ABI_VERSION, sizeof(aipu_kernel_info), 1, kKernels};
const aipu_kernel_module* aipu_kernel_module_v1(void) { return &kModule; }
)";

}  // namespace

const std::vector<std::byte>& test_kernels() { return compile_module(kText); }
const std::vector<std::byte>& faulty_kernels() { return compile_module(kFaultyText); }

KernelRow scale_kernel() { return {"scale", {true, true, false, false}, 0, 0, false, {0, 0, 32, 0}}; }
KernelRow add_kernel() { return {"add", {true, true, true, false}, 0, 0, false, {0, 0, 0, 32}}; }
KernelRow reverse_kernel() { return {"reverse", {true, true, false}, 64, 4096, true, {0, 0, 32}}; }
KernelRow count_kernel() { return {"count", {true, true, false}, 0, 0, false, {0, 0, 32}}; }
KernelRow positive_kernel() { return {"positive", {true, true, false}, 0, 0, false, {0, 0, 32}}; }
KernelRow tecs_kernel() { return {"tecs", {true, false}, 0, 0, false, {0, 32}}; }
KernelRow meet_kernel() { return {"meet", {true, false}, 0, 0, true, {0, 32}}; }
KernelRow root_kernel() {
  KernelRow row = {"root", {true, true, false, false}, 0, 0, false, {0, 0, 32, 32}};
  row.reports_faults = true;
  return row;
}
KernelRow crash_kernel() { return {"crash", {true}, 0, 0, false, {0}}; }

}  // namespace aipu::test
