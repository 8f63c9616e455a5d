#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "datasets/gradient_rules.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// dy times a derivative that is computed of `saved` on the way.
void AtenGiveProduct(Backward& b, std::size_t i, Value saved) {
  if (!b.Wanted(i)) return;
  const std::string suffix = fmt::format("mul_grad{}", i);
  b.EmitUnbroadcast(i, b.Emit("mul_grad", {b.dy(0), saved}, {b.ShapeOf(b.y(0))}, suffix).front());
}

// Whether every input has the output's shape, or spreads to it. Complex numbers, as pairs, may not.
bool AtenSpreads(const Backward& b) {
  const Shape& y = b.ShapeOf(b.y(0));
  for (std::size_t i = 0; i < b.num_inputs(); ++i) {
    const Shape& x = b.ShapeOf(b.x(i));
    if (x.size() > y.size()) return false;
    for (std::size_t axis = 1; axis <= x.size(); ++axis) {
      if (x[x.size() - axis] != 1 && x[x.size() - axis] != y[y.size() - axis]) return false;
    }
  }
  return true;
}

void AtenOfInput(Backward& b) {
  if (!AtenSpreads(b)) {
    AddAtenBackward(b);
    return;
  }
  for (std::size_t i = 0; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.x(i));
}
void AtenOfOutput(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.y(0));
}
// Where the first input, of truth values, selects.
void AtenOfMask(Backward& b) {
  for (std::size_t i = 1; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.x(0));
}
// masked_fill(x, mask, value)
void AtenMaskedFill(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.num_inputs() > 1 ? b.x(1) : b.y(0));
}

void AtenPass(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) b.EmitUnbroadcast(i, b.dy(0));
}

void AtenCast(Backward& b) {
  if (!b.Wanted(0)) return;
  const DType to = b.TypeOf(b.x(0));
  const Value dy = b.dy(0);
  if (b.TypeOf(dy) == to) {
    b.EmitUnbroadcast(0, dy);
    return;
  }
  const std::string attrs = fmt::format(R"({{"args":["%0"],"kwargs":{{"dtype":{{"dtype":"{}"}}}}}})", Name(to));
  b.EmitUnbroadcast(0, b.EmitCall("aten::_to_copy", attrs, 0, {dy}, {{.dtype = to, .shape = b.ShapeOf(dy)}}).front());
}

void AtenExpand(Backward& b) { b.EmitUnbroadcast(0, b.dy(0)); }

double AtenCount(const Shape& shape) {
  double count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<double>(dim);
  return count;
}

void AtenIndexed(Backward& b) {
  const bool grows = AtenCount(b.ShapeOf(b.x(0))) >= AtenCount(b.ShapeOf(b.y(0)));
  b.EmitFor(0, grows ? "slice_grad" : "broadcast_grad", {b.dy(0)});
}

// The scale and the offset are as long as the channels.
void AtenNorm(Backward& b) {
  AtenGiveProduct(b, 0, b.x(0));
  for (std::size_t i = 1; i < b.num_inputs(); ++i) {
    b.EmitFor(i, b.ShapeOf(b.x(i)).size() == 1 ? "bias_add_grad" : "broadcast_grad", {b.dy(0)},
              fmt::format("bias_add_grad{}", i));
  }
}

void AtenSoftmax(Backward& b) { b.EmitFor(0, "softmax_grad", {b.dy(0), b.y(0)}); }

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups), without a bias.
// convolution_backward(grad_output, input, weight, bias_sizes, stride, .., groups, output_mask) does the forward op's
// work once for each gradient.
void AtenConvolution(Backward& b) {
  if (b.num_inputs() < 2) {  // no call of PyTorch's
    AtenOfInput(b);
    return;
  }
  const auto forward = nlohmann::ordered_json::parse(b.op().attrs).at("args");
  nlohmann::ordered_json args = {"%0", "%1", "%2", nullptr};
  for (std::size_t i = 3; i < forward.size(); ++i) args.push_back(forward[i]);
  args.push_back({b.Wanted(0), b.Wanted(1), false});
  std::vector<NetworkBuilder::Output> outputs;
  std::vector<std::size_t> inputs;
  for (const std::size_t i : {0U, 1U}) {
    if (!b.Wanted(i)) continue;
    inputs.push_back(i);
    outputs.push_back({.dtype = b.TypeOf(b.x(i)), .shape = b.ShapeOf(b.x(i))});
  }
  const std::vector<Value> given =
      b.EmitCall("aten::convolution_backward", nlohmann::ordered_json{{"args", args}}.dump(),
                 static_cast<double>(inputs.size()) * b.op().flop, {b.dy(0), b.x(0), b.x(1)}, std::move(outputs));
  for (std::size_t i = 0; i < given.size(); ++i) b.gradients[inputs[i]].values = given[i];
}

// Arguments of the call that are one tensor each: the op's input for each of them, in order; those of lists are left
// out. Without a description of the call, argument i is input i.
class AtenArguments {
 public:
  explicit AtenArguments(const Backward& b) : num_inputs_(b.num_inputs()) {
    const auto attrs = nlohmann::json::parse(b.op().attrs, nullptr, /*allow_exceptions=*/false);
    if (!attrs.is_object() || !attrs.contains("args") || !attrs["args"].is_array()) return;
    is_described_ = true;
    for (const auto& argument : attrs["args"]) positions_.push_back(InputsIn(argument));
    if (!attrs.contains("kwargs") || !attrs["kwargs"].is_object()) return;
    for (const auto& [name, value] : attrs["kwargs"].items()) names_[name] = InputsIn(value);
  }

  // The inputs that are argument i: none, one, or those of a list.
  std::vector<std::size_t> At(std::size_t i) const {
    if (!is_described_) return i < num_inputs_ ? std::vector<std::size_t>{i} : std::vector<std::size_t>{};
    return i < positions_.size() ? positions_[i] : std::vector<std::size_t>{};
  }
  std::vector<std::size_t> Named(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? std::vector<std::size_t>{} : found->second;
  }

 private:
  std::vector<std::size_t> InputsIn(const nlohmann::json& value) const {
    std::vector<std::size_t> inputs;
    for (const auto& each : value.is_array() ? value : nlohmann::json::array({value})) {
      if (!each.is_string()) continue;
      const auto& text = each.get_ref<const std::string&>();
      std::size_t input = 0;
      const char* const end = text.data() + text.size();
      const bool is_input = text.size() > 1 && text[0] == '%' &&
                            std::from_chars(text.data() + 1, end, input).ptr == end && input < num_inputs_;
      if (is_input) inputs.push_back(input);
    }
    return inputs;
  }

  std::size_t num_inputs_;
  bool is_described_ = false;
  std::vector<std::vector<std::size_t>> positions_;
  std::map<std::string, std::vector<std::size_t>> names_;
};

// The name of an operator's kind: "aten::max" of "aten::max.dim".
std::string_view AtenKindName(std::string_view kind) {
  kind = kind.substr(0, kind.find('.'));
  if (kind.ends_with('_') && !kind.ends_with("__")) kind.remove_suffix(1);
  return kind;
}

// One op that writes the gradients of all inputs that want one, and in any case those of the first `always`.
void AtenBackwardOp(Backward& b, std::vector<Value> inputs, std::string_view kind, std::string attrs, double flop,
                    std::size_t always = 0) {
  std::vector<NetworkBuilder::Output> outputs;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < b.num_inputs(); ++i) {
    if (!b.Wanted(i) && i >= always) continue;
    wanted.push_back(i);
    outputs.push_back({.dtype = b.TypeOf(b.x(i)), .shape = b.ShapeOf(b.x(i))});
  }
  const std::vector<Value> given = b.EmitCall(kind, std::move(attrs), flop, std::move(inputs), std::move(outputs));
  for (std::size_t i = 0; i < given.size(); ++i) b.gradients[wanted[i]].values = given[i];
}

// Fused attention, (q, k, v, ..) to (output, row statistics, ..): (dy, q, k, v, [bias,] output, statistics) to the
// gradients. Five products instead of two: 2.5 times the FLOP (Dao et al. 2022, FlashAttention).
void AtenAttention(Backward& b) {
  if (b.num_inputs() < 3 || b.num_outputs() < 2) {
    AddAtenBackward(b);
    return;
  }
  const std::string_view name = AtenKindName(b.op().kind);
  const AtenArguments arguments(b);
  const auto call = nlohmann::ordered_json::parse(b.op().attrs, nullptr, /*allow_exceptions=*/false);
  const auto argument = [&](std::size_t i) -> nlohmann::ordered_json {
    return call.is_object() && call.contains("args") && i < call["args"].size() ? call["args"][i] : nullptr;
  };
  std::vector<Value> inputs = {b.dy(0), b.x(0), b.x(1), b.x(2)};
  nlohmann::ordered_json args = {"%0", "%1", "%2", "%3"};
  nlohmann::ordered_json kwargs = nlohmann::ordered_json::object();
  const auto pass = [&](Value value) {
    inputs.push_back(value);
    return fmt::format("%{}", inputs.size() - 1);
  };
  const bool has_kwargs = call.is_object() && call.contains("kwargs") && call["kwargs"].is_object();
  if (has_kwargs && call["kwargs"].contains("scale")) kwargs["scale"] = call["kwargs"]["scale"];
  if (name == "aten::_scaled_dot_product_efficient_attention") {
    // (q, k, v, bias, compute_log_sumexp, dropout_p, is_causal); backward (dy, q, k, v, bias, out, logsumexp, seed,
    // offset, dropout_p, wanted[4], is_causal)
    const std::vector<std::size_t> bias = arguments.At(3);
    args.push_back(bias.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(pass(b.x(bias.front()))));
    for (std::size_t i = 0; i < b.num_outputs() && i < 4; ++i) args.push_back(pass(b.y(i)));
    for (std::size_t i = b.num_outputs(); i < 4; ++i) args.push_back(nullptr);
    args.push_back(argument(5));
    args.push_back({b.Wanted(0), b.Wanted(1), b.Wanted(2), !bias.empty() && b.Wanted(bias.front())});
    args.push_back(argument(6));
  } else {
    // (q, k, v, dropout_p, is_causal, attn_mask=..); backward (dy, q, k, v, out, logsumexp, dropout_p, is_causal,
    // attn_mask=..), which is the CPU's; others get what their forward op returns in between.
    args.push_back(pass(b.y(0)));
    args.push_back(pass(b.y(1)));
    if (name == "aten::_scaled_dot_product_flash_attention") {
      for (std::size_t i = 2; i < 6; ++i) args.push_back(nullptr);
    }
    args.push_back(argument(3));
    args.push_back(argument(4));
    for (const std::size_t mask : arguments.Named("attn_mask")) kwargs["attn_mask"] = pass(b.x(mask));
  }
  nlohmann::ordered_json attrs = {{"args", args}};
  if (!kwargs.empty()) attrs["kwargs"] = kwargs;
  AtenBackwardOp(b, std::move(inputs), std::string(name) + "_backward", attrs.dump(), 2.5 * b.op().flop,
                 /*always=*/3);
}

// (x, weight, offsets): dy with the weight's transpose, and x's transpose with dy, in the same groups.
void AtenGroupedProduct(Backward& b) {
  if (b.num_inputs() < 3 || b.ShapeOf(b.x(0)).size() < 2 || b.ShapeOf(b.x(1)).size() < 2) {
    AddAtenBackward(b);
    return;
  }
  const auto transposed = [&](std::size_t i, std::string_view name) {
    Shape shape = b.ShapeOf(b.x(i));
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    return b.Emit("reshape", {b.x(i)}, {shape}, name, b.TypeOf(b.x(i))).front();
  };
  const std::string args = R"({"args":["%0","%1","%2"]})";
  const auto product = [&](std::size_t i, std::vector<Value> inputs) {
    b.gradients[i].values =
        b.EmitCall("aten::_grouped_mm", args, b.op().flop, std::move(inputs),
                   {{.dtype = b.TypeOf(b.x(i)), .shape = b.ShapeOf(b.x(i))}}, fmt::format("grouped_mm_grad{}", i))
            .front();
  };
  if (b.Wanted(0)) product(0, {b.dy(0), transposed(1, "weight"), b.x(2)});
  if (b.Wanted(1)) product(1, {transposed(0, "input"), b.dy(0), b.x(2)});
}

struct SavedTensors {
  std::string_view names;  // separated by spaces, without "aten::"
  std::string_view saved;  // as AtenSavedTensors() says
};
constexpr SavedTensors kSavedTensors[] = {
    {"argmax argmin argsort nonzero multinomial histc bincount searchsorted bucketize eq ne lt le gt ge equal "
     "isnan isinf isfinite logical_and logical_or logical_not logical_xor any all count_nonzero one_hot rand_like "
     "randn_like randint_like rand randn randperm bernoulli isin unique unique2 _unique2 unique_consecutive "
     "unique_dim bitwise_and bitwise_or bitwise_xor bitwise_not zeros_like ones_like full_like empty_like "
     "new_zeros new_ones new_full new_empty sym_size sym_numel sym_stride sym_storage_offset floor_divide "
     "heaviside signbit nextafter isclose empty empty_strided full arange scalar_tensor zeros ones item "
     "_local_scalar_dense embedding_renorm new_empty_strided",
     "-"},
    {"floor ceil round trunc sign fill zero sgn", "0"},
    {"alias view _unsafe_view view_as reshape reshape_as _reshape_alias flatten unflatten ravel squeeze unsqueeze "
     "permute transpose t numpy_T mT mH T H adjoint movedim moveaxis swapaxes swapdims lift_fresh lift_fresh_copy "
     "broadcast_tensors broadcast_to diff trapezoid cumulative_trapezoid clone contiguous view_as_real view_as_complex "
     "real imag conj _conj "
     "conj_physical _conj_physical resolve_conj resolve_neg diagonal diag diag_embed diagonal_scatter select split "
     "split_with_sizes unsafe_split unsafe_split_with_sizes split_copy split_with_sizes_copy chunk unsafe_chunk "
     "tensor_split hsplit vsplit dsplit unbind unfold as_strided narrow narrow_copy select_copy slice_copy "
     "permute_copy view_copy unsqueeze_copy squeeze_copy cat concat concatenate stack hstack vstack dstack "
     "column_stack block_diag meshgrid cumsum neg negative frac rsub positive sum mean nansum trace "
     "repeat_interleave tile rot90 pixel_shuffle pixel_unshuffle channel_shuffle im2col col2im constant_pad_nd pad "
     "_pad_circular _pad_enum affine_grid_generator cartesian_prod upsample_nearest1d upsample_nearest2d "
     "upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
     "upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa "
     "_upsample_bicubic2d_aa _upsample_lanczos2d_aa adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
     "avg_pool1d _fft_c2c _fft_c2r _fft_r2c fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 "
     "fft_irfft2 fft_fftn fft_ifftn fft_rfftn fft_irfftn fft_hfft fft_ihfft fft_fftshift fft_ifftshift "
     "slice_scatter select_scatter as_strided_scatter copy rad2deg deg2rad native_channel_shuffle sum_to_size cast "
     "pin_memory _pin_memory float half double bfloat16 flatten_dense_tensors lu_unpack fliplr flipud",
     ""},
    {"gelu square _adaptive_avg_pool2d _adaptive_avg_pool3d nanmean alpha_dropout feature_dropout "
     "feature_alpha_dropout avg_pool2d "
     "avg_pool3d acosh asinh atanh cosh sinh celu hardshrink "
     "softshrink threshold glu digamma erfc erfinv i0 lgamma log10 logit polygamma mvlgamma nan_to_num sinc "
     "special_entr var var_mean reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
     "replication_pad2d replication_pad3d angle renorm linalg_matrix_exp log_normal special_digamma "
     "special_gammaln special_logit special_erfcx special_i0 cov corrcoef selu softmin xlog1py absolute arccos "
     "arcsin arctan arccosh arcsinh arctanh matrix_exp special_log1p special_sinc special_erf special_erfc rrelu "
     "_sparse_sum",
     "x0"},
    {"relu sigmoid tanh", "y0"},
    {"amax amin quantile nanquantile prod cumprod logcumsumexp logsumexp special_logsumexp norm linalg_norm "
     "linalg_vector_norm "
     "linalg_matrix_norm frobenius_norm nuclear_norm std std_mean linalg_pinv linalg_solve_triangular "
     "_pdist_forward pdist special_i0e special_i1 special_i1e special_log_ndtr log_sigmoid_forward max_pool1d "
     "max_pool2d max_pool3d adaptive_max_pool1d mkldnn_max_pool2d cholesky_inverse pca_lowrank local_response_norm "
     "normalize",
     "x0 y0"},
    {"aminmax", "x0 y0 y1"},
    {"exp2 special_exp2 special_expm1 special_expit special_softmax cholesky linalg_cholesky linalg_cholesky_ex "
     "linalg_inv linalg_inv_ex inverse polar special_ndtri",
     "y0"},
    {"cummax cummin adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
     "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices",
     "x0 y1"},
    {"max min median nanmedian kthvalue mode sort msort topk native_dropout _fused_dropout frexp", "y1"},
    {"embedding masked_scatter index _unsafe_index masked_select take index_put_grad max_unpool2d max_unpool3d "
     "_unsafe_masked_index",
     "x1"},
    {"index_select index_fill scatter scatter_add gather", "x2"},
    {"index_put _index_put_impl _unsafe_index_put addcmul addcdiv addr put baddbmm addbmm addmm addmv "
     "take_along_dim",
     "x1 x2"},
    {"index_add index_copy", "x2 x3"},
    {"mm bmm mv dot vdot inner outer ger matmul linear kron cross linalg_cross tensordot mul multiply div divide "
     "true_divide fmod remainder atan2 arctan2 hypot copysign fmin fmax logaddexp logaddexp2 ldexp xlogy "
     "special_xlogy special_xlog1py lerp complex einsum chain_matmul linalg_multi_dot grid_sampler "
     "grid_sampler_2d grid_sampler_3d prelu _prelu_kernel rrelu_with_noise rrelu_with_noise_functional _weight_norm "
     "float_power mse_loss l1_loss "
     "smooth_l1_loss huber_loss kl_div soft_margin_loss cosine_similarity pairwise_distance poisson_nll_loss "
     "hinge_embedding_loss multilabel_margin_loss igamma igammac sparse_sampled_addmm householder_product "
     "linalg_vecdot triangular_solve linalg_matmul combinations conv_tbc "
     "_conv_depthwise2d conv_depthwise3d _convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
     "conv_transpose3d cudnn_convolution mkldnn_convolution convolution_overrideable avg_pool2d_backward "
     "max_pool2d_with_indices_backward embedding_dense_backward _adaptive_avg_pool2d_backward",
     "x0 x1"},
    {"binary_cross_entropy binary_cross_entropy_with_logits nll_loss nll_loss_nd nll_loss2d cross_entropy_loss "
     "cosine_embedding_loss margin_ranking_loss triplet_margin_loss multi_margin_loss bilinear _trilinear "
     "convolution_backward",
     "x0 x1 x2"},
    {"nll_loss_forward nll_loss2d_forward", "x0 x1 x2 y1"},
    {"_cdist_forward cdist _euclidean_dist dist linalg_solve linalg_lstsq linalg_lu_solve cholesky_solve "
     "linalg_householder_product",
     "x0 x1 y0"},
    {"_weight_norm_interface multilabel_margin_loss_forward", "x0 x1 y1"},
    {"_ctc_loss ctc_loss", "x0 x1 y0 y1"},
    {"scatter_reduce index_reduce", "x0 x2 x3 y0"},
    {"_fused_rms_norm", "x0 x2 y1"},
    {"native_layer_norm", "x0 x2 x3 y1 y2"},
    {"native_group_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
     "_batch_norm_with_update _batch_norm_with_update_functional cudnn_batch_norm",
     "x0 x1 y1 y2"},
    {"_native_batch_norm_legit_no_training _batch_norm_no_update", "x0 x1 x3 x4"},
    {"_embedding_bag embedding_bag _embedding_bag_forward_only", "x1 x2 y1 y2"},
    {"_thnn_fused_gru_cell", "x0 x1 x2 x3 x4 y1"},
    {"_thnn_fused_lstm_cell", "x0 x1 x2 x3 x4 y1 y2"},
    {"gru rnn_tanh rnn_relu lstm", "x0 x2 y0"},
    {"scaled_dot_product_attention", "x0 x1 x2 y0"},
    {"lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", "x0 x1 x2 x3 y0"},
    {"linalg_eigh _linalg_eigh linalg_eig linalg_qr qr linalg_lu_factor linalg_lu_factor_ex linalg_svdvals", "y0 y1"},
    {"linalg_svd _linalg_svd svd linalg_lu", "y0 y1 y2"},
    {"linalg_det det _linalg_det slogdet linalg_slogdet _linalg_slogdet logdet _linalg_solve_ex linalg_solve_ex",
     "x0 y0 y1 y2"},
    {"native_layer_norm_backward native_group_norm_backward", "x0 x1 x3 x4 x5"},
};

constexpr GradientRule kAtenRules[] = {
    {"aten::abs", AtenOfInput},
    {"aten::acos", AtenOfInput},
    {"aten::asin", AtenOfInput},
    {"aten::atan", AtenOfInput},
    {"aten::clamp", AtenOfInput},
    {"aten::clamp_max", AtenOfInput},
    {"aten::clamp_min", AtenOfInput},
    {"aten::cos", AtenOfInput},
    {"aten::elu", AtenOfOutput},
    {"aten::erf", AtenOfInput},
    {"aten::exp", AtenOfOutput},
    {"aten::expm1", AtenOfOutput},
    {"aten::hardsigmoid", AtenOfInput},
    {"aten::hardswish", AtenOfInput},
    {"aten::hardtanh", AtenOfInput},
    {"aten::leaky_relu", AtenOfInput},
    {"aten::log", AtenOfInput},
    {"aten::log1p", AtenOfInput},
    {"aten::log2", AtenOfInput},
    {"aten::log_sigmoid", AtenOfInput},
    {"aten::maximum", AtenOfInput},
    {"aten::minimum", AtenOfInput},
    {"aten::mish", AtenOfInput},
    {"aten::pow", AtenOfInput},
    {"aten::reciprocal", AtenOfOutput},
    {"aten::relu6", AtenOfInput},
    {"aten::rsqrt", AtenOfOutput},
    {"aten::silu", AtenOfInput},
    {"aten::sin", AtenOfInput},
    {"aten::softplus", AtenOfInput},
    {"aten::sqrt", AtenOfOutput},
    {"aten::tan", AtenOfOutput},
    {"aten::where", AtenOfMask},
    {"aten::masked_fill", AtenMaskedFill},
    {"aten::tril", AtenOfOutput},
    {"aten::triu", AtenOfOutput},
    {"aten::add", AtenPass},
    {"aten::sub", AtenPass},
    {"aten::_to_copy", AtenCast},
    {"aten::to", AtenCast},
    {"aten::type_as", AtenCast},
    {"aten::expand", AtenExpand},
    {"aten::expand_as", AtenExpand},
    {"aten::expand_copy", AtenExpand},
    {"aten::repeat", AtenIndexed},
    {"aten::slice", AtenIndexed},
    {"aten::flip", AtenIndexed},
    {"aten::roll", AtenIndexed},
    {"aten::group_norm", AtenNorm},
    {"aten::instance_norm", AtenNorm},
    {"aten::layer_norm", AtenNorm},
    {"aten::rms_norm", AtenNorm},
    {"aten::batch_norm", AtenNorm},
    {"aten::softmax", AtenSoftmax},
    {"aten::log_softmax", AtenSoftmax},
    {"aten::_softmax", AtenSoftmax},
    {"aten::_log_softmax", AtenSoftmax},
    {"aten::_safe_softmax", AtenSoftmax},
    {"aten::convolution", AtenConvolution},
    {"aten::_scaled_dot_product_flash_attention", AtenAttention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", AtenAttention},
    {"aten::_scaled_dot_product_efficient_attention", AtenAttention},
    {"aten::_grouped_mm", AtenGroupedProduct},
    {"transformers::grouped_mm_fallback", AtenGroupedProduct},
};

}  // namespace

std::span<const GradientRule> AtenGradientRules() { return kAtenRules; }

std::optional<std::string_view> AtenSavedTensors(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> by_name = [] {
    std::unordered_map<std::string_view, std::string_view> rows;
    for (const SavedTensors& row : kSavedTensors) {
      for (std::string_view rest = row.names; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        rows.emplace(rest.substr(0, end), row.saved);
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    return rows;
  }();
  constexpr std::string_view kSpace = "aten::";
  if (!name.starts_with(kSpace)) return std::nullopt;
  const auto found = by_name.find(name.substr(kSpace.size()));
  return found == by_name.end() ? std::nullopt : std::optional(found->second);
}

void AddAtenBackward(Backward& b) {
  const std::string_view name = AtenKindName(b.op().kind);
  const std::optional<std::string_view> saved = AtenSavedTensors(name);
  if (saved == "-") return;
  if (saved == "0") {
    for (std::size_t i = 0; i < b.num_inputs(); ++i) b.EmitFor(i, "fill", {}, fmt::format("fill{}", i));
    return;
  }
  std::vector<Value> inputs;
  const auto read = [&](Value value) {
    if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) inputs.push_back(value);
  };
  for (std::size_t i = 0; i < b.num_outputs(); ++i) {
    if (b.has_dy(i)) read(b.dy(i));
  }
  double factors = 0;  // that get a gradient, each of which is a product as large as the forward op's
  const auto read_inputs = [&](const std::vector<std::size_t>& positions) {
    for (const std::size_t input : positions) read(b.x(input));
    factors += std::any_of(positions.begin(), positions.end(), [&](std::size_t i) { return b.Wanted(i); }) ? 1 : 0;
  };
  bool is_listed = saved.has_value();
  if (saved == "y1" && b.num_outputs() < 2) is_listed = false;  // max of all, which has no positions
  if (is_listed) {
    const AtenArguments arguments(b);
    for (std::string_view rest = *saved; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      std::size_t i = 0;
      std::from_chars(word.data() + 1, word.data() + word.size(), i);
      if (word[0] == 'y') {
        if (i < b.num_outputs()) read(b.y(i));
        continue;
      }
      read_inputs(arguments.At(i));
    }
  } else {
    for (std::size_t i = 0; i < b.num_inputs(); ++i) read_inputs({i});
    if (saved) read(b.y(0));
  }
  AtenBackwardOp(b, std::move(inputs), std::string(name) + "_backward", "", factors * b.op().flop);
}

}  // namespace emplace::datasets
