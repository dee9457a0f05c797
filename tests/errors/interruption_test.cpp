// What a conversion shows and what it leaves when it is ended: a line on a terminal, and nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Conversions : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "aipu_conversions_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    models::OnnxBuilder b("small");
    b.output(b.op("Relu", {b.input("x", DType::kF32, {8})}));
    ASSERT_TRUE(b.save(in("s.onnx")).ok());
    fs::create_directory(in("tmp"));
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string in(const std::string& name) const { return folder_ + "/" + name; }

  // In a child process.
  [[noreturn]] void convert(const std::vector<std::string>& options) const {
    ::setenv("TMPDIR", in("tmp").c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    if (::chdir(folder_.c_str()) != 0) ::_exit(126);
    std::vector<char*> arguments;
    std::vector<std::string> words = {"aipugb", "s.onnx", "-o", "o.bin", "--no-cache"};
    words.insert(words.end(), options.begin(), options.end());
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(AIPU_BUILD_DIR "/bin/aipugb", arguments.data());
    ::_exit(127);
  }

  // What a terminal gets.
  std::string on_a_terminal(const std::vector<std::string>& options) const {
    int terminal = -1;
    const pid_t process = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (process == 0) convert(options);
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
    ::close(terminal);
    int status = 0;
    ::waitpid(process, &status, 0);
    EXPECT_EQ(status, 0) << text;
    return text;
  }

  std::string folder_;
};

TEST_F(Conversions, ShowProgressOnATerminal) {
  const std::string text = on_a_terminal({});
  for (const char* part : {"  import", "  passes", "compile: 0 of 1 kernels", "compile: 1 of 1 kernels", "  encode"})
    EXPECT_THAT(text, HasSubstr(part));
  // The last thing before the report is an empty line.
  EXPECT_THAT(text, HasSubstr("\r\x1b[Ko.bin: "));
  const std::string quiet = on_a_terminal({"-q"});
  EXPECT_EQ(quiet, "");
}

TEST_F(Conversions, ShowNoProgressInAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    convert({});
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_EQ(text.find("o.bin: "), 0u) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

// The compiler is a script that says that it has begun and then sleeps, as does a child of it; both hold the FIFO open.
TEST_F(Conversions, LeaveNothingWhenASignalEndsThem) {
  ASSERT_EQ(::mkfifo(in("begun").c_str(), 0600), 0);
  {
    std::ofstream script(in("gcc"));
    script << "#!/bin/sh\ncase \"$1\" in --version | -print-*) echo gcc 1 && exit 0 ;; esac\nexec 7> '" << in("begun")
           << "'\necho begun >&7\nsleep 1000 &\nwait\n";
  }
  fs::permissions(in("gcc"), fs::perms::owner_all);
  for (const int number : {SIGINT, SIGTERM}) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::setenv("AIPU_CC", in("gcc").c_str(), 1);
      convert({"--jobs", "2"});
    }
    const int begun = ::open(in("begun").c_str(), O_RDONLY);
    char c = 0;
    ASSERT_EQ(::read(begun, &c, 1), 1);
    EXPECT_FALSE(fs::is_empty(in("tmp")));
    ASSERT_EQ(::kill(process, number), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_TRUE(fs::is_empty(in("tmp")));
    while (::read(begun, &c, 1) > 0) {  // to the end, which comes when compilers and children are gone
    }
    ::close(begun);
    EXPECT_FALSE(fs::exists(in("o.bin")));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 4);  // s.onnx, tmp, begun, gcc
  }
}

// Files beyond a size, descriptors, memory: named, and nothing of it a bug.
TEST_F(Conversions, NameWhatTheMachineLacks) {
  const std::pair<const char*, const char*> cases[] = {{"ulimit -f 20", "File too large"},
                                                       {"ulimit -n 8", "Too many open files"},
                                                       {"ulimit -v 30000", ""},
                                                       {"ulimit -v 45000", ""}};
  for (const auto& [limit, message] : cases) {
    const std::string command = "cd '" + folder_ + "' && (" + limit +
                                " && TMPDIR=tmp " AIPU_BUILD_DIR
                                "/bin/aipugb s.onnx -o o.bin --no-cache --jobs 1) > log 2>&1";
    const int status = std::system(command.c_str());
    // How much memory is enough depends on the compiler.
    if (*message != '\0') {
      EXPECT_NE(status, 0) << limit;
    }
    const std::string text = *read_text_file(in("log"));
    EXPECT_THAT(text, HasSubstr(message)) << limit;
    EXPECT_EQ(text.find("bug in aipu"), std::string::npos) << text;
    EXPECT_TRUE(fs::is_empty(in("tmp"))) << limit;
    EXPECT_EQ(fs::exists(in("o.bin")), status == 0) << limit;
    fs::remove(in("o.bin"));
    EXPECT_FALSE(fs::exists(in("o.bin.repro"))) << limit;
  }
}

}  // namespace
}  // namespace aipu
