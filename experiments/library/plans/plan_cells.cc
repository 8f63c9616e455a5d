#include "experiments/library/plans/plan_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/base/suggestion.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> CellsOfLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string> cells;
  while (true) {
    const std::size_t comma = line.find(',');
    cells.emplace_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

// The rows of a CSV file without quotes, by the names of their columns.
class CsvRows {
 public:
  explicit CsvRows(std::string file) : file_(std::move(file)) {
    std::istringstream in(ReadWholeFile(file_, InputKind::kMeasurement));
    std::string line;
    for (line_ = 1; std::getline(in, line); ++line_) {
      if (line.empty() || line == "\r") continue;
      std::vector<std::string> cells = CellsOfLine(line);
      if (header_.empty()) {
        header_ = std::move(cells);
      } else if (cells.size() != header_.size()) {
        throw InputError(Place(), fmt::format("has {} cells ({}, one for each column)", cells.size(), header_.size()));
      } else {
        rows_.emplace_back(line_, std::move(cells));
      }
    }
    if (header_.empty()) throw InputError(file_, "is empty (a line with the names of columns)");
  }

  // Goes to the next row; false behind the last.
  bool Next() {
    if (next_ == rows_.size()) return false;
    line_ = rows_[next_++].first;
    return true;
  }
  const std::string& Text(std::string_view column) const {
    const auto found = std::ranges::find(header_, column);
    if (found == header_.end()) {
      throw InputError(file_, fmt::format("has no column {} ({})", Quoted(column), fmt::join(header_, ", ")));
    }
    return rows_[next_ - 1].second[static_cast<std::size_t>(found - header_.begin())];
  }
  std::int64_t Integer(std::string_view column, std::int64_t least = 1) const {
    const std::int64_t value = Number<std::int64_t>(column, "an integer");
    constexpr std::int64_t kMost = 1 << 24;
    if (value < least || value > kMost) Refuse(column, fmt::format("{} to {}", least, kMost));
    return value;
  }
  double Positive(std::string_view column) const {
    const double value = Number<double>(column, "a number");
    if (!(value > 0 && value < 1e9)) Refuse(column, "a time that is more than 0");
    return value;
  }

 private:
  std::string Place() const { return fmt::format("{}:{}", file_, line_); }
  [[noreturn]] void Refuse(std::string_view column, std::string_view allowed) const {
    throw InputError(Place(), fmt::format("{} is {} ({})", column, Quoted(Text(column)), allowed));
  }
  template <typename Value>
  Value Number(std::string_view column, std::string_view allowed) const {
    const std::string& text = Text(column);
    Value value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) Refuse(column, allowed);
    return value;
  }

  std::string file_;
  std::size_t line_ = 0;
  std::vector<std::string> header_;
  std::vector<std::pair<std::size_t, std::vector<std::string>>> rows_;
  std::size_t next_ = 0;
};

// A cell while its rows are read.
struct OpenCell {
  PlanCell cell;
  std::map<PlanSetting, std::optional<double>> steps;

  void Add(const PlanSetting& setting, std::optional<double> step_s) {
    const auto [found, is_new] = steps.try_emplace(setting, step_s);
    if (!is_new && step_s && (!found->second || *step_s < *found->second)) found->second = step_s;
  }
};

std::vector<PlanCell> Closed(auto open_cells) {
  std::vector<PlanCell> cells;
  for (auto& [key, open] : open_cells) {
    for (const auto& [setting, step_s] : open.steps) {
      open.cell.settings.push_back(setting);
      open.cell.step_s.push_back(step_s);
    }
    cells.push_back(std::move(open.cell));
  }
  return cells;
}

std::string IntegerText(std::int64_t number) { return fmt::format("{}", number); }

// Runs of Nanotron on nodes of 8 H100: a cell is a network on a number of nodes.
std::vector<PlanCell> ReadNanotron(const std::string& file) {
  constexpr std::int64_t kBatch = 256;
  std::map<std::tuple<std::int64_t, std::int64_t, std::string, std::int64_t>, OpenCell> open;  // the smallest first
  for (CsvRows row(file); row.Next();) {
    const PlanSetting setting = {.dp = row.Integer("dp"),
                                 .tp = row.Integer("tp"),
                                 .pp = row.Integer("pp"),
                                 .zero = row.Integer("zero", 0),
                                 .micro_batch = row.Integer("mbs"),
                                 .grad_accumulation = row.Integer("grad_acc")};
    const std::int64_t gpus = row.Integer("gpus");
    if (setting.dp * setting.tp * setting.pp != gpus ||
        setting.dp * setting.micro_batch * setting.grad_accumulation != kBatch) {
      continue;
    }
    const std::int64_t hidden = row.Integer("hidden");
    const std::int64_t layers = row.Integer("layers");
    OpenCell& cell = open[{hidden, layers, row.Text("model"), row.Integer("nodes")}];
    if (cell.steps.empty()) {
      std::string model = row.Text("model");
      std::ranges::transform(model, model.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      cell.cell = {.name = fmt::format("nanotron-{}-{}", model, gpus),
                   .table = "nanotron",
                   .network = "llama-3-8b",
                   .set = {{"layers", IntegerText(layers)},
                           {"d_model", IntegerText(hidden)},
                           {"heads", row.Text("heads")},
                           {"kv_heads", row.Text("kv_heads")},
                           {"head_width", IntegerText(hidden / row.Integer("heads"))},
                           {"d_ff", row.Text("ffn")},
                           {"vocabulary", row.Text("vocab")},
                           {"tied", row.Integer("tied_embeddings", 0) != 0 ? "true" : "false"}},
                   .cluster = "p5.48xlarge",
                   .nodes = row.Integer("nodes"),
                   .gpus = gpus,
                   .framework = "nanotron",
                   .global_batch = kBatch,
                   .sequence = row.Integer("seq")};
    }
    const bool ran = row.Integer("ran", 0) != 0;
    cell.Add(setting, ran ? std::optional(row.Positive("step_s")) : std::nullopt);
  }
  return Closed(std::move(open));
}

// Runs of Megatron-LM on one node of A100s: a cell is a network on all 8 of them, with the batch that has most settings
// there, 16.
std::vector<PlanCell> ReadVtrain(const std::string& file) {
  constexpr std::int64_t kGpus = 8;
  constexpr std::int64_t kBatch = 16;
  std::map<std::tuple<std::int64_t, std::int64_t>, OpenCell> open;  // by width, then layers
  for (CsvRows row(file); row.Next();) {
    if (row.Integer("# GPUs") != kGpus || row.Integer("global batch") != kBatch) continue;
    const std::int64_t hidden = row.Integer("hidden size");
    const std::int64_t layers = row.Integer("# layers");
    const std::int64_t heads = row.Integer("attention heads");
    OpenCell& cell = open[{hidden, layers}];
    if (cell.steps.empty()) {
      cell.cell = {.name = fmt::format("vtrain-{}x{}-{}", hidden, layers, kGpus),
                   .table = "vtrain",
                   .network = "gpt-3-350m",
                   .set = {{"layers", IntegerText(layers)},
                           {"d_model", IntegerText(hidden)},
                           {"heads", IntegerText(heads)},
                           {"kv_heads", IntegerText(heads)},
                           {"head_width", IntegerText(hidden / heads)},
                           {"d_ff", IntegerText(4 * hidden)},
                           {"vocabulary", "51200"}},
                   .cluster = "dgx-a100",
                   .nodes = 1,
                   .gpus = kGpus,
                   .framework = "megatron",
                   .global_batch = kBatch,
                   .sequence = row.Integer("sequence length"),
                   .fixed = {{"attention", "unfused"},
                             {"cp", "1"},
                             {"rank_order", "tp-cp-dp-pp"},
                             {"recompute", "none"},
                             {"sequence_parallel", "false"},
                             {"stages", "even"},
                             {"vpp", "1"},
                             {"zero", "0"}}};
    }
    const std::int64_t dp = row.Integer("data parallelism");
    const std::int64_t micro_batch = row.Integer("micro batch");
    cell.Add({.dp = dp,
              .tp = row.Integer("tensor parallelism"),
              .pp = row.Integer("pipeline parallelism"),
              .micro_batch = micro_batch,
              .grad_accumulation = kBatch / (dp * micro_batch)},
             row.Positive("iteration time (ms)") / 1000);
  }
  return Closed(std::move(open));
}

}  // namespace

std::string SettingText(const PlanSetting& setting) {
  return fmt::format("dp {}, tp {}, pp {}, zero {}, micro-batch {}", setting.dp, setting.tp, setting.pp, setting.zero,
                     setting.micro_batch);
}

std::size_t PlanCell::ran() const {
  return static_cast<std::size_t>(std::ranges::count_if(step_s, [](const auto& step) { return step.has_value(); }));
}

std::optional<double> PlanCell::best_step_s() const {
  std::optional<double> best;
  for (const std::optional<double>& step : step_s) {
    if (step && (!best || *step < *best)) best = step;
  }
  return best;
}

const std::vector<PlanTable>& PlanTables() {
  static const std::vector<PlanTable> tables = {
      {"nanotron", "huggingface+ultrascale-playbook/runs.csv",
       "Hugging Face 2025, \"The Ultra-Scale Playbook\": Nanotron on 8 to 512 H100"},
      {"vtrain", "VIA-Research+vTrain/ground_truth_single.csv", "Bang et al. 2024, \"vTrain\": Megatron-LM on 8 A100"}};
  return tables;
}

std::vector<PlanCell> ReadPlanCells(const std::string& folder) {
  std::vector<PlanCell> cells;
  bool has_table = false;
  for (const PlanTable& table : PlanTables()) {
    const fs::path file = fs::path(folder) / table.file;
    if (!fs::exists(file)) continue;
    has_table = true;
    std::vector<PlanCell> more = table.name == "nanotron" ? ReadNanotron(file.string()) : ReadVtrain(file.string());
    std::ranges::move(more, std::back_inserter(cells));
  }
  if (!has_table) {
    throw InputError(folder, fmt::format("has neither {} nor {}", PlanTables()[0].file, PlanTables()[1].file));
  }
  return cells;
}

const PlanCell& FindPlanCell(const std::vector<PlanCell>& cells, std::string_view name, const std::string& place) {
  const auto found = std::ranges::find(cells, name, &PlanCell::name);
  if (found != cells.end()) return *found;
  throw InputError(place, fmt::format("unknown cell {} (`emplace library list --tier plans` lists them){}",
                                      Quoted(name), DidYouMean(name, NamesOf(cells))));
}

}  // namespace emplace::experiments
