// The sample device (runtime/backends/sample), built as others would: by the system's compiler, away from the sources,
// with the two headers that it needs and nothing beside them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "test_paths.h"

namespace aipu::test {

// Where the library is; it goes with the process.
inline const std::string& sample_folder() {
  struct Folder {
    std::string path;
    Folder() {
      namespace fs = std::filesystem;
      path = ::testing::TempDir() + "aipu_sample_device_" + std::to_string(::getpid());
      for (const std::string header : {"runtime/abi/kernel_abi.h", "runtime/backends/device_api.h"}) {
        const fs::path to = fs::path(path) / "include" / header;
        fs::create_directories(to.parent_path());
        fs::copy_file(fs::path(AIPU_SOURCE_DIR) / header, to);
      }
      fs::copy_file(AIPU_SOURCE_DIR "/runtime/backends/sample/sample_device.c", path + "/sample_device.c");
      const std::string command = "cd '" + path +
                                  "' && cc -std=c99 -pedantic -Wall -Werror -O1 -D_GNU_SOURCE -shared -fPIC -I include "
                                  "sample_device.c -o libaipu_backend_sample.so -ldl";
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace aipu::test
