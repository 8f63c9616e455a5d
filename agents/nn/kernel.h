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

// Small dense products over flat arrays, for the forward and backward passes of policies. They are compiled for several
// instruction sets; the best is chosen at run time (sim/base/vector_targets.h). The order of summation is the same on
// each. AVX2 and AVX-512, which have fused multiply-add, therefore give identical bits. The baseline rounds each
// product and gives different bits. A BLAS is not used: matrices here are 8 to 200 wide, where a BLAS spends most of
// its time on packing.

inline constexpr std::size_t kLane = 16;
constexpr std::size_t Padded(std::size_t width) { return (width + kLane - 1) / kLane * kLane; }

// float [rows, width], each row padded with zeros to a multiple of kLane. Resizing keeps the storage. kLane extra
// floats after the last row may be written.
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t width) { Reset(rows, width); }

  // Content is unspecified, for matrices that are then completely overwritten, padding included.
  void Resize(std::size_t rows, std::size_t width) {
    rows_ = rows;
    width_ = width;
    stride_ = Padded(width);
    if (data_.size() < rows * stride_ + kLane) data_.resize(rows * stride_ + kLane);
  }
  // Sets all values to zero.
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

// y = x w + bias, or its ReLU. x: [rows, in], rows x_stride apart. w: [in, Padded(out)] and bias: [Padded(out)], with
// zeros beyond `out`. y: [rows, Padded(out)], rows y_stride apart, fully written, with zeros beyond `out`.
void Affine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w, const float* bias,
            std::size_t out, bool relu, float* y, std::size_t y_stride);

// Affine without ReLU. If `mask` is not null, the result is 0 wherever `mask`, laid out like y, is not above 0. This is
// the gradient with respect to the input of a ReLU whose result is `mask`.
void MaskedAffine(const float* x, std::size_t x_stride, std::size_t rows, std::size_t in, const float* w,
                  const float* bias, std::size_t out, const float* mask, float* y, std::size_t y_stride);

// A matrix [in, out], out a multiple of kLane, stored in the order in which Affine reads it: panels of a few columns,
// one after another. A large matrix multiplied with few rows is read from memory each time, as one sequential stream.
// Packing pays off if it is used often.
class PackedMatrix {
 public:
  PackedMatrix(const float* w, std::size_t in, std::size_t out);
  // The transpose of w, [width, in], padded with zero columns to a multiple of kLane.
  static PackedMatrix OfTransposed(const float* w, std::size_t width, std::size_t in);

  std::size_t in() const { return in_; }
  std::size_t out() const { return out_; }
  // The panel that begins at column j, PanelWidth(out - j) columns wide.
  const float* panel(std::size_t j) const { return values_.data() + in_ * j; }
  // At most three lanes, the number that Affine keeps in registers.
  static constexpr std::size_t PanelWidth(std::size_t columns) {
    return std::min(columns / kLane, std::size_t{3}) * kLane;
  }

 private:
  PackedMatrix(std::size_t in, std::size_t out) : in_(in), out_(out), values_(in * out) {}

  std::size_t in_;
  std::size_t out_;
  std::vector<float> values_;
};

// Bitwise equal to Affine above.
void Affine(const float* x, std::size_t x_stride, std::size_t rows, const PackedMatrix& w, const float* bias, bool relu,
            float* y, std::size_t y_stride);

// dw += x^T dy. x: [rows, in]; dy: [rows, Padded(out)], with zeros beyond `out`; dw: [in, Padded(out)].
void AddOuterProducts(const float* x, std::size_t x_stride, const float* dy, std::size_t dy_stride, std::size_t rows,
                      std::size_t in, std::size_t out, float* dw);

// Consecutive affine layers, each of which reads the result of the previous one. Computes rows [begin, end) of x and of
// each layer's y.
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

// y += a x, over `size` floats. AddManyScaled has the overhead of a call, too much for small sizes.
void AddManyScaled(const float* x, float a, std::size_t size, float* y);
inline void AddScaled(const float* x, float a, std::size_t size, float* y) {
  constexpr std::size_t kMany = 64;
  if (size >= kMany) return AddManyScaled(x, a, size, y);
  for (std::size_t i = 0; i < size; ++i) y[i] += a * x[i];
}

// y += a x, over a small multiple of kLane floats.
inline void AddScaledLanes(const float* x, float a, std::size_t size, float* y) {
  for (std::size_t first = 0; first < size; first += kLane) {
    for (std::size_t i = first; i < first + kLane; ++i) y[i] += a * x[i];
  }
}

// y = x, over a small multiple of kLane floats. Requires: no overlap, so that the compiler can vectorise.
inline void CopyLanes(const float* x, std::size_t size, float* y) {
  for (std::size_t first = 0; first < size; first += kLane) std::memcpy(y + first, x + first, kLane * sizeof(float));
}

// One direction of a sweep over a graph, level by level: e_v += g(sum of f(e_u) over the nodes u listed for v). Applies
// to the nodes v of all levels except the first. Each node has a block of `batch` rows, at position[node] in the order
// of the levels. The last layers of f and g have the width of e.
struct LevelSweep {
  std::span<const std::uint32_t> order;  // nodes
  const std::uint32_t* position;
  std::span<const std::size_t> begin;  // start of each level in `order`, followed by the number of nodes
  const NodeLists* lists;
  std::size_t batch;
  std::size_t stride;  // stride of e and sums
  float* e;
  float* sums;
  std::span<const AffineLayer> f;
  std::span<const AffineLayer> g;
};
// Runs independent sweeps. Levels often have one or two nodes and depend on the previous level. Sweeps are therefore
// interleaved, so that the processor can overlap their latencies.
void SweepLevels(std::span<const LevelSweep> sweeps);

// Writes one block of `sums` for each of `nodes`: the sum over the nodes listed for it. A listed node is block
// position[node] of `from`. A block is `size` floats, a multiple of kLane.
void SumBlocks(const float* from, std::span<const std::uint32_t> nodes, const NodeLists& lists,
               const std::uint32_t* position, std::size_t size, float* sums);

// For each node and each of `batch` states: its row of `from`, followed by the mean row of the nodes in `others`, 0 if
// none. Row n * batch + b is node n in state b. to: [others.size() * batch, 2 width].
void JoinMean(const Matrix& from, std::size_t batch, const NodeLists& others, Matrix* to);

// Like JoinMean: the row of the first node in others[first + n] times its weight (0 if none), followed by the row of
// node n. Writes `to` from row `row` on, for `nodes` nodes.
void JoinScaled(const Matrix& from, std::size_t batch, const WeightedNodeLists& others, std::size_t first,
                std::size_t nodes, std::size_t row, Matrix* to);

// Row i of `to`: the sum of rows i * n to i * n + n - 1 of `from`, times shares[0 .. n).
void PoolRows(const Matrix& from, std::span<const float> shares, Matrix* to);

// For each node and each of `batch` states: the sum of its row and the row of node u, times w / divisor. The sum is
// over all nodes u with weights w in others[s * nodes + node], s = 0 .. sets - 1.
void SumRelated(const Matrix& from, std::size_t batch, const WeightedNodeLists& others, std::size_t sets, float divisor,
                Matrix* to);

// to[r][f] = from[source[r * width + f]], rows `stride` apart. PermuteBack: to[source[...]] = from[r][f].
void Permute(const float* from, const std::uint32_t* source, std::size_t rows, std::size_t width, float* to,
             std::size_t stride);
void PermuteBack(const float* from, std::size_t stride, const std::uint32_t* source, std::size_t rows,
                 std::size_t width, float* to);

// to[r][f] = kept[r * width + f] * scale * from[r][f], kept 0 or 1, rows `stride` apart, a multiple of kLane. Padding
// is also written. Requires: kLane bytes after the last of `kept` are readable.
void Keep(const float* from, const std::uint8_t* kept, float scale, std::size_t rows, std::size_t width,
          std::size_t stride, float* to);

// sum += all rows of `from`, over `width` floats of each, a multiple of kLane.
void AddRows(const float* from, std::size_t stride, std::size_t rows, std::size_t width, float* sum);

// The dot product. `size` is a multiple of kLane.
float Dot(const float* a, const float* b, std::size_t size);

// y = x / max(|x|, least), for `count` blocks of `size` floats, a multiple of kLane. norms: [count], of x.
void Normalize(const float* x, std::size_t size, std::size_t count, float least, float* norms, float* y);
// dx = (dy - y (y . dy)) / |x|, replacing dy, from the results of Normalize; dy / least where |x| is below `least`.
void NormalizeBackward(const float* y, std::size_t size, std::size_t count, float least, const float* norms, float* dy);

// dy = 0 wherever y is not above 0: the gradient of a ReLU whose result is y. `size` is a multiple of kLane.
void MaskByRelu(const float* y, std::size_t size, float* dy);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_KERNEL_H_
