// Signed files: what the trusted key lets in, and what it does not. Keys and the known signature are those of RFC 8032,
// 7.1.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "runtime/aipu.h"
#include "runtime/base/file.h"
#include "runtime/loader/model_file.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "runtime/signature/signature.h"
#include "runtime/signature/signature_api.h"
#include "test_paths.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPrivate =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view kPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";
constexpr std::string_view kOtherPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n";

class Signature : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("aipu_signature_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    write("key.pem", kPrivate);
    write("key.pub.pem", kPublic);
    const auto signer = file_signer(path("key.pem"));
    ASSERT_TRUE(signer.ok()) << signer.status().message();
    signed_ = test::chain_model().build();
    const auto block = (*signer)(signed_);
    ASSERT_TRUE(block.ok()) << block.status().message();
    signed_.insert(signed_.end(), block->begin(), block->end());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, std::string_view text) const {
    ASSERT_TRUE(write_file_atomically(path(name), text, Sync::kNo).ok());
  }

  static Status load(std::span<const std::byte> bytes, std::string_view key) {
    LoadOptions options;
    options.trusted_key = key;
    return Model::from_bytes(bytes, options).status();
  }

  std::filesystem::path folder_;
  std::vector<std::byte> signed_;
};

TEST_F(Signature, OfTheStandard) {
  void* library = ::dlopen(AIPU_BUILD_DIR "/lib/libaipu_signature.so", RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto* table = reinterpret_cast<aipu_signature_function>(::dlsym(library, AIPU_SIGNATURE_SYMBOL))();
  ASSERT_NE(table, nullptr);
  std::array<uint8_t, 64> secret = {}, signature = {};
  std::array<uint8_t, 32> key = {};
  ASSERT_EQ(table->read_private_key(kPrivate.data(), kPrivate.size(), secret.data(), key.data()), nullptr);
  ASSERT_EQ(table->sign(secret.data(), "", 0, signature.data()), nullptr);
  std::string digits;
  for (const uint8_t byte : signature) {
    for (const int nibble : {byte >> 4, byte & 15}) digits += "0123456789abcdef"[nibble];
  }
  EXPECT_EQ(
      digits,
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe"
      "24655141438e7a100b");
}

TEST_F(Signature, LetsSignedFilesIn) {
  ASSERT_TRUE(write_file_atomically(path("m.aipu.bin"), signed_).ok());
  for (const std::string& key : {std::string(kPublic), path("key.pub.pem")}) {
    LoadOptions options;
    options.trusted_key = key;
    const auto model = Model::load(path("m.aipu.bin"), options);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto session = Session::create(*model);
    const std::vector<float> x = {1, 2, 3, 4};
    const std::vector<int64_t> shape = {1, 4};
    ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, shape, x.data()}).ok());
    ASSERT_TRUE((*session)->run().ok());
    EXPECT_EQ(static_cast<const float*>((*session)->output(0)->data)[3], 16.0f);
  }
  EXPECT_TRUE(load(signed_, {}).ok());  // nobody asks
}

TEST_F(Signature, RefusesTheOthers) {
  const auto bare = test::chain_model().build();
  EXPECT_THAT(load(bare, kPublic).message(), HasSubstr("not signed"));
  EXPECT_THAT(load(signed_, kOtherPublic).message(), HasSubstr("by another key"));
  auto longer = signed_;
  longer.insert(longer.end(), signed_.end() - kSignatureBlockBytes, signed_.end());
  EXPECT_EQ(load(longer, kPublic).code(), ErrorCode::kInvalidModel);
  // A block that names the trusted key does not make a signature.
  auto claimed = signed_;
  std::fill_n(claimed.end() - kSignatureBlockBytes + kSignerKeyBytes, kSignatureBytes, std::byte{0});
  EXPECT_THAT(load(claimed, kPublic).message(), HasSubstr("does not fit"));
  // The key in the block is for people: it is not what is trusted.
  auto renamed = signed_;
  renamed[renamed.size() - kSignatureBlockBytes] ^= std::byte{1};
  EXPECT_TRUE(load(renamed, kPublic).ok());
}

TEST_F(Signature, RefusesEveryChangedBit) {
  std::mt19937_64 random(18);
  const size_t content = signed_.size() - kSignatureBlockBytes;
  for (size_t i = 0; i < signed_.size(); i += i < content ? 1 + random() % 64 : 1) {
    if (i >= content && i < content + kSignerKeyBytes) continue;
    auto changed = signed_;
    changed[i] ^= static_cast<std::byte>(1u << random() % 8);
    EXPECT_EQ(load(changed, kPublic).code(), ErrorCode::kInvalidModel) << i;
  }
  for (const size_t size : {size_t{0}, size_t{50}, content - 1, content, signed_.size() - 1})
    EXPECT_EQ(load(std::span(signed_).first(size), kPublic).code(), ErrorCode::kInvalidModel) << size;
}

// What was checked is what runs, whoever may write the file.
TEST_F(Signature, WritingTheFileLaterChangesNothing) {
  ASSERT_TRUE(write_file_atomically(path("m.aipu.bin"), signed_).ok());
  const auto file = ModelFile::open(path("m.aipu.bin"), VerifyLevel::kFull, true, nullptr, kPublic);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const std::string target((*file)->root().target()->string_view());
  std::filesystem::resize_file(path("m.aipu.bin"), 0);
  EXPECT_EQ((*file)->root().target()->string_view(), target);
}

TEST_F(Signature, SaysWhatIsWrongWithAKey) {
  EXPECT_THAT(load(signed_, kPrivate).message(), HasSubstr("it is a private key"));
  EXPECT_THAT(load(signed_, path("none.pem")).message(), HasSubstr("No such file"));
  write("text.pem", "hello\n");
  EXPECT_THAT(load(signed_, path("text.pem")).message(), HasSubstr("no public Ed25519 key"));
  EXPECT_THAT(file_signer(path("key.pub.pem")).status().message(), HasSubstr("no private Ed25519 key"));
  write("secret.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_THAT(file_signer(path("secret.pem")).status().message(), HasSubstr("it is encrypted"));
}

TEST_F(Signature, ThroughTheCApi) {
  ASSERT_TRUE(write_file_atomically(path("m.aipu.bin"), signed_).ok());
  aipu_load_options options = {};
  options.struct_bytes = sizeof options;
  aipu_model* model = nullptr;
  const std::string trusted(kPublic), other(kOtherPublic);
  options.trusted_key = trusted.c_str();
  EXPECT_EQ(aipu_model_load_with(path("m.aipu.bin").c_str(), &options, &model), AIPU_OK) << aipu_last_error();
  aipu_model_release(model);
  options.trusted_key = other.c_str();
  EXPECT_EQ(aipu_model_load_with(path("m.aipu.bin").c_str(), &options, &model), AIPU_INVALID_MODEL);
  EXPECT_THAT(aipu_last_error(), HasSubstr("m.aipu.bin: the file is signed by another key than the trusted one"));
  options.trusted_key = "";
  EXPECT_EQ(aipu_model_load_with(path("m.aipu.bin").c_str(), &options, &model), AIPU_INVALID_ARGUMENT);
}

TEST_F(Signature, BeforeASandbox) {
  if (::access(AIPU_BUILD_DIR "/bin/aipu-sandbox", X_OK) != 0) GTEST_SKIP() << "built without an interpreter";
  ASSERT_TRUE(write_file_atomically(path("m.aipu.bin"), signed_).ok());
  LoadOptions options;
  options.sandbox = true;
  options.trusted_key = kOtherPublic;
  EXPECT_THAT(Model::load(path("m.aipu.bin"), options).status().message(), HasSubstr("by another key"));
}

}  // namespace
}  // namespace aipu::runtime
