#ifndef EMPLACE_AGENTS_NN_KERNEL_H_
#define EMPLACE_AGENTS_NN_KERNEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "agents/nn/node_lists.h"

namespace emplace::agents {

// Small dense products over flat arrays: what a policy's forward and backward passes are made of. Compiled for several
// instruction sets, the best of which is chosen at run time (sim/base/vector_targets.h). Sums are added up in the same
// order on each of them. Those with fused multiply-add, AVX2 and AVX-512, therefore give the same bits; the baseline,
// which rounds each product, gives others. Why not a BLAS: matrices here are 8 to 200 wide, where a BLAS spends most of
// its time on packing.

inline constexpr std::size_t kLane = 16;
constexpr std::size_t Padded(std::size_t width) { return (width + kLane - 1) / kLane * kLane; }

// float [rows, width], each row padded with zeros to a multiple of kLane. Resizing keeps the storage. Behind the last
// row kLane more floats can be written.
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t width) { Reset(rows, width); }

  // Content is unspecified: for matrices that are written whole, padding included.
  void Resize(std::size_t rows, std::size_t width) {
    rows_ = rows;
    width_ = width;
    stride_ = Padded(width);
    if (data_.size() < rows * stride_ + kLane) data_.resize(rows * stride_ + kLane);
  }
  // All zeros.
  void Reset(std::size_t rows, std::size_t width) {
    Resize(rows, width);
    std::fill_n(data_.begin(), rows * stride_, 0.0F);
  }

  std::size_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  std::size_t stride() const { return stride_; }
  float* row(std::size_t i) { return data_.data() + i * stride_; }
  const float* row(std::size_t i) const { return data_.data() + i * stride_; }
  std::span<float> values(std::size_t i) { return {row(i), width_}; }
  std::span<const float> values(std::size_t i) const { return {row(i), width_}; }

 private:
  std::size_t rows_ = 0;
  std::size_t width_ = 0;
  std::size_t stride_ = 0;
  std::vector<float> data_;
};

// y = x w + bias, or its ReLU. x: [rows, in], rows x_stride apart; w: [in, Padded(out)] and bias: [Padded(out)], with
// zeros behind `out`; y: [rows, Padded(out)], rows y_stride apart, written whole, with zeros behind `out`.
void Affine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w, const float* bias,
            std::size_t out, bool relu, float* y, std::size_t y_stride);

// Affine without ReLU, but 0 wherever `mask`, laid out like y, is not above 0, unless it is null: the gradient by what
// goes into a ReLU whose result is `mask`.
void MaskedAffine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w,
                  const float* bias, std::size_t out, const float* mask, float* y, std::size_t y_stride);

// A matrix [in, out], out a multiple of kLane, in the order in which Affine reads it: a few columns whole, then the
// next. A large one that is multiplied with few rows, and so comes from memory each time, comes as one stream. As often
// as it is used, copying it should not matter.
class PackedMatrix {
 public:
  PackedMatrix(const float* w, std::size_t in, std::size_t out);
  // Of the transpose of w, [width, in], with columns of 0 behind it up to a multiple of kLane.
  static PackedMatrix OfTransposed(const float* w, std::size_t width, std::size_t in);

  std::size_t in() const { return in_; }
  std::size_t out() const { return out_; }
  // The columns from j on, as many as stand together: PanelWidth(out - j).
  const float* panel(std::size_t j) const { return values_.data() + in_ * j; }
  // Three lanes, or what is left of them: as many as Affine keeps in registers.
  static constexpr std::size_t PanelWidth(std::size_t columns) {
    return std::min(columns / kLane, std::size_t{3}) * kLane;
  }

 private:
  PackedMatrix(std::size_t in, std::size_t out) : in_(in), out_(out), values_(in * out) {}
  // at(k, j): the value of row k and column j.
  template <typename At>
  void Fill(const At& at);

  std::size_t in_;
  std::size_t out_;
  std::vector<float> values_;
};

// As Affine above, to the bit.
void Affine(const float* x, std::size_t x_stride, std::size_t rows, const PackedMatrix& w, const float* bias, bool relu,
            float* y, std::size_t y_stride);

// dw += x^T dy. x: [rows, in]; dy: [rows, Padded(out)], with zeros behind `out`; dw: [in, Padded(out)].
void AddOuterProducts(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride, std::size_t rows,
                      std::size_t in, std::size_t out, float* dw);

// Affine layers one after the other, each of which reads what the one before it wrote; of the rows [begin, end) of x
// and of each layer's y.
struct AffineLayer {
  const float* w;
  const float* bias;
  std::size_t in;
  std::size_t out;
  bool relu;
  float* y;
  std::size_t y_stride;
};
void AffineLayers(const float* x, std::size_t x_stride, std::size_t begin, std::size_t end,
                  std::span<const AffineLayer> layers);

// y += a x, over `size` floats. AddManyScaled costs a call, which few do not repay.
void AddManyScaled(const float* x, float a, std::size_t size, float* y);
inline void AddScaled(const float* x, float a, std::size_t size, float* y) {
  constexpr std::size_t kMany = 64;
  if (size >= kMany) return AddManyScaled(x, a, size, y);
  for (std::size_t i = 0; i < size; ++i) y[i] += a * x[i];
}

// y += a x, over a few floats: a multiple of kLane.
inline void AddScaledLanes(const float* x, float a, std::size_t size, float* y) {
  for (std::size_t first = 0; first < size; first += kLane) {
    for (std::size_t i = first; i < first + kLane; ++i) y[i] += a * x[i];
  }
}

// y = x, over a few floats: a multiple of kLane. They do not overlap, which a compiler makes use of.
inline void CopyLanes(const float* x, std::size_t size, float* y) {
  for (std::size_t first = 0; first < size; first += kLane) std::memcpy(y + first, x + first, kLane * sizeof(float));
}

// One direction of a sweep over a graph, level by level: e_v += g(sum of f(e_u) over the nodes u listed for v), of the
// nodes v of all levels but the first. Blocks of `batch` rows, in the order of the levels: that of a node is
// position[node]. f and g end with as wide a layer as e.
struct LevelSweep {
  std::span<const std::uint32_t> order;  // nodes
  const std::uint32_t* position;
  std::span<const std::size_t> begin;  // of each level in `order`, and the number of nodes
  const NodeLists* lists;
  std::size_t batch;
  std::size_t stride;  // of e and sums
  float* e;
  float* sums;
  std::span<const AffineLayer> f;
  std::span<const AffineLayer> g;
};
// Sweeps that do not depend on each other. Levels often hold a node or two and wait for the one before, so the sweeps
// are taken in turn: a processor begins with one while it waits for the other.
void SweepLevels(std::span<const LevelSweep> sweeps);

// Of each of `nodes`, one block of `sums` after the other: the sum over the nodes listed for it, as block
// position[node] of `from`. A block is `size` floats, a multiple of kLane.
void SumBlocks(const float* from, std::span<const std::uint32_t> nodes, const NodeLists& lists,
               const std::uint32_t* position, std::size_t size, float* sums);

// Of each node and each of `batch` states: its row of `from` and, behind it, the mean of those of the nodes that
// `others` lists for it, 0 without any. Row n * batch + b is node n in state b. to: [others.size() * batch, 2 width].
void JoinMean(const Matrix& from, std::size_t batch, const NodeLists& others, Matrix* to);

// Likewise the row of the first node that others[first + n] lists, times its weight (0 without one), and, behind it,
// that of node n. to: row `row` and those after it, of `nodes` nodes.
void JoinScaled(const Matrix& from, std::size_t batch, const WeightedNodeLists& others, std::size_t first,
                std::size_t nodes, std::size_t row, Matrix* to);

// Row i of `to`: the sum of rows i * n to i * n + n - 1 of `from`, times shares[0 .. n).
void PoolRows(const Matrix& from, std::span<const float> shares, Matrix* to);

// Of each node and each of `batch` states: the sum of its row and the row of node u, times w / divisor, over all nodes
// u, with their weights w, that others[s * nodes + node] lists, s = 0 .. sets - 1.
void SumRelated(const Matrix& from, std::size_t batch, const WeightedNodeLists& others, std::size_t sets, float divisor,
                Matrix* to);

// to[r][f] = from[source[r * width + f]], rows `stride` apart; and the other way: to[source[...]] = from[r][f].
void Permute(const float* from, const std::uint32_t* source, std::size_t rows, std::size_t width, float* to,
             std::size_t stride);
void PermuteBack(const float* from, std::size_t stride, const std::uint32_t* source, std::size_t rows,
                 std::size_t width, float* to);

// to[r][f] = kept[r * width + f] * scale * from[r][f], kept 0 or 1, rows `stride` apart, a multiple of kLane; padding
// is written too. Requires: kLane bytes behind the last of `kept` can be read.
void Keep(const float* from, const std::uint8_t* kept, float scale, std::size_t rows, std::size_t width,
          std::size_t stride, float* to);

// sum += all rows of `from`. `width`, a multiple of kLane, of each.
void AddRows(const float* from, std::size_t stride, std::size_t rows, std::size_t width, float* sum);

// The sum of products. `size` is a multiple of kLane.
float Dot(const float* a, const float* b, std::size_t size);

// y = x / |x|, |x| not below `least`, for `count` blocks of `size` floats, a multiple of kLane. norms: [count], of x.
void Normalize(const float* x, std::size_t size, std::size_t count, float least, float* norms, float* y);
// dx = (dy - y (y . dy)) / |x|, in place of dy, from what Normalize wrote; dy / least where |x| is below it.
void NormalizeBackward(const float* y, std::size_t size, std::size_t count, float least, const float* norms, float* dy);

// dy = 0 wherever y is not above 0: the gradient of a ReLU whose result is y. `size` is a multiple of kLane.
void MaskByRelu(const float* y, std::size_t size, float* dy);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_KERNEL_H_
