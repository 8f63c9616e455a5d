#ifndef EMPLACE_SIM_DEVICE_CATALOG_H_
#define EMPLACE_SIM_DEVICE_CATALOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/units.h"

namespace emplace {

// The limiting resource of an op: the row of a device kind's efficiency table. kNone: takes no time of its own (inputs,
// variables). kNormalisation (norms and softmax), kAttention, kOptimizer and kRecurrent are of ATen's operators only
// (aten_work.h).
enum class OpClass : std::uint8_t {
  kNone,
  kConvolution,
  kMatrixProduct,
  kElementwise,
  kReduction,
  kGather,
  kCopy,
  kAttention,
  kNormalisation,
  kOptimizer,
  kRecurrent,
};
inline constexpr std::size_t kNumOpClasses = 11;
std::string_view Name(OpClass op_class);

// How products are computed; sums are in f32. kTf32: f32 numbers whose factors are rounded to ten bits of fraction.
// kI8: factors of 8 bits, sums in i32. kF8, kF4: factors that are floating-point numbers of 8 or 4 bits, sums in f32.
enum class Precision : std::uint8_t { kF32, kTf32, kBf16, kF16, kI8, kF8, kF4 };
inline constexpr std::size_t kNumPrecisions = 7;
std::string_view Name(Precision precision);
std::optional<Precision> PrecisionFromName(std::string_view name);

struct PrecisionRate {
  FlopsPerSecond peak;  // dense; 0: the kind has none of its own
  std::array<double, kNumOpClasses> efficiency{};
};

// A kind of device with its peak rates.
struct DeviceKind {
  std::string name;
  std::string summary;  // one line: what it is
  std::string source;   // source of each number
  bool is_cpu = false;
  FlopsPerSecond peak;  // f32 multiply-adds counted as 2; in TF32 where the kind has it
  BytesPerSecond memory_bandwidth;
  double launch_micros = 0;  // fixed time of each op
  // On all that roofline says of this kind: what one published step on it took, by what roofline says without. 1 where
  // nothing was fitted.
  double time_scale = 1;
  std::optional<Bytes> memory;
  // Part of the peak that ops of each class reach: of `peak` for convolutions and matrix products, of
  // `memory_bandwidth` for all classes. In (0, 1].
  std::array<double, kNumOpClasses> compute_efficiency{};
  std::array<double, kNumOpClasses> bandwidth_efficiency{};
  std::array<PrecisionRate, kNumPrecisions> precisions{};  // see RateOf
};

// The rate of products in a precision. A kind without one of its own computes: f32 at `peak`, TF32 as f32, bf16 and f16
// as f32, i8 and f8 as f16, into which it converts the factors, and f4 as f8.
PrecisionRate RateOf(const DeviceKind& kind, Precision precision);

// Every device kind that ships with emplace.
std::span<const DeviceKind> AllDeviceKinds();
// Null if the catalogue does not know the name.
const DeviceKind* FindDeviceKind(std::string_view name);

// Whether a device of a kind that is in no catalogue counts as a CPU: its kind or name has "cpu" in it, in any case.
bool LooksLikeCpu(std::string_view kind, std::string_view device_name);

}  // namespace emplace

#endif  // EMPLACE_SIM_DEVICE_CATALOG_H_
