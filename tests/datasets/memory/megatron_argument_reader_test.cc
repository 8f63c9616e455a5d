#include "datasets/memory/megatron_argument_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MegatronArgumentReaderTest, NumbersMayBeStrings) {
  const JsonValue json = ParseJson(R"({"hidden-size": "4096", "seq-length": 128, "lr": null})");
  MegatronArgumentReader args(json);
  EXPECT_EQ(args.Integer("hidden-size", 1), 4096);
  EXPECT_EQ(args.Needed("seq-length"), 128);
  EXPECT_EQ(args.Integer("kv-channels", 64), 64);
  EXPECT_FALSE(args.Has("lr"));
}

TEST(MegatronArgumentReaderTest, WordsAreAListOrAStringWithBrackets) {
  const JsonValue json = ParseJson(R"({"a": ["mlp", "moe"], "b": "[moe, mlp]", "c": "moe"})");
  MegatronArgumentReader args(json);
  for (const char* key : {"a", "b"}) EXPECT_THAT(args.Words(key), ElementsAre("mlp", "moe"));
  EXPECT_THAT(args.Words("c"), ElementsAre("moe"));
  EXPECT_THAT(args.Words("d"), IsEmpty());
}

TEST(MegatronArgumentReaderTest, OnlyUnreadArgumentsThatChangeTheMemoryAreUnmodelled) {
  const JsonValue json =
      ParseJson(R"({"seed": 1, "log-interval": 2, "window-size": 8, "flextron": false, "tiles": 3, "num-layers": 4})");
  MegatronArgumentReader args(json);
  args.Needed("num-layers");
  EXPECT_THAT(args.Unmodelled(), ElementsAre("window-size: windows of attention are not modelled",
                                             "tiles: is not known, and is left out"));
}

}  // namespace
}  // namespace emplace::datasets
