// Compiled kernels on disk, by the hash of all that they are made from: DIR/xx/KEY.
//
// What is in it is run as code, so it must be the user's own: a folder or entry that belongs to somebody else, or that
// somebody else may write, is not used.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace aipu::tir {

class KernelCache {
 public:
  // The folder is `directory`, or with "" $AIPU_CACHE_DIR, else $XDG_CACHE_HOME/aipu, else ~/.cache/aipu. It is made,
  // for this user alone, if it is not there.
  explicit KernelCache(const std::string& directory);
  KernelCache() = default;  // off: holds nothing, takes nothing

  // Why it is not used, and what to do about it; "" if all is well.
  const std::string& problem() const { return problem_; }

  // Empty when there is no such entry or it is damaged.
  std::vector<std::byte> get(const std::string& key) const;
  // A cache that cannot be written costs time, not results.
  void put(const std::string& key, std::span<const std::byte> content) const;

 private:
  std::string folder(const std::string& key) const { return directory_ + "/" + key.substr(0, 2); }

  std::string directory_;  // "" when it is not used
  std::string problem_;
};

}  // namespace aipu::tir
