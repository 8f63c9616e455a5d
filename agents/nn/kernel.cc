#include "agents/nn/kernel.h"

// One function, several instruction sets. Sanitizers do not get along with what chooses among them, and clang 14 does
// not know the attribute.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(EMPLACE_SANITIZED)
#define EMPLACE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EMPLACE_CLONES
#endif
#define EMPLACE_INLINE inline __attribute__((always_inline))

namespace emplace {
namespace {

using Lane = float __attribute__((vector_size(kLane * sizeof(float)), aligned(alignof(float)), may_alias));

EMPLACE_INLINE Lane Load(const float* from) { return *reinterpret_cast<const Lane*>(from); }
EMPLACE_INLINE void Store(const Lane& value, float* to) { *reinterpret_cast<Lane*>(to) = value; }

// `kRows` rows times `kLanes` lanes of outputs, all in registers.
template <std::size_t kRows, std::size_t kLanes>
EMPLACE_INLINE void AffineBlock(const float* x, std::size_t x_stride, std::size_t in, const float* w,
                                std::size_t w_stride, const float* bias, bool relu, float* y, std::size_t y_stride) {
  Lane sums[kRows][kLanes];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t j = 0; j < kLanes; ++j) sums[r][j] = Load(bias + j * kLane);
  }
  for (std::size_t k = 0; k < in; ++k) {
    Lane weights[kLanes];
    for (std::size_t j = 0; j < kLanes; ++j) weights[j] = Load(w + k * w_stride + j * kLane);
    for (std::size_t r = 0; r < kRows; ++r) {
      const float value = x[r * x_stride + k];
      for (std::size_t j = 0; j < kLanes; ++j) sums[r][j] += value * weights[j];
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      Lane sum = sums[r][j];
      if (relu) sum = sum > 0.0F ? sum : Lane{};
      Store(sum, y + r * y_stride + j * kLane);
    }
  }
}

template <std::size_t kRows, std::size_t kLanes>
EMPLACE_INLINE void AffineRows(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w,
                               std::size_t w_stride, const float* bias, bool relu, float* y, std::size_t y_stride) {
  std::size_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    AffineBlock<kRows, kLanes>(x + r * x_stride, x_stride, in, w, w_stride, bias, relu, y + r * y_stride, y_stride);
  }
  for (; r < rows; ++r) {
    AffineBlock<1, kLanes>(x + r * x_stride, x_stride, in, w, w_stride, bias, relu, y + r * y_stride, y_stride);
  }
}

// `kIns` rows of dw times `kLanes` lanes, in registers over all rows of x.
template <std::size_t kIns, std::size_t kLanes>
EMPLACE_INLINE void OuterBlock(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride,
                               std::size_t rows, float* dw, std::size_t w_stride) {
  Lane sums[kIns][kLanes];
  for (std::size_t k = 0; k < kIns; ++k) {
    for (std::size_t j = 0; j < kLanes; ++j) sums[k][j] = Load(dw + k * w_stride + j * kLane);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    Lane change[kLanes];
    for (std::size_t j = 0; j < kLanes; ++j) change[j] = Load(dy + r * dy_stride + j * kLane);
    for (std::size_t k = 0; k < kIns; ++k) {
      const float value = x[r * x_stride + k];
      for (std::size_t j = 0; j < kLanes; ++j) sums[k][j] += value * change[j];
    }
  }
  for (std::size_t k = 0; k < kIns; ++k) {
    for (std::size_t j = 0; j < kLanes; ++j) Store(sums[k][j], dw + k * w_stride + j * kLane);
  }
}

template <std::size_t kIns, std::size_t kLanes>
EMPLACE_INLINE void OuterRows(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride,
                              std::size_t rows, std::size_t in, float* dw, std::size_t w_stride) {
  std::size_t k = 0;
  for (; k + kIns <= in; k += kIns) {
    OuterBlock<kIns, kLanes>(x + k, x_stride, dy, dy_stride, rows, dw + k * w_stride, w_stride);
  }
  for (; k < in; ++k) OuterBlock<1, kLanes>(x + k, x_stride, dy, dy_stride, rows, dw + k * w_stride, w_stride);
}

}  // namespace

EMPLACE_CLONES
void Affine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w, const float* bias,
            std::size_t out, bool relu, float* y, std::size_t y_stride) {
  std::size_t j = 0;
  while (j < out) {
    const std::size_t lanes = (out - j) / kLane;
    if (lanes >= 3) {
      AffineRows<4, 3>(x, x_stride, rows, in, w + j, out, bias + j, relu, y + j, y_stride);
      j += 3 * kLane;
    } else if (lanes == 2) {
      AffineRows<6, 2>(x, x_stride, rows, in, w + j, out, bias + j, relu, y + j, y_stride);
      j += 2 * kLane;
    } else {
      AffineRows<8, 1>(x, x_stride, rows, in, w + j, out, bias + j, relu, y + j, y_stride);
      j += kLane;
    }
  }
}

EMPLACE_CLONES
void AddOuterProducts(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride, std::size_t rows,
                      std::size_t in, std::size_t out, float* dw) {
  std::size_t j = 0;
  while (j < out) {
    const std::size_t lanes = (out - j) / kLane;
    if (lanes >= 3) {
      OuterRows<4, 3>(x, x_stride, dy + j, dy_stride, rows, in, dw + j, out);
      j += 3 * kLane;
    } else if (lanes == 2) {
      OuterRows<6, 2>(x, x_stride, dy + j, dy_stride, rows, in, dw + j, out);
      j += 2 * kLane;
    } else {
      OuterRows<8, 1>(x, x_stride, dy + j, dy_stride, rows, in, dw + j, out);
      j += kLane;
    }
  }
}

EMPLACE_CLONES
void Permute(const float* from, const std::uint32_t* source, std::size_t rows, std::size_t width, float* to,
             std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = 0; f < width; ++f) to[r * stride + f] = from[source[r * width + f]];
  }
}

EMPLACE_CLONES
void PermuteBack(const float* from, std::size_t stride, const std::uint32_t* source, std::size_t rows,
                 std::size_t width, float* to) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = 0; f < width; ++f) to[source[r * width + f]] = from[r * stride + f];
  }
}

EMPLACE_CLONES
void Keep(const float* from, const std::uint8_t* kept, float scale, std::size_t rows, std::size_t width,
          std::size_t stride, float* to) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = 0; f < width; ++f) {
      // No condition: whether a value is kept is a coin toss, which no branch predictor guesses.
      to[r * stride + f] = from[r * stride + f] * (static_cast<float>(kept[r * width + f]) * scale);
    }
  }
}

EMPLACE_CLONES
void MaskByRelu(const float* y, std::size_t size, float* dy) {
  for (std::size_t i = 0; i < size; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0F;
}

}  // namespace emplace
