#include "gbuilder/tools/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr std::chrono::milliseconds kInterval{50};  // more than anybody reads

bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : shown_(!quiet && is_terminal()), start_(std::chrono::steady_clock::now()) {}

std::function<bool(const aipu::gbuilder::Progress&)> ProgressLine::callback() {
  if (!shown_) return {};
  return [this](const aipu::gbuilder::Progress& progress) {
    draw(progress);
    return true;
  };
}

void ProgressLine::draw(const aipu::gbuilder::Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_new = progress.done == 0 || progress.done == progress.total;
  if (!is_new && now - last_ < kInterval) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string text = fmt::format("\r\033[K{:4.0f} s  {}", seconds, progress.stage);
  if (progress.total > 0) text += fmt::format(": {} of {} {}", progress.done, progress.total, progress.what);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!drawn_) return;
  drawn_ = false;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}
