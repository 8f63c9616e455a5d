#include "sim/device_catalog.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace emplace {
namespace {

constexpr std::array<std::string_view, kNumOpClasses> kClassNames = {
    "none", "convolution", "matrix-product", "elementwise", "reduction", "gather", "copy"};

// The part of the peak that ops of each class reach, by generation. Columns: none, convolution, matrix product,
// elementwise, reduction, gather, copy. These are judgements, not measurements: the reasoning is beside each row,
// and a profile replaces them where one exists.
struct Efficiencies {
  std::array<double, kNumOpClasses> compute;
  std::array<double, kNumOpClasses> bandwidth;
};

// Kepler: cuDNN's and cuBLAS's large products come to about two thirds of the boost-clock peak, convolutions of real
// shapes to about half of that (boost clocks are not held under load). Streaming kernels reach about 70 % of the
// data-sheet bandwidth with ECC on; reductions and gathers less, as accesses do not all coalesce.
constexpr Efficiencies kKepler = {{1, 0.40, 0.60, 1, 1, 1, 1}, {1, 0.70, 0.70, 0.70, 0.55, 0.35, 0.70}};
// Pascal and Volta: f32 without tensor cores; products come to 80 to 90 % of peak, convolutions to 50 to 60 %; HBM2
// streams at about 75 % (P100) to 85 % (V100).
constexpr Efficiencies kPascal = {{1, 0.55, 0.80, 1, 1, 1, 1}, {1, 0.75, 0.75, 0.75, 0.60, 0.40, 0.75}};
constexpr Efficiencies kVolta = {{1, 0.55, 0.85, 1, 1, 1, 1}, {1, 0.80, 0.80, 0.80, 0.65, 0.45, 0.80}};
// Ampere and Hopper: against the dense TF32 tensor-core peak, which only large, aligned products approach; convolutions
// need layout changes and come to a third of it. HBM streams at 80 to 90 %.
constexpr Efficiencies kAmpere = {{1, 0.35, 0.60, 1, 1, 1, 1}, {1, 0.85, 0.85, 0.85, 0.70, 0.50, 0.85}};
constexpr Efficiencies kHopper = {{1, 0.30, 0.55, 1, 1, 1, 1}, {1, 0.85, 0.85, 0.85, 0.70, 0.50, 0.85}};
// CPUs: a tuned BLAS keeps the vector units about 70 % busy over all cores; direct convolutions about half; streams
// reach about 80 % of the memory channels' rate, gathers a quarter.
constexpr Efficiencies kCpu = {{1, 0.35, 0.70, 1, 1, 1, 1}, {1, 0.70, 0.70, 0.80, 0.60, 0.25, 0.80}};

constexpr double kTera = 1e12;

DeviceKind Kind(std::string name, std::string summary, double tflop_per_s, double gb_per_s, double memory_gib,
                double launch_micros, const Efficiencies& efficiency, std::string source) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .source = std::move(source),
          .is_cpu = false,
          .peak = {tflop_per_s * kTera},
          .memory_bandwidth = RateFromGbPerS(gb_per_s),
          .launch_micros = launch_micros,
          .memory = BytesFromGib(memory_gib),
          .compute_efficiency = efficiency.compute,
          .bandwidth_efficiency = efficiency.bandwidth};
}

DeviceKind CpuKind(std::string name, std::string summary, double tflop_per_s, double gb_per_s, double memory_gib,
                   std::string source) {
  // An op on a CPU costs a function call and a hand-over between threads: about 2 µs.
  DeviceKind kind = Kind(std::move(name), std::move(summary), tflop_per_s, gb_per_s, memory_gib, 2, kCpu,
                         std::move(source) + "; launch: a hand-over between threads, our estimate");
  kind.is_cpu = true;
  return kind;
}

// How much longer a published step took than roofline says, by kind: fitted on one network each, named in
// experiments/configs/calibration.yaml (`emplace reproduce calibration` shows the fit and all figures held out). It is
// the framework's part, TensorFlow 1.3 to 1.9, as much as the hardware's. Other kinds have no published step of their
// own: GPUs keep 1; the Broadwell CPUs, of the same family as Haswell and run by the same software, share its scale.
constexpr double kK40Scale = 3.051;
constexpr double kK80Scale = 1.494;
constexpr double kHaswellScale = 4.758;

DeviceKind Scaled(DeviceKind kind, double time_scale) {
  kind.time_scale = time_scale;
  return kind;
}

// Launch times of GPUs: the shortest kernel that a stream of dependent launches sustains, 5 µs on Kepler down to 2.5 µs
// on Hopper (published micro-benchmarks of null kernels agree within 1 µs). What a framework adds between ops is the
// cluster's op_gap_us, not this.
std::vector<DeviceKind> MakeDeviceKinds() {
  return {
      Scaled(Kind("k40", "NVIDIA Tesla K40", 4.29, 288, 12, 5, kKepler,
                  "NVIDIA Tesla K40 data sheet: 4.29 TFLOP/s single precision (base clock), 288 GB/s, 12 GB"),
             kK40Scale),
      Scaled(Kind("k80", "one of the two GPUs of an NVIDIA Tesla K80", 4.37, 240, 12, 5, kKepler,
                  "NVIDIA Tesla K80 data sheet: board 8.74 TFLOP/s single precision with boost, 480 GB/s, 24 GB; half "
                  "of each"),
             kK80Scale),
      Kind("p100", "NVIDIA Tesla P100 (PCIe)", 9.3, 732, 16, 4, kPascal,
           "NVIDIA Tesla P100 data sheet (PCIe, 16 GB): 9.3 TFLOP/s single precision, 732 GB/s"),
      Kind("v100", "NVIDIA Tesla V100 (SXM2)", 15.7, 900, 16, 3.5, kVolta,
           "NVIDIA Tesla V100 data sheet (SXM2): 15.7 TFLOP/s single precision, 900 GB/s, 16 GB"),
      Kind(
          "a100", "NVIDIA A100 (SXM, 80 GB)", 156, 2039, 80, 3, kAmpere,
          "NVIDIA A100 data sheet (SXM 80 GB): 156 TFLOP/s TF32 dense, 2039 GB/s; peak is TF32's, as f32 products run"),
      Kind("h100", "NVIDIA H100 (SXM)", 494.7, 3350, 80, 2.5, kHopper,
           "NVIDIA H100 data sheet (SXM): 989 TFLOP/s TF32 with sparsity, half of it dense, 3.35 TB/s, 80 GB"),
      Kind("h200", "NVIDIA H200 (SXM)", 494.7, 4800, 141, 2.5, kHopper,
           "NVIDIA H200 data sheet (SXM): 989 TFLOP/s TF32 with sparsity, half of it dense, 4.8 TB/s, 141 GB"),
      Scaled(
          CpuKind("haswell-2300", "Intel Haswell at 2.3 GHz, 18 cores", 1.325, 68, 256,
                  "Mirhoseini et al. 2018, section 3.1: Intel Haswell 2300; core count not stated, taken from the Xeon "
                  "E5-2699 v3 (Intel ARK: 18 cores, 2.3 GHz, 68 GB/s); 32 f32 FLOP per cycle and core (AVX2, two FMA "
                  "units)"),
          kHaswellScale),
      Scaled(
          CpuKind(
              "xeon-e5-2686v4", "Intel Xeon E5-2686 v4, the 16 cores of a p2.8xlarge", 1.178, 76.8, 488,
              "AWS p2.8xlarge: 32 vCPU = 16 cores at 2.3 GHz, 488 GiB; 32 f32 FLOP per cycle and core (AVX2, two FMA "
              "units); four channels of DDR4-2400: 76.8 GB/s"),
          kHaswellScale),
      Scaled(
          CpuKind(
              "broadwell-8c", "Intel Broadwell, 8 cores at 2.2 GHz", 0.563, 38.4, 26,
              "Gao et al. 2018 (Post), section 4: 8-core Broadwell, 26 GB; clock of Google Cloud's Broadwell, 2.2 GHz; "
              "32 f32 FLOP per cycle and core; half a socket's memory channels"),
          kHaswellScale),
      CpuKind(
          "cpu-core", "one core of a present-day x86-64 server", 0.096, 12, 8,
          "3 GHz x 32 f32 FLOP per cycle (AVX2, two FMA units); 12 GB/s is what one core streams; profile your own"),
  };
}

const std::vector<DeviceKind>& CatalogueKinds() {
  static const std::vector<DeviceKind> kinds = MakeDeviceKinds();
  return kinds;
}

bool HoldsCpu(std::string_view text) {
  constexpr std::string_view kCpuWord = "cpu";
  const auto found = std::search(text.begin(), text.end(), kCpuWord.begin(), kCpuWord.end(),
                                 [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  return found != text.end();
}

}  // namespace

std::string_view Name(OpClass op_class) { return kClassNames[static_cast<std::size_t>(op_class)]; }

std::span<const DeviceKind> AllDeviceKinds() { return CatalogueKinds(); }

const DeviceKind* FindDeviceKind(std::string_view name) {
  for (const DeviceKind& kind : CatalogueKinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

bool LooksLikeCpu(std::string_view kind, std::string_view device_name) {
  return HoldsCpu(kind) || HoldsCpu(device_name);
}

}  // namespace emplace
