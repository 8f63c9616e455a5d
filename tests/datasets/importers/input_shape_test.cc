#include "datasets/importers/input_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::IsEmpty;

TEST(ReadInputShapesTest, SizesStandBehindTheLastEqualsSign) {
  const std::vector<datasets::InputShape> shapes = datasets::ReadInputShapes({"a=b=2x3x224", "step="});
  ASSERT_EQ(shapes.size(), 2U);
  EXPECT_EQ(shapes[0].name, "a=b");
  EXPECT_THAT(shapes[0].dims, ElementsAre(2, 3, 224));
  EXPECT_EQ(shapes[1].name, "step");
  EXPECT_THAT(shapes[1].dims, IsEmpty());
}

TEST(ReadInputShapesTest, RefusesWhatIsNoShape) {
  for (const char* const text : {"", "x", "=2", "x=2x", "x=x2", "x=2,3", "x=-1", "x=2x3 ", "x=9999999999"}) {
    EXPECT_EQ(ErrorOf([&] { datasets::ReadInputShapes({text}); }),
              "--input: \"" + std::string(text) + "\" is not NAME=DIMS, such as x=1x3x224x224 (sizes up to 2^31)");
  }
  EXPECT_EQ(ErrorOf([] { datasets::ReadInputShapes({"x=1", "y=1", "x=2"}); }), "--input: sets \"x\" twice");
}

}  // namespace
}  // namespace emplace
