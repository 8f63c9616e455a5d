#include "sim/device_catalog.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "sim/home_devices.h"

namespace emplace {
namespace {

constexpr std::array<std::string_view, kNumOpClasses> kClassNames = {
    "none", "convolution", "matrix-product", "elementwise", "reduction", "gather",
    "copy", "attention",   "normalisation",  "optimizer",   "recurrent"};
constexpr std::array<std::string_view, kNumPrecisions> kPrecisionNames = {"f32", "tf32", "bf16", "f16",
                                                                          "i8",  "f8",   "f4"};

// The part of the peak that ops of each class reach, by generation. Columns: none, convolution, matrix product,
// elementwise, reduction, gather, copy, attention, normalisation, optimizer, recurrent. These are judgements, not
// measurements: the reasoning is beside each row, and a profile replaces them where one exists.
struct Efficiencies {
  std::array<double, kNumOpClasses> compute;
  std::array<double, kNumOpClasses> bandwidth;
};

// Kepler: cuDNN's and cuBLAS's large products come to about two thirds of the boost-clock peak, convolutions of real
// shapes to about half of that (boost clocks are not held under load). Streaming kernels reach about 70 % of the
// data-sheet bandwidth with ECC on; reductions and gathers less, as accesses do not all coalesce.
constexpr Efficiencies kKepler = {{1, 0.40, 0.60, 1, 1, 1, 1, 0.35, 1, 1, 0.20},
                                  {1, 0.70, 0.70, 0.70, 0.55, 0.35, 0.70, 0.70, 0.55, 0.70, 0.50}};
// Pascal and Volta: f32 without tensor cores; products come to 80 to 90 % of peak, convolutions to 50 to 60 %; HBM2
// streams at about 75 % (P100) to 85 % (V100).
constexpr Efficiencies kPascal = {{1, 0.55, 0.80, 1, 1, 1, 1, 0.45, 1, 1, 0.25},
                                  {1, 0.75, 0.75, 0.75, 0.60, 0.40, 0.75, 0.75, 0.60, 0.75, 0.50}};
constexpr Efficiencies kVolta = {{1, 0.55, 0.85, 1, 1, 1, 1, 0.50, 1, 1, 0.25},
                                 {1, 0.80, 0.80, 0.80, 0.65, 0.45, 0.80, 0.80, 0.70, 0.80, 0.55}};
// Ampere and Hopper: against the dense TF32 tensor-core peak, which only large, aligned products approach; convolutions
// need layout changes and come to a third of it. HBM streams at 80 to 90 %.
constexpr Efficiencies kAmpere = {{1, 0.35, 0.60, 1, 1, 1, 1, 0.35, 1, 1, 0.20},
                                  {1, 0.85, 0.85, 0.85, 0.70, 0.50, 0.85, 0.85, 0.75, 0.85, 0.55}};
constexpr Efficiencies kHopper = {{1, 0.30, 0.55, 1, 1, 1, 1, 0.30, 1, 1, 0.15},
                                  {1, 0.85, 0.85, 0.85, 0.70, 0.50, 0.85, 0.85, 0.75, 0.85, 0.55}};
// CPUs: a tuned BLAS keeps the vector units about 70 % busy over all cores; direct convolutions about half; streams
// reach about 80 % of the memory channels' rate, gathers a quarter.
constexpr Efficiencies kCpu = {{1, 0.35, 0.70, 1, 1, 1, 1, 0.35, 1, 1, 0.30},
                               {1, 0.70, 0.70, 0.80, 0.60, 0.25, 0.80, 0.70, 0.60, 0.80, 0.60}};

// The last four columns: fused attention comes to half or less of what products do, as its softmax runs between two
// of them; norms and softmax pass over their rows twice, mostly from cache; an optimizer streams; a recurrence waits
// for each of its steps, and its products are small.

// The rates of products by precision, in TFLOP/s, 0 where there is none of its own; and the part of them that
// convolutions, matrix products, attention and recurrences reach.
struct Shares {
  double convolution;
  double product;
  double attention;
  double recurrent;
};
// f32 without tensor cores: the units are easy to fill, as on Volta. Half precision: published sweeps of large products
// reach two thirds to three quarters of the dense peak on Ampere and Ada, under two thirds from Hopper on, whose power
// limit lowers the clock. FlashAttention-2 (Dao 2023, figures 4 to 7) reaches 60 to 70 % on A100 forward, 35 to 40 % on
// H100. ROCm's libraries reach about half of MI300X's peak.
constexpr Shares kPlainF32 = {0.55, 0.80, 0.50, 0.25};
constexpr Shares kVoltaHalf = {0.40, 0.65, 0.40, 0.15};
constexpr Shares kAmpereHalf = {0.40, 0.70, 0.55, 0.15};
constexpr Shares kHopperHalf = {0.35, 0.62, 0.38, 0.10};
constexpr Shares kBlackwellHalf = {0.30, 0.62, 0.30, 0.10};
constexpr Shares kMi300Half = {0.25, 0.50, 0.30, 0.10};

constexpr double kTera = 1e12;

PrecisionRate Rate(double tflop_per_s, const Shares& shares) {
  PrecisionRate rate{.peak = {tflop_per_s * kTera}};
  rate.efficiency.fill(1);
  rate.efficiency[static_cast<std::size_t>(OpClass::kConvolution)] = shares.convolution;
  rate.efficiency[static_cast<std::size_t>(OpClass::kMatrixProduct)] = shares.product;
  rate.efficiency[static_cast<std::size_t>(OpClass::kAttention)] = shares.attention;
  rate.efficiency[static_cast<std::size_t>(OpClass::kRecurrent)] = shares.recurrent;
  return rate;
}

// `kind` with rates in TFLOP/s; its `peak` is that of TF32. 0: no rate of its own.
DeviceKind Rated(DeviceKind kind, double f32, double bf16, double f16, const Shares& half) {
  if (f32 > 0) {
    kind.precisions[static_cast<std::size_t>(Precision::kF32)] = Rate(f32, kPlainF32);
    kind.precisions[static_cast<std::size_t>(Precision::kTf32)] = {kind.peak, kind.compute_efficiency};
  }
  if (bf16 > 0) kind.precisions[static_cast<std::size_t>(Precision::kBf16)] = Rate(bf16, half);
  if (f16 > 0) kind.precisions[static_cast<std::size_t>(Precision::kF16)] = Rate(f16, half);
  return kind;
}

// Rates in 10^12 operations a second of products whose factors are integers or floating-point numbers of 8 bits, or
// floating-point numbers of 4 bits. 0: no rate of its own.
struct SmallNumberRates {
  double i8 = 0;
  double f8 = 0;
  double f4 = 0;
};

// The same part of these rates is reached as in half precision: all go through the same units.
DeviceKind WithSmallNumbers(DeviceKind kind, const SmallNumberRates& rates, const Shares& half) {
  for (const auto& [precision, rate] :
       {std::pair(Precision::kI8, rates.i8), {Precision::kF8, rates.f8}, {Precision::kF4, rates.f4}}) {
    if (rate > 0) kind.precisions[static_cast<std::size_t>(precision)] = Rate(rate, half);
  }
  return kind;
}

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
      Rated(Kind("p100", "NVIDIA Tesla P100 (PCIe)", 9.3, 732, 16, 4, kPascal,
                 "NVIDIA Tesla P100 data sheet (PCIe, 16 GB): 9.3 TFLOP/s single precision, 18.7 half, 732 GB/s"),
            0, 0, 18.7, kPlainF32),
      Kind("p4", "NVIDIA Tesla P4", 5.5, 192, 8, 4, kPascal,
           "NVIDIA Tesla P4 data sheet: 5.5 TFLOP/s single precision, 192 GB/s, 8 GB"),
      Rated(Kind("v100", "NVIDIA Tesla V100 (SXM2)", 15.7, 900, 16, 3.5, kVolta,
                 "NVIDIA Tesla V100 data sheet (SXM2): 15.7 TFLOP/s single precision, 125 on tensor cores (f16), "
                 "900 GB/s, 16 GB"),
            0, 0, 125, kVoltaHalf),
      Rated(
          Kind("v100-pcie", "NVIDIA Tesla V100 (PCIe, 32 GB)", 14, 900, 32, 3.5, kVolta,
               "NVIDIA Tesla V100 data sheet (PCIe): 14 TFLOP/s single precision, 112 on tensor cores (f16), 900 GB/s, "
               "32 GB"),
          0, 0, 112, kVoltaHalf),
      WithSmallNumbers(
          Rated(Kind("t4", "NVIDIA T4 (PCIe)", 8.1, 320, 16, 3.5, kVolta,
                     "NVIDIA T4 data sheet: 8.1 TFLOP/s single precision, 65 on tensor cores (f16), 130 TOPS in 8 "
                     "bits, 320 GB/s, 16 GB"),
                0, 0, 65, kVoltaHalf),
          {.i8 = 130}, kVoltaHalf),
      WithSmallNumbers(
          Rated(
              Kind("rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti", 13.4, 616, 11, 3.5, kVolta,
                   "NVIDIA Turing GPU Architecture whitepaper, reference card: 13.4 TFLOP/s f32, 53.8 on tensor cores "
                   "(f16 with f32 sums), 215.2 TOPS in 8 bits, 616 GB/s, 11 GB"),
              0, 0, 53.8, kVoltaHalf),
          {.i8 = 215.2}, kVoltaHalf),
      WithSmallNumbers(
          Rated(Kind("a100", "NVIDIA A100 (SXM, 80 GB)", 156, 2039, 80, 3, kAmpere,
                     "NVIDIA A100 data sheet (SXM 80 GB), dense: 19.5 TFLOP/s f32, 156 TF32, 312 bf16 and f16, "
                     "624 TOPS in 8 bits, 2039 GB/s"),
                19.5, 312, 312, kAmpereHalf),
          {.i8 = 624}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("a100-40", "NVIDIA A100 (SXM, 40 GB)", 156, 1555, 40, 3, kAmpere,
                     "NVIDIA A100 data sheet (SXM 40 GB), dense: 19.5 TFLOP/s f32, 156 TF32, 312 bf16 and f16, "
                     "624 TOPS in 8 bits, 1555 GB/s"),
                19.5, 312, 312, kAmpereHalf),
          {.i8 = 624}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("a100-pcie", "NVIDIA A100 (PCIe, 80 GB)", 156, 1935, 80, 3, kAmpere,
                     "NVIDIA A100 data sheet (PCIe 80 GB), dense: 19.5 TFLOP/s f32, 156 TF32, 312 bf16 and f16, "
                     "624 TOPS in 8 bits, 1935 GB/s"),
                19.5, 312, 312, kAmpereHalf),
          {.i8 = 624}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("a100-pcie-40", "NVIDIA A100 (PCIe, 40 GB)", 156, 1555, 40, 3, kAmpere,
                     "NVIDIA A100 data sheet (PCIe 40 GB), dense: 19.5 TFLOP/s f32, 156 TF32, 312 bf16 and f16, "
                     "624 TOPS in 8 bits, 1555 GB/s"),
                19.5, 312, 312, kAmpereHalf),
          {.i8 = 624}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("a10", "NVIDIA A10 (PCIe)", 62.5, 600, 24, 3, kAmpere,
                     "NVIDIA A10 data sheet, dense: 31.2 TFLOP/s f32, 62.5 TF32, 125 bf16 and f16, 250 TOPS in 8 "
                     "bits, 600 GB/s, 24 GB"),
                31.2, 125, 125, kAmpereHalf),
          {.i8 = 250}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("l4", "NVIDIA L4 (PCIe)", 60.5, 300, 24, 3, kAmpere,
                     "NVIDIA L4 data sheet: 30.3 TFLOP/s f32; with sparsity 121 TF32 (written as 120), 242 bf16 "
                     "and f16, 485 TFLOP/s or TOPS in 8 bits, "
                     "half of each dense; 300 GB/s, 24 GB"),
                30.3, 121, 121, kAmpereHalf),
          {.i8 = 242.5, .f8 = 242.5}, kAmpereHalf),
      WithSmallNumbers(Rated(Kind("l40s", "NVIDIA L40S (PCIe)", 183, 864, 48, 3, kAmpere,
                                  "NVIDIA L40S data sheet, dense: 91.6 TFLOP/s f32, 183 TF32, 362 bf16 and "
                                  "f16, 733 TFLOP/s or TOPS in 8 "
                                  "bits, 864 GB/s, 48 GB"),
                             91.6, 362, 362, kAmpereHalf),
                       {.i8 = 733, .f8 = 733}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("rtx-4090", "NVIDIA GeForce RTX 4090", 82.6, 1008, 24, 3, kAmpere,
                     "NVIDIA Ada GPU Architecture whitepaper, dense: 82.6 TFLOP/s f32, 82.6 TF32, 165.2 bf16 "
                     "and f16 with "
                     "f32 sums, 330.3 in 8 bits with f32 sums, 660.6 TOPS in 8 bits, 1008 GB/s, 24 GB"),
                82.6, 165.2, 165.2, kAmpereHalf),
          {.i8 = 660.6, .f8 = 330.3}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("h100", "NVIDIA H100 (SXM)", 494.7, 3350, 80, 2.5, kHopper,
                     "NVIDIA H100 data sheet (SXM): 67 TFLOP/s f32; with sparsity 989 TF32, 1979 bf16 and f16, "
                     "3958 TFLOP/s or TOPS in 8 bits, half of "
                     "each dense; 3.35 TB/s, 80 GB"),
                67, 989.4, 989.4, kHopperHalf),
          {.i8 = 1979, .f8 = 1979}, kHopperHalf),
      WithSmallNumbers(
          Rated(Kind("h100-pcie", "NVIDIA H100 (PCIe)", 378, 2000, 80, 2.5, kHopper,
                     "NVIDIA H100 data sheet (PCIe): 51 TFLOP/s f32 (51.2); with sparsity 756 TF32, 1513 bf16 and "
                     "f16, 3026 TFLOP/s or TOPS in 8 bits, half of each dense; 2 TB/s, 80 GB"),
                51.2, 756, 756, kHopperHalf),
          {.i8 = 1513, .f8 = 1513}, kHopperHalf),
      WithSmallNumbers(
          Rated(Kind("h200", "NVIDIA H200 (SXM)", 494.7, 4800, 141, 2.5, kHopper,
                     "NVIDIA H200 data sheet (SXM): 67 TFLOP/s f32; with sparsity 989 TF32, 1979 bf16 and f16, "
                     "3958 TFLOP/s or TOPS in 8 bits, half of "
                     "each dense; 4.8 TB/s, 141 GB"),
                67, 989.4, 989.4, kHopperHalf),
          {.i8 = 1979, .f8 = 1979}, kHopperHalf),
      WithSmallNumbers(Rated(Kind("b200", "NVIDIA B200 (HGX, 1000 W)", 1100, 8000, 180, 2.5, kHopper,
                                  "NVIDIA Blackwell Architecture Technical Brief, HGX B200, a GPU: 80 TFLOP/s "
                                  "f32; with sparsity 2200 "
                                  "TF32, 4500 bf16 and f16, 9000 TFLOP/s or TOPS in 8 bits, 18000 in 4 bits, "
                                  "half of each dense; 8 TB/s; NVIDIA HGX B200 data "
                                  "sheet: 1.4 TB on 8 GPUs, "
                                  "180 GB each"),
                             80, 2250, 2250, kBlackwellHalf),
                       {.i8 = 4500, .f8 = 4500, .f4 = 9000}, kBlackwellHalf),
      WithSmallNumbers(
          Rated(Kind("gb200", "one of the two B200 GPUs of an NVIDIA GB200", 1250, 8000, 186, 2.5, kHopper,
                     "NVIDIA GB200 NVL72 data sheet, a GPU: 80 TFLOP/s f32; with sparsity 2500 TF32, 5000 bf16 and "
                     "f16, 10000 TFLOP/s or TOPS in 8 bits, 20000 in 4 bits, half of each dense; 8 TB/s, 186 GB"),
                80, 2500, 2500, kBlackwellHalf),
          {.i8 = 5000, .f8 = 5000, .f4 = 10000}, kBlackwellHalf),
      WithSmallNumbers(
          Rated(Kind("b300", "NVIDIA B300 (HGX, 1100 W)", 1125, 8000, 270, 2.5, kHopper,
                     "NVIDIA HGX B300 data sheet, 8 GPUs: 600 TFLOP/s f32 (75 a GPU); with sparsity 18 PFLOP/s "
                     "TF32, 36 bf16 and f16, 72 in f8, half of each dense, 108 in f4, dense; 2.5 POPS in 8 bits, "
                     "with sparsity; 8 TB/s a GPU; 2.1 TB of memory"),
                75, 2250, 2250, kBlackwellHalf),
          {.i8 = 156, .f8 = 4500, .f4 = 13500}, kBlackwellHalf),
      WithSmallNumbers(
          Rated(Kind("gb300", "one of the two B300 GPUs of an NVIDIA GB300", 1250, 8000, 279, 2.5, kHopper,
                     "NVIDIA GB300 NVL72 data sheet, 72 GPUs: 5.76 PFLOP/s f32 (80 a GPU); with sparsity 180 "
                     "PFLOP/s TF32, 360 bf16 and f16, 720 in f8, half of each dense, 1080 in f4, dense; 23 POPS "
                     "in 8 bits, with sparsity; 576 TB/s, 20 TB"),
                80, 2500, 2500, kBlackwellHalf),
          {.i8 = 160, .f8 = 5000, .f4 = 15000}, kBlackwellHalf),
      WithSmallNumbers(
          Rated(Kind("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell (server edition)", 251.9, 1792, 96, 2.5, kAmpere,
                     "NVIDIA RTX Blackwell PRO GPU Architecture, dense: 120 TFLOP/s f32, 251.9 TF32, 503.8 bf16 and "
                     "f16, 1007.6 TOPS in 8 bits, 1792 GB/s, 96 GB"),
                120, 503.8, 503.8, kAmpereHalf),
          {.i8 = 1007.6}, kAmpereHalf),
      WithSmallNumbers(
          Rated(Kind("mi100", "AMD Instinct MI100", 46.1, 1229, 32, 4, kAmpere,
                     "AMD Instinct MI100 data sheet: 46.1 TFLOP/s f32 in matrices, 92.3 bf16, 184.6 f16, 184.6 TOPS "
                     "in 8 bits, 1.23 TB/s, 32 GB"),
                0, 92.3, 184.6, kMi300Half),
          {.i8 = 184.6}, kMi300Half),
      WithSmallNumbers(
          Rated(Kind("mi210", "AMD Instinct MI210", 45.3, 1638, 64, 4, kAmpere,
                     "AMD Instinct MI210 data sheet: 45.3 TFLOP/s f32 in matrices, 181 bf16 and f16, 181 TOPS in 8 "
                     "bits, 1.6 TB/s, 64 GB"),
                0, 181, 181, kMi300Half),
          {.i8 = 181}, kMi300Half),
      WithSmallNumbers(
          Rated(Kind("mi250", "one of the two dies of an AMD Instinct MI250", 45.3, 1638, 64, 4, kAmpere,
                     "AMD Instinct MI250 data sheet, half of each: 90.5 TFLOP/s f32 in matrices, 362.1 bf16 and "
                     "f16, 362.1 TOPS in 8 bits, 3.2 TB/s, 128 GB"),
                0, 181, 181, kMi300Half),
          {.i8 = 181}, kMi300Half),
      WithSmallNumbers(
          Rated(Kind("mi300x", "AMD Instinct MI300X", 653.7, 5300, 192, 4, kHopper,
                     "AMD Instinct MI300X data sheet, dense: 163.4 TFLOP/s f32, 653.7 TF32, 1307.4 bf16 and f16, "
                     "2614.9 TFLOP/s or TOPS in 8 bits, 5.3 TB/s, "
                     "192 GB"),
                163.4, 1307.4, 1307.4, kMi300Half),
          {.i8 = 2614.9, .f8 = 2614.9}, kMi300Half),
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

constexpr double kHomeLaunchMicros = 3;

// A row of home_devices.h. `has_tf32`: NVIDIA's from Ampere on compute TF32 at the rate of f32.
DeviceKind HomeKind(const HomeDevice& row, std::string_view source) {
  const bool has_tf32 = row.bf16 > 0 && row.name.starts_with("rtx");
  return WithSmallNumbers(Rated(Kind(std::string(row.name), std::string(row.summary), row.f32, row.gb_per_s,
                                     row.memory_gib, kHomeLaunchMicros, kAmpere, std::string(source)),
                                has_tf32 ? row.f32 : 0, row.bf16, row.f16, kAmpereHalf),
                          {.i8 = row.i8}, kAmpereHalf);
}

const std::vector<DeviceKind>& CatalogueKinds() {
  static const std::vector<DeviceKind> kinds = [] {
    std::vector<DeviceKind> all = MakeDeviceKinds();
    for (const HomeDevice& row : kHomeNvidia) {
      all.push_back(HomeKind(row,
                             "NVIDIA's whitepaper of the architecture and specifications of the card; launch: our "
                             "estimate"));
    }
    for (const HomeDevice& row : kHomeAmdAndIntel) {
      all.push_back(HomeKind(row, "specifications of AMD and Intel; launch: our estimate"));
    }
    for (const HomeDevice& row : kHomeApple) {
      all.push_back(HomeKind(row, "Apple's specifications; FLOP: cores x 128 lanes x 2 x clock; launch: our estimate"));
    }
    for (const HomeDevice& row : kHomeCpus) {
      all.push_back(CpuKind(std::string(row.name), std::string(row.summary), row.f32, row.gb_per_s, row.memory_gib,
                            "channels x transfers a second x 8 bytes; cores x clock x FLOP a cycle"));
    }
    return all;
  }();
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

std::string_view Name(Precision precision) { return kPrecisionNames[static_cast<std::size_t>(precision)]; }

std::optional<Precision> PrecisionFromName(std::string_view name) {
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    if (kPrecisionNames[i] == name) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

PrecisionRate RateOf(const DeviceKind& kind, Precision precision) {
  const PrecisionRate& own = kind.precisions[static_cast<std::size_t>(precision)];
  if (own.peak.count > 0) return own;
  if (precision == Precision::kI8 || precision == Precision::kF8) return RateOf(kind, Precision::kF16);
  if (precision == Precision::kF4) return RateOf(kind, Precision::kF8);
  if (precision != Precision::kF32) return RateOf(kind, Precision::kF32);
  return {kind.peak, kind.compute_efficiency};
}

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
