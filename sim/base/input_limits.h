#ifndef EMPLACE_SIM_BASE_INPUT_LIMITS_H_
#define EMPLACE_SIM_BASE_INPUT_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace emplace {

// The kinds of files that emplace reads, in the order of kInputLimits.
enum class InputKind : std::uint8_t {
  kGraph,
  kCluster,
  kExperiment,
  kPlacement,
  kGrouping,
  kProfile,
  kSchedule,
  kPolicy,
  kCheckpoint,
  kPlan,
  kTrialFile,
  kMeasurement,
  kPublished,
  kKineto,
  kChakra,
  kPyTorchTrace,
  kOnnx,
  kHlo,
  kExportedProgram,
  kTextProfile,
  kNccl,
  kGguf,
  kTensorFlow,
};

// The limits of files. docs/formats.md has this table for users, and a test compares the two.
struct InputLimits {
  InputKind kind;
  std::string_view name;         // the name of the row in docs/formats.md
  std::uint64_t bytes;           // size of the uncompressed file
  std::size_t levels;            // nesting depth of lists and objects; 0: the format has no lists
  std::size_t values;            // values held in memory at the same time; 0: the reader does not hold values
  std::size_t text_bytes;        // size of one string, number, line or run of white space; 0: only the file's limit
  bool is_regular_file = false;  // emplace wrote it: a pipe, a socket or a device is refused without waiting for it
};

inline constexpr std::size_t kMostLevels = 64;
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 24;

namespace internal {
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
}  // namespace internal

// A value that is held takes 40 to 72 bytes, and twice as much while a list grows. The numbers of values keep what a
// file takes of the memory below its own limit of size and 100 MB.
inline constexpr InputLimits kInputLimits[] = {
    {InputKind::kGraph, "graph", 4 * internal::kGiB, kMostLevels, std::size_t{1} << 20, kMostTextBytes},
    {InputKind::kCluster, "cluster", 4 * internal::kMiB, kMostLevels, std::size_t{1} << 19, 4 * internal::kMiB},
    {InputKind::kExperiment, "experiment", 4 * internal::kMiB, kMostLevels, std::size_t{1} << 18, 4 * internal::kMiB},
    {InputKind::kPlacement, "placement", internal::kGiB, kMostLevels, std::size_t{1} << 18, kMostTextBytes},
    {InputKind::kGrouping, "grouping", internal::kGiB, kMostLevels, std::size_t{1} << 18, kMostTextBytes},
    {InputKind::kProfile, "profile", internal::kGiB, kMostLevels, std::size_t{1} << 22, kMostTextBytes},
    {InputKind::kSchedule, "schedule", 48 * internal::kMiB, 0, 0, 0},
    {InputKind::kPolicy, "policy", internal::kGiB, 0, 0, 0},
    {InputKind::kCheckpoint, "checkpoint", internal::kGiB, 0, 0, 0, true},
    {InputKind::kPlan, "plan", internal::kGiB, kMostLevels, std::size_t{1} << 18, kMostTextBytes, true},
    {InputKind::kTrialFile, "trial file", 256 * internal::kMiB, kMostLevels, std::size_t{1} << 21, kMostTextBytes,
     true},
    {InputKind::kMeasurement, "measurement", internal::kGiB, kMostLevels, std::size_t{1} << 22, kMostTextBytes},
    {InputKind::kPublished, "published", 4 * internal::kMiB, kMostLevels, std::size_t{1} << 18, 4 * internal::kMiB},
    {InputKind::kKineto, "kineto", 4 * internal::kGiB, kMostLevels, 0, kMostTextBytes},
    {InputKind::kChakra, "chakra", 4 * internal::kGiB, kMostLevels, std::size_t{1} << 20, kMostTextBytes},
    {InputKind::kPyTorchTrace, "pytorch-et", 4 * internal::kGiB, kMostLevels, std::size_t{1} << 20, kMostTextBytes},
    {InputKind::kOnnx, "onnx", 4 * internal::kGiB, kMostLevels, 0, 0},
    {InputKind::kHlo, "hlo", 256 * internal::kMiB, 100, 0, 0},
    {InputKind::kExportedProgram, "torch-export", internal::kGiB, kMostLevels, std::size_t{1} << 22, kMostTextBytes},
    {InputKind::kTextProfile, "pipedream, dnn-partitioning", 64 * internal::kMiB, kMostLevels, std::size_t{1} << 20,
     kMostTextBytes},
    {InputKind::kNccl, "nccl", 16 * internal::kMiB, 32, 0, 0},
    {InputKind::kGguf, "gguf", 4096 * internal::kGiB, 0, 0, 64 * internal::kMiB},
    {InputKind::kTensorFlow, "tensorflow", 2 * internal::kGiB, kMostLevels, 0, 0},
};

constexpr const InputLimits& LimitsOf(InputKind kind) { return kInputLimits[static_cast<std::size_t>(kind)]; }

namespace internal {
constexpr bool RowsAreInOrder() {
  for (std::size_t i = 0; i < std::size(kInputLimits); ++i) {
    if (kInputLimits[i].kind != static_cast<InputKind>(i)) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());
}  // namespace internal

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_INPUT_LIMITS_H_
