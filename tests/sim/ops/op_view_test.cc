#include "sim/ops/op_view.h"

#include <gmock/gmock.h>

#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

// The output rows for an op with these attrs and a window of 3, over 7 rows.
double RowsWith(const std::string& attrs) {
  const Graph graph = GraphOf({"any", {}, {}, attrs});
  return OpView(graph, *graph.FindOp("op")).SlidingSize(7, 3, 0);
}

std::string RefusalOf(const std::string& attrs) {
  try {
    RowsWith(attrs);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(OpViewTest, SlidingWindowsGiveTheSizesComputedByHand) {
  EXPECT_EQ(RowsWith(""), 5);                                              // 7 - 3 + 1
  EXPECT_EQ(RowsWith(R"({"stride":[2,1]})"), 3);                           // at rows 0, 2, 4
  EXPECT_EQ(RowsWith(R"({"stride":[2,1],"padding":"same"})"), 4);          // ceil(7 / 2)
  EXPECT_EQ(RowsWith(R"({"padding":[2,0]})"), 9);                          // 11 - 3 + 1
  EXPECT_EQ(RowsWith(R"({"dilation":[3,1]})"), 1);                         // the window spans all 7 rows
  EXPECT_EQ(RowsWith(R"({"stride":[3,1],"padding":[1,1],"x":null})"), 3);  // at -1, 2, 5: the last row is padding
}

TEST(OpViewTest, AttrsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(RefusalOf(R"({"stride":2})"), HasSubstr("attr stride is not a pair of integers in [0, 2^31]"));
  EXPECT_THAT(RefusalOf(R"({"stride":[1.5,1]})"), HasSubstr("attr stride is not a pair"));
  EXPECT_THAT(RefusalOf(R"({"stride":[-1,1]})"), HasSubstr("attr stride is not a pair"));
  EXPECT_THAT(RefusalOf(R"({"stride":[1e300,1]})"), HasSubstr("attr stride is not a pair"));
  EXPECT_THAT(RefusalOf(R"({"stride":[0,1]})"), HasSubstr("at least 1"));
  EXPECT_THAT(RefusalOf(R"({"dilation":[4,1]})"), HasSubstr("no larger than the padded input"));
  EXPECT_THAT(RefusalOf(R"({"padding":"full"})"), HasSubstr("attr padding is not"));
  EXPECT_THAT(RefusalOf("[1]"), HasSubstr("attrs is not a JSON object"));
}

TEST(OpViewTest, FlagsAreTrueFalseOrAbsent) {
  const Graph graph = GraphOf({"any", {}, {}, R"({"on":true,"off":false,"odd":1})"});
  const OpView view(graph, *graph.FindOp("op"));
  EXPECT_TRUE(view.Flag("on", false));
  EXPECT_FALSE(view.Flag("off", true));
  EXPECT_TRUE(view.Flag("absent", true));
  EXPECT_THROW(view.Flag("odd", true), InputError);
}

TEST(OpViewTest, CountsBytesAsTheGraphGivesThem) {
  // The first input has an explicit size of 100 bytes; the others have 4 bytes per element.
  OutputSpec padded = F32({2, 3});
  padded.size = Bytes{100};
  const Graph graph = GraphOf({"any", {padded, F32({5})}, {F32({2}), F32({})}, ""});
  const OpView view(graph, *graph.FindOp("op"));
  EXPECT_EQ(view.AllBytes(), 100 + 20 + 8 + 4);
  EXPECT_EQ(view.in_bytes(0), 100);
  EXPECT_EQ(view.out_bytes(1), 4);
  EXPECT_EQ(Elements(view.in(0)), 6);
  EXPECT_EQ(Elements(view.out(1)), 1);  // a scalar
}

TEST(OpViewTest, NothingTimesInfinityIsNothing) {
  // 2^62 to the 20th power is not a double; with a dimension of 0 there are still no elements.
  std::vector<std::int64_t> shape(20, std::int64_t{1} << 62);
  shape.push_back(0);
  EXPECT_EQ(Elements(shape), 0);
}

TEST(OpViewTest, HugeWorkStopsAtTheLargestSize) {
  EXPECT_EQ(MakeWork(OpClass::kCopy, 0, 1e30).moved.count, std::int64_t{1} << 62);
}

}  // namespace
}  // namespace emplace::testing
