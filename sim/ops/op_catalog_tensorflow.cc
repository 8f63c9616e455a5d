#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// Operators of TensorFlow that the catalogue has no kind of its own for, with the operator's name and attributes.
// Inputs that are known before the step are not among the op's inputs.

double LargestInput(const OpView& view) {
  double largest = 0;
  for (std::size_t i = 0; i < view.num_inputs(); ++i) largest = std::max(largest, Elements(view.in(i)));
  return largest;
}

// This many FLOP for each element of the first output.
template <OpClass kClass, int kFlop>
OpWork TfPerOutput(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(kClass, kFlop * Elements(view.out(0)), view.AllBytes());
}

// This many FLOP for each element of the largest input.
template <OpClass kClass, int kFlop>
OpWork TfPerInput(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(kClass, kFlop * LargestInput(view), view.AllBytes());
}

OpWork TfNothing(const Graph&, OpId) { return {}; }

// Reads and writes what it gives.
OpWork TfCopy(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(OpClass::kCopy, 0, view.AllBytes());
}

OpWork TfSlice(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(OpClass::kCopy, 0, 2 * view.out_bytes(0));
}

OpWork TfGather(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  return MakeWork(OpClass::kGather, 0, 2 * view.out_bytes(0));
}

// (n - 1) for each element: of n inputs.
OpWork TfSum(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const auto others = static_cast<double>(view.num_inputs()) - 1;
  return MakeWork(OpClass::kElementwise, std::max(others, 0.0) * Elements(view.out(0)), view.AllBytes());
}

// Factors of any rank, which broadcast, each of them transposed or not.
OpWork TfProduct(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const bool turned = view.Flag("transpose_a", false) || view.Flag("adj_x", false);
  view.Expect(view.num_inputs() >= 1, "it has a factor");
  const ShapeView a = view.in(0);
  view.Expect(a.size() >= 2, "a has rank 2 or more");
  const auto k = static_cast<double>(a[a.size() - (turned ? 2 : 1)]);
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(view.out(0)) * k, view.AllBytes());
}

// Taps of a filter [spatial.., C / groups, K], or of a depthwise one [spatial.., C, M], for each output channel.
template <bool kDepthwise>
double TapsOf(ShapeView filter) {
  return Elements(filter.first(filter.size() - (kDepthwise ? 2 : 1)));
}

// (x, w) -> y.
template <bool kDepthwise>
OpWork TfConvolution(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() >= 2 && view.in(1).size() >= 3, "inputs are an image and a filter of rank 3 or more");
  return MakeWork(OpClass::kConvolution, 2 * Elements(view.out(0)) * TapsOf<kDepthwise>(view.in(1)), view.AllBytes());
}
// (w, dy) -> dx.
template <bool kDepthwise>
OpWork TfConvolutionInput(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() == 2 && view.in(0).size() >= 3, "inputs are a filter of rank 3 or more and dy");
  return MakeWork(OpClass::kConvolution, 2 * Elements(view.in(1)) * TapsOf<kDepthwise>(view.in(0)), view.AllBytes());
}
// (x, dy) -> dw.
template <bool kDepthwise>
OpWork TfConvolutionFilter(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() == 2 && view.out(0).size() >= 3,
              "inputs are an image and dy, of a filter of rank 3 or more");
  return MakeWork(OpClass::kConvolution, 2 * Elements(view.in(1)) * TapsOf<kDepthwise>(view.out(0)), view.AllBytes());
}

// For each number in the window, of each element of the smaller image.
OpWork TfPool(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  double window = 1;
  for (const std::int64_t size : view.Integers("ksize")) window *= static_cast<double>(size);
  double smaller = Elements(view.out(0));
  for (std::size_t i = 0; i < view.num_inputs(); ++i) smaller = std::min(smaller, Elements(view.in(i)));
  return MakeWork(OpClass::kReduction, window * smaller, view.AllBytes());
}

// x [T,N,I] or [N,I], weights [I+H, 4H]: each row times the weights; what the gates do besides is not counted.
OpWork TfRecurrentBlock(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const ShapeView y = view.out(0);
  view.Expect(!y.empty(), "the output has cells");
  double weights = 0;
  for (std::size_t i = 0; i < view.num_inputs(); ++i) {
    if (view.in(i).size() == 2) weights = std::max(weights, Elements(view.in(i)));
  }
  return MakeWork(OpClass::kMatrixProduct, 2 * Elements(y.first(y.size() - 1)) * weights, view.AllBytes());
}

// An update reads the weights, what changes them and its own state, and writes weights and state: `flop` for each
// element of what changes them.
template <OpClass kClass, int kFlop>
OpWork TfUpdate(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  view.Expect(view.num_inputs() >= 2, "inputs are weights and what changes them");
  const double state = static_cast<double>(graph.op(op).persistent.count);
  return MakeWork(kClass, kFlop * Elements(view.in(1)),
                  view.in_bytes(1) * (kClass == OpClass::kGather ? 3 : 1) +
                      (kClass == OpClass::kGather ? 0 : 2 * view.in_bytes(0) + 2 * state));
}

constexpr OpClass kTfElementwise = OpClass::kElementwise;
constexpr OpClass kTfReduction = OpClass::kReduction;

struct TfNames {
  OpKind row;  // without a name
  std::vector<std::string_view> names;
};

const std::vector<OpKind>& TensorFlowRows() {
  static const std::vector<OpKind> rows = [] {
    const std::array names = {
        TfNames{{"", kTfElementwise, "E", TfPerOutput<kTfElementwise, 1>},
                {"tf::Abs",
                 "tf::Add",
                 "tf::AddV2",
                 "tf::ApproximateEqual",
                 "tf::BiasAdd",
                 "tf::Ceil",
                 "tf::Cos",
                 "tf::Div",
                 "tf::DivNoNan",
                 "tf::Equal",
                 "tf::Erf",
                 "tf::Erfc",
                 "tf::Exp",
                 "tf::Expm1",
                 "tf::Floor",
                 "tf::FloorDiv",
                 "tf::FloorMod",
                 "tf::Greater",
                 "tf::GreaterEqual",
                 "tf::InvGrad",
                 "tf::IsFinite",
                 "tf::IsInf",
                 "tf::IsNan",
                 "tf::Less",
                 "tf::LessEqual",
                 "tf::Log",
                 "tf::Log1p",
                 "tf::LogicalAnd",
                 "tf::LogicalNot",
                 "tf::LogicalOr",
                 "tf::Maximum",
                 "tf::Minimum",
                 "tf::Mod",
                 "tf::Mul",
                 "tf::MulNoNan",
                 "tf::Neg",
                 "tf::NotEqual",
                 "tf::Pow",
                 "tf::RealDiv",
                 "tf::Reciprocal",
                 "tf::Relu",
                 "tf::Relu6",
                 "tf::Relu6Grad",
                 "tf::ReluGrad",
                 "tf::Rint",
                 "tf::Round",
                 "tf::Rsqrt",
                 "tf::Select",
                 "tf::SelectV2",
                 "tf::Sign",
                 "tf::Sin",
                 "tf::Sqrt",
                 "tf::Square",
                 "tf::Sub",
                 "tf::Tan",
                 "tf::Tanh",
                 "tf::TruncateDiv",
                 "tf::RandomUniform",
                 "tf::RandomStandardNormal",
                 "tf::TruncatedNormal",
                 "tf::StatelessRandomUniform",
                 "tf::StatelessRandomUniformV2",
                 "tf::StatelessRandomNormal",
                 "tf::StatelessRandomNormalV2",
                 "tf::RandomUniformInt",
                 "tf::Cumsum",
                 "tf::Cumprod"}},
        TfNames{{"", kTfElementwise, "2*E", TfPerOutput<kTfElementwise, 2>},
                {"tf::ClipByValue", "tf::LeakyRelu", "tf::LeakyReluGrad", "tf::SquaredDifference", "tf::Softplus",
                 "tf::Softsign", "tf::Xdivy", "tf::Xlogy", "tf::SqrtGrad", "tf::SoftplusGrad", "tf::SoftsignGrad"}},
        TfNames{
            {"", kTfElementwise, "3*E", TfPerOutput<kTfElementwise, 3>},
            {"tf::RsqrtGrad", "tf::SigmoidGrad", "tf::TanhGrad", "tf::EluGrad", "tf::SeluGrad", "tf::ReciprocalGrad"}},
        TfNames{{"", kTfElementwise, "4*E", TfPerOutput<kTfElementwise, 4>}, {"tf::Elu", "tf::Selu", "tf::Sigmoid"}},
        TfNames{{"", kTfElementwise, "(n - 1)*E of n tensors", TfSum}, {"tf::AddN", "tf::AccumulateNV2"}},
        TfNames{{"", kTfReduction, "elements of x", TfPerInput<kTfReduction, 1>},
                {"tf::All", "tf::Any", "tf::ArgMax", "tf::ArgMin", "tf::BiasAddGrad", "tf::Max", "tf::Mean", "tf::Min",
                 "tf::Prod", "tf::Sum", "tf::TopKV2", "tf::UnsortedSegmentSum", "tf::UnsortedSegmentMax",
                 "tf::SegmentSum"}},
        TfNames{{"", kTfReduction, "2 * elements of x", TfPerInput<kTfReduction, 2>},
                {"tf::EuclideanNorm", "tf::L2Loss"}},
        TfNames{{"", kTfReduction, "5*E; maximum, difference, exp, sum, division", TfPerOutput<kTfReduction, 5>},
                {"tf::Softmax"}},
        TfNames{{"", kTfReduction, "6*E; as softmax, with a log", TfPerOutput<kTfReduction, 6>}, {"tf::LogSoftmax"}},
        TfNames{{"", kTfReduction, "7 * elements of the logits: softmax, and its difference with the labels",
                 TfPerInput<kTfReduction, 7>},
                {"tf::SoftmaxCrossEntropyWithLogits", "tf::SparseSoftmaxCrossEntropyWithLogits"}},
        TfNames{{"", kTfReduction, "8*E; mean, variance, scale and offset", TfPerOutput<kTfReduction, 8>},
                {"tf::FusedBatchNorm", "tf::FusedBatchNormV2", "tf::FusedBatchNormV3", "tf::LRN"}},
        TfNames{{"", kTfReduction, "13*E", TfPerOutput<kTfReduction, 13>},
                {"tf::FusedBatchNormGrad", "tf::FusedBatchNormGradV2", "tf::FusedBatchNormGradV3", "tf::LRNGrad"}},
        TfNames{{"", kTfReduction, "window * elements of the smaller image", TfPool},
                {"tf::AvgPool", "tf::AvgPool3D", "tf::AvgPool3DGrad", "tf::AvgPoolGrad", "tf::MaxPool", "tf::MaxPool3D",
                 "tf::MaxPool3DGrad", "tf::MaxPoolGrad"}},
        TfNames{{"", OpClass::kMatrixProduct, "(a, b), broadcast, transposed or not: 2*E*K", TfProduct},
                {"tf::BatchMatMul", "tf::BatchMatMulV2", "tf::BatchMatMulV3", "tf::MatMul", "tf::_FusedMatMul"}},
        TfNames{{"", OpClass::kMatrixProduct, "(n tensors): n for each combination of the letters", EinsumWork},
                {"tf::Einsum"}},
        TfNames{{"", OpClass::kMatrixProduct, "2 * rows * elements of the weights", TfRecurrentBlock},
                {"tf::BlockLSTM", "tf::BlockLSTMV2", "tf::GRUBlockCell", "tf::LSTMBlockCell"}},
        TfNames{{"", OpClass::kConvolution, "(x, w): 2 * E * elements of w / K", TfConvolution<false>},
                {"tf::Conv2D", "tf::Conv3D", "tf::_FusedConv2D"}},
        TfNames{{"", OpClass::kConvolution, "(x, w): 2 * E * taps", TfConvolution<true>},
                {"tf::DepthwiseConv2dNative"}},
        TfNames{
            {"", OpClass::kConvolution, "(w, dy): 2 * elements of dy * elements of w / K", TfConvolutionInput<false>},
            {"tf::Conv2DBackpropInput", "tf::Conv3DBackpropInputV2"}},
        TfNames{{"", OpClass::kConvolution, "(w, dy): 2 * elements of dy * taps", TfConvolutionInput<true>},
                {"tf::DepthwiseConv2dNativeBackpropInput"}},
        TfNames{
            {"", OpClass::kConvolution, "(x, dy): 2 * elements of dy * elements of dw / K", TfConvolutionFilter<false>},
            {"tf::Conv2DBackpropFilter", "tf::Conv3DBackpropFilterV2"}},
        TfNames{{"", OpClass::kConvolution, "(x, dy): 2 * elements of dy * taps", TfConvolutionFilter<true>},
                {"tf::DepthwiseConv2dNativeBackpropFilter"}},
        TfNames{{"", OpClass::kGather, "0 flop; reads the rows that it writes", TfGather},
                {"tf::Gather", "tf::GatherNd", "tf::GatherV2", "tf::ResourceGather"}},
        TfNames{{"", OpClass::kCopy, "0 flop; reads only what it writes", TfSlice}, {"tf::Slice", "tf::StridedSlice"}},
        TfNames{{"", OpClass::kOptimizer, "(w, g): 2 * elements of g", TfUpdate<OpClass::kOptimizer, 2>},
                {"tf::ApplyGradientDescent", "tf::ResourceApplyGradientDescent"}},
        TfNames{{"", OpClass::kOptimizer, "(w, d): elements of d", TfUpdate<OpClass::kOptimizer, 1>},
                {"tf::Assign", "tf::AssignAdd", "tf::AssignAddVariableOp", "tf::AssignSub", "tf::AssignSubVariableOp",
                 "tf::AssignVariableOp"}},
        TfNames{{"", OpClass::kOptimizer, "(w, g): 4 * elements of g", TfUpdate<OpClass::kOptimizer, 4>},
                {"tf::ApplyAdagrad", "tf::ApplyAdagradV2", "tf::ApplyMomentum", "tf::ResourceApplyAdagrad",
                 "tf::ResourceApplyAdagradV2", "tf::ResourceApplyKerasMomentum", "tf::ResourceApplyMomentum"}},
        TfNames{{"", OpClass::kOptimizer, "(w, g): 12 * elements of g", TfUpdate<OpClass::kOptimizer, 12>},
                {"tf::ApplyAdadelta", "tf::ApplyAdam", "tf::ApplyFtrl", "tf::ApplyRMSProp", "tf::ResourceApplyAdadelta",
                 "tf::ResourceApplyAdam", "tf::ResourceApplyAdamWithAmsgrad", "tf::ResourceApplyCenteredRMSProp",
                 "tf::ResourceApplyFtrl", "tf::ResourceApplyRMSProp"}},
        TfNames{{"", OpClass::kGather, "(w, g, rows): 4 * elements of g", TfUpdate<OpClass::kGather, 4>},
                {"tf::ResourceScatterAdd", "tf::ResourceScatterSub", "tf::ResourceScatterUpdate",
                 "tf::ResourceSparseApplyAdagrad", "tf::ResourceSparseApplyAdagradV2",
                 "tf::ResourceSparseApplyKerasMomentum", "tf::ResourceSparseApplyMomentum", "tf::ScatterAdd",
                 "tf::ScatterSub", "tf::ScatterUpdate", "tf::SparseApplyAdagrad", "tf::SparseApplyMomentum"}},
        TfNames{{"", OpClass::kNone, "0", TfNothing},
                {"tf::BroadcastGradientArgs", "tf::ExpandDims", "tf::Identity", "tf::NoOp", "tf::Rank", "tf::Reshape",
                 "tf::Shape", "tf::ShapeN", "tf::Size", "tf::Squeeze", "tf::VariableShape"}},
        TfNames{{"", OpClass::kCopy, "0 flop; reads and writes every byte", TfCopy},
                {"tf::BatchToSpaceND",
                 "tf::BroadcastTo",
                 "tf::Cast",
                 "tf::Bitcast",
                 "tf::ConcatV2",
                 "tf::DepthToSpace",
                 "tf::DynamicPartition",
                 "tf::DynamicStitch",
                 "tf::Fill",
                 "tf::MatrixBandPart",
                 "tf::MirrorPad",
                 "tf::OneHot",
                 "tf::OnesLike",
                 "tf::Pack",
                 "tf::Pad",
                 "tf::PadV2",
                 "tf::Range",
                 "tf::Reverse",
                 "tf::ReverseSequence",
                 "tf::ReverseV2",
                 "tf::Roll",
                 "tf::ScatterNd",
                 "tf::SpaceToBatchND",
                 "tf::SpaceToDepth",
                 "tf::Split",
                 "tf::SplitV",
                 "tf::StridedSliceGrad",
                 "tf::TensorScatterAdd",
                 "tf::TensorScatterUpdate",
                 "tf::Tile",
                 "tf::Transpose",
                 "tf::Unpack",
                 "tf::Where",
                 "tf::ZerosLike"}},
    };
    std::vector<OpKind> all;
    for (const TfNames& group : names) {
      for (const std::string_view name : group.names) {
        OpKind row = group.row;
        row.name = name;
        all.push_back(row);
      }
    }
    std::sort(all.begin(), all.end(), [](const OpKind& a, const OpKind& b) { return a.name < b.name; });
    return all;
  }();
  return rows;
}

}  // namespace

std::span<const OpKind> TensorFlowKinds() { return TensorFlowRows(); }

const OpKind& OtherTensorFlowKind() {
  static constexpr OpKind kOther{"tf::", OpClass::kCopy, "0 flop; reads and writes every byte", TfCopy};
  return kOther;
}

}  // namespace emplace
