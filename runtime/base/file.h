// Files: whole reads with a size limit, read-only mappings, and writes that are either complete or not there at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace aipu {

// A read-only mapping of a whole file. Movable; unmaps on destruction.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Asks for huge pages where the file system has them: for files that are read all over, again and again. An advice.
  void prefer_large_pages() const;
  // Part of bytes() will not be looked at soon: its pages need not be resident. It can still be read.
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

Result<std::string> read_text_file(const std::string& path);

// Writes to PATH.tmp.PID and renames it over PATH once everything is on its way, so that a reader never sees half a
// file.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // removes the temporary file unless committed

  // Behind what write() has written.
  Status write(std::span<const std::byte> bytes);
  // At a place, from any thread; what nobody writes is zero. Does not move write().
  Status write_at(uint64_t offset, std::span<const std::byte> bytes) const;
  Status commit();

 private:
  AtomicFile() = default;
  int descriptor_ = -1;
  std::string path_;
  std::string temporary_;
};

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
Status write_file_atomically(const std::string& path, std::string_view text);

}  // namespace aipu
