#ifndef EMPLACE_SIM_BASE_UNITS_H_
#define EMPLACE_SIM_BASE_UNITS_H_

#include <chrono>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emplace {

// Simulated time is a whole number of nanoseconds, so that no result depends on a compiler or on the order of
// additions.
using Duration = std::chrono::nanoseconds;

// Ids are positions: of an op in the canonical order of its graph (graph.h), of a tensor in the order (producer,
// output index), of a device in its cluster. They are types of their own, so that swapped arguments do not compile.
enum class OpId : std::uint32_t {};
enum class TensorId : std::uint32_t {};
enum class DeviceId : std::uint32_t {};

template <typename Id>
requires std::is_enum_v<Id>
constexpr std::size_t Index(Id id) { return static_cast<std::size_t>(id); }

template <typename Id>
requires std::is_enum_v<Id>
constexpr Id MakeId(std::size_t index) { return static_cast<Id>(index); }

// A size in bytes.
struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
};

struct BytesPerSecond {
  std::int64_t count = 0;
  auto operator<=>(const BytesPerSecond&) const = default;
};

struct FlopsPerSecond {
  double count = 0;
  auto operator<=>(const FlopsPerSecond&) const = default;
};

// Limits of times, work and rates in files: far beyond any device, and far from where their sums overflow.
inline constexpr double kMaxMicros = 1e12;
inline constexpr double kMaxFlop = 1e24;
inline constexpr double kMinGbPerS = 1e-9;  // 1 byte/s
inline constexpr double kMaxGbPerS = 1e9;
inline constexpr std::string_view kRateAllowed = "a number above 0, at most 1e+09";

// The one conversion from a real number to an integer: to the nearest, halves up (docs/model.md, F1).
// Requires: the result fits in 64 bits.
inline std::int64_t RoundToInteger(double value) { return static_cast<std::int64_t>(std::floor(value + 0.5)); }

inline Duration DurationFromMicros(double micros) { return Duration(RoundToInteger(micros * 1000.0)); }
inline double MicrosFromDuration(Duration duration) { return static_cast<double>(duration.count()) / 1000.0; }
inline BytesPerSecond RateFromGbPerS(double gb_per_s) { return {RoundToInteger(gb_per_s * 1e9)}; }
inline Bytes BytesFromGib(double gib) { return {RoundToInteger(gib * 1073741824.0)}; }

// How long `size` takes at `rate`, rounded to the nearest nanosecond in exact integer arithmetic.
// Requires: rate > 0, and a result below 2^63 ns.
inline Duration TransferDuration(Bytes size, BytesPerSecond rate) {
  __extension__ using Wide = __int128;
  const Wide rounded = (Wide{2} * size.count * 1'000'000'000 + rate.count) / (Wide{2} * rate.count);
  return Duration(static_cast<std::int64_t>(rounded));
}

// How fast the bytes of a tensor go: those up to `knee` at `rate`, those beyond it at `beyond`.
struct TransferRate {
  BytesPerSecond rate;
  Bytes knee;  // 0: all go at `rate`, and `beyond` is 0
  BytesPerSecond beyond;
  friend constexpr auto operator<=>(const TransferRate&, const TransferRate&) = default;
};

// Each part rounded by itself (docs/model.md, F7). Requires: as above, of both rates.
inline Duration TransferDuration(Bytes size, const TransferRate& rate) {
  if (rate.knee.count == 0 || size <= rate.knee) return TransferDuration(size, rate.rate);
  return TransferDuration(rate.knee, rate.rate) + TransferDuration(size - rate.knee, rate.beyond);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_UNITS_H_
