// Files: whole reads with a size limit, read-only mappings, and writes that are either complete or not there at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/temporary.h"

namespace aipu {

// The bytes of a whole file, in pages of memory. Movable; gives them back on destruction.
class MappedFile {
 public:
  // Mapped, without a copy: who cuts the file off meanwhile ends this process by SIGBUS, who writes into it changes the
  // bytes. For files that are served, which are replaced by renaming another one to their name.
  static Result<MappedFile> open(const std::string& path);
  // Copied: what happens to the file afterwards changes nothing, and what happens while it is read is an error.
  static Result<MappedFile> read(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Asks for huge pages where the file system has them: for files that are read all over, again and again. An advice.
  void prefer_large_pages() const;
  // Part of bytes() will not be looked at any more: its pages need not be resident. Those of a copy are zero then.
  void release(std::span<const std::byte> part) const;

 private:
  friend class AtomicFile;
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

Result<std::string> read_text_file(const std::string& path);

// Whether what was written is on the disk before it gets its name. kNo: for what is checked when it is read, or is only
// looked at.
enum class Sync : bool { kNo, kYes };

// Everything that this project writes for others goes through here.
//
// A file is written beside its name and renamed to it once everything is there, so that a reader never sees half a file
// and a failed write leaves what was there before. A symbolic link stays and what it names is replaced, or made. A file
// that is replaced keeps its permissions, and its owner where that can be. What is no file (a device, a FIFO, a
// descriptor such as /dev/stdout) is written as it is; a folder is an error, and so is a file that may not be written.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path, Sync sync = Sync::kYes);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // nothing has changed unless committed

  // Behind what write() has written.
  Status write(std::span<const std::byte> bytes);
  // At a place, from any thread; what nobody writes is zero. Does not move write().
  Status write_at(uint64_t offset, std::span<const std::byte> bytes) const;
  // What write() and write_at() have written so far, to be read before commit().
  Result<MappedFile> written() const;
  Status commit();

 private:
  AtomicFile() = default;
  Status open_file(const std::string& target);
  Status open_device(bool is_descriptor);
  Status take_name();

  int descriptor_ = -1;
  int device_ = -1;  // where the bytes of descriptor_, an unnamed file, go in the end; -1: nowhere
  Sync sync_ = Sync::kYes;
  bool is_file_ = false;  // to be renamed to target_
  bool is_named_ = false;
  std::string path_;  // as the user wrote it, for messages
  std::string target_;
  Temporary temporary_;
};

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes, Sync sync = Sync::kYes);
Status write_file_atomically(const std::string& path, std::string_view text, Sync sync = Sync::kYes);

// Says early what AtomicFile::create() would say late: a folder or no permission where `path` is to be written. Makes
// the folder that it is in.
Status prepare_output(const std::string& path);

// Makes a folder and the ones above it.
Status make_folder(const std::string& path);

// A new file of this user alone, for a child process to write; not for results.
Result<int> open_scratch(const std::string& path);

}  // namespace aipu
