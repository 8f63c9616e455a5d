#ifndef EMPLACE_SIM_COST_COST_MODELS_H_
#define EMPLACE_SIM_COST_COST_MODELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "sim/cost_model.h"
#include "sim/profile.h"

namespace emplace {

// The times of a profile: `median_us` of the entry with the op's full signature, else with its signature (profile.h),
// and the device's kind; none if there is no such entry. The order of the attrs does not matter. Contention is the
// entry's own, or that of the op's class, where it is above kLeastContention: less is noise.
inline constexpr double kLeastContention = 1.05;
std::unique_ptr<CostModel> MakeProfiledCostModel(const Profile& profile);

// The times that the graph itself carries (`time_us`).
std::unique_ptr<CostModel> MakeMeasuredCostModel();

// Which f32 products are computed in TF32 on kinds that have it. Others take the kind's f32 rate.
enum class Tf32 : std::uint8_t {
  // Operators of ATen: what the call itself says, else kConvolutions, PyTorch's default. Kinds of the op catalogue:
  // all,
  // as TensorFlow does.
  kByFramework,
  kNone,
  kConvolutions,  // and recurrences, which cuDNN computes too; not matrix products and attention
  kAll,
};
// "none", "convolutions" and "all"; "" is kByFramework. Throws InputError(place).
Tf32 Tf32FromName(std::string_view name, const std::string& place);

struct DeviceCurves;
using OwnCurves = std::map<std::string, DeviceCurves, std::less<>>;  // by kind

// What a runtime adds to the kernels that curves know. Fitted by tests/truth/throughputs.py --fit on published
// throughputs (docs/results/truth.md has the errors on those that it left out); the same for all networks and devices.
struct Runtime {
  std::string_view name;
  // Time of ops that move bytes, relative to the curve of one kernel for each: unfused parts, and casts in mixed
  // precision. ReLUs, pooling and batch norms are cuDNN's kernels in all of them.
  double elementwise_f32 = 1;
  double elementwise_half = 1;
  double op_micros = 0;      // that the device waits for an op of the forward or backward pass
  double update_micros = 0;  // and for one of an update
};
// Null for "". Throws InputError(place) that lists the names.
const Runtime* RuntimeFromName(std::string_view name, const std::string& place);

struct RooflineOptions {
  Tf32 tf32 = Tf32::kByFramework;
  const Runtime* runtime = nullptr;           // of the model `curves`
  std::shared_ptr<const OwnCurves> own = {};  // of the model `curves`: a user's, before those that ship; may be null
};

// The time of an op from what it does and what the device kind can do, in µs:
//   scale * (launch + max(flop / (peak * compute efficiency), moved bytes / (memory bandwidth * bandwidth efficiency)))
// with flop, bytes and class from the op catalogue (op_catalog.h) or of ATen's operators (aten_work.h), rates and the
// efficiencies of the class from the device catalogue or the cluster file (device_catalog.h), whose comments name the
// source of each number. The peak is that of the precision of an op's factors. A class without a compute efficiency is
// limited by bytes alone. Ops of class kNone (inputs, variables, views) take 0.
// Source: Williams, Waterman, Patterson 2009, "Roofline: an insightful visual performance model". Deviations: the
// launch time, which small ops are made of; attainable rates per op class instead of one roof; a scale, fitted on one
// published step for kinds whose software is known to be slower than its hardware
// (experiments/configs/calibration.yaml).
//
// What no rate of a device says keeps the time that the graph gives: ops of kind `host` and `wait` of a trace on the
// kind of their threads; on every kind with rates, `arrival`, `collective` and, unless within a device, `memcpy`, and
// copies between devices and collectives of other graphs. The latter, without a time, read and write their tensors
// once.
//
// An op of kind `workload`, `load` or `store` of a trace has the time that the graph gives, if any. Else its FLOP, as
// products in half precision, and its attribute `bytes` say it.
//
// No time: a kind that neither catalogue knows; a tensor without dtype and shape; products of factors without a rate,
// such as f64; a device kind without rates. OpMicros throws InputError(op name) where shapes and attrs do not fit the
// op's kind.
std::unique_ptr<CostModel> MakeRooflineCostModel(const RooflineOptions& options);
std::unique_ptr<CostModel> MakeRooflineCostModel();

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_COST_MODELS_H_
