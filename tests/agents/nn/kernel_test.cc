#include "agents/nn/kernel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/rng.h"

namespace emplace {
namespace {

Matrix RandomMatrix(Rng& rng, std::size_t rows, std::size_t width) {
  Matrix matrix(rows, width);
  for (std::size_t r = 0; r < rows; ++r) {
    for (float& value : matrix.values(r)) value = static_cast<float>(2 * rng.Uniform() - 1);
  }
  return matrix;
}

TEST(KernelTest, AffineIsTheProductPlusTheBias) {
  Rng rng(1);
  for (const std::size_t rows : {1U, 5U, 8U, 19U}) {
    for (const std::size_t in : {1U, 7U, 26U}) {
      for (const std::size_t out : {16U, 32U, 48U, 64U, 112U}) {
        const Matrix x = RandomMatrix(rng, rows, in);
        const Matrix w = RandomMatrix(rng, in, out);
        const Matrix bias = RandomMatrix(rng, 1, out);
        for (const bool relu : {false, true}) {
          Matrix y(rows, out);
          Affine(x.row(0), x.stride(), rows, in, w.row(0), bias.row(0), out, relu, y.row(0), y.stride());
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t j = 0; j < out; ++j) {
              double sum = bias.row(0)[j];
              for (std::size_t k = 0; k < in; ++k) sum += static_cast<double>(x.row(r)[k]) * w.row(k)[j];
              ASSERT_NEAR(y.row(r)[j], relu ? std::max(sum, 0.0) : sum, 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST(KernelTest, APackedMatrixGivesTheSameBits) {
  Rng rng(4);
  for (const std::size_t rows : {1U, 3U, 4U, 9U}) {
    for (const std::size_t in : {1U, 26U}) {
      for (const std::size_t out : {16U, 32U, 48U, 80U, 112U}) {
        const Matrix x = RandomMatrix(rng, rows, in);
        const Matrix w = RandomMatrix(rng, in, out);
        const Matrix bias = RandomMatrix(rng, 1, out);
        Matrix plain(rows, out);
        Affine(x.row(0), x.stride(), rows, in, w.row(0), bias.row(0), out, /*relu=*/true, plain.row(0), plain.stride());
        Matrix packed(rows, out);
        Affine(x.row(0), x.stride(), rows, PackedMatrix(w.row(0), in, out), bias.row(0), /*relu=*/true, packed.row(0),
               packed.stride());
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t j = 0; j < out; ++j) ASSERT_EQ(packed.row(r)[j], plain.row(r)[j]) << r << ", " << j;
        }
      }
    }
  }
}

TEST(KernelTest, ATransposedMatrixIsPackedWithColumnsOfZeroBehind) {
  Rng rng(5);
  constexpr std::size_t kIn = 32;
  for (const std::size_t width : {4U, 16U, 52U, 68U}) {
    const Matrix x = RandomMatrix(rng, 2, kIn);
    const Matrix w = RandomMatrix(rng, width, kIn);  // no padding: kIn is a multiple of kLane
    const Matrix bias(1, Padded(width));
    Matrix y(2, Padded(width));
    Affine(x.row(0), x.stride(), 2, PackedMatrix::OfTransposed(w.row(0), width, kIn), bias.row(0), /*relu=*/false,
           y.row(0), y.stride());
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t j = 0; j < Padded(width); ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < kIn && j < width; ++k) sum += static_cast<double>(x.row(r)[k]) * w.row(j)[k];
        ASSERT_NEAR(y.row(r)[j], sum, 1e-5) << width << ", " << j;
      }
    }
  }
}

TEST(KernelTest, OuterProductsAreAddedToWhatIsThere) {
  Rng rng(2);
  for (const std::size_t rows : {1U, 6U, 33U}) {
    for (const std::size_t in : {1U, 9U, 26U}) {
      for (const std::size_t out : {16U, 32U, 80U}) {
        const Matrix x = RandomMatrix(rng, rows, in);
        const Matrix dy = RandomMatrix(rng, rows, out);
        const Matrix before = RandomMatrix(rng, in, out);
        Matrix dw = before;
        AddOuterProducts(x.row(0), x.stride(), dy.row(0), dy.stride(), rows, in, out, dw.row(0));
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

TEST(KernelTest, PermutingBackUndoesPermuting) {
  const std::vector<float> from = {10, 11, 12, 13, 14, 15};
  const std::vector<std::uint32_t> source = {5, 0, 3, 1, 4, 2};
  Matrix to(2, 3);
  Permute(from.data(), source.data(), 2, 3, to.row(0), to.stride());
  EXPECT_EQ(std::vector<float>(to.row(0), to.row(0) + 3), (std::vector<float>{15, 10, 13}));
  EXPECT_EQ(std::vector<float>(to.row(1), to.row(1) + 3), (std::vector<float>{11, 14, 12}));
  std::vector<float> back(6);
  PermuteBack(to.row(0), to.stride(), source.data(), 2, 3, back.data());
  EXPECT_EQ(back, from);
}

TEST(KernelTest, WhatIsKeptIsScaledAndTheRestIsZero) {
  Matrix from(1, 3);
  for (std::size_t f = 0; f < 3; ++f) from.row(0)[f] = static_cast<float>(f + 1);
  std::vector<std::uint8_t> kept(3 + kLane);
  kept[0] = kept[2] = 1;
  Matrix to(1, 3);
  Keep(from.row(0), kept.data(), 2, 1, 3, from.stride(), to.row(0));
  EXPECT_EQ(std::vector<float>(to.row(0), to.row(0) + 3), (std::vector<float>{2, 0, 6}));
}

TEST(KernelTest, AReluLetsGradientsThroughOnlyWhereItsResultIsPositive) {
  std::vector<float> y(kLane, -1);
  y[0] = 1;
  y[1] = 0;
  std::vector<float> dy(kLane, 7);
  MaskByRelu(y.data(), kLane, dy.data());
  std::vector<float> expected(kLane);
  expected[0] = 7;
  EXPECT_EQ(dy, expected);
}

TEST(KernelTest, RowsAreAddedAndProductsSummed) {
  Rng rng(3);
  for (const std::size_t rows : {1U, 4U, 7U, 30U}) {
    const Matrix a = RandomMatrix(rng, rows, 48);
    Matrix sum(1, 48);
    sum.row(0)[5] = 2;
    AddRows(a.row(0), a.stride(), rows, 48, sum.row(0));
    double expected = 2;
    double squares = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      expected += a.row(r)[5];
      for (const float value : a.values(r)) squares += static_cast<double>(value) * value;
    }
    EXPECT_NEAR(sum.row(0)[5], expected, 1e-5);
    EXPECT_NEAR(Dot(a.row(0), a.row(0), rows * 48), squares, 1e-4 * squares);
  }
}

TEST(KernelTest, RowsArePaddedToSixteenFloats) {
  const Matrix matrix(3, 17);
  EXPECT_EQ(matrix.stride(), 32U);
  EXPECT_EQ(matrix.row(2), matrix.row(0) + 64);
}

}  // namespace
}  // namespace emplace
