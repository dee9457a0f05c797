// The strings of a session, each once. A tensor of strings holds their numbers, so that whatever moves or compares
// elements needs no text: numbers are equal where strings are. "" is 0, then come the strings of the file, then what
// the run has brought: its inputs, and what operations on texts have made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/loader/model_file.h"

namespace aipu::runtime {

class StringPool {
 public:
  // Text of the file stays where it is.
  explicit StringPool(const fb::Model& root);

  // Back to the strings of the file. Memory is kept for the next run.
  void reset();
  // Nothing for a number that no string has.
  std::optional<std::string_view> text(int64_t number) const;
  // The number of a string, which is added where it is new. Takes at most growth(bytes) more memory.
  Result<int64_t> intern(std::string_view text);
  // The most that interning a text of so many bytes can add to bytes().
  int64_t growth(size_t bytes) const;
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string_view text;
    uint64_t hash;
  };
  struct Chunk {
    std::unique_ptr<char[]> memory;
    size_t size;
  };
  size_t slot_of(std::string_view text, uint64_t hash) const;
  void grow_slots(size_t count);
  void add(std::string_view text, uint64_t hash, size_t slot);
  std::string_view keep(std::string_view text);

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // open addressing: 1 + the number of a string, 0: free; at most half are taken
  std::vector<Chunk> chunks_;    // of texts that are not the file's
  size_t chunk_ = 0, used_ = 0;  // where the next text goes
  size_t of_file_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace aipu::runtime
