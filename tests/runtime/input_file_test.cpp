// What is read from outside: regular files alone, and no fault whatever happens to them meanwhile.
#include "runtime/base/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu {
namespace {

using ::testing::HasSubstr;

class InputFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "aipu_input_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomically(path(name), std::string_view(text)).ok());
  }
  std::string folder_;
};

// Opening the FIFO for good would wait for a writer for ever.
TEST_F(InputFiles, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path("socket").size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, path("socket").c_str());
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::symlink("fifo", path("link").c_str()), 0);
  const std::vector<std::pair<std::string, std::string>> cases = {{path("fifo"), "but a FIFO"},
                                                                  {path("link"), "but a FIFO"},
                                                                  {path("socket"), "but a socket"},
                                                                  {folder_, "but a folder"},
                                                                  {"/dev/null", "but a character device"},
                                                                  {"/dev/zero", "but a character device"}};
  for (const auto& [file, kind] : cases) {
    const std::string message = "cannot read '" + file + "': not a regular file, " + kind;
    EXPECT_EQ(InputFile::open(file).status().message(), message);
    EXPECT_EQ(MappedFile::open(file).status().message(), message);
    EXPECT_EQ(MappedFile::read(file).status().message(), message);
    EXPECT_EQ(read_text_file(file).status().message(), message);
    EXPECT_EQ(runtime::Model::load(file).status().message(), message);
  }
  ::close(socket);
}

TEST_F(InputFiles, AFileThatBecomesShorterIsAnError) {
  write("f", std::string(10000, 'x'));
  const auto file = InputFile::open(path("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path("f").c_str(), 5000), 0);
  std::vector<std::byte> bytes(10000);
  EXPECT_EQ(file->read_at(0, bytes).message(),
            "cannot read '" + path("f") + "': it has become shorter while it was being read");
  EXPECT_TRUE(file->read_at(0, std::span(bytes).first(5000)).ok());
}

TEST_F(InputFiles, ACopyOutlivesItsFile) {
  write("f", std::string(100000, 'x') + "end");
  const auto copy = MappedFile::read(path("f"));
  ASSERT_TRUE(copy.ok());
  ASSERT_EQ(::truncate(path("f").c_str(), 0), 0);
  ASSERT_EQ(copy->bytes().size(), 100003u);
  EXPECT_EQ(static_cast<char>(copy->bytes()[99999]), 'x');
  EXPECT_EQ(static_cast<char>(copy->bytes()[100002]), 'd');
  EXPECT_TRUE(MappedFile::read(path("f"))->bytes().empty());
}

// y = 4 * x with a file of some 1 MiB, so that cutting it off would be felt.
class ServedModels : public InputFiles {
 protected:
  void serve(float factor) const {
    test::ModelBuilder builder = test::chain_model();
    for (auto& argument : builder.arguments) {
      if (argument.word() == builder.word(3.0f).word()) argument = builder.word(factor);
    }
    builder.sections[1].bytes.resize(1 << 20);
    ASSERT_TRUE(write_file_atomically(path("m.aipu.bin"), std::span<const std::byte>(builder.build())).ok());
  }
  static float run(const std::shared_ptr<const runtime::Model>& model) {
    auto session = runtime::Session::create(model);
    const float x[] = {1, 2, 3, 4};
    const int64_t shape[] = {1, 4};
    if (!session.ok() || !(*session)->bind_input(0, {DType::kF32, shape, x}).ok() || !(*session)->run().ok()) return -1;
    return static_cast<const float*>((*session)->output(0)->data)[0];
  }
};

TEST_F(ServedModels, ACopiedModelOutlivesItsFile) {
  serve(3);
  runtime::LoadOptions options;
  options.copy = true;
  options.verify_all = true;
  const auto model = runtime::Model::load(path("m.aipu.bin"), options);
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(::truncate(path("m.aipu.bin").c_str(), 0), 0);
  EXPECT_EQ(run(*model), 4);
}

TEST_F(ServedModels, AFileThatIsServedIsReplacedByRename) {
  serve(3);
  const auto before = runtime::Model::load(path("m.aipu.bin"));
  ASSERT_TRUE(before.ok()) << before.status().message();
  serve(6);  // as aipugb writes: a new file under the name of the old one
  const auto after = runtime::Model::load(path("m.aipu.bin"));
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(run(*before), 4);
  EXPECT_EQ(run(*after), 7);
}

}  // namespace
}  // namespace aipu
