// A line on a terminal that says what a conversion is at. Nothing where the standard error is no terminal.
#pragma once

#include <chrono>
#include <functional>

#include "gbuilder/build.h"

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine() { clear(); }

  // For BuildOptions::progress; empty where nothing is to be shown.
  std::function<bool(const aipu::gbuilder::Progress&)> callback();
  // Before anything else is printed.
  void clear();

 private:
  void draw(const aipu::gbuilder::Progress& progress);

  bool shown_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};
