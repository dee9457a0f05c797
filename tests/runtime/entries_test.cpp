// Files with several models: each is found by its name, all of them work on one copy of the file and its kernels, and
// none outlives what it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/aipu.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Model> loaded(const ModelBuilder& builder, const std::string& entry = "") {
  LoadOptions options;
  options.entry = entry;
  auto model = Model::from_bytes(builder.build(), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

std::shared_ptr<const Model> opened(const Model& model, std::string_view entry) {
  auto other = model.open(entry);
  EXPECT_TRUE(other.ok()) << other.status().message();
  return other.ok() ? *other : nullptr;
}

std::vector<float> outputs_of(Session& session) {
  const float x[3] = {};
  const int64_t shape[] = {3};
  Status status = session.bind_input(0, {DType::kF32, shape, x});
  if (status.ok()) status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  const auto y = session.output(0);
  if (!y.ok()) return {};
  const auto* data = static_cast<const float*>(y->data);
  return {data, data + y->shape[0]};
}

std::vector<float> outputs_of(const std::shared_ptr<const Model>& model) {
  auto session = Session::create(model);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? outputs_of(**session) : std::vector<float>();
}

TEST(Entries, AreFoundByTheirNames) {
  const auto first = loaded(test::two_entries());
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(first->entries(), ElementsAre("one", "two"));
  EXPECT_THAT(outputs_of(first), ElementsAre(128, 132, 136));
  const auto second = opened(*first, "two");
  ASSERT_NE(second, nullptr);
  EXPECT_THAT(second->entries(), ElementsAre("one", "two"));
  EXPECT_THAT(outputs_of(second), ElementsAre(0, -1, -2));
  EXPECT_THAT(outputs_of(opened(*second, "one")), ElementsAre(128, 132, 136));
  EXPECT_THAT(outputs_of(opened(*second, "")), ElementsAre(128, 132, 136));
  EXPECT_THAT(outputs_of(loaded(test::two_entries(), "two")), ElementsAre(0, -1, -2));
}

TEST(Entries, AWrongNameIsAnErrorThatListsThem) {
  LoadOptions options;
  options.entry = "three";
  const auto model = Model::from_bytes(test::two_entries().build(), options);
  EXPECT_EQ(model.status().message(), "the file has no entry 'three'; it has: one, two");
  EXPECT_EQ(model.status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(loaded(test::two_entries())->open("One").status().message(),
            "the file has no entry 'One'; it has: one, two");
}

TEST(Entries, AFileWithOneModelHasOne) {
  const auto model = loaded(test::chain_model());
  EXPECT_THAT(model->entries(), ElementsAre("model"));  // as it is called
  EXPECT_NE(opened(*model, "model"), nullptr);
}

TEST(Entries, LiveAsLongAsSomebodyHasOneOfThem) {
  auto first = loaded(test::two_entries());
  auto second = opened(*first, "two");
  first.reset();
  auto session = Session::create(second);
  second.reset();
  EXPECT_THAT(outputs_of(**session), ElementsAre(0, -1, -2));
}

TEST(Entries, RunBesideEachOther) {
  const auto first = loaded(test::two_entries());
  const auto second = opened(*first, "two");
  std::vector<std::thread> threads;
  for (const auto& [model, value] : {std::pair(first, 132.0f), std::pair(second, -1.0f)}) {
    threads.emplace_back([model = model, value = value] {
      const auto session = Session::create(model);
      ASSERT_TRUE(session.ok());
      for (int i = 0; i < 200; ++i) ASSERT_EQ(outputs_of(**session)[1], value);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Entries, AreCheckedAsTheFirstIs) {
  const auto problem = [](auto&& edit) {
    ModelBuilder b = test::two_entries();
    edit(b);
    return Model::from_bytes(b.build()).status().message();
  };
  EXPECT_EQ(problem([](ModelBuilder&) {}), "");
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].inputs = {99}; }), HasSubstr("entry 1: input 0 is tensor"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].tensors[1].offset_bytes = 320; }),
              HasSubstr("entry 1: constant tensor 1 'w' is outside of the constants"));
  const auto run_another_kernel = [](ModelBuilder& b) {
    fb::TecCommand& command = b.entries[0].programs[0].tec[0];
    command = fb::TecCommand(command.sequence(), 2, command.first_argument(), command.argument_count(), 0, 0,
                             command.max_tecs(), command.origin());
  };
  EXPECT_THAT(problem(run_another_kernel), HasSubstr("runs kernel 2 of 2"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].kernel(test::add_kernel()); }),
              HasSubstr("it has kernels, sections or entries of its own"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].entries = {b.entries[0]}; }),
              HasSubstr("it has kernels, sections or entries of its own"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].entry_name = "one"; }),
              HasSubstr("entry 1 has no name that tells it from entry 0"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].entry_name = ""; }), HasSubstr("has no name"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entry_name = ""; }), HasSubstr("has no name"));
  EXPECT_THAT(problem([](ModelBuilder& b) { b.entries[0].symbol("n", 0, 0, fb::SymbolKind::kGiven); }),
              HasSubstr("is given by a caller, of which there is none"));
}

// What an entry needs that is not there is that entry's problem.
TEST(Entries, TextsThatAreRefusedAreOneModelsAlone) {
  ModelBuilder b = test::two_entries();
  b.entries[0].tensors[0].dtype = DType::kString;
  const auto bytes = b.build();
  LoadOptions options;
  options.no_strings = true;
  const auto model = Model::from_bytes(bytes, options);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->open("two").status().message(), HasSubstr("the model has strings"));
  options.entry = "two";
  EXPECT_THAT(Model::from_bytes(bytes, options).status().message(), HasSubstr("the model has strings"));
}

TEST(Entries, InC) {
  const auto bytes = test::two_entries().build();
  aipu_model *first = nullptr, *second = nullptr, *none = nullptr;
  ASSERT_EQ(aipu_model_load_bytes(bytes.data(), bytes.size(), nullptr, &first), AIPU_OK) << aipu_last_error();
  EXPECT_EQ(aipu_model_entry_count(first), 2u);
  EXPECT_STREQ(aipu_model_entry_name(first, 0), "one");
  EXPECT_STREQ(aipu_model_entry_name(first, 1), "two");
  EXPECT_STREQ(aipu_model_entry_name(first, 2), "");
  EXPECT_EQ(aipu_model_entry_open(first, "three", &none), AIPU_NOT_FOUND);
  EXPECT_STREQ(aipu_last_error(), "the file has no entry 'three'; it has: one, two");
  ASSERT_EQ(aipu_model_entry_open(first, "two", &second), AIPU_OK) << aipu_last_error();
  aipu_model_release(first);
  aipu_session* session = nullptr;
  ASSERT_EQ(aipu_session_create(second, 1, &session), AIPU_OK) << aipu_last_error();
  aipu_model_release(second);
  const float x[2] = {};
  const int64_t shape[] = {2};
  ASSERT_EQ(aipu_session_bind_input(session, 0, AIPU_FLOAT32, shape, 1, x), AIPU_OK) << aipu_last_error();
  ASSERT_EQ(aipu_session_run(session), AIPU_OK) << aipu_last_error();
  aipu_tensor y;
  ASSERT_EQ(aipu_session_output(session, 0, &y), AIPU_OK) << aipu_last_error();
  EXPECT_EQ(static_cast<const float*>(y.data)[1], -1);
  aipu_session_release(session);

  EXPECT_EQ(aipu_model_entry_count(nullptr), 0u);
  EXPECT_STREQ(aipu_model_entry_name(nullptr, 0), "");
  EXPECT_EQ(aipu_model_entry_open(nullptr, "one", &none), AIPU_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace aipu::runtime
