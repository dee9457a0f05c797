// Tensors of strings at the border and in operations that look into them, and files that lie about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/aipu.hpp"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/model_builder.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x string[N] -> y string[N]: the same numbers.
ModelBuilder copying_model() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), eight = b.constant(8);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kString, {n}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kString, {n}, fb::TensorKind::kOutput);
  const uint32_t bytes = b.mul(n, eight);
  b.copy(y, zero, x, zero, bytes, one, bytes, bytes);
  return b;
}

// (a string[N], b string[N]) -> y string[N]: one behind the other.
ModelBuilder joining_model() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t a = b.tensor("a", DType::kString, {n}, fb::TensorKind::kInput);
  const uint32_t c = b.tensor("b", DType::kString, {n}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kString, {n}, fb::TensorKind::kOutput);
  for (const uint32_t base : {a, c, y}) {
    const uint32_t view = b.tensor("view", DType::kI64, {n}, fb::TensorKind::kView);
    b.tensors[view].base = base;
    b.tensors[view].view_offset = zero;
  }
  b.text_calls = {{.operation = "StringConcat", .inputs = {3, 4}, .outputs = {5}}};
  b.string_pool = {"", "known"};
  b.host(fb::HostOp::kText, 0, 0);
  return b;
}

Status load(const ModelBuilder& builder, std::shared_ptr<const Model>* model, const LoadOptions& options = {}) {
  auto loaded = Model::from_bytes(builder.build(), options);
  if (!loaded.ok()) return loaded.status();
  *model = *loaded;
  return {};
}

std::unique_ptr<Session> open(const ModelBuilder& builder, const SessionOptions& options = {}) {
  std::shared_ptr<const Model> model;
  const Status status = load(builder, &model);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? *Session::create(model, options) : nullptr;
}

Status run(Session& session, const std::vector<std::vector<std::string>>& inputs, std::vector<std::string>* y) {
  std::vector<std::vector<StringView>> views;
  for (size_t i = 0; i < inputs.size(); ++i) {
    views.emplace_back();
    for (const std::string& text : inputs[i]) views.back().push_back({text.data(), text.size()});
    const int64_t shape[] = {static_cast<int64_t>(inputs[i].size())};
    AIPU_RETURN_IF_ERROR(session.bind_input(i, {DType::kString, shape, views.back().data()}));
  }
  AIPU_RETURN_IF_ERROR(session.run());
  AIPU_ASSIGN_OR_RETURN(const TensorView view, session.output(0));
  EXPECT_EQ(view.dtype, DType::kString);
  y->clear();
  for (int64_t k = 0; k < view.shape[0]; ++k) {
    const StringView& text = static_cast<const StringView*>(view.data)[k];
    y->emplace_back(text.data, text.size);
  }
  return {};
}

TEST(Strings, ComeOutAsTheyWentIn) {
  const auto session = open(copying_model());
  std::vector<std::string> y;
  const std::vector<std::string> x = {"b", "", std::string("a\0c", 3), "b", std::string(5000, 'x'), "\xff\xfe"};
  ASSERT_TRUE(run(*session, {x}, &y).ok());
  EXPECT_EQ(y, x);
  ASSERT_TRUE(run(*session, {{}}, &y).ok());
  EXPECT_TRUE(y.empty());
}

TEST(Strings, OfManyRunsTakeTheMemoryOfOne) {
  SessionOptions options;
  options.memory_limit_bytes = 1 << 20;
  options.threads = 1;
  const auto session = open(joining_model(), options);
  std::vector<std::string> y;
  for (int k = 0; k < 300; ++k) {
    const std::string text = std::to_string(k) + std::string(20000, 'a');
    const Status status = run(*session, {{text, "known"}, {"-", text}}, &y);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_THAT(y, ElementsAre(text + "-", "known" + text));
  }
  EXPECT_THAT(run(*session, {{std::string(1 << 20, 'b')}, {"c"}}, &y).message(), HasSubstr("the limit is 1048576"));
  ASSERT_TRUE(run(*session, {{"b"}, {"c"}}, &y).ok());
  EXPECT_THAT(y, ElementsAre("bc"));
}

TEST(Strings, OutputsAreTheSessions) {
  const auto session = open(copying_model());
  StringView mine[1];
  EXPECT_THAT(session->bind_output(0, mine, sizeof mine).message(), HasSubstr("in memory of the session's only"));
  const StringView x[] = {{"a", 1}};
  const int64_t shape[] = {1};
  const TensorView views[] = {{DType::kString, shape, x}};
  const OutputMemory memory[] = {{mine, sizeof mine}};
  EXPECT_THAT(session->submit(views, memory).status().message(), HasSubstr("in memory of the session's only"));
  // Before a run there are none to look at.
  ASSERT_TRUE(session->bind_input(0, views[0]).ok());
  ASSERT_TRUE(session->prepare().ok());
  EXPECT_EQ(session->output(0)->data, nullptr);
}

TEST(Strings, WithoutDataAreAnError) {
  const auto session = open(copying_model());
  const StringView x[] = {{nullptr, 0}, {nullptr, 1}};
  for (const int64_t count : {1, 2}) {
    const int64_t shape[] = {count};
    ASSERT_TRUE(session->bind_input(0, {DType::kString, shape, x}).ok());
    const Status status = session->run();
    EXPECT_EQ(status.ok(), count == 1);
    if (count == 2) {
      EXPECT_THAT(status.message(), HasSubstr("input 'x' has a string without data"));
    }
  }
}

TEST(Strings, OfSubmittedRunsStay) {
  const auto session = open(joining_model());
  std::vector<std::string> kept = {"first of all", "a"};
  std::vector<std::shared_ptr<runtime::Run>> runs;
  const int64_t shape[] = {1};
  std::vector<StringView> views;
  for (const std::string& text : kept) views.push_back({text.data(), text.size()});
  for (int k = 0; k < 2; ++k) {
    const TensorView inputs[] = {{DType::kString, shape, &views[static_cast<size_t>(k)]},
                                 {DType::kString, shape, &views[0]}};
    runs.push_back(*session->submit(inputs));
  }
  for (size_t k = 0; k < 2; ++k) {
    ASSERT_TRUE(runs[k]->wait().ok());
    const auto y = runs[k]->output(0);
    ASSERT_TRUE(y.ok());
    const auto& text = *static_cast<const StringView*>(y->data);
    EXPECT_EQ(std::string(text.data, text.size), kept[k] + kept[0]);
  }
}

TEST(Strings, FromCxx) {
  const auto file = joining_model().build();
  const aipu::Model model = aipu::Model::from_bytes(file.data(), file.size());
  EXPECT_EQ(model.inputs()[0].dtype, AIPU_STRING);
  aipu::Session session(model);
  const std::vector<std::string> a = {"1", "2"};
  std::vector<aipu_string> elements;
  for (const std::string& text : a) elements.push_back(aipu::element_of(text));
  session.bind_input("a", elements.data(), {2});
  session.bind_input("b", elements.data(), {2});
  session.run();
  const aipu::Tensor y = session.output("y");
  EXPECT_EQ(y.size_bytes(), 2 * sizeof(aipu_string));
  EXPECT_THAT(y.strings(), ElementsAre("11", "22"));
}

// What a file may say of strings. Numbers that no string has are found where they are looked at.
TEST(Strings, FilesThatLieAreRefused) {
  struct Case {
    const char* message;
    void (*edit)(ModelBuilder&);
  };
  const Case cases[] = {
      {"libaipu_text.so does not know this operation", [](ModelBuilder& b) { b.text_calls[0].operation = "Guess"; }},
      {"libaipu_image.so does not know this operation",
       [](ModelBuilder& b) { b.text_calls[0].library = fb::OperationLibrary::kImage; }},
      {"is of the unknown library 2",
       [](ModelBuilder& b) { b.text_calls[0].library = static_cast<fb::OperationLibrary>(2); }},
      {"knows this operation with other parameters", [](ModelBuilder& b) { b.text_calls[0].texts = {"x"}; }},
      {"runs operation 1 on texts of 1",
       [](ModelBuilder& b) {
         b.programs[0].host.clear();
         b.host(fb::HostOp::kText, 1, 0);
       }},
      {"is run from two places", [](ModelBuilder& b) { b.host(fb::HostOp::kText, 0, 0); }},
      {"uses tensor 77 of 6", [](ModelBuilder& b) { b.text_calls[0].inputs[0] = 77; }},
      {"is read-only", [](ModelBuilder& b) { b.text_calls[0].outputs = {3}; }},
      {"do not begin with the empty one", [](ModelBuilder& b) { b.string_pool[0] = "x"; }},
      {"uses expression 1000000", [](ModelBuilder& b) { b.text_calls[0].needed = 1000000; }},
  };
  for (const Case& c : cases) {
    ModelBuilder b = joining_model();
    c.edit(b);
    std::shared_ptr<const Model> model;
    EXPECT_THAT(load(b, &model).message(), HasSubstr(c.message));
  }
}

TEST(Strings, TensorsThatDoNotFitAnOperation) {
  for (const auto edit : {+[](ModelBuilder& b) { b.text_calls[0].inputs.pop_back(); },
                          +[](ModelBuilder& b) { b.text_calls[0].inputs[1] = 0; },  // texts, not numbers
                          +[](ModelBuilder& b) { b.text_calls[0].outputs.push_back(2); }}) {
    ModelBuilder b = joining_model();
    edit(b);
    const auto session = open(b);
    std::vector<std::string> y;
    EXPECT_THAT(run(*session, {{"a"}, {"b"}}, &y).message(), HasSubstr("tensors that do not fit it"));
  }
}

TEST(Strings, NumbersOfNothing) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), eight = b.constant(8);
  const uint32_t x = b.tensor("x", DType::kI64, {one}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kString, {one}, fb::TensorKind::kOutput);
  b.copy(y, zero, x, zero, eight, one, eight, eight);
  b.string_pool = {"", "one"};
  const auto session = open(b);
  const int64_t shape[] = {1};
  for (const int64_t number : {int64_t{1}, int64_t{2}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    ASSERT_TRUE(session->bind_input(0, {DType::kI64, shape, &number}).ok());
    const Status status = session->run();
    EXPECT_EQ(status.ok(), number == 1) << number;
    if (!status.ok()) {
      EXPECT_THAT(status.message(), HasSubstr("output 'y': a tensor of strings has the number"));
    }
  }
}

TEST(Strings, WhatIsNotNeededIsNotComputed) {
  ModelBuilder b = joining_model();
  b.text_calls[0].needed = b.constant(0);
  const auto session = open(b);
  std::vector<std::string> y;
  ASSERT_TRUE(run(*session, {{"a"}, {"b"}}, &y).ok());
  EXPECT_THAT(y, ElementsAre(""));
}

}  // namespace
}  // namespace aipu::runtime
