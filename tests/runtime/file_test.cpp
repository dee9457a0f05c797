// Where files are written: links, devices, folders, permissions, and what a failure leaves.
#include "runtime/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace aipu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "aipu_files_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in(const std::string& name) const { return folder_ + "/" + name; }
  std::string text(const std::string& name) const {
    auto read = read_text_file(in(name));
    return read.ok() ? *read : read.status().message();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
  static void write(const std::string& path, std::string_view content) {
    const Status status = write_file_atomically(path, content);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static std::string error_of(const std::string& path) { return write_file_atomically(path, "x").message(); }
  static mode_t mode(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }

  std::string folder_;
};

TEST_F(Files, DevicesStayDevices) {
  write("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(error_of("/dev/full"), "cannot write '/dev/full': No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  fs::create_symlink("/dev/full", in("link"));
  EXPECT_EQ(error_of(in("link")), "cannot write '" + in("link") + "': No space left on device");
  EXPECT_TRUE(fs::is_symlink(in("link")));
}

TEST_F(Files, AFifoGetsAllOfAFileInOrder) {
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] {
    const int descriptor = ::open(in("fifo").c_str(), O_RDONLY);
    char buffer[1000];
    for (ssize_t n = 0; (n = ::read(descriptor, buffer, sizeof buffer)) > 0;)
      received.append(buffer, static_cast<size_t>(n));
    ::close(descriptor);
  });
  const std::string begin(100'000, 'a'), end(200'000, 'b');
  {
    auto file = AtomicFile::create(in("fifo"));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(file->write_at(begin.size(), std::as_bytes(std::span(end))).ok());
    EXPECT_TRUE(file->write_at(0, std::as_bytes(std::span(begin))).ok());
    EXPECT_TRUE(file->commit().ok());
  }
  reader.join();
  EXPECT_TRUE(received == begin + end) << received.size();
  EXPECT_TRUE(fs::is_fifo(in("fifo")));
}

TEST_F(Files, AReaderThatLeavesIsAnError) {
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  const int reader = ::open(in("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  auto file = AtomicFile::create(in("fifo"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ::close(reader);
  EXPECT_TRUE(file->write(std::as_bytes(std::span("text"))).ok());
  EXPECT_EQ(file->commit().message(), "cannot write '" + in("fifo") + "': Broken pipe");
}

TEST_F(Files, DescriptorsAreAppendedTo) {
  write(in("log"), "before ");
  const int descriptor = ::open(in("log").c_str(), O_WRONLY | O_APPEND);
  write("/dev/fd/" + std::to_string(descriptor), "after");
  struct stat by_name = {}, by_number = {};
  EXPECT_TRUE(::fstat(descriptor, &by_number) == 0 && ::stat(in("log").c_str(), &by_name) == 0);
  EXPECT_EQ(by_name.st_ino, by_number.st_ino);
  EXPECT_EQ(text("log"), "before after");
  ::close(descriptor);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  write("/proc/self/fd/" + std::to_string(ends[1]), "pipe");
  char buffer[8] = {};
  EXPECT_EQ(::read(ends[0], buffer, sizeof buffer), 4);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_THAT(error_of("/dev/fd/" + std::to_string(ends[1])), HasSubstr("No such file or directory"));
}

TEST_F(Files, LinksStayAndWhatTheyNameIsReplaced) {
  fs::create_directory(in("other"));
  write(in("other/file"), "before");
  fs::create_symlink("other/file", in("relative"));
  fs::create_symlink(in("relative"), in("chain"));
  write(in("chain"), "after");
  EXPECT_EQ(text("other/file"), "after");
  EXPECT_TRUE(fs::is_symlink(in("chain")) && fs::is_symlink(in("relative")));
  // A reader of before keeps what it has: the target is replaced, not overwritten.
  const auto before = MappedFile::open(in("other/file"));
  write(in("chain"), "later");
  EXPECT_EQ(std::memcmp(before->bytes().data(), "after", 5), 0);
  EXPECT_EQ(names(), (std::vector<std::string>{"chain", "other", "relative"}));
}

TEST_F(Files, LinksToNothingMakeWhatTheyName) {
  fs::create_symlink("new", in("dangling"));
  write(in("dangling"), "made");
  EXPECT_TRUE(fs::is_symlink(in("dangling")));
  EXPECT_EQ(text("new"), "made");
  fs::create_symlink("nowhere/new", in("lost"));
  EXPECT_EQ(error_of(in("lost")), "cannot write '" + in("lost") + "': No such file or directory");
  fs::create_symlink("loop", in("loop"));
  EXPECT_EQ(error_of(in("loop")), "cannot write '" + in("loop") + "': Too many levels of symbolic links");
}

TEST_F(Files, FoldersAreRefused) {
  fs::create_directory(in("sub"));
  fs::create_directory_symlink("sub", in("link"));
  for (const std::string& name : {in("sub"), in("sub/"), in("link"), in("new/"), std::string("."), std::string("/")}) {
    const std::string expected = "cannot write '" + name + "': it is a folder; name a file in it";
    EXPECT_EQ(error_of(name), expected);
    EXPECT_EQ(prepare_output(name).message(), expected);
  }
  EXPECT_EQ(error_of(""), "cannot write a file with an empty name");
  EXPECT_EQ(error_of(in("none/file")), "cannot write '" + in("none/file") + "': No such file or directory");
  write(in("file"), "");
  EXPECT_THAT(error_of(in("file/below")), HasSubstr("Not a directory"));
  EXPECT_THAT(prepare_output(in("file/below")).message(), HasSubstr("cannot make the folder"));
  EXPECT_EQ(names(), (std::vector<std::string>{"file", "link", "sub"}));
}

TEST_F(Files, FoldersOfOutputsAreMade) {
  ASSERT_TRUE(prepare_output(in("a/b/c")).ok());
  write(in("a/b/c"), "x");
  EXPECT_EQ(text("a/b/c"), "x");
}

TEST_F(Files, PermissionsAreThoseOfTheUserOrOfTheFile) {
  const mode_t before = ::umask(027);
  write(in("new"), "x");
  EXPECT_EQ(mode(in("new")), 0640u);
  for (const mode_t kept : {0600u, 0755u, 0666u}) {
    ASSERT_EQ(::chmod(in("new").c_str(), kept), 0);
    write(in("new"), "y");
    EXPECT_EQ(mode(in("new")), kept);
  }
  ::umask(before);
}

// For root no permission is lacking: the rest of these tests runs as somebody else.
class AsNobody {
 public:
  AsNobody() : is_root_(::geteuid() == 0) {
    if (is_root_) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  ~AsNobody() {
    if (is_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  bool is_root_;
};

TEST_F(Files, OwnersAreKept) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  write(in("file"), "x");
  ASSERT_EQ(::chown(in("file").c_str(), 65534, 65534), 0);
  write(in("file"), "y");
  struct stat info = {};
  ASSERT_EQ(::stat(in("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 65534u);
  EXPECT_EQ(info.st_gid, 65534u);
}

TEST_F(Files, WhatMayNotBeWrittenStays) {
  fs::create_directory(in("sub"));
  write(in("sub/locked"), "before");
  ASSERT_EQ(::chmod(in("sub").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(in("sub/locked").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  {
    const AsNobody nobody;
    const std::string error = "cannot write '" + in("sub/locked") + "': Permission denied";
    EXPECT_EQ(error_of(in("sub/locked")), error);
    EXPECT_EQ(prepare_output(in("sub/locked")).message(), error);
  }
  ASSERT_EQ(::chmod(in("sub").c_str(), 0555), 0);
  {
    const AsNobody nobody;
    const std::string error = "cannot write '" + in("sub/new") + "': Permission denied";
    EXPECT_EQ(error_of(in("sub/new")), error);
    EXPECT_EQ(prepare_output(in("sub/new")).message(), error);
  }
  EXPECT_EQ(text("sub/locked"), "before");
}

TEST_F(Files, AFailureLeavesWhatWasThere) {
  write(in("file"), "before");
  {
    auto file = AtomicFile::create(in("file"));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->write(std::as_bytes(std::span("half"))).ok());
  }
  EXPECT_EQ(text("file"), "before");

  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file_atomically(in("file"), std::string(2000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.message(), "cannot write '" + in("file") + "': File too large");
  EXPECT_EQ(text("file"), "before");
  EXPECT_EQ(names(), std::vector<std::string>{"file"});
}

TEST_F(Files, ALongNameIsNoProblem) {
  const std::string name(255, 'n');
  write(in(name), "x");
  write(in(name), "y");
  EXPECT_EQ(text(name), "y");
}

}  // namespace
}  // namespace aipu
