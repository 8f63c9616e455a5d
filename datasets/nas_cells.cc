#include "datasets/nas_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr BatchNormOptions kNasNorm = {.scale = true, .average_rate = 0.0003};
constexpr std::int64_t kStemFilters = 96;
constexpr std::size_t kNasChannelAxis = 1;

using CellOperation = Value (*)(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters,
                                Sliding sliding);

Value Separable(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters, Sliding sliding,
                std::int64_t size) {
  return SeparableConv(net, name, x, {filters, {size, size}, sliding}, 2, kNasNorm);
}

template <Value (*kPool)(NetworkBuilder&, Value, std::array<std::int64_t, 2>, const Sliding&)>
Value Pool(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters, Sliding sliding) {
  const auto scope = net.Within(name);
  x = kPool(net, x, {3, 3}, sliding);
  // Only in the very first cell, whose older input is the stem as it is.
  return net.shape(x)[kNasChannelAxis] == filters ? x
                                                  : ConvBatchNorm(net, "fit", x, {filters, {1, 1}, kSame}, kNasNorm);
}

template <std::int64_t kSize>
Value SeparableOf(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters, Sliding sliding) {
  return Separable(net, name, x, filters, sliding, kSize);
}

// A row, then a column: 7x7 in two parts, on a quarter of the filters.
Value RowColumn(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters, Sliding sliding) {
  const auto scope = net.Within(name);
  const Sliding along_row = {.stride = {1, sliding.stride[1]}, .same = true, .dilation = {1, 1}};
  const Sliding along_column = {.stride = {sliding.stride[0], 1}, .same = true, .dilation = {1, 1}};
  const std::int64_t inner = std::max<std::int64_t>(filters / 4, 1);
  x = ReluConvBatchNorm(net, "narrow", x, {inner, {1, 1}, kSame}, kNasNorm);
  x = ReluConvBatchNorm(net, "row", x, {inner, {1, 7}, along_row}, kNasNorm);
  x = ReluConvBatchNorm(net, "column", x, {inner, {7, 1}, along_column}, kNasNorm);
  return ReluConvBatchNorm(net, "widen", x, {filters, {1, 1}, kSame}, kNasNorm);
}

Value Identity(NetworkBuilder&, std::string_view, Value x, std::int64_t, Sliding) { return x; }

const std::map<std::string_view, CellOperation>& Operations() {
  static const std::map<std::string_view, CellOperation> operations = {
      {"identity", Identity},           {"avg_pool_3x3", Pool<AvgPool>},  {"max_pool_3x3", Pool<MaxPool>},
      {"sep_conv_3x3", SeparableOf<3>}, {"sep_conv_5x5", SeparableOf<5>}, {"sep_conv_7x7", SeparableOf<7>},
      {"conv_1x7_7x1", RowColumn},
  };
  return operations;
}

class NasBuilder {
 public:
  NasBuilder(NetworkBuilder& net, const NasNetwork& network) : net_(net), network_(network) {}

  // `older` and `newer`: outputs of the two cells before; `older` may be none.
  Value Cell(std::string_view layer, Value older, Value newer, std::int64_t filters, bool reduces) {
    const auto scope = net_.Layer(layer);
    const NasCell& cell = reduces ? *network_.reduction : *network_.normal;
    std::vector<Value> states = {Adjust(older.exists() ? older : newer, older.exists(), newer, filters),
                                 ReluConvBatchNorm(net_, "previous", newer, {filters, {1, 1}, kSame}, kNasNorm)};
    for (std::size_t block = 0; block < cell.blocks.size(); ++block) {
      const auto in_block = net_.Within(fmt::format("block{}", block));
      Value halves[2];
      for (std::size_t half = 0; half < 2; ++half) {
        const NasOperation& operation = cell.blocks[block][half];
        const bool halves_size = reduces && operation.state < 2;
        const std::string name = fmt::format("{}_{}", half == 0 ? "left" : "right", operation.kind);
        halves[half] = Operations().at(operation.kind)(net_, name, states[operation.state], filters,
                                                       halves_size ? kHalveSame : kSame);
      }
      states.push_back(Binary(net_, "add", halves[0], halves[1]));
    }
    std::vector<Value> joined;
    for (const std::size_t state : cell.joined) joined.push_back(states[state]);
    return Concat(net_, joined, kNasChannelAxis);
  }

 private:
  // The older input at the size of the newer one and with `filters` channels. The very first cell has only one input.
  Value Adjust(Value older, bool exists, Value newer, std::int64_t filters) {
    if (!exists) return older;
    if (net_.shape(older)[2] != net_.shape(newer)[2])
      return FactorizedReduction(net_, "before", older, filters, kNasNorm);
    if (net_.shape(older)[1] == filters) return older;
    return ReluConvBatchNorm(net_, "before", older, {filters, {1, 1}, kSame}, kNasNorm);
  }

  NetworkBuilder& net_;
  const NasNetwork& network_;
};

Value NasStem(NetworkBuilder& net, Value images) {
  const auto scope = net.Layer("stem");
  const Sliding halve = {.stride = {2, 2}, .same = false, .dilation = {1, 1}};
  return ConvBatchNorm(net, "conv", images, {kStemFilters, {3, 3}, halve}, kNasNorm);
}

Value Body(NetworkBuilder& net, const NasNetwork& network, Value images, std::int64_t filters, std::int64_t cells) {
  NasBuilder builder(net, network);
  Value older;
  Value newer = NasStem(net, images);
  const auto advance = [&](std::string_view layer, std::int64_t width, bool reduces) {
    const Value next = builder.Cell(layer, older, newer, width, reduces);
    older = newer;
    newer = next;
  };
  advance("stem_reduction0", filters / 4, true);
  advance("stem_reduction1", filters / 2, true);
  for (std::int64_t stack = 0; stack < 3; ++stack, filters *= 2) {
    if (stack > 0) {
      const Value skipped = older;
      advance(fmt::format("reduction{}", stack), filters, true);
      older = skipped;
    }
    for (std::int64_t cell = 0; cell < cells; ++cell)
      advance(fmt::format("stack{}_cell{}", stack, cell), filters, false);
  }
  return newer;
}

}  // namespace

Graph MakeNasNetwork(OptionReader& reader, const NasNetwork& network) {
  ImageOptions images = {.batch = 32, .image_size = 331, .classes = 1000};
  std::int64_t filters = network.filters;
  std::int64_t cells = network.cells_per_stack;
  TrainingOptions training = {.optimizer = "rmsprop", .clip_gradients = true, .average_variables = true};
  ReadImageOptions(reader, &images, 64);
  reader.Read("filters", &filters, 4, 4096,
              "channels inside the cells of the first stack, doubled in each following stack");
  reader.Read("cells", &cells, 1, 64, "normal cells in each of the three stacks");
  ReadTrainingOptions(reader, &training);
  reader.Finish();

  NetworkBuilder net{std::string(network.name)};
  const ImageInputs inputs = AddImageInputs(net, images, /*smoothed_labels=*/true);
  const Value x = Body(net, network, inputs.images, filters, cells);
  Value losses;
  {
    const auto scope = net.Layer("logits");
    losses = ClassifierLoss(net, Unary(net, "relu", x), inputs.labels, images.classes, /*dropout=*/true);
  }
  const auto scope = net.Layer("loss");
  return BuildTrainingGraph(net, Reduce(net, "reduce_mean", losses, {0}), training);
}

}  // namespace emplace::datasets
