// A regular file, open for reading by offsets. Whatever other processes do to it meanwhile (cut it off, write over it)
// is an error or other bytes, never a fault as in a mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace aipu {

// Success for a regular file; else an error that says what there is instead. Opens nothing: opening a FIFO waits for
// who writes into it, and a device may act upon it.
Status check_regular_file(const std::string& path);

class InputFile {
 public:
  // Refuses what check_regular_file() does, without waiting for anybody.
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return descriptor_; }
  // Fills `to` with the bytes from `offset` on; an error if the file has fewer by now. From any thread.
  Status read_at(uint64_t offset, std::span<std::byte> to) const;

 private:
  InputFile() = default;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::string path_;
};

}  // namespace aipu
