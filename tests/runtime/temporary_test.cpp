// What a program that a signal ends leaves behind: nothing.
#include "runtime/base/temporary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/file.h"

extern char** environ;

namespace aipu {
namespace {

namespace fs = std::filesystem;

class Temporaries : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "aipu_temporary_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_EQ(::setenv("TMPDIR", folder_.c_str(), 1), 0);
  }
  void TearDown() override {
    ::unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  std::string folder_;
};

TEST_F(Temporaries, FoldersGoWithAllThatIsInThem) {
  {
    const auto folder = Temporary::create_folder("test");
    ASSERT_TRUE(folder.ok());
    struct stat info = {};
    ASSERT_EQ(::stat(folder->path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    ASSERT_TRUE(make_folder(folder->path() + "/a/b").ok());
    ASSERT_TRUE(write_file_atomically(folder->path() + "/a/b/c", "x").ok());
    EXPECT_FALSE(fs::is_empty(folder_));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  ASSERT_EQ(::setenv("TMPDIR", (folder_ + "/none").c_str(), 1), 0);
  EXPECT_EQ(Temporary::create_folder("test").status().message(),
            "cannot make a temporary folder in '" + folder_ +
                "/none': No such file or directory; TMPDIR may name "
                "another place");
}

// A program with a temporary folder, a file in it and a child with a child; says so on `ready`, then waits for ever.
// The grandchild holds `held` open for as long as it lives.
[[noreturn]] void be_busy(int ready, int held) {
  handle_ending_signals();
  auto folder = Temporary::create_folder("busy");
  if (!folder.ok() || !write_file_atomically(folder->path() + "/file", "x", Sync::kNo).ok()) ::_exit(3);
  const auto start = [&](const posix_spawnattr_t& attributes, pid_t* process) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, held, 9);
    char shell[] = "sh", option[] = "-c", script[] = "sleep 1000 & wait";
    char* arguments[] = {shell, option, script, nullptr};
    return ::posix_spawn(process, "/bin/sh", &actions, &attributes, arguments, environ);
  };
  auto child = ChildProcess::start("sh", start);
  ::close(held);
  if (!child.ok() || ::write(ready, "r", 1) != 1) ::_exit(3);
  (void)child->wait();
  ::_exit(4);
}

TEST_F(Temporaries, GoWhenASignalEndsTheProgramAndSoDoItsChildren) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    int ready[2], held[2];
    ASSERT_TRUE(::pipe2(ready, O_CLOEXEC) == 0 && ::pipe2(held, O_CLOEXEC) == 0);
    const pid_t process = ::fork();
    if (process == 0) be_busy(ready[1], held[1]);
    ::close(ready[1]);
    ::close(held[1]);
    char c = 0;
    ASSERT_EQ(::read(ready[0], &c, 1), 1);
    EXPECT_FALSE(fs::is_empty(folder_));
    ASSERT_EQ(::kill(process, number), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_TRUE(fs::is_empty(folder_)) << fs::directory_iterator(folder_)->path();
    EXPECT_EQ(::read(held[0], &c, 1), 0);  // ends when the last process that holds the other end does
    ::close(ready[0]);
    ::close(held[0]);
  }
}

TEST_F(Temporaries, AnIgnoredSignalStaysIgnored) {
  const pid_t process = ::fork();
  if (process == 0) {
    ::signal(SIGHUP, SIG_IGN);
    handle_ending_signals();
    ::raise(SIGHUP);
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace
}  // namespace aipu
