// The tables of aipubench --layers, made of rows by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tools/layer_profile.h"

namespace aipu::tools {
namespace {

using ::testing::HasSubstr;
using Row = runtime::Session::ProfileRow;

Row row(const char* engine, const char* name, uint32_t command, int64_t start, int64_t cycles, int64_t operations,
        int64_t bytes) {
  Row row;
  row.engine = engine;
  row.name = name;
  row.origin = "'node'";
  row.command = command;
  row.start_cycles = start;
  row.cycles = cycles;
  row.operations = operations;
  row.bytes = bytes;
  row.duration_ns = 123456789;  // of the machine that simulates: nobody is to see it
  return row;
}

// A product that its engine bounds beside a copy that the memory bounds, and what follows.
std::vector<Row> rows() {
  return {row("tec", "product", 0, 0, 1000, 64000, 3200), row("dma", "copy", 0, 0, 400, 0, 12800),
          row("tec", "sum", 1, 1000, 200, 400, 6400), row("host", "check", 0, 0, 0, 0, 0)};
}

TEST(CycleProfile, SaysWhatBoundsALayerAndHowMuchOverlaps) {
  const LayerProfile profile = cycle_profile(rows(), 1200, false, true);
  EXPECT_THAT(profile.text, HasSubstr("        1000  83.3%     64.0      3.2  10.0% tec    tec product"));
  EXPECT_THAT(profile.text, HasSubstr("         400  33.3%      0.0     32.0 100.0% memory dma copy"));
  EXPECT_THAT(profile.text, HasSubstr("         200  16.7%      2.0     32.0 100.0% memory tec sum"));
  EXPECT_THAT(profile.text, HasSubstr("tec busy 1200 cycles\n"));
  EXPECT_THAT(profile.text, HasSubstr("dma busy 400 cycles\n"));
  EXPECT_THAT(profile.text, HasSubstr("all: 1200 cycles, of which 400 have more than one engine at work\n"));
  EXPECT_EQ(profile.text.find("GFLOP"), std::string::npos);
  EXPECT_EQ(profile.text.find("123"), std::string::npos);
  EXPECT_THAT(profile.json, HasSubstr("\"kernel\": \"product\""));
  EXPECT_THAT(profile.json, HasSubstr("\"cycles\": 1000, \"operations\": 64000, \"bytes\": 3200, \"bound\": \"tec\"}"));
}

TEST(CycleProfile, OrdersSumsUpSamplesAndHidesSmallOnes) {
  std::vector<Row> all = rows();
  all.push_back(row("tec", "product", 0, 1200, 8800, 64000, 3200));  // a second sample
  all.push_back(row("tec", "tiny", 2, 10000, 1, 0, 0));
  const LayerProfile profile = cycle_profile(all, 10001, true, false);
  EXPECT_LT(profile.text.find("product"), profile.text.find("copy"));
  EXPECT_LT(profile.text.find("copy"), profile.text.find("sum"));
  EXPECT_THAT(profile.text, HasSubstr("        9800  98.0%     13.1      0.7   2.0% tec    tec product"));
  EXPECT_THAT(profile.text, HasSubstr("2 small commands: 1 cycles\n"));
  EXPECT_EQ(profile.text.find("tiny"), std::string::npos);
  EXPECT_THAT(profile.json, HasSubstr("tiny"));
}

}  // namespace
}  // namespace aipu::tools
