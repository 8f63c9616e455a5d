#include "profiler/storage_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/rng.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

// A view of 4-byte numbers; offset and strides are in numbers.
profiler::ArrayView View(std::int64_t offset, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  profiler::ArrayView view{
      .offset = 4 * offset, .element_bytes = 4, .shape = std::move(shape), .strides = std::move(strides)};
  for (std::int64_t& stride : view.strides) stride *= 4;
  return view;
}

// The offsets of a view's numbers.
std::set<std::int64_t> Offsets(const profiler::ArrayView& view) {
  std::set<std::int64_t> offsets = {view.offset};
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    std::set<std::int64_t> next;
    for (std::int64_t i = 0; i < view.shape[d]; ++i) {
      for (const std::int64_t offset : offsets) next.insert(offset + i * view.strides[d]);
    }
    offsets = next;
  }
  return offsets;
}

bool Overlap(const profiler::ArrayView& a, const profiler::ArrayView& b) {
  const std::set<std::int64_t> left = Offsets(a);
  const std::set<std::int64_t> right = Offsets(b);
  return std::any_of(left.begin(), left.end(), [&](std::int64_t offset) { return right.contains(offset); });
}

TEST(MayOverlapTest, ColumnsOfAMatrixAreApart) {
  // Columns 0-1 and 2-3 of [3,4] interleave in memory without overlap.
  EXPECT_FALSE(profiler::MayOverlap(View(0, {3, 2}, {4, 1}), View(2, {3, 2}, {4, 1})));
  EXPECT_TRUE(profiler::MayOverlap(View(0, {3, 3}, {4, 1}), View(2, {3, 2}, {4, 1})));
  // Column 1 alone, without the column dimension, against columns 0-1 and 2-3.
  EXPECT_TRUE(profiler::MayOverlap(View(1, {3}, {4}), View(0, {3, 2}, {4, 1})));
  EXPECT_FALSE(profiler::MayOverlap(View(1, {3}, {4}), View(2, {3, 2}, {4, 1})));
}

TEST(MayOverlapTest, RowsOfAMatrixAreApartHoweverTheyAreViewed) {
  EXPECT_FALSE(profiler::MayOverlap(View(0, {2, 4}, {4, 1}), View(8, {4}, {1})));
  EXPECT_FALSE(profiler::MayOverlap(View(0, {4, 2}, {1, 4}), View(8, {4}, {1})));  // transposed
  EXPECT_TRUE(profiler::MayOverlap(View(0, {4, 2}, {1, 4}), View(7, {4}, {1})));
}

TEST(MayOverlapTest, AnArrayWithoutElementsOverlapsNothing) {
  EXPECT_FALSE(profiler::MayOverlap(View(0, {0, 4}, {4, 1}), View(0, {3, 4}, {4, 1})));
}

// Pieces of one array of [d0,d1,d2], made by slice, select and transpose.
profiler::ArrayView RandomPiece(const std::vector<std::int64_t>& dims, Rng& rng) {
  profiler::ArrayView piece = View(0, {}, {});
  std::int64_t stride = 4;
  for (std::size_t d = dims.size(); d-- > 0; stride *= dims[d]) {  // offsets are in bytes
    const std::int64_t begin = rng.Between(0, dims[d] - 1);
    const std::int64_t count = rng.Between(1, dims[d] - begin);
    piece.offset += begin * stride;
    piece.shape.push_back(count);
    piece.strides.push_back(count == 1 ? 0 : stride);
  }
  return piece;
}

TEST(MayOverlapTest, IsExactForPiecesOfOneArray) {
  Rng rng(1);
  std::size_t overlaps = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::int64_t> dims = {3, 4, 5};
    const profiler::ArrayView a = RandomPiece(dims, rng);
    const profiler::ArrayView b = RandomPiece(dims, rng);
    ASSERT_EQ(profiler::MayOverlap(a, b), Overlap(a, b)) << "round " << round;
    overlaps += Overlap(a, b) ? 1 : 0;
  }
  EXPECT_GT(overlaps, 200U);
  EXPECT_LT(overlaps, 1800U);
}

TEST(MayOverlapTest, NeverMissesAnOverlapOfAnyTwoViews) {
  Rng rng(2);
  const auto draw = [&](std::int64_t bound) { return rng.Between(0, bound - 1); };
  std::size_t overlaps = 0;
  for (int round = 0; round < 5000; ++round) {
    const profiler::ArrayView a = View(draw(12), {1 + draw(3), 1 + draw(3)}, {draw(7), draw(7)});
    const profiler::ArrayView b = View(draw(12), {1 + draw(3), 1 + draw(3)}, {draw(7), draw(7)});
    if (!Overlap(a, b)) continue;
    ASSERT_TRUE(profiler::MayOverlap(a, b)) << "round " << round;
    ++overlaps;
  }
  EXPECT_GT(overlaps, 500U);
}

const profiler::ArrayView kWhole = View(0, {2, 4}, {4, 1});
const profiler::ArrayView kFlat = View(0, {8}, {1});
const profiler::ArrayView kLeft = View(0, {2, 2}, {4, 1});
const profiler::ArrayView kRight = View(2, {2, 2}, {4, 1});

TEST(StorageVersionsTest, AnArrayThatNobodyMadeIsNotKnown) {
  profiler::StorageVersions versions;
  EXPECT_EQ(versions.Read(0, kWhole), std::nullopt);
  EXPECT_FALSE(versions.Has(0));
  versions.Define(0, kWhole, {0, 0});
  EXPECT_TRUE(versions.Has(0));
  EXPECT_EQ(versions.Read(0, kFlat), std::nullopt);
  EXPECT_EQ(versions.Read(1, kWhole), std::nullopt);
}

TEST(StorageVersionsTest, AWriteThroughAViewIsReadThroughTheArray) {
  profiler::StorageVersions versions;
  versions.Define(0, kWhole, {0, 0});                        // op 0 makes x
  versions.Define(0, kFlat, {1, 0});                         // op 1 makes its view v
  EXPECT_THAT(versions.Write(0, kFlat, {2, 0}), IsEmpty());  // op 2 adds to v
  EXPECT_THAT(versions.Read(0, kFlat), Optional(ElementsAre(profiler::OpOutput{2, 0})));
  EXPECT_THAT(versions.Read(0, kWhole), Optional(ElementsAre(profiler::OpOutput{0, 0}, profiler::OpOutput{2, 0})));
  versions.Define(0, kLeft, {3, 0});  // a view that is made now contains the earlier write
  EXPECT_THAT(versions.Read(0, kLeft), Optional(ElementsAre(profiler::OpOutput{3, 0})));
}

TEST(StorageVersionsTest, AWriteOfOneHalfIsNoneOfTheOther) {
  profiler::StorageVersions versions;
  versions.Define(0, kWhole, {0, 0});
  versions.Define(0, kLeft, {1, 0});
  versions.Define(0, kRight, {1, 1});
  versions.Write(0, kLeft, {2, 0});
  EXPECT_THAT(versions.Read(0, kRight), Optional(ElementsAre(profiler::OpOutput{1, 1})));
  versions.Write(0, kRight, {3, 0});
  EXPECT_THAT(versions.Read(0, kLeft), Optional(ElementsAre(profiler::OpOutput{2, 0})));
  EXPECT_THAT(versions.Read(0, kWhole),
              Optional(ElementsAre(profiler::OpOutput{0, 0}, profiler::OpOutput{2, 0}, profiler::OpOutput{3, 0})));
}

TEST(StorageVersionsTest, AWriteStandsForThoseThatItCovers) {
  profiler::StorageVersions versions;
  versions.Define(0, kWhole, {0, 0});
  versions.Define(0, kFlat, {1, 0});
  versions.Define(0, kLeft, {2, 0});
  versions.Write(0, kLeft, {3, 0});
  versions.Write(0, kLeft, {4, 0});  // the same array again: 4 depends on 3
  EXPECT_THAT(versions.Read(0, kWhole), Optional(ElementsAre(profiler::OpOutput{0, 0}, profiler::OpOutput{4, 0})));
  versions.Write(0, kFlat, {5, 0});  // all of it
  EXPECT_THAT(versions.Read(0, kWhole), Optional(ElementsAre(profiler::OpOutput{0, 0}, profiler::OpOutput{5, 0})));
  EXPECT_THAT(versions.Read(0, kLeft), Optional(ElementsAre(profiler::OpOutput{4, 0}, profiler::OpOutput{5, 0})));
}

TEST(StorageVersionsTest, ReadersOfOldValuesComeBeforeTheirWriter) {
  profiler::StorageVersions versions;
  versions.Define(0, kWhole, {0, 0});
  versions.Define(0, kLeft, {1, 0});
  versions.Define(0, kRight, {1, 1});
  versions.AddReader(0, kWhole, 2);
  versions.AddReader(0, kRight, 3);
  versions.AddReader(0, kLeft, 4);
  EXPECT_THAT(versions.Write(0, kLeft, {4, 0}), ElementsAre(2U));  // neither itself, nor readers of the other half
  // 2 also read the right half, and 4 writes only the left one.
  EXPECT_THAT(versions.Write(0, kRight, {5, 0}), ElementsAre(2U, 3U));
  versions.AddReader(0, kRight, 6);
  EXPECT_THAT(versions.Write(0, kRight, {7, 0}), ElementsAre(2U, 6U));  // 2 again: it read more than is written
}

}  // namespace
}  // namespace emplace
