#include "sim/ops/op_catalog_parts.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// Instructions of XLA that the catalogue has no kind of its own for. FLOP are those of the op, as the importer counts
// them from the shapes, windows and computations of the program. Attr `moved_bytes`: bytes of an op that moves parts of
// its tensors.
template <OpClass kClass>
OpWork StatedWork(const Graph& graph, OpId op) {
  const OpView view(graph, op);
  const std::int64_t moved = view.Integer("moved_bytes", -1);
  return MakeWork(kClass, graph.op(op).flop, moved >= 0 ? static_cast<double>(moved) : view.AllBytes());
}

constexpr std::string_view kOneEach = "(tensors): E";
constexpr std::string_view kHloMoves = "(tensors): 0 flop";
constexpr std::string_view kStated = "(tensors): the op's flop";

template <OpClass kClass>
constexpr OpKind HloRow(std::string_view name, std::string_view formula) {
  return {name, kClass, formula, StatedWork<kClass>};
}
constexpr auto kHloEach = HloRow<OpClass::kElementwise>;
constexpr auto kHloCopy = HloRow<OpClass::kCopy>;
constexpr auto kHloGather = HloRow<OpClass::kGather>;
constexpr auto kHloReduction = HloRow<OpClass::kReduction>;
constexpr auto kHloProduct = HloRow<OpClass::kMatrixProduct>;
constexpr auto kHloConvolution = HloRow<OpClass::kConvolution>;

constexpr OpKind kHloKinds[] = {
    kHloEach("hlo::abs", kOneEach),
    kHloEach("hlo::acos", kOneEach),
    kHloEach("hlo::acosh", kOneEach),
    kHloEach("hlo::add", kOneEach),
    kHloCopy("hlo::all_gather", kHloMoves),
    kHloCopy("hlo::all_gather_done", kHloMoves),
    kHloCopy("hlo::all_gather_start", kHloMoves),
    kHloEach("hlo::all_reduce", kStated),
    kHloCopy("hlo::all_reduce_done", kHloMoves),
    kHloEach("hlo::all_reduce_start", kStated),
    kHloCopy("hlo::all_to_all", kHloMoves),
    kHloEach("hlo::and", kOneEach),
    kHloEach("hlo::asin", kOneEach),
    kHloEach("hlo::asinh", kOneEach),
    kHloCopy("hlo::async_done", kHloMoves),
    kHloEach("hlo::async_start", kStated),
    kHloCopy("hlo::async_update", kHloMoves),
    kHloEach("hlo::atan", kOneEach),
    kHloEach("hlo::atan2", kOneEach),
    kHloEach("hlo::atanh", kOneEach),
    kHloEach("hlo::bessel_i1e", kOneEach),
    kHloCopy("hlo::bitcast", kHloMoves),
    kHloEach("hlo::bitcast_convert", kOneEach),
    kHloCopy("hlo::broadcast_in_dim", kHloMoves),
    kHloEach("hlo::cbrt", kOneEach),
    kHloEach("hlo::ceil", kOneEach),
    kHloProduct("hlo::cholesky", kStated),
    kHloEach("hlo::clamp", kOneEach),
    kHloCopy("hlo::collective_broadcast", kHloMoves),
    kHloCopy("hlo::collective_permute", kHloMoves),
    kHloCopy("hlo::collective_permute_done", kHloMoves),
    kHloCopy("hlo::collective_permute_start", kHloMoves),
    kHloEach("hlo::compare", kOneEach),
    kHloEach("hlo::complex", kOneEach),
    kHloCopy("hlo::concatenate", kHloMoves),
    kHloEach("hlo::conj", kOneEach),
    kHloEach("hlo::convert", kOneEach),
    kHloConvolution("hlo::convolution", kStated),
    kHloConvolution("hlo::convolution_fusion", kStated),
    kHloCopy("hlo::copy", kHloMoves),
    kHloCopy("hlo::copy_done", kHloMoves),
    kHloCopy("hlo::copy_start", kHloMoves),
    kHloEach("hlo::cosh", kOneEach),
    kHloEach("hlo::cosine", kOneEach),
    kHloEach("hlo::count_leading_zeros", kOneEach),
    kHloEach("hlo::custom_call", kStated),
    kHloEach("hlo::digamma", kOneEach),
    kHloEach("hlo::divide", kOneEach),
    kHloProduct("hlo::dot_fusion", kStated),
    kHloProduct("hlo::dot_general", kStated),
    kHloCopy("hlo::dynamic_iota", kHloMoves),
    kHloCopy("hlo::dynamic_reshape", kHloMoves),
    kHloGather("hlo::dynamic_slice", kHloMoves),
    kHloGather("hlo::dynamic_update_slice", kHloMoves),
    kHloEach("hlo::erf", kOneEach),
    kHloEach("hlo::erf_inv", kOneEach),
    kHloEach("hlo::erfc", kOneEach),
    kHloEach("hlo::exponential", kOneEach),
    kHloEach("hlo::exponential_minus_one", kOneEach),
    kHloProduct("hlo::fft", kStated),
    kHloEach("hlo::floor", kOneEach),
    kHloEach("hlo::fusion", kStated),
    kHloGather("hlo::gather", kHloMoves),
    kHloCopy("hlo::get_dimension_size", kHloMoves),
    kHloEach("hlo::imag", kOneEach),
    kHloCopy("hlo::infeed", kHloMoves),
    kHloCopy("hlo::iota", kHloMoves),
    kHloEach("hlo::is_finite", kOneEach),
    kHloEach("hlo::is_inf", kOneEach),
    kHloEach("hlo::lgamma", kOneEach),
    kHloEach("hlo::log", kOneEach),
    kHloEach("hlo::log_plus_one", kOneEach),
    kHloEach("hlo::logistic", kOneEach),
    kHloEach("hlo::map", kStated),
    kHloEach("hlo::maximum", kOneEach),
    kHloEach("hlo::minimum", kOneEach),
    kHloEach("hlo::multiply", kOneEach),
    kHloEach("hlo::negate", kOneEach),
    kHloEach("hlo::next_after", kOneEach),
    kHloEach("hlo::not", kOneEach),
    kHloEach("hlo::or", kOneEach),
    kHloCopy("hlo::outfeed", kHloMoves),
    kHloCopy("hlo::pad", kHloMoves),
    kHloCopy("hlo::partition_id", kHloMoves),
    kHloEach("hlo::polygamma", kOneEach),
    kHloEach("hlo::popcnt", kOneEach),
    kHloEach("hlo::power", kOneEach),
    kHloEach("hlo::real", kOneEach),
    kHloCopy("hlo::recv", kHloMoves),
    kHloCopy("hlo::recv_done", kHloMoves),
    kHloReduction("hlo::reduce", kStated),
    kHloReduction("hlo::reduce_fusion", kStated),
    kHloEach("hlo::reduce_precision", kOneEach),
    kHloCopy("hlo::reduce_scatter", kHloMoves),
    kHloReduction("hlo::reduce_window", kStated),
    kHloEach("hlo::remainder", kOneEach),
    kHloCopy("hlo::replica_id", kHloMoves),
    kHloCopy("hlo::reshape", kHloMoves),
    kHloCopy("hlo::reverse", kHloMoves),
    kHloEach("hlo::rng", kStated),
    kHloEach("hlo::rng_bit_generator", kStated),
    kHloCopy("hlo::rng_get_and_update_state", kHloMoves),
    kHloEach("hlo::round_nearest_afz", kOneEach),
    kHloEach("hlo::round_nearest_even", kOneEach),
    kHloEach("hlo::rsqrt", kOneEach),
    kHloGather("hlo::scatter", kStated),
    kHloEach("hlo::select", kOneEach),
    kHloReduction("hlo::select_and_scatter", kStated),
    kHloCopy("hlo::send", kHloMoves),
    kHloCopy("hlo::send_done", kHloMoves),
    kHloCopy("hlo::set_dimension_size", kHloMoves),
    kHloEach("hlo::shift_left", kOneEach),
    kHloEach("hlo::shift_right_arithmetic", kOneEach),
    kHloEach("hlo::shift_right_logical", kOneEach),
    kHloEach("hlo::sign", kOneEach),
    kHloEach("hlo::sine", kOneEach),
    kHloEach("hlo::sinh", kOneEach),
    kHloCopy("hlo::slice", kHloMoves),
    kHloReduction("hlo::sort", kStated),
    kHloEach("hlo::sqrt", kOneEach),
    kHloEach("hlo::square", kOneEach),
    kHloEach("hlo::stochastic_convert", kOneEach),
    kHloEach("hlo::subtract", kOneEach),
    kHloEach("hlo::tan", kOneEach),
    kHloEach("hlo::tanh", kOneEach),
    kHloReduction("hlo::top_k", kStated),
    kHloCopy("hlo::transpose", kHloMoves),
    kHloProduct("hlo::triangular_solve", kStated),
    kHloProduct("hlo::while", kStated),
    kHloEach("hlo::xor", kOneEach),
    kHloEach("hlo::zeta", kOneEach),
};

}  // namespace

std::span<const OpKind> HloKinds() { return kHloKinds; }

}  // namespace emplace
