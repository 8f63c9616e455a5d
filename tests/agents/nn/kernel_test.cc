#include "agents/nn/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/base/rng.h"
#include "tests/testing/vector_targets.h"

namespace emplace {
namespace {

agents::Matrix RandomMatrix(Rng& rng, std::size_t rows, std::size_t width) {
  agents::Matrix matrix(rows, width);
  for (std::size_t r = 0; r < rows; ++r) {
    for (float& value : matrix.values(r)) value = static_cast<float>(2 * rng.Uniform() - 1);
  }
  return matrix;
}

class KernelTest : public testing::OnVectorTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, KernelTest, ::testing::ValuesIn(SupportedVectorTargets()), testing::VectorTargetOf);

TEST_P(KernelTest, AffineIsTheProductPlusTheBias) {
  Rng rng(1);
  for (const std::size_t rows : {1U, 2U, 3U, 5U, 7U, 8U, 13U, 19U}) {
    for (const std::size_t in : {1U, 7U, 26U}) {
      for (const std::size_t out : {1U, 5U, 10U, 16U, 20U, 32U, 40U, 48U, 64U, 112U}) {
        const agents::Matrix x = RandomMatrix(rng, rows, in);
        const agents::Matrix w = RandomMatrix(rng, in, out);
        const agents::Matrix bias = RandomMatrix(rng, 1, out);
        for (const bool relu : {false, true}) {
          agents::Matrix y(rows, out);
          std::fill_n(y.row(0), rows * y.stride(), 9.0F);
          agents::Affine(x.row(0), x.stride(), rows, in, w.row(0), bias.row(0), out, relu, y.row(0), y.stride());
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t j = 0; j < out; ++j) {
              double sum = bias.row(0)[j];
              for (std::size_t k = 0; k < in; ++k) sum += static_cast<double>(x.row(r)[k]) * w.row(k)[j];
              ASSERT_NEAR(y.row(r)[j], relu ? std::max(sum, 0.0) : sum, 1e-5);
            }
            for (std::size_t j = out; j < y.stride(); ++j) ASSERT_EQ(y.row(r)[j], 0) << out << ", " << j;
          }
        }
      }
    }
  }
}

TEST_P(KernelTest, APackedMatrixGivesTheSameBits) {
  Rng rng(4);
  for (const std::size_t rows : {1U, 3U, 4U, 9U}) {
    for (const std::size_t in : {1U, 26U}) {
      for (const std::size_t out : {16U, 32U, 48U, 80U, 112U}) {
        const agents::Matrix x = RandomMatrix(rng, rows, in);
        const agents::Matrix w = RandomMatrix(rng, in, out);
        const agents::Matrix bias = RandomMatrix(rng, 1, out);
        agents::Matrix plain(rows, out);
        agents::Affine(x.row(0), x.stride(), rows, in, w.row(0), bias.row(0), out, /*relu=*/true, plain.row(0),
                       plain.stride());
        agents::Matrix packed(rows, out);
        agents::Affine(x.row(0), x.stride(), rows, agents::PackedMatrix(w.row(0), in, out), bias.row(0), /*relu=*/true,
                       packed.row(0), packed.stride());
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t j = 0; j < out; ++j) ASSERT_EQ(packed.row(r)[j], plain.row(r)[j]) << r << ", " << j;
        }
      }
    }
  }
}

TEST_P(KernelTest, ATransposedMatrixIsPackedWithColumnsOfZeroBehind) {
  Rng rng(5);
  constexpr std::size_t kIn = 32;
  for (const std::size_t width : {4U, 16U, 52U, 68U}) {
    const agents::Matrix x = RandomMatrix(rng, 2, kIn);
    const agents::Matrix w = RandomMatrix(rng, width, kIn);  // no padding: kIn is a multiple of kLane
    const agents::Matrix bias(1, agents::Padded(width));
    agents::Matrix y(2, agents::Padded(width));
    agents::Affine(x.row(0), x.stride(), 2, agents::PackedMatrix::OfTransposed(w.row(0), width, kIn), bias.row(0),
                   /*relu=*/false, y.row(0), y.stride());
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t j = 0; j < agents::Padded(width); ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < kIn && j < width; ++k) sum += static_cast<double>(x.row(r)[k]) * w.row(j)[k];
        ASSERT_NEAR(y.row(r)[j], sum, 1e-5) << width << ", " << j;
      }
    }
  }
}

TEST_P(KernelTest, OuterProductsAreAddedToWhatIsThere) {
  Rng rng(2);
  for (const std::size_t rows : {1U, 6U, 33U}) {
    for (const std::size_t in : {1U, 9U, 26U}) {
      for (const std::size_t out : {3U, 10U, 16U, 20U, 32U, 80U}) {
        const agents::Matrix x = RandomMatrix(rng, rows, in);
        const agents::Matrix dy = RandomMatrix(rng, rows, out);
        const agents::Matrix before = RandomMatrix(rng, in, out);
        agents::Matrix dw = before;
        agents::AddOuterProducts(x.row(0), x.stride(), dy.row(0), dy.stride(), rows, in, out, dw.row(0));
        for (std::size_t k = 0; k < in; ++k) {
          for (std::size_t j = 0; j < out; ++j) {
            double sum = before.row(k)[j];
            for (std::size_t r = 0; r < rows; ++r) sum += static_cast<double>(x.row(r)[k]) * dy.row(r)[j];
            ASSERT_NEAR(dw.row(k)[j], sum, 1e-5);
          }
        }
      }
    }
  }
}

TEST_P(KernelTest, PermutingBackUndoesPermuting) {
  const std::vector<float> from = {10, 11, 12, 13, 14, 15};
  const std::vector<std::uint32_t> source = {5, 0, 3, 1, 4, 2};
  agents::Matrix to(2, 3);
  agents::Permute(from.data(), source.data(), 2, 3, to.row(0), to.stride());
  EXPECT_EQ(std::vector<float>(to.row(0), to.row(0) + 3), (std::vector<float>{15, 10, 13}));
  EXPECT_EQ(std::vector<float>(to.row(1), to.row(1) + 3), (std::vector<float>{11, 14, 12}));
  std::vector<float> back(6);
  agents::PermuteBack(to.row(0), to.stride(), source.data(), 2, 3, back.data());
  EXPECT_EQ(back, from);
}

TEST_P(KernelTest, WhatIsKeptIsScaledAndTheRestIsZero) {
  agents::Matrix from(1, 3);
  for (std::size_t f = 0; f < 3; ++f) from.row(0)[f] = static_cast<float>(f + 1);
  std::vector<std::uint8_t> kept(3 + agents::kLane);
  kept[0] = kept[2] = 1;
  agents::Matrix to(1, 3);
  agents::Keep(from.row(0), kept.data(), 2, 1, 3, from.stride(), to.row(0));
  EXPECT_EQ(std::vector<float>(to.row(0), to.row(0) + 3), (std::vector<float>{2, 0, 6}));
}

TEST_P(KernelTest, AReluLetsGradientsThroughOnlyWhereItsResultIsPositive) {
  std::vector<float> y(agents::kLane, -1);
  y[0] = 1;
  y[1] = 0;
  std::vector<float> dy(agents::kLane, 7);
  agents::MaskByRelu(y.data(), agents::kLane, dy.data());
  std::vector<float> expected(agents::kLane);
  expected[0] = 7;
  EXPECT_EQ(dy, expected);
}

TEST_P(KernelTest, RowsAreAddedAndProductsSummed) {
  Rng rng(3);
  for (const std::size_t rows : {1U, 4U, 7U, 30U}) {
    const agents::Matrix a = RandomMatrix(rng, rows, 48);
    agents::Matrix sum(1, 48);
    sum.row(0)[5] = 2;
    agents::AddRows(a.row(0), a.stride(), rows, 48, sum.row(0));
    double expected = 2;
    double squares = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      expected += a.row(r)[5];
      for (const float value : a.values(r)) squares += static_cast<double>(value) * value;
    }
    EXPECT_NEAR(sum.row(0)[5], expected, 1e-5);
    EXPECT_NEAR(agents::Dot(a.row(0), a.row(0), rows * 48), squares, 1e-4 * squares);
  }
}

TEST_P(KernelTest, AMaskedProductIsZeroWhereTheMaskIsNotPositive) {
  Rng rng(7);
  for (const std::size_t rows : {1U, 9U}) {
    for (const std::size_t out : {5U, 10U, 20U, 80U}) {
      const agents::Matrix x = RandomMatrix(rng, rows, 6);
      const agents::Matrix w = RandomMatrix(rng, 6, out);
      const agents::Matrix bias(1, out);
      const agents::Matrix mask = RandomMatrix(rng, rows, out);
      agents::Matrix plain(rows, out);
      agents::Affine(x.row(0), x.stride(), rows, 6, w.row(0), bias.row(0), out, /*relu=*/false, plain.row(0),
                     plain.stride());
      agents::Matrix masked(rows, out);
      agents::MaskedAffine(x.row(0), x.stride(), rows, 6, w.row(0), bias.row(0), out, mask.row(0), masked.row(0),
                           masked.stride());
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t j = 0; j < out; ++j) {
          ASSERT_EQ(masked.row(r)[j], mask.row(r)[j] > 0 ? plain.row(r)[j] : 0.0F) << r << ", " << j;
        }
      }
    }
  }
}

TEST_P(KernelTest, LayersAreAppliedOneAfterTheOther) {
  Rng rng(12);
  const agents::Matrix x = RandomMatrix(rng, 5, 7);
  const agents::Matrix w0 = RandomMatrix(rng, 7, 20);
  const agents::Matrix w1 = RandomMatrix(rng, 20, 3);
  const agents::Matrix bias = RandomMatrix(rng, 1, 20);
  const agents::Matrix zeros(1, 3);
  agents::Matrix hidden(5, 20);
  agents::Matrix expected(5, 3);
  agents::Affine(x.row(0), x.stride(), 5, 7, w0.row(0), bias.row(0), 20, /*relu=*/true, hidden.row(0), hidden.stride());
  agents::Affine(hidden.row(0), hidden.stride(), 5, 20, w1.row(0), zeros.row(0), 3, /*relu=*/false, expected.row(0),
                 expected.stride());
  agents::Matrix between(5, 20);
  agents::Matrix y(5, 3);
  const std::vector<agents::AffineLayer> layers = {
      {w0.row(0), bias.row(0), 7, 20, true, between.row(0), between.stride()},
      {w1.row(0), zeros.row(0), 20, 3, false, y.row(0), y.stride()}};
  agents::AffineLayers(x.row(0), x.stride(), 1, 4, layers);
  for (std::size_t r = 0; r < 5; ++r) {
    const bool is_taken = r >= 1 && r < 4;
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(y.row(r)[j], is_taken ? expected.row(r)[j] : 0) << r;
  }
}

TEST_P(KernelTest, ScaledNumbersAreAddedFewOrMany) {
  for (const std::size_t size : {1U, 15U, 63U, 64U, 77U, 200U}) {
    std::vector<float> x(size);
    std::vector<float> y(size + 1, 5);
    for (std::size_t i = 0; i < size; ++i) x[i] = static_cast<float>(i);
    agents::AddScaled(x.data(), 0.5F, size, y.data());
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(y[i], 5 + 0.5F * static_cast<float>(i)) << size;
    EXPECT_EQ(y[size], 5) << size;
  }
}

TEST_P(KernelTest, LanesAreCopiedAndAddedScaled) {
  std::vector<float> x(3 * agents::kLane);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<float> y(3 * agents::kLane, -1);
  agents::CopyLanes(x.data(), 2 * agents::kLane, y.data());
  agents::AddScaledLanes(x.data(), 0.5F, agents::kLane, y.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], i < agents::kLane ? 1.5F * x[i] : i < 2 * agents::kLane ? x[i] : -1) << i;
  }
}

TEST_P(KernelTest, BlocksAreSummedByTheirPositions) {
  Rng rng(8);
  const agents::Matrix from = RandomMatrix(rng, 4, 32);
  const std::vector<std::uint32_t> position = {2, 0, 3, 1};
  agents::NodeLists lists;
  for (const std::vector<std::uint32_t>& list : {std::vector<std::uint32_t>{}, {0, 1, 2}, {3}}) lists.Append(list);
  agents::Matrix sums(3, 32);
  sums.row(1)[5] = sums.row(2)[5] = 7;
  agents::SumBlocks(from.row(0), std::vector<std::uint32_t>{1, 0}, lists, position.data(), 32, sums.row(0));
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(sums.row(0)[i], from.row(2)[i] + from.row(0)[i] + from.row(3)[i]);
    EXPECT_EQ(sums.row(1)[i], 0);
  }
  EXPECT_EQ(sums.row(2)[5], 7);
}

TEST_P(KernelTest, ASweepAddsWhatEachLevelReceivesFromTheLevelsBefore) {
  // 0 and 1 are the first level, 2 receives from both, 3 from 2 and 0. g(x) = relu(x), f(x) = relu(2 x).
  constexpr std::size_t kBatch = 2;
  const std::vector<std::uint32_t> order = {1, 0, 2, 3};
  const std::vector<std::uint32_t> position = {1, 0, 2, 3};
  const std::vector<std::size_t> begin = {0, 2, 3, 4};
  agents::NodeLists lists;
  for (const std::vector<std::uint32_t>& list : {std::vector<std::uint32_t>{}, {}, {0, 1}, {2, 0}}) lists.Append(list);
  const std::size_t rows = 4 * kBatch;
  agents::Matrix e(rows, 1);
  for (std::size_t row = 0; row < rows; ++row) e.row(row)[0] = row == 7 ? -9 : static_cast<float>(row + 1);
  agents::Matrix twice(1, 1);
  agents::Matrix once(1, 1);
  twice.row(0)[0] = 2;
  once.row(0)[0] = 1;
  const agents::Matrix bias(1, 1);
  agents::Matrix sums(rows, 1);
  agents::Matrix messages(rows, 1);
  agents::Matrix changes(rows, 1);
  const agents::AffineLayer f{twice.row(0), bias.row(0), 1, 1, true, messages.row(0), messages.stride()};
  const agents::AffineLayer g{once.row(0), bias.row(0), 1, 1, true, changes.row(0), changes.stride()};
  agents::SweepLevels(std::vector<agents::LevelSweep>{{.order = order,
                                                       .position = position.data(),
                                                       .begin = begin,
                                                       .lists = &lists,
                                                       .batch = kBatch,
                                                       .stride = e.stride(),
                                                       .e = e.row(0),
                                                       .sums = sums.row(0),
                                                       .f = {&f, 1},
                                                       .g = {&g, 1}}});
  // Node 1 has rows 0 and 1, node 0 rows 2 and 3: they stay 1, 2 and 3, 4. Node 2: 5 + 2 (3 + 1), 6 + 2 (4 + 2). Node
  // 3: 7 + 2 (13 + 3), -9 + 2 (18 + 4).
  const std::vector<float> expected = {1, 2, 3, 4, 13, 18, 39, 35};
  for (std::size_t row = 0; row < rows; ++row) EXPECT_EQ(e.row(row)[0], expected[row]) << row;
}

TEST_P(KernelTest, RowsArePooledByTheirShares) {
  Rng rng(13);
  const agents::Matrix from = RandomMatrix(rng, 6, 20);
  const std::vector<float> shares = {0.5F, 0.25F, 2};
  agents::Matrix to(2, 20);
  std::fill_n(to.row(0), 2 * to.stride(), 9.0F);
  agents::PoolRows(from, shares, &to);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t i = 0; i < 20; ++i) {
      const float* const value = from.row(3 * row) + i;
      EXPECT_EQ(to.row(row)[i], 0.5F * value[0] + 0.25F * value[32] + 2 * value[64]) << row << ", " << i;
    }
  }
}

TEST_P(KernelTest, RelatedRowsAreSummedByTheirWeights) {
  Rng rng(14);
  constexpr std::size_t kBatch = 2;
  const agents::Matrix from = RandomMatrix(rng, 2 * kBatch, 10);
  agents::WeightedNodeLists others;  // two sets of two nodes
  for (const std::vector<agents::WeightedNode>& list :
       {std::vector<agents::WeightedNode>{{1, 3}}, {}, {{0, 2}, {1, 1}}, {}}) {
    others.Append(list);
  }
  agents::Matrix to(2 * kBatch, 10);
  std::fill_n(to.row(0), to.rows() * to.stride(), 9.0F);
  agents::SumRelated(from, kBatch, others, /*sets=*/2, /*divisor=*/4, &to);
  for (std::size_t b = 0; b < kBatch; ++b) {
    for (std::size_t i = 0; i < 10; ++i) {
      const float own = from.row(b)[i];
      const float other = from.row(kBatch + b)[i];
      EXPECT_NEAR(to.row(b)[i], 0.75F * (own + other) + 0.5F * (own + own) + 0.25F * (own + other), 1e-6);
      EXPECT_EQ(to.row(kBatch + b)[i], 0);
    }
  }
}

TEST_P(KernelTest, RowsAreJoinedWithTheMeanOfOthersAndPaddedWithZeros) {
  Rng rng(9);
  constexpr std::size_t kBatch = 2;
  for (const std::size_t width : {1U, 7U, 10U, 16U, 21U}) {
    const agents::Matrix from = RandomMatrix(rng, 4 * kBatch, width);
    agents::NodeLists others;
    for (const std::vector<std::uint32_t>& list : {std::vector<std::uint32_t>{1, 2}, {}, {0}, {0, 1, 2}}) {
      others.Append(list);
    }
    agents::Matrix to(4 * kBatch, 2 * width);
    std::fill_n(to.row(0), to.rows() * to.stride(), 9.0F);
    agents::JoinMean(from, kBatch, others, &to);
    for (std::size_t row = 0; row < to.rows(); ++row) {
      const std::size_t b = row % kBatch;
      for (std::size_t f = 0; f < width; ++f) {
        float mean = 0;
        for (const std::uint32_t other : others[row / kBatch]) {
          mean += from.row(other * kBatch + b)[f] / static_cast<float>(others[row / kBatch].size());
        }
        ASSERT_EQ(to.row(row)[f], from.row(row)[f]) << width;
        ASSERT_EQ(to.row(row)[width + f], mean) << width;
      }
      for (std::size_t f = 2 * width; f < to.stride(); ++f) ASSERT_EQ(to.row(row)[f], 0) << width;
    }
  }
}

TEST_P(KernelTest, RowsAreJoinedWithAnotherThatIsScaled) {
  Rng rng(10);
  for (const std::size_t width : {1U, 7U, 10U, 16U, 21U}) {
    const agents::Matrix from = RandomMatrix(rng, 4, width);  // two nodes in two states
    agents::WeightedNodeLists others;
    for (const std::vector<agents::WeightedNode>& list :
         {std::vector<agents::WeightedNode>{{0, 5}}, {{1, 0.3F}, {0, 2}}, {}}) {
      others.Append(list);
    }
    agents::Matrix to(6, 2 * width);
    std::fill_n(to.row(0), to.rows() * to.stride(), 9.0F);
    agents::JoinScaled(from, 2, others, /*first=*/1, /*nodes=*/2, /*row=*/2, &to);
    ASSERT_EQ(to.row(1)[2 * width - 1], 9) << width;
    for (std::size_t row = 2; row < 6; ++row) {
      for (std::size_t f = 0; f < width; ++f) {
        ASSERT_EQ(to.row(row)[f], row < 4 ? from.row(row)[f] * 0.3F : 0) << width;
        ASSERT_EQ(to.row(row)[width + f], from.row(row - 2)[f]) << width;
      }
      for (std::size_t f = 2 * width; f < to.stride(); ++f) ASSERT_EQ(to.row(row)[f], 0) << width;
    }
  }
}

TEST_P(KernelTest, NormalizingDividesByTheNormAndItsGradientIsAcross) {
  Rng rng(11);
  agents::Matrix x = RandomMatrix(rng, 3, 20);
  std::fill_n(x.row(1), 20, 0.0F);
  agents::Matrix y(3, 20);
  std::vector<float> norms(3);
  agents::Normalize(x.row(0), x.stride(), 3, 1e-6F, norms.data(), y.row(0));
  agents::Matrix dy = RandomMatrix(rng, 3, 20);
  const agents::Matrix before = dy;
  agents::NormalizeBackward(y.row(0), y.stride(), 3, 1e-6F, norms.data(), dy.row(0));
  for (std::size_t r = 0; r < 3; ++r) {
    double squares = 0;
    double along = 0;
    for (const float value : x.values(r)) squares += static_cast<double>(value) * value;
    const double norm = std::max(std::sqrt(squares), 1e-6);
    for (std::size_t f = 0; f < 20; ++f) along += static_cast<double>(before.row(r)[f]) * x.row(r)[f] / norm;
    EXPECT_NEAR(norms[r], norm, 1e-6 * norm);
    for (std::size_t f = 0; f < 20; ++f) {
      EXPECT_NEAR(y.row(r)[f], x.row(r)[f] / norm, 1e-6);
      const double expected = (before.row(r)[f] - along * x.row(r)[f] / norm) / norm;
      EXPECT_NEAR(dy.row(r)[f], expected, 1e-5 * std::max(1.0, std::abs(expected)));
    }
  }
}

TEST_P(KernelTest, AReluKeepsWhatIsNoNumber) {
  agents::Matrix x(1, 1);
  agents::Matrix w(1, 2);
  const agents::Matrix bias(1, 2);
  x.row(0)[0] = std::numeric_limits<float>::quiet_NaN();
  w.row(0)[0] = w.row(0)[1] = -1;
  agents::Matrix y(1, 2);
  agents::Affine(x.row(0), x.stride(), 1, 1, w.row(0), bias.row(0), 2, /*relu=*/true, y.row(0), y.stride());
  EXPECT_TRUE(std::isnan(y.row(0)[0]));
  EXPECT_TRUE(std::isnan(y.row(0)[1]));
}

// Outputs of every kernel for the same random numbers, concatenated.
std::vector<float> AllKernels() {
  Rng rng(6);
  constexpr std::size_t kRows = 37;
  constexpr std::size_t kIn = 23;
  constexpr std::size_t kOut = 58;
  const agents::Matrix x = RandomMatrix(rng, kRows, kIn);
  const agents::Matrix w = RandomMatrix(rng, kIn, kOut);
  const agents::Matrix bias = RandomMatrix(rng, 1, kOut);
  std::vector<float> results;
  const auto add = [&results](const agents::Matrix& matrix) {
    results.insert(results.end(), matrix.row(0), matrix.row(0) + matrix.rows() * matrix.stride());
  };
  agents::Matrix y(kRows, kOut);
  agents::Affine(x.row(0), x.stride(), kRows, kIn, w.row(0), bias.row(0), kOut, /*relu=*/false, y.row(0), y.stride());
  add(y);
  agents::Matrix packed(kRows, kOut);
  agents::Affine(x.row(0), x.stride(), kRows, agents::PackedMatrix(w.row(0), kIn, agents::Padded(kOut)), bias.row(0),
                 /*relu=*/true, packed.row(0), packed.stride());
  add(packed);
  agents::Matrix dw(kIn, kOut);
  agents::AddOuterProducts(x.row(0), x.stride(), y.row(0), y.stride(), kRows, kIn, kOut, dw.row(0));
  add(dw);
  agents::Matrix sum(1, kOut);
  agents::AddRows(y.row(0), y.stride(), kRows, y.stride(), sum.row(0));
  add(sum);
  results.push_back(agents::Dot(y.row(0), packed.row(0), kRows * y.stride()));
  agents::Matrix masked = y;
  agents::MaskByRelu(packed.row(0), kRows * y.stride(), masked.row(0));
  add(masked);
  std::vector<std::uint8_t> kept(kRows * kOut + agents::kLane);
  for (std::uint8_t& flag : kept) flag = rng.Below(2) == 0 ? 0 : 1;
  agents::Matrix thinned(kRows, kOut);
  agents::Keep(y.row(0), kept.data(), 1.7F, kRows, kOut, y.stride(), thinned.row(0));
  for (std::size_t r = 0; r < kRows; ++r) {
    results.insert(results.end(), thinned.row(r), thinned.row(r) + kOut);
  }
  return results;
}

TEST(KernelTargetsTest, FusedMultiplyAddGivesTheSameBitsHoweverWideTheVectors) {
  std::vector<std::vector<float>> fused;
  testing::OnEachVectorTarget([&](VectorTarget target) {
    if (target != VectorTarget::kBaseline) fused.push_back(AllKernels());
  });
  if (fused.size() < 2) GTEST_SKIP() << "this processor has one such instruction set at most";
  EXPECT_EQ(fused[0], fused[1]);
}

TEST(KernelTargetsTest, TheBaselineDiffersByRoundingOnly) {
  ChooseVectorTarget(VectorTarget::kBaseline);
  const std::vector<float> baseline = AllKernels();
  std::size_t different = 0;
  testing::OnEachVectorTarget([&](VectorTarget target) {
    const std::vector<float> results = AllKernels();
    ASSERT_EQ(results.size(), baseline.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_NEAR(results[i], baseline[i], 3e-6 * std::max(1.0F, std::abs(baseline[i]))) << i;
      if (target != VectorTarget::kBaseline && results[i] != baseline[i]) ++different;
    }
  });
#if defined(__x86_64__)
  // Otherwise the same code ran twice.
  EXPECT_EQ(different > 0, SupportedVectorTargets().size() > 1);
#endif
}

TEST(MatrixTest, RowsArePaddedToSixteenFloats) {
  const agents::Matrix matrix(3, 17);
  EXPECT_EQ(matrix.stride(), 32U);
  EXPECT_EQ(matrix.row(2), matrix.row(0) + 64);
}

}  // namespace
}  // namespace emplace
