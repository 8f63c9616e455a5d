#ifndef EMPLACE_DATASETS_IMPORTERS_REGISTRY_H_
#define EMPLACE_DATASETS_IMPORTERS_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_limits.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// A step as it was measured, beside the graph that was made of it. Times in µs from the start of the step.
struct MeasuredStep {
  // Activity of a device: from the start of op `first` to the end of op `last`, mostly one op.
  struct Run {
    OpId first{};
    OpId last{};
    double start_micros = 0;
    double end_micros = 0;
  };
  double step_time_micros = 0;
  std::vector<double> op_start_micros;  // indexed by OpId
  std::vector<Run> runs;                // GPU activities, or op ranges of a CPU, ordered by device, then by start
  // When a device was busy with what was launched before the step: given, the same in a simulation.
  struct Busy {
    std::size_t device = 0;
    double start_micros = 0;
    double end_micros = 0;
  };
  std::vector<Busy> backlog;
  // The peak of allocated memory, measured and as the engine fifo simulates it: the sum over threads. Only traces of
  // a CPU have it.
  std::optional<std::int64_t> peak_bytes;
  std::int64_t simulated_peak_bytes = 0;
  double without_call_micros = 0;    // device time of activities without a call
  double simulated_time_micros = 0;  // the step's, by the engine fifo with the op times of the trace
  std::vector<std::int64_t> steps;   // the numbers N of annotations ProfilerStep#N in the window
  std::optional<std::int64_t> step;  // the one of these that was taken; none: all of the window
  // 100 x (measured - simulated) / measured.
  double UnexplainedPercent() const {
    return step_time_micros > 0 ? 100 * (step_time_micros - simulated_time_micros) / step_time_micros : 0;
  }
  std::vector<std::size_t>
      gpu_of;  // indexed by device: which GPU's stream it is, counted over all ranks; kInvalidGpu: a thread
  std::vector<std::string> gpus;  // their names
  static constexpr std::size_t kInvalidGpu = ~std::size_t{0};
};

// The content of an imported file.
struct Imported {
  Graph graph;
  std::optional<Cluster> cluster;  // if the format describes one
  std::vector<std::string> notes;  // omissions and unattributed data: one line each, for the user
  std::optional<Placement> placement = std::nullopt;
  std::optional<MeasuredStep> measured = std::nullopt;
  // Per cent of the measured device time whose cause was found; none where the format has no such time.
  std::optional<double> attributed_percent = std::nullopt;
};

class InputSpool;

// A file that is imported. It may be read several times, also if it is standard input or a pipe.
class ImportSource {
 public:
  // A text in place of a file. `name` is the prefix of errors.
  ImportSource(std::string name, std::string content);
  // Throws InputError if the file cannot be read.
  explicit ImportSource(const std::string& path);

  const std::string& name() const { return name_; }
  // Whether name() is a file that can be read at any place; else what is read of it is kept.
  bool is_file() const { return is_file_; }
  // The first 1 MiB, or all of it.
  const std::string& head() const { return head_; }
  // Both read no more than the limit of `kind`.
  std::unique_ptr<std::istream> Open(InputKind kind = InputKind::kKineto) const;
  const std::string& Content(InputKind kind = InputKind::kTextProfile) const;

 private:
  std::string name_;
  std::string head_;
  bool is_file_ = false;
  mutable std::optional<std::string> content_;  // once it was asked for
  mutable std::shared_ptr<InputSpool> spool_;   // copy of what cannot be read twice: a pipe, standard input
};

struct ImportOptions {
  double min_attributed_percent = 95;
  // For formats without times, what measured the same step: a Kineto trace, or a RunMetadata of TensorFlow; "": none.
  std::string times = {};
  std::vector<std::string> inputs = {};  // "NAME=DIMS": shapes of inputs, for formats that leave sizes free
  std::string step = {};                 // the step to use: a number N of ProfilerStep#N; "all"; "": the median
  int nodes = 1;                         // number of copies of the node, for formats that describe one
  // A cluster, shipped or a file: whose devices time the ranks of traces without times, or that device names of the
  // file mean. For traces of several ranks, a file with the ranks of each process group (chakra_groups.h).
  std::string cluster = {};
  std::string comm_groups = {};
  // NVLink of each GPU where a topology has none: a kind of GPU, or GB/s; "": none is added.
  std::string nvlink = {};
  std::string training = {};  // an optimizer: the forward graph of a network becomes a training step; "": it does not
};

// A row of `emplace list importers`.
struct ImporterEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Whether the start of a file looks like this format (of a file that may still be broken).
  bool (*detect)(std::string_view head);
  // Throws InputError, its place starting with the file's name.
  Imported (*import)(std::span<const ImportSource> sources, const ImportOptions& options);
  bool takes_several = false;   // files; others are given one
  bool takes_times = false;     // ImportOptions::times
  bool takes_inputs = false;    // ImportOptions::inputs
  bool takes_training = false;  // ImportOptions::training
  bool is_cluster = false;      // a cluster without a graph; also takes ImportOptions::nodes and ::nvlink
  bool takes_steps = false;     // ImportOptions::step
  bool takes_ranks = false;     // ImportOptions::cluster and ::comm_groups
  bool takes_cluster = false;   // ImportOptions::cluster alone: whose devices the file's names mean
};
std::span<const ImporterEntry> AllImporters();
// The format named, or found from the start of `file` if `format` is empty. Throws InputError that lists the known
// names.
const ImporterEntry& FindImporter(std::string_view format, std::string_view head, const std::string& file);
// Imports files of one format. Throws InputError, also on several files where the format takes one.
Imported Import(const ImporterEntry& importer, std::span<const ImportSource> sources,
                const ImportOptions& options = {});

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_REGISTRY_H_
