#include "agents/nn/kernel.h"

#include "agents/nn/vector_lanes.h"

namespace emplace {
namespace {

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
      if (relu) sum = sum < 0.0F ? Lane{} : sum;  // what is no number stays none
      Store(sum, y + r * y_stride + j * kLane);
    }
  }
}

// All rows, kRows at a time; what is left in one block of its own: one row at a time would wait for each product.
template <std::size_t kRows, std::size_t kLanes>
EMPLACE_INLINE void AffineRows(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w,
                               std::size_t w_stride, const float* bias, bool relu, float* y, std::size_t y_stride) {
  for (; rows >= kRows; rows -= kRows, x += kRows * x_stride, y += kRows * y_stride) {
    AffineBlock<kRows, kLanes>(x, x_stride, in, w, w_stride, bias, relu, y, y_stride);
  }
  if constexpr (kRows > 1) {
    if (rows > 0) AffineRows<kRows / 2, kLanes>(x, x_stride, rows, in, w, w_stride, bias, relu, y, y_stride);
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
  for (; in >= kIns; in -= kIns, x += kIns, dw += kIns * w_stride) {
    OuterBlock<kIns, kLanes>(x, x_stride, dy, dy_stride, rows, dw, w_stride);
  }
  if constexpr (kIns > 1) {
    if (in > 0) OuterRows<kIns / 2, kLanes>(x, x_stride, dy, dy_stride, rows, in, dw, w_stride);
  }
}

// One panel of columns: PackedMatrix::PanelWidth of them, w_stride apart in w.
EMPLACE_INLINE void AffinePanel(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w,
                                std::size_t w_stride, const float* bias, std::size_t width, bool relu, float* y,
                                std::size_t y_stride) {
  if (width == 3 * kLane) {
    AffineRows<4, 3>(x, x_stride, rows, in, w, w_stride, bias, relu, y, y_stride);
  } else if (width == 2 * kLane) {
    AffineRows<6, 2>(x, x_stride, rows, in, w, w_stride, bias, relu, y, y_stride);
  } else {
    AffineRows<8, 1>(x, x_stride, rows, in, w, w_stride, bias, relu, y, y_stride);
  }
}

}  // namespace

EMPLACE_CLONES
void Affine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w, const float* bias,
            std::size_t out, bool relu, float* y, std::size_t y_stride) {
  for (std::size_t j = 0; j < out;) {
    const std::size_t width = PackedMatrix::PanelWidth(out - j);
    AffinePanel(x, x_stride, rows, in, w + j, out, bias + j, width, relu, y + j, y_stride);
    j += width;
  }
}

template <typename At>
void PackedMatrix::Fill(const At& at) {
  for (std::size_t j = 0; j < out_;) {
    const std::size_t width = PanelWidth(out_ - j);
    float* to = values_.data() + in_ * j;
    for (std::size_t k = 0; k < in_; ++k) {
      for (std::size_t c = 0; c < width; ++c) *to++ = at(k, j + c);
    }
    j += width;
  }
}

PackedMatrix::PackedMatrix(const float* w, std::size_t in, std::size_t out) : PackedMatrix(in, out) {
  Fill([w, out](std::size_t k, std::size_t j) { return w[k * out + j]; });
}

PackedMatrix PackedMatrix::OfTransposed(const float* w, std::size_t width, std::size_t in) {
  PackedMatrix packed(in, Padded(width));
  packed.Fill([w, width, in](std::size_t k, std::size_t j) { return j < width ? w[j * in + k] : 0.0F; });
  return packed;
}

EMPLACE_CLONES
void Affine(const float* x, std::size_t x_stride, std::size_t rows, const PackedMatrix& w, const float* bias, bool relu,
            float* y, std::size_t y_stride) {
  for (std::size_t j = 0; j < w.out();) {
    const std::size_t width = PackedMatrix::PanelWidth(w.out() - j);
    AffinePanel(x, x_stride, rows, w.in(), w.panel(j), width, bias + j, width, relu, y + j, y_stride);
    j += width;
  }
}

EMPLACE_CLONES
void AddOuterProducts(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride, std::size_t rows,
                      std::size_t in, std::size_t out, float* dw) {
  std::size_t j = 0;
  while (j < out) {
    const std::size_t lanes = (out - j) / kLane;
    if (lanes >= 3) {
      OuterRows<6, 3>(x, x_stride, dy + j, dy_stride, rows, in, dw + j, out);
      j += 3 * kLane;
    } else if (lanes == 2) {
      OuterRows<10, 2>(x, x_stride, dy + j, dy_stride, rows, in, dw + j, out);
      j += 2 * kLane;
    } else {
      OuterRows<13, 1>(x, x_stride, dy + j, dy_stride, rows, in, dw + j, out);
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
    for (std::size_t j = 0; j < stride; j += kLane) {
      // No condition: whether a value is kept is a coin toss, which no branch predictor guesses.
      const auto flags = *reinterpret_cast<const Flags*>(kept + r * width + j);
      Store(Load(from + r * stride + j) * (__builtin_convertvector(flags, Lane) * scale), to + r * stride + j);
    }
  }
}

EMPLACE_CLONES
void AddRows(const float* from, std::size_t stride, std::size_t rows, std::size_t width, float* sum) {
  for (std::size_t j = 0; j < width; j += kLane) {
    Lane sums[4] = {};
    std::size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      for (std::size_t k = 0; k < 4; ++k) sums[k] += Load(from + (r + k) * stride + j);
    }
    for (; r < rows; ++r) sums[0] += Load(from + r * stride + j);
    Store(Load(sum + j) + ((sums[0] + sums[1]) + (sums[2] + sums[3])), sum + j);
  }
}

EMPLACE_CLONES
float Dot(const float* a, const float* b, std::size_t size) {
  Lane sums[2] = {};
  std::size_t i = 0;
  for (; i + 2 * kLane <= size; i += 2 * kLane) {
    sums[0] += Load(a + i) * Load(b + i);
    sums[1] += Load(a + i + kLane) * Load(b + i + kLane);
  }
  if (i < size) sums[0] += Load(a + i) * Load(b + i);
  sums[0] += sums[1];
  float sum = 0;
  for (std::size_t k = 0; k < kLane; ++k) sum += sums[0][k];
  return sum;
}

EMPLACE_CLONES
void MaskByRelu(const float* y, std::size_t size, float* dy) {
  for (std::size_t i = 0; i < size; i += kLane) Store(Load(y + i) > 0.0F ? Load(dy + i) : Lane{}, dy + i);
}

}  // namespace emplace
