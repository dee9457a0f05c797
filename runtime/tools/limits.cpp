#include "runtime/tools/limits.h"

#include <CLI/CLI.hpp>

namespace aipu::tools {
namespace {

runtime::Budget either(const runtime::Budget& given, const runtime::Budget& preset) {
  return {given.bytes > 0 ? given.bytes : preset.bytes, given.seconds > 0 ? given.seconds : preset.seconds};
}

}  // namespace

void Limits::apply(runtime::LoadOptions* options) const {
  const runtime::LoadOptions preset = untrusted ? runtime::LoadOptions::untrusted() : runtime::LoadOptions();
  if (options->backend.empty()) options->backend = preset.backend;
  options->copy |= preset.copy;
  options->only_safe_backends |= preset.only_safe_backends;
  options->budget = either(load, preset.budget);
  options->trusted_key = trusted_key;
}

void Limits::apply(runtime::SessionOptions* options) const {
  const runtime::SessionOptions preset = untrusted ? runtime::SessionOptions::untrusted() : runtime::SessionOptions();
  const runtime::Budget run_budget = either(run, {preset.memory_limit_bytes, preset.run_seconds});
  options->memory_limit_bytes = run_budget.bytes;
  options->run_seconds = run_budget.seconds;
  options->plan_budget = either(plan, preset.plan_budget);
}

void add_limit_options(CLI::App& app, Limits* limits) {
  const auto add = [&](const std::string& what, runtime::Budget* budget, const std::string& text) {
    app.add_option("--" + what + "-memory-limit", budget->bytes, "memory of " + text + ", as 1000000, 500MiB or 1GiB")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::PositiveNumber)
        ->type_name("BYTES")
        ->group("Limits");
    app.add_option("--" + what + "-time-limit", budget->seconds, "seconds for " + text)
        ->check(CLI::PositiveNumber)
        ->type_name("SECONDS")
        ->group("Limits");
  };
  add("load", &limits->load, "loading, beyond the file itself");
  add("plan", &limits->plan, "a plan for the shapes at hand");
  add("run", &limits->run, "a run, beyond file and inputs");
  app.add_flag(
         "--untrusted", limits->untrusted,
         "a file from someone you do not trust: --backend interp, 1 GiB, 10 s to load and to plan, 60 s to run; back "
         "ends that do not contain what kernels do are refused (SECURITY.md)")
      ->group("Limits");
  app.add_option(
         "--trusted-key", limits->trusted_key,
         "refuse a file that is not signed (aipugb --sign) with the private half of this public key, a PEM file")
      ->check(CLI::ExistingFile)
      ->type_name("KEY")
      ->group("Limits");
}

}  // namespace aipu::tools
