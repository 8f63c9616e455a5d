#ifndef EMPLACE_SIM_COST_CURVES_H_
#define EMPLACE_SIM_COST_CURVES_H_

#include <cstddef>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_struct.h"
#include "sim/cost/cost_models.h"
#include "sim/cost/curve_forms.h"
#include "sim/cost_model.h"

namespace emplace {

// What a device reaches when a network generates text, as `emplace calibrate` finds it in rows of llama-bench.
struct GenerationRates {
  double gb_per_s = 0;      // of weights that are read for each token
  double tflop_per_s = 0;   // of prompts
  double token_us = 0;      // of each token beside its weights; 0 too where all models have one size
  double model_bytes = 0;   // of the largest model that was measured, as many as a token reads
  double parameters = 0;    // of that model
  std::string source = {};  // what measured it
  static void Fields(auto& visit, auto& self) {
    constexpr double kLeast = 1e-9;
    visit("gb_per_s", self.gb_per_s, {.low = kLeast});
    visit("tflop_per_s", self.tflop_per_s, {.low = kLeast});
    visit("token_us", self.token_us);
    visit("model_bytes", self.model_bytes, {.low = 1});
    visit("parameters", self.parameters, {.low = 1});
    visit("source", self.source);
  }
};

// The curves of a device kind: a file of datasets/devices, which tools/fit_devices writes and the program has compiled
// in, or one that `emplace calibrate` has written. A curve of the wanted form and precision is looked for here, then
// with the kind `like`, and so on, and at last with the kind "common".
struct DeviceCurves {
  std::string kind;
  std::string like;
  double multiprocessors = 0;
  double l2_mib = 0;
  double link_gb_per_s = 0;  // that a device sends at most to the others of its node
  std::vector<Curve<ProductForm>> product;
  std::vector<Curve<ProductForm>> convolution;  // where a kind has none, `product` answers
  std::vector<Curve<AttentionForm>> attention;
  std::vector<Curve<DecodingForm>> decoding;
  std::vector<Curve<StreamForm>> normalisation;
  std::vector<Curve<StreamForm>> softmax;
  std::vector<Curve<StreamForm>> elementwise;
  std::vector<Curve<CollectiveForm>> collective;
  std::optional<GenerationRates> generation = {};
  bool has_curves() const {
    return !(product.empty() && convolution.empty() && attention.empty() && decoding.empty() && normalisation.empty() &&
             softmax.empty() && elementwise.empty() && collective.empty());
  }
  static void Fields(auto& visit, auto& self) {
    visit("kind", self.kind);
    visit("like", self.like);
    visit("multiprocessors", self.multiprocessors);
    visit("l2_mib", self.l2_mib);
    visit("link_gb_per_s", self.link_gb_per_s);
    visit("product", self.product, {.optional = true, .written = !self.product.empty()});
    visit("convolution", self.convolution, {.optional = true, .written = !self.convolution.empty()});
    visit("attention", self.attention, {.optional = true, .written = !self.attention.empty()});
    visit("decoding", self.decoding, {.optional = true, .written = !self.decoding.empty()});
    visit("normalisation", self.normalisation, {.optional = true, .written = !self.normalisation.empty()});
    visit("softmax", self.softmax, {.optional = true, .written = !self.softmax.empty()});
    visit("elementwise", self.elementwise, {.optional = true, .written = !self.elementwise.empty()});
    visit("collective", self.collective, {.optional = true, .written = !self.collective.empty()});
    visit("generation", self.generation, {.optional = true, .written = self.generation.has_value()});
  }
};

struct ShippedCurves {
  std::string_view name;
  std::string_view yaml;
};
// By name, "common" among them.
std::span<const ShippedCurves> AllShippedCurves();
// Null if no file has that name. Those of `own` (may be null) come before those that ship.
const DeviceCurves* FindDeviceCurves(std::string_view kind, const OwnCurves* own = nullptr);

// A file of a user's. Throws InputError on tables of the wrong size, and on a kind `like` that does not ship.
DeviceCurves ReadDeviceCurves(const JsonNode& root);
// As the files of datasets/devices are written.
void WriteDeviceCurves(std::ostream& out, const DeviceCurves& curves);

// A time of a curve, and whose curve it is.
struct CurvedTime {
  CurveTime time;
  std::string_view form;  // "product", "attention", ..; of the longest kernel
  std::string kind;       // of the device on which it was measured; "common": the median of those that were
};

// Attention of one new query for each sequence.
bool IsDecoding(const AttentionShape& shape);

// The time of one shape on a device of this kind. `precision` is that of the factors. Nullopt if there are no curves
// for the kind, or it has no rate for the precision.
std::optional<CurvedTime> CurveMicros(const DeviceKind& device, Precision precision, const OpShape& shape,
                                      double bytes = 0, const OwnCurves* own = nullptr);

// A shape with all that a curve needs to know of it. An op of several shapes has several, and its time is their sum.
struct CurveQuestion {
  Precision precision = Precision::kF32;  // of the factors
  OpShape shape;
  double bytes = 0;  // moved
};
// Empty if no curve is asked for the op: the graph does not say its shapes, or it does nothing that curves know.
// `kernels` (may be null): among how many ops of the graph the call is divided; the shapes are those of the whole call.
std::vector<CurveQuestion> CurveQuestions(const Graph& graph, OpId op, const RooflineOptions& options,
                                          double* kernels = nullptr);

// Which curve answers for factors of a precision on a device, and what the curves need to know of it. Nullopt if it has
// no rate for the precision, or nobody says how many multiprocessors it has.
struct CurveKey {
  std::string_view precision;
  CurveDevice device;
};
std::optional<CurveKey> CurveKeyOf(const DeviceKind& device, Precision precision, const DeviceCurves& curves);

// The curves that answer for a kind where it has none of its own: those of the kinds that it is like. Null if even the
// common ones have no such form and precision.
template <typename Form>
const Curve<Form>* FindCurve(const DeviceCurves& device, std::vector<Curve<Form>> DeviceCurves::*form,
                             std::string_view precision, const OwnCurves* own, std::string* owner);

// Nullopt if no curve answers for the op: the roofline does.
std::optional<CurvedTime> CurveMicros(const Graph& graph, OpId op, const Cluster& cluster, std::string_view device_kind,
                                      const RooflineOptions& options);

// The time of a collective, in us, over links of this bandwidth that join devices of one node. Nullopt if the kind and
// those that it is like have none, for other links than theirs, for more ranks than 8, and for broadcasts, sends and
// receives.
std::optional<double> CollectiveMicros(std::string_view device_kind, double link_gb_per_s, CollectiveKind kind,
                                       std::size_t ranks, double bytes);

// Times of ops as curves of their shape, type and device (docs/curves.md); those of ops and devices without a curve are
// the roofline's. Never below the data sheet's rates, but for bytes that fit into the device's cache.
std::unique_ptr<CostModel> MakeCurvesCostModel(const RooflineOptions& options);
std::unique_ptr<CostModel> MakeCurvesCostModel();

// How many ops, collectives aside, have their times from which curves, on the kinds of a cluster.
struct CurveCoverage {
  std::map<std::string, std::size_t, std::less<>> by_form;   // ops that take time, on each kind
  std::map<std::string, std::size_t, std::less<>> roofline;  // ops without a curve, by their kind
  std::size_t extrapolated = 0;
  std::map<std::string, std::string, std::less<>> borrowed;  // kind: the kinds whose curves it takes
  std::vector<std::string> without;                          // kinds that have no curves
};
CurveCoverage CoverOps(const Graph& graph, const Cluster& cluster, const RooflineOptions& options);
// In one line.
std::string CoverageText(const CurveCoverage& coverage);

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_CURVES_H_
