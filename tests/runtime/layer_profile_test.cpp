// The tables of aipubench --layers, made of rows by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tools/layer_profile.h"

namespace aipu::tools {
namespace {

using ::testing::HasSubstr;
using Row = runtime::Session::ProfileRow;

Row row(const char* engine, const char* name, uint32_t command, int64_t start, int64_t cycles, int64_t operations,
        int64_t bytes, int64_t compute = -1, int64_t dma = -1) {
  Row row;
  row.engine = engine;
  row.name = name;
  row.origin = "'node'";
  row.command = command;
  row.start_cycles = start;
  row.cycles = cycles;
  row.operations = operations;
  row.bytes = bytes;
  row.compute_cycles = compute;
  row.dma_cycles = dma;
  row.duration_ns = 123456789;  // of the machine that simulates: nobody is to see it
  return row;
}

// A product that its engine bounds beside a copy, and what follows.
std::vector<Row> rows() {
  return {row("tec", "product", 0, 0, 1000, 64000, 3200, 910, 500), row("dma", "copy", 0, 0, 400, 0, 12800, 0, 400),
          row("tec", "sum", 1, 1000, 200, 400, 6400, 170, 120), row("host", "check", 0, 0, 0, 0, 0)};
}

TEST(CycleProfile, SaysWhatBoundsALayerAndHowMuchOverlaps) {
  const LayerProfile profile = cycle_profile(rows(), 1200, false, true);
  EXPECT_THAT(profile.text,
              HasSubstr("        1000  83.3%     64.0      3.2          910          500   1.10 compute tec product"));
  EXPECT_THAT(profile.text,
              HasSubstr("         400  33.3%      0.0     32.0            0          400   1.00 dma     dma copy"));
  EXPECT_THAT(profile.text,
              HasSubstr("         200  16.7%      2.0     32.0          170          120   1.18 waits   tec sum"));
  EXPECT_THAT(profile.text, HasSubstr("tec busy 1200 cycles\n"));
  EXPECT_THAT(profile.text, HasSubstr("dma busy 400 cycles\n"));
  EXPECT_THAT(profile.text, HasSubstr("all: 1200 cycles, of which 400 have more than one engine at work\n"));
  EXPECT_EQ(profile.text.find("GFLOP"), std::string::npos);
  EXPECT_EQ(profile.text.find("123"), std::string::npos);
  EXPECT_THAT(profile.json, HasSubstr("\"kernel\": \"product\""));
  EXPECT_THAT(profile.json,
              HasSubstr("\"cycles\": 1000, \"operations\": 64000, \"bytes\": 3200, \"compute_cycles\": 910, "
                        "\"dma_cycles\": 500, \"bound\": \"compute\"}"));
}

Row counted(const char* name, uint32_t command, uint32_t sample, std::vector<int64_t> counts) {
  Row row;
  row.engine = "tec";
  row.name = name;
  row.command = command;
  row.sample = sample;
  row.duration_ns = 1000;
  row.counts = std::move(counts);
  return row;
}

// Three runs of two samples each; the sum of the samples is what a run has counted.
TEST(LayerProfile, ShowsMediansOfWhatWasCounted) {
  std::vector<Row> rows;
  for (const int64_t more : {0, 5000, 1}) {
    for (const uint32_t sample : {0u, 1u}) rows.push_back(counted("product", 0, sample, {700 + more, 40}));
    rows.push_back(counted("sum", 1, 0, {30 + more, 2}));
  }
  const std::vector<CountedEvent> events = {{"cycles"}, {"cache-misses", 64}};
  const LayerProfile profile = layer_profile(rows, {1e9, 1e9}, false, true, events);
  EXPECT_THAT(profile.text, HasSubstr("        cycles cache-misses GB/s kernel and ONNX nodes\n"));
  EXPECT_THAT(profile.text, HasSubstr("          1402            2.6 product"));  // 80 * 64 bytes in 2 us
  EXPECT_THAT(profile.text, HasSubstr("            31            0.1 sum"));
  EXPECT_THAT(profile.text, HasSubstr("          1433            1.7 all 2 commands"));
  EXPECT_THAT(profile.json, HasSubstr("\"counts\": {\"cycles\": 1402, \"cache-misses\": 80}}"));
}

TEST(LayerProfile, SaysWhatWasNotCounted) {
  const std::vector<Row> rows = {counted("together", 0, 0, {}), counted("alone", 1, 0, {7})};
  const LayerProfile profile = layer_profile(rows, {1e9, 1e9}, false, true, {{"cycles"}});
  EXPECT_THAT(profile.text, HasSubstr("             - together"));
  EXPECT_THAT(profile.text, HasSubstr("             7 alone"));
  EXPECT_THAT(profile.text, HasSubstr("             - all 2 commands"));
  EXPECT_THAT(profile.json, HasSubstr("\"counts\": null}"));
  EXPECT_EQ(layer_profile(rows, {1e9, 1e9}, false, true).json.find("counts"), std::string::npos);
}

TEST(CountedEvent, ReadsANameAndHowManyBytesEachIs) {
  const auto plain = CountedEvent::parse("cycles:u"), wide = CountedEvent::parse("cache-misses*64");
  ASSERT_TRUE(plain.ok() && wide.ok());
  EXPECT_EQ(plain->name, "cycles:u");
  EXPECT_EQ(plain->bytes_of_one, 0);
  EXPECT_EQ(wide->name, "cache-misses");
  EXPECT_EQ(wide->bytes_of_one, 64);
  for (const char* bad : {"", "*64", "cycles*", "cycles*x", "cycles*-1", "cycles*64x", "cycles*nan"})
    EXPECT_FALSE(CountedEvent::parse(bad).ok()) << bad;
}

TEST(CycleProfile, OrdersSumsUpSamplesAndHidesSmallOnes) {
  std::vector<Row> all = rows();
  all.push_back(row("tec", "product", 0, 1200, 8800, 64000, 3200));  // a second sample, of which less is known
  all.push_back(row("tec", "tiny", 2, 10000, 1, 0, 0));
  const LayerProfile profile = cycle_profile(all, 10001, true, false);
  EXPECT_LT(profile.text.find("product"), profile.text.find("copy"));
  EXPECT_LT(profile.text.find("copy"), profile.text.find("sum"));
  EXPECT_THAT(profile.text,
              HasSubstr("        9800  98.0%     13.1      0.7            -            -      - tec     tec product"));
  EXPECT_THAT(profile.text, HasSubstr("2 small commands: 1 cycles\n"));
  EXPECT_EQ(profile.text.find("tiny"), std::string::npos);
  EXPECT_THAT(profile.json, HasSubstr("tiny"));
}

}  // namespace
}  // namespace aipu::tools
