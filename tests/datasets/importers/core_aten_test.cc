#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/gradient_rules.h"
#include "datasets/gradients.h"
#include "datasets/importers/registry.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"
#include "tests/datasets/importers/pt2_archive.h"
#include "tests/datasets/importers/samples.h"

// Every operator of PyTorch's core ATen IR has a rule for its work and for its gradient.
namespace emplace::testing {
namespace {

// The overloads with torch.Tag.core in PyTorch 2.13.
constexpr const char* kCoreOverloads =
    "_adaptive_avg_pool2d.default _adaptive_avg_pool2d_backward.default _adaptive_avg_pool3d.default "
    "_cdist_forward.default _embedding_bag.default _fft_c2r.default _fft_r2c.default _local_scalar_dense.default "
    "_log_softmax.default _native_batch_norm_legit.default _native_batch_norm_legit.no_stats "
    "_native_batch_norm_legit_no_training.default _pdist_forward.default _softmax.default _to_copy.default "
    "abs.default acos.default acosh.default add.Scalar add.Tensor addmm.default alias.default amax.default "
    "amin.default any.default any.dim any.dims arange.start_step argmax.default argmin.default as_strided.default "
    "asin.default asinh.default atan.default atan2.default atan2.out atanh.default avg_pool2d.default "
    "avg_pool2d_backward.default avg_pool3d.default bitwise_and.Scalar bitwise_and.Tensor bitwise_not.default "
    "bitwise_or.Scalar bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor bmm.default cat.default "
    "ceil.default clamp.Tensor clamp.default clone.default col2im.default constant_pad_nd.default "
    "convolution.default convolution_backward.default copy.default cos.default cosh.default cumsum.default "
    "diagonal.default div.Scalar div.Scalar_mode div.Tensor div.Tensor_mode elu.default embedding.default "
    "embedding_dense_backward.default empty.memory_format empty_strided.default eq.Scalar eq.Tensor erf.default "
    "exp.default expand.default expm1.default fill.Scalar flip.default floor.default fmod.Scalar fmod.Tensor "
    "full.default full_like.default gather.default ge.Scalar ge.Tensor gelu.default grid_sampler_2d.default "
    "gt.Scalar gt.Tensor hardtanh.default index.Tensor index_put.default index_select.default isinf.default "
    "isnan.default le.Scalar le.Tensor leaky_relu.default log.default log10.default log1p.default log2.default "
    "logical_and.default logical_not.default logical_or.default logical_xor.default lt.Scalar lt.Tensor "
    "masked_scatter.default max.dim max_pool2d_with_indices.default max_pool2d_with_indices_backward.default "
    "max_pool3d_with_indices.default maximum.default mean.default mean.dim min.dim minimum.default mm.default "
    "mul.Scalar mul.Tensor native_dropout.default native_group_norm.default native_group_norm_backward.default "
    "native_layer_norm.default native_layer_norm_backward.default ne.Scalar ne.Tensor neg.default nonzero.default "
    "permute.default pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod.default prod.dim_int rand.default "
    "randn.default randperm.default reciprocal.default reflection_pad1d.default reflection_pad2d.default "
    "reflection_pad3d.default relu.default remainder.Scalar remainder.Tensor repeat.default "
    "replication_pad2d.default replication_pad3d.default round.default rsqrt.default scalar_tensor.default "
    "scatter.src scatter.value scatter_add.default scatter_reduce.two select.int select_scatter.default "
    "sigmoid.default sign.default sin.default sinh.default slice.Tensor slice_scatter.default sort.default "
    "split_with_sizes.default sqrt.default squeeze.dim squeeze.dims sub.Scalar sub.Tensor sum.dim_IntList "
    "sym_numel.default sym_size.int sym_storage_offset.default sym_stride.int tan.default tanh.default "
    "topk.default trunc.default unsqueeze.default upsample_bilinear2d.vec upsample_nearest2d.vec var.correction "
    "var.dim view.default where.self ";

// Those without a gradient, and why.
const std::map<std::string, std::string>& NotDifferentiable() {
  static const std::map<std::string, std::string> reasons = [] {
    std::map<std::string, std::string> all;
    const auto add = [&](const std::string& names, const std::string& reason) {
      std::istringstream words(names);
      for (std::string name; words >> name;) all.emplace(name, reason);
    };
    add("any eq ge gt isinf isnan le logical_and logical_not logical_or logical_xor lt ne", "truth values");
    add("argmax argmin bitwise_and bitwise_not bitwise_or bitwise_xor nonzero", "whole numbers");
    add("sym_numel sym_size sym_storage_offset sym_stride _local_scalar_dense", "a number and no tensor");
    add("arange empty empty_strided full full_like rand randn randperm scalar_tensor", "no input that it depends on");
    return all;
  }();
  return reasons;
}

std::vector<std::string> CoreOverloads() {
  std::istringstream words(kCoreOverloads);
  std::vector<std::string> overloads;
  for (std::string word; words >> word;) overloads.push_back(word);
  return overloads;
}

std::string NameIn(const std::string& overload) { return overload.substr(0, overload.find('.')); }

TEST(CoreAtenTest, EveryOperatorHasAClassOfWork) {
  std::set<std::string> names;
  for (const std::string& overload : CoreOverloads()) {
    names.insert(NameIn(overload));
    EXPECT_TRUE(AtenClass("aten::" + NameIn(overload)).has_value()) << overload;
  }
  EXPECT_EQ(CoreOverloads().size(), 189U);
  EXPECT_EQ(names.size(), 160U);
}

TEST(CoreAtenTest, EveryOperatorHasAGradientOrAReasonNotTo) {
  std::size_t differentiable = 0;
  std::set<std::string> names;
  for (const std::string& overload : CoreOverloads()) {
    const std::string name = NameIn(overload);
    if (!names.insert(name).second) continue;
    const bool is_not = NotDifferentiable().contains(name);
    EXPECT_TRUE(datasets::HasOwnGradientRule("aten::" + overload)) << overload;
    EXPECT_EQ(datasets::AtenSavedTensors("aten::" + name) == "-", is_not) << name;
    differentiable += is_not ? 0 : 1;
  }
  for (const auto& [name, reason] : NotDifferentiable()) EXPECT_TRUE(names.contains(name)) << name << ": " << reason;
  EXPECT_EQ(differentiable, 160U - NotDifferentiable().size());
}

// tests/testing/make_pt2.py calls all but those that give no tensor, that write to an argument, or that have a batch
// norm's statistics as arguments which they write to.
TEST(CoreAtenTest, AProgramThatCallsThemAllIsATrainingStepWithTimes) {
  std::set<std::string> called;
  const std::string program = Pt2Program("2.13/core");
  for (const std::string& overload : CoreOverloads()) {
    if (program.find("\"torch.ops.aten." + overload + "\"") != std::string::npos) called.insert(overload);
  }
  std::set<std::string> missing;
  for (const std::string& overload : CoreOverloads()) {
    if (!called.contains(overload)) missing.insert(overload);
  }
  EXPECT_EQ(missing,
            (std::set<std::string>{"_local_scalar_dense.default", "_native_batch_norm_legit.default", "atan2.out",
                                   "sym_numel.default", "sym_storage_offset.default", "sym_stride.int"}));
  const datasets::ImportSource source(Pt2Sample("2.13/core"));
  datasets::ImportOptions options;
  options.training = "sgd";
  const Graph graph = datasets::Import(datasets::FindImporter("torch-export", "", "f"), {&source, 1}, options).graph;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    std::string why;
    EXPECT_TRUE(FindOpKind(graph.op(id).kind) != nullptr || FindAtenWork(graph, id, &why).has_value())
        << graph.op(id).name << ": " << why;
  }
  EXPECT_TRUE(graph.FindOp("update/weight/sgd").has_value());
}

}  // namespace
}  // namespace emplace::testing
