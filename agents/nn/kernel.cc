#include "agents/nn/kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "sim/base/vector_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "agents/nn/kernel.cc"  // this file is compiled once for each instruction set
#include <hwy/foreach_target.h>

#include "agents/nn/float_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace emplace::agents::HWY_NAMESPACE {

// Maximum width of a product's block, in vectors of columns.
inline constexpr std::size_t kBlockVectors = 3;

// Rows of a block of `vectors` vectors: its sums, weights and one factor fit in the 16 registers of AVX2. AVX-512 has
// 32, but taller blocks were slower, as too few registers remain for row addresses.
constexpr std::size_t BlockRows(std::size_t vectors) { return vectors == 1 ? 8 : vectors == 2 ? 6 : 4; }

// Width of the next block when `left` vectors remain: three, but two for the last four, as 2 + 2 is faster than 3 + 1.
constexpr std::size_t BlockWidth(std::size_t left) {
  return left <= kBlockVectors ? left : left == kBlockVectors + 1 ? 2 : kBlockVectors;
}

// Rows of the next block when `left` remain, at most `most`. The last two blocks have about equal heights.
HWY_INLINE std::size_t NextRows(std::size_t left, std::size_t most) {
  return left >= 2 * most ? most : left > most ? (left + 1) / 2 : left;
}

// Calls function(std::integral_constant<std::size_t, count>) for a count of 1 to kMost.
template <std::size_t kMost, typename Function>
HWY_INLINE void WithConstant(std::size_t count, const Function& function) {
  if constexpr (kMost > 1) {
    if (count < kMost) {
      WithConstant<kMost - 1>(count, function);
      return;
    }
  }
  function(std::integral_constant<std::size_t, kMost>());
}

struct AffineTask {
  const float* x;
  std::size_t x_stride;
  std::size_t rows;
  std::size_t in;
  const float* w;
  std::size_t w_stride;
  const float* bias;
  bool relu;
  const float* mask;  // same layout as y, or null
  float* y;
  std::size_t y_stride;
};

// kRows rows of kColumns vectors of outputs, all in registers. Each output sums its products in their order, so it does
// not depend on its block.
template <std::size_t kRows, std::size_t kColumns>
HWY_INLINE void AffineBlock(const AffineTask& task, const float* x, const float* mask, float* y) {
  const AffineTask t = task;  // a local copy cannot alias y, so stores to y do not force reloads
  Floats sums[kRows][kColumns];
  for (std::size_t j = 0; j < kColumns; ++j) {
    const Floats bias = Load(t.bias + j * kWidth);
    for (std::size_t r = 0; r < kRows; ++r) sums[r][j] = bias;
  }
  const float* w = t.w;
  for (std::size_t k = 0; k < t.in; ++k, w += t.w_stride) {
    Floats weights[kColumns];
    for (std::size_t j = 0; j < kColumns; ++j) weights[j] = Load(w + j * kWidth);
    for (std::size_t r = 0; r < kRows; ++r) {
      const Floats value = Splat(x[r * t.x_stride + k]);
      for (std::size_t j = 0; j < kColumns; ++j) sums[r][j] = MulAdd(value, weights[j], sums[r][j]);
    }
  }
  if (t.relu) {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t j = 0; j < kColumns; ++j) sums[r][j] = Relu(sums[r][j]);
    }
  }
  if (mask != nullptr) {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t j = 0; j < kColumns; ++j) {
        sums[r][j] = IfLess(Zero(), Load(mask + r * t.y_stride + j * kWidth), sums[r][j], Zero());
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t j = 0; j < kColumns; ++j) Store(sums[r][j], y + r * t.y_stride + j * kWidth);
  }
}

// All rows of kColumns vectors of outputs.
template <std::size_t kColumns>
HWY_INLINE void AffineRows(const AffineTask& task) {
  constexpr std::size_t kMost = BlockRows(kColumns);
  const float* x = task.x;
  const float* mask = task.mask;
  float* y = task.y;
  for (std::size_t left = task.rows; left > 0;) {
    const std::size_t rows = NextRows(left, kMost);
    WithConstant<kMost>(rows, [&](auto constant) { AffineBlock<constant(), kColumns>(task, x, mask, y); });
    left -= rows;
    x += rows * task.x_stride;
    y += rows * task.y_stride;
    if (mask != nullptr) mask += rows * task.y_stride;
  }
}

// Outputs [0, vectors * kWidth) of `task`.
HWY_INLINE void AffineVectors(AffineTask task, std::size_t vectors) {
  while (vectors > 0) {
    const std::size_t width = BlockWidth(vectors);
    WithConstant<kBlockVectors>(width, [&](auto constant) { AffineRows<constant()>(task); });
    vectors -= width;
    task.w += width * kWidth;
    task.bias += width * kWidth;
    task.y += width * kWidth;
    if (task.mask != nullptr) task.mask += width * kWidth;
  }
}

constexpr std::size_t VectorsOf(std::size_t width) { return (width + kWidth - 1) / kWidth; }

void AffineOn(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w, const float* bias,
              std::size_t out, bool relu, const float* mask, float* y, std::size_t y_stride) {
  const std::size_t vectors = VectorsOf(out);
  AffineVectors({x, x_stride, rows, in, w, Padded(out), bias, relu, mask, y, y_stride}, vectors);
  for (std::size_t j = vectors * kWidth; j < Padded(out); j += kWidth) {
    for (std::size_t r = 0; r < rows; ++r) Store(Zero(), y + r * y_stride + j);
  }
}

void AffinePackedOn(const float* x, std::size_t x_stride, std::size_t rows, const PackedMatrix& w, const float* bias,
                    bool relu, float* y, std::size_t y_stride) {
  for (std::size_t j = 0; j < w.out();) {
    const std::size_t width = PackedMatrix::PanelWidth(w.out() - j);
    AffineVectors({x, x_stride, rows, w.in(), w.panel(j), width, bias + j, relu, nullptr, y + j, y_stride},
                  width / kWidth);
    j += width;
  }
}

struct OuterTask {
  const float* x;
  std::size_t x_stride;
  const float* dy;
  std::size_t dy_stride;
  std::size_t rows;
  std::size_t in;
  float* dw;
  std::size_t w_stride;
};

// kIns rows of dw, kColumns vectors wide, kept in registers over all rows of x.
template <std::size_t kIns, std::size_t kColumns>
HWY_INLINE void OuterBlock(const OuterTask& task, const float* x, float* dw) {
  const OuterTask t = task;
  Floats sums[kIns][kColumns];
  for (std::size_t k = 0; k < kIns; ++k) {
    for (std::size_t j = 0; j < kColumns; ++j) sums[k][j] = Load(dw + k * t.w_stride + j * kWidth);
  }
  const float* dy = t.dy;
  for (std::size_t r = 0; r < t.rows; ++r, x += t.x_stride, dy += t.dy_stride) {
    Floats change[kColumns];
    for (std::size_t j = 0; j < kColumns; ++j) change[j] = Load(dy + j * kWidth);
    for (std::size_t k = 0; k < kIns; ++k) {
      const Floats value = Splat(x[k]);
      for (std::size_t j = 0; j < kColumns; ++j) sums[k][j] = MulAdd(value, change[j], sums[k][j]);
    }
  }
  for (std::size_t k = 0; k < kIns; ++k) {
    for (std::size_t j = 0; j < kColumns; ++j) Store(sums[k][j], dw + k * t.w_stride + j * kWidth);
  }
}

template <std::size_t kColumns>
HWY_INLINE void OuterRows(const OuterTask& task) {
  constexpr std::size_t kMost = BlockRows(kColumns);
  const float* x = task.x;
  float* dw = task.dw;
  for (std::size_t left = task.in; left > 0;) {
    const std::size_t ins = NextRows(left, kMost);
    WithConstant<kMost>(ins, [&](auto constant) { OuterBlock<constant(), kColumns>(task, x, dw); });
    left -= ins;
    x += ins;
    dw += ins * task.w_stride;
  }
}

void AddOuterProductsOn(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride, std::size_t rows,
                        std::size_t in, std::size_t out, float* dw) {
  OuterTask task = {x, x_stride, dy, dy_stride, rows, in, dw, Padded(out)};
  for (std::size_t vectors = VectorsOf(out); vectors > 0;) {
    const std::size_t width = BlockWidth(vectors);
    WithConstant<kBlockVectors>(width, [&](auto constant) { OuterRows<constant()>(task); });
    vectors -= width;
    task.dy += width * kWidth;
    task.dw += width * kWidth;
  }
}

void AffineLayersOn(const float* x, std::size_t x_stride, std::size_t begin, std::size_t end,
                    std::span<const AffineLayer> layers) {
  x += begin * x_stride;
  for (const AffineLayer& layer : layers) {
    float* const y = layer.y + begin * layer.y_stride;
    AffineOn(x, x_stride, end - begin, layer.in, layer.w, layer.bias, layer.out, layer.relu, nullptr, y,
             layer.y_stride);
    x = y;
    x_stride = layer.y_stride;
  }
}

void AddManyScaledOn(const float* x, float a, std::size_t size, float* y) {
  const Floats factor = Splat(a);
  std::size_t i = 0;
  for (; i + kWidth <= size; i += kWidth) Store(Add(Load(y + i), Mul(factor, Load(x + i))), y + i);
  for (; i < size; ++i) y[i] += a * x[i];
}

void SumBlocksOn(const float* from, std::span<const std::uint32_t> nodes, const NodeLists& lists,
                 const std::uint32_t* position, std::size_t size, float* sums) {
  for (const std::uint32_t node : nodes) {
    const std::span<const std::uint32_t> blocks = lists[node];
    for (std::size_t i = 0; i < size; i += kLane) {
      Floats sum[kVectors];
      for (Floats& part : sum) part = Zero();
      for (const std::uint32_t block : blocks) {
        const float* const values = from + position[block] * size + i;
        for (std::size_t v = 0; v < kVectors; ++v) sum[v] = Add(sum[v], Load(values + v * kWidth));
      }
      for (std::size_t v = 0; v < kVectors; ++v) Store(sum[v], sums + i + v * kWidth);
    }
    sums += size;
  }
}

void SweepLevelsOn(std::span<const LevelSweep> sweeps) {
  std::size_t most_levels = 0;
  for (const LevelSweep& sweep : sweeps) most_levels = std::max(most_levels, sweep.begin.size() - 1);
  for (std::size_t l = 0; l < most_levels; ++l) {
    for (const LevelSweep& sweep : sweeps) {
      if (l == 0 || l + 1 >= sweep.begin.size()) continue;
      const std::size_t begin = sweep.begin[l];
      const std::size_t end = sweep.begin[l + 1];
      const std::size_t block = sweep.batch * sweep.stride;
      SumBlocksOn(sweep.f.back().y, sweep.order.subspan(begin, end - begin), *sweep.lists, sweep.position, block,
                  sweep.sums + begin * block);
      AffineLayersOn(sweep.sums, sweep.stride, begin * sweep.batch, end * sweep.batch, sweep.g);
      const float* const change = sweep.g.back().y;
      for (std::size_t i = begin * block; i < end * block; i += kWidth) {
        Store(Add(Load(sweep.e + i), Load(change + i)), sweep.e + i);
      }
    }
    for (const LevelSweep& sweep : sweeps) {
      if (l + 2 >= sweep.begin.size()) continue;
      AffineLayersOn(sweep.e, sweep.stride, sweep.begin[l] * sweep.batch, sweep.begin[l + 1] * sweep.batch, sweep.f);
    }
  }
}

void PoolRowsOn(const float* from, std::size_t stride, std::span<const float> shares, std::size_t rows, float* to) {
  for (std::size_t row = 0; row < rows; ++row, to += stride) {
    for (std::size_t i = 0; i < stride; i += kWidth) {
      Floats sum = Zero();
      for (std::size_t r = 0; r < shares.size(); ++r) {
        sum = Add(sum, Mul(Splat(shares[r]), Load(from + r * stride + i)));
      }
      Store(sum, to + i);
    }
    from += shares.size() * stride;
  }
}

void SumRelatedOn(const float* from, std::size_t stride, std::size_t nodes, std::size_t batch,
                  const WeightedNodeLists& lists, std::size_t sets, float divisor, float* to) {
  for (std::size_t node = 0; node < nodes; ++node) {
    for (std::size_t b = 0; b < batch; ++b, to += stride) {
      const float* const own = from + (node * batch + b) * stride;
      for (std::size_t i = 0; i < stride; i += kWidth) {
        const Floats mine = Load(own + i);
        Floats sum = Zero();
        for (std::size_t set = 0; set < sets; ++set) {
          for (const WeightedNode& other : lists[set * nodes + node]) {
            const Floats factor = Splat(other.weight / divisor);
            sum = Add(sum, Mul(factor, mine));
            sum = Add(sum, Mul(factor, Load(from + (other.node * batch + b) * stride + i)));
          }
        }
        Store(sum, to + i);
      }
    }
  }
}

// Joined rows are written in order, as complete vectors. The overrun of a row is overwritten by the next row; the
// matrix has spare space after the last.
void JoinMeanOn(const float* from, std::size_t stride, std::size_t width, std::size_t batch, const NodeLists& lists,
                float* to, std::size_t to_stride) {
  const std::size_t read = VectorsOf(width) * kWidth;
  for (std::size_t own = 0; own < lists.size(); ++own) {
    const std::span<const std::uint32_t> others = lists[own];
    const Floats count = Splat(static_cast<float>(others.size()));
    // Most counts are powers of two. They need no division: the product has the same bits.
    const bool is_power = std::has_single_bit(others.size());
    const Floats share = Splat(is_power ? 1 / static_cast<float>(others.size()) : 0.0F);
    for (std::size_t b = 0; b < batch; ++b, to += to_stride) {
      const float* const mine = from + (own * batch + b) * stride;
      for (std::size_t i = 0; i < read; i += kWidth) Store(Load(mine + i), to + i);
      for (std::size_t i = 0; i < read; i += kWidth) {
        Floats sum = Zero();
        for (const std::uint32_t other : others) {
          const Floats value = Load(from + (other * batch + b) * stride + i);
          sum = Add(sum, is_power ? Mul(value, share) : Div(value, count));
        }
        Store(sum, to + width + i);
      }
      for (std::size_t i = width + read; i < to_stride; i += kWidth) Store(Zero(), to + i);
    }
  }
}

void JoinScaledOn(const float* from, std::size_t stride, std::size_t width, std::size_t batch,
                  const WeightedNodeLists& lists, std::size_t first, std::size_t nodes, float* to,
                  std::size_t to_stride) {
  const std::size_t read = VectorsOf(width) * kWidth;
  for (std::size_t own = 0; own < nodes; ++own) {
    const std::span<const WeightedNode> others = lists[first + own];
    const WeightedNode other = others.empty() ? WeightedNode{} : others.front();
    const Floats factor = Splat(other.weight);
    for (std::size_t b = 0; b < batch; ++b, to += to_stride) {
      const float* const scaled = from + (other.node * batch + b) * stride;
      const float* const mine = from + (own * batch + b) * stride;
      for (std::size_t i = 0; i < read; i += kWidth) Store(Mul(Load(scaled + i), factor), to + i);
      for (std::size_t i = 0; i < read; i += kWidth) Store(Load(mine + i), to + width + i);
      for (std::size_t i = width + read; i < to_stride; i += kWidth) Store(Zero(), to + i);
    }
  }
}

void PermuteOn(const float* from, const std::uint32_t* source, std::size_t rows, std::size_t width, float* to,
               std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = 0; f < width; ++f) to[r * stride + f] = from[source[r * width + f]];
  }
}

void PermuteBackOn(const float* from, std::size_t stride, const std::uint32_t* source, std::size_t rows,
                   std::size_t width, float* to) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = 0; f < width; ++f) to[source[r * width + f]] = from[r * stride + f];
  }
}

void KeepOn(const float* from, const std::uint8_t* kept, float scale, std::size_t rows, std::size_t width,
            std::size_t stride, float* to) {
  const Floats factor = Splat(scale);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < stride; j += kWidth) {
      // Without a branch, as the kept values are random and cannot be predicted.
      Store(Mul(Load(from + r * stride + j), Mul(LoadBytes(kept + r * width + j), factor)), to + r * stride + j);
    }
  }
}

void AddRowsOn(const float* from, std::size_t stride, std::size_t rows, std::size_t width, float* sum) {
  for (std::size_t j = 0; j < width; j += kWidth) {
    Floats sums[4] = {Zero(), Zero(), Zero(), Zero()};
    std::size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      for (std::size_t k = 0; k < 4; ++k) sums[k] = Add(sums[k], Load(from + (r + k) * stride + j));
    }
    for (; r < rows; ++r) sums[0] = Add(sums[0], Load(from + r * stride + j));
    Store(Add(Load(sum + j), Add(Add(sums[0], sums[1]), Add(sums[2], sums[3]))), sum + j);
  }
}

float DotOn(const float* a, const float* b, std::size_t size) {
  Floats sums[2][kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[0][v] = sums[1][v] = Zero();
  const auto add = [&](std::size_t at, Floats(&to)[kVectors]) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      to[v] = MulAdd(Load(a + at + v * kWidth), Load(b + at + v * kWidth), to[v]);
    }
  };
  std::size_t i = 0;
  for (; i + 2 * kLane <= size; i += 2 * kLane) {
    add(i, sums[0]);
    add(i + kLane, sums[1]);
  }
  if (i < size) add(i, sums[0]);
  for (std::size_t v = 0; v < kVectors; ++v) sums[0][v] = Add(sums[0][v], sums[1][v]);
  return SumInOrder(sums[0]);
}

void NormalizeOn(const float* x, std::size_t size, std::size_t count, float least, float* norms, float* y) {
  for (std::size_t block = 0; block < count; ++block, x += size, y += size) {
    norms[block] = std::max(std::sqrt(DotOn(x, x, size)), least);
    const Floats scale = Splat(1 / norms[block]);
    for (std::size_t i = 0; i < size; i += kWidth) Store(Mul(Load(x + i), scale), y + i);
  }
}

void NormalizeBackwardOn(const float* y, std::size_t size, std::size_t count, float least, const float* norms,
                         float* dy) {
  for (std::size_t block = 0; block < count; ++block, y += size, dy += size) {
    // If the norm is at most `least`, the divisor is a constant.
    const Floats along = Splat(norms[block] > least ? DotOn(y, dy, size) : 0.0F);
    const Floats scale = Splat(1 / norms[block]);
    for (std::size_t i = 0; i < size; i += kWidth) {
      Store(Mul(Sub(Load(dy + i), Mul(Load(y + i), along)), scale), dy + i);
    }
  }
}

void MaskByReluOn(const float* y, std::size_t size, float* dy) {
  for (std::size_t i = 0; i < size; i += kWidth) Store(IfLess(Zero(), Load(y + i), Load(dy + i), Zero()), dy + i);
}

}  // namespace emplace::agents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace emplace::agents {

HWY_EXPORT(AffineOn);
HWY_EXPORT(AffinePackedOn);
HWY_EXPORT(AddOuterProductsOn);
HWY_EXPORT(AffineLayersOn);
HWY_EXPORT(AddManyScaledOn);
HWY_EXPORT(SumBlocksOn);
HWY_EXPORT(SweepLevelsOn);
HWY_EXPORT(PoolRowsOn);
HWY_EXPORT(SumRelatedOn);
HWY_EXPORT(JoinMeanOn);
HWY_EXPORT(JoinScaledOn);
HWY_EXPORT(PermuteOn);
HWY_EXPORT(PermuteBackOn);
HWY_EXPORT(KeepOn);
HWY_EXPORT(AddRowsOn);
HWY_EXPORT(DotOn);
HWY_EXPORT(NormalizeOn);
HWY_EXPORT(NormalizeBackwardOn);
HWY_EXPORT(MaskByReluOn);

void Affine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w, const float* bias,
            std::size_t out, bool relu, float* y, std::size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(AffineOn)(x, x_stride, rows, in, w, bias, out, relu, nullptr, y, y_stride);
}

void MaskedAffine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w,
                  const float* bias, std::size_t out, const float* mask, float* y, std::size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(AffineOn)(x, x_stride, rows, in, w, bias, out, false, mask, y, y_stride);
}

void Affine(const float* x, std::size_t x_stride, std::size_t rows, const PackedMatrix& w, const float* bias, bool relu,
            float* y, std::size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(AffinePackedOn)(x, x_stride, rows, w, bias, relu, y, y_stride);
}

PackedMatrix::PackedMatrix(const float* w, std::size_t in, std::size_t out) : PackedMatrix(in, out) {
  float* to = values_.data();
  for (std::size_t j = 0; j < out;) {
    const std::size_t width = PanelWidth(out - j);
    for (std::size_t k = 0; k < in; ++k, to += width) std::copy_n(w + k * out + j, width, to);
    j += width;
  }
}

// In blocks of rows of a panel, which stay in the cache, so that w is read in runs of whole cache lines.
PackedMatrix PackedMatrix::OfTransposed(const float* w, std::size_t width, std::size_t in) {
  constexpr std::size_t kRows = 4 * kLane;
  PackedMatrix packed(in, Padded(width));
  for (std::size_t j = 0; j < packed.out_;) {
    const std::size_t columns = PanelWidth(packed.out_ - j);
    float* const panel = packed.values_.data() + in * j;
    for (std::size_t first = 0; first < in; first += kRows) {
      const std::size_t end = std::min(first + kRows, in);
      for (std::size_t c = 0; c < columns && j + c < width; ++c) {
        for (std::size_t k = first; k < end; ++k) panel[k * columns + c] = w[(j + c) * in + k];
      }
    }
    j += columns;
  }
  return packed;
}

void AddOuterProducts(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride, std::size_t rows,
                      std::size_t in, std::size_t out, float* dw) {
  HWY_DYNAMIC_DISPATCH(AddOuterProductsOn)(x, x_stride, dy, dy_stride, rows, in, out, dw);
}

void AffineLayers(const float* x, std::size_t x_stride, std::size_t begin, std::size_t end,
                  std::span<const AffineLayer> layers) {
  HWY_DYNAMIC_DISPATCH(AffineLayersOn)(x, x_stride, begin, end, layers);
}

void AddManyScaled(const float* x, float a, std::size_t size, float* y) {
  HWY_DYNAMIC_DISPATCH(AddManyScaledOn)(x, a, size, y);
}

void SumBlocks(const float* from, std::span<const std::uint32_t> nodes, const NodeLists& lists,
               const std::uint32_t* position, std::size_t size, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumBlocksOn)(from, nodes, lists, position, size, sums);
}

void SweepLevels(std::span<const LevelSweep> sweeps) { HWY_DYNAMIC_DISPATCH(SweepLevelsOn)(sweeps); }

void PoolRows(const Matrix& from, std::span<const float> shares, Matrix* to) {
  HWY_DYNAMIC_DISPATCH(PoolRowsOn)(from.row(0), from.stride(), shares, to->rows(), to->row(0));
}

void SumRelated(const Matrix& from, std::size_t batch, const WeightedNodeLists& others, std::size_t sets, float divisor,
                Matrix* to) {
  HWY_DYNAMIC_DISPATCH(SumRelatedOn)
  (from.row(0), from.stride(), to->rows() / batch, batch, others, sets, divisor, to->row(0));
}

void JoinMean(const Matrix& from, std::size_t batch, const NodeLists& others, Matrix* to) {
  HWY_DYNAMIC_DISPATCH(JoinMeanOn)
  (from.row(0), from.stride(), from.width(), batch, others, to->row(0), to->stride());
}

void JoinScaled(const Matrix& from, std::size_t batch, const WeightedNodeLists& others, std::size_t first,
                std::size_t nodes, std::size_t row, Matrix* to) {
  HWY_DYNAMIC_DISPATCH(JoinScaledOn)
  (from.row(0), from.stride(), from.width(), batch, others, first, nodes, to->row(row), to->stride());
}

void Permute(const float* from, const std::uint32_t* source, std::size_t rows, std::size_t width, float* to,
             std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(PermuteOn)(from, source, rows, width, to, stride);
}

void PermuteBack(const float* from, std::size_t stride, const std::uint32_t* source, std::size_t rows,
                 std::size_t width, float* to) {
  HWY_DYNAMIC_DISPATCH(PermuteBackOn)(from, stride, source, rows, width, to);
}

void Keep(const float* from, const std::uint8_t* kept, float scale, std::size_t rows, std::size_t width,
          std::size_t stride, float* to) {
  HWY_DYNAMIC_DISPATCH(KeepOn)(from, kept, scale, rows, width, stride, to);
}

void AddRows(const float* from, std::size_t stride, std::size_t rows, std::size_t width, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddRowsOn)(from, stride, rows, width, sum);
}

float Dot(const float* a, const float* b, std::size_t size) { return HWY_DYNAMIC_DISPATCH(DotOn)(a, b, size); }

void Normalize(const float* x, std::size_t size, std::size_t count, float least, float* norms, float* y) {
  HWY_DYNAMIC_DISPATCH(NormalizeOn)(x, size, count, least, norms, y);
}

void NormalizeBackward(const float* y, std::size_t size, std::size_t count, float least, const float* norms,
                       float* dy) {
  HWY_DYNAMIC_DISPATCH(NormalizeBackwardOn)(y, size, count, least, norms, dy);
}

void MaskByRelu(const float* y, std::size_t size, float* dy) { HWY_DYNAMIC_DISPATCH(MaskByReluOn)(y, size, dy); }

}  // namespace emplace::agents
#endif  // HWY_ONCE
