#include "experiments/report/reproduction.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "experiments/report/grid.h"
#include "experiments/report/tables.h"
#include "experiments/validation/validation.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kAgentKeys = "agent.";

using Conditions = std::map<std::string, std::string>;

bool HasAgent(const Conditions& conditions, const JsonValue& spec) {
  return std::all_of(conditions.begin(), conditions.end(), [&spec](const auto& condition) {
    return !condition.first.starts_with(kAgentKeys) || MatchText(spec, condition.first) == condition.second;
  });
}

// The name that the paper gives to the method: the last part of the place.
std::string MethodOf(const PublishedFigure& figure) {
  const auto label = figure.match.find("agent.label");
  if (label != figure.match.end()) return label->second;
  const std::size_t comma = figure.place.rfind(", ");
  return comma == std::string::npos ? figure.place : figure.place.substr(comma + 2);
}

// The value by which methods are ordered, small is good; none if there is nothing to order by.
std::optional<double> PublishedKey(const ReproducedMethod& method, bool smaller_is_better) {
  if (!method.published) return std::nullopt;
  if (!method.published->value) return method.published->rank;
  return smaller_is_better ? *method.published->value : -*method.published->value;
}

std::optional<double> OurKey(const ReproducedMethod& method, bool smaller_is_better) {
  if (!method.ours) return std::nullopt;
  return smaller_is_better ? method.ours->mean : -method.ours->mean;
}

class RowMaker {
 public:
  RowMaker(const PublishedRow& row, const PublishedFigures& published, const std::vector<JsonValue>& specs,
           const std::vector<TrialRecord>& trials)
      : row_(row), published_(published), trials_(trials) {
    if (!trials.empty()) grid_ = MakeReportGrid(trials);
    for (const JsonValue& spec : specs) {
      const std::string label = MatchText(spec, "agent.label");
      if (agents_.try_emplace(label, &spec).second) labels_.push_back(label);
    }
  }

  void Add(const MetricEntry& metric, std::vector<ReproducedTable>* tables) const {
    if (trials_.empty()) {
      tables->push_back(Fill(metric, nullptr, 0));
      return;
    }
    const MetricTable table = MakeMetricTable(trials_, grid_, metric, nullptr);
    const std::size_t before = tables->size();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].over != row_.over) continue;
      tables->push_back(Fill(metric, &table, c));
      if (grid_.columns.size() > 1 && row_.over.empty()) tables->back().column = table.columns[c].title;
    }
    if (tables->size() == before) tables->push_back(Fill(metric, nullptr, 0));
  }

 private:
  ReproducedTable Fill(const MetricEntry& metric, const MetricTable* ours, std::size_t column) const {
    ReproducedTable table{.row = row_.title, .metric = &metric};
    std::set<std::string> known;
    for (const PublishedFigure& figure : row_.figures) {
      if (figure.metric != metric.name) continue;
      const std::string of = TableOf(figure);
      if (std::find(table.tables.begin(), table.tables.end(), of) == table.tables.end()) table.tables.push_back(of);
      bool is_here = false;
      for (const std::string& label : labels_) {
        if (!HasAgent(figure.match, *agents_.at(label))) continue;
        is_here = true;
        known.insert(label);
        table.methods.push_back(Ours(label, metric, ours, column));
        table.methods.back().published = figure;
      }
      if (is_here) continue;
      table.methods.push_back({.label = MethodOf(figure), .no_value = "not in the experiment", .published = figure});
    }
    // Methods that the paper does not have are there to be compared with those that it has.
    for (const std::string& label : labels_) {
      if (!known.empty() && !known.contains(label)) table.methods.push_back(Ours(label, metric, ours, column));
    }
    AddRatios(&table);
    AddOrders(&table);
    return table;
  }

  ReproducedMethod Ours(const std::string& label, const MetricEntry& metric, const MetricTable* ours,
                        std::size_t column) const {
    ReproducedMethod method{.label = label, .options = MatchText(*agents_.at(label), "agent.set")};
    if (ours != nullptr) {
      const auto row = std::find_if(ours->rows.begin(), ours->rows.end(),
                                    [&label](const TableRow& other) { return other.label == label; });
      if (row != ours->rows.end()) method.ours = row->cells[column].estimate;
    }
    if (!method.ours) {
      method.no_value = ours == nullptr && !trials_.empty() ? "not all trials finished" : WhyNone(label);
      return method;
    }
    method.ours->mean *= metric.shown_per_unit;
    if (method.ours->interval) {
      method.ours->interval->low *= metric.shown_per_unit;
      method.ours->interval->high *= metric.shown_per_unit;
    }
    return method;
  }

  std::string WhyNone(const std::string& label) const {
    bool any = false;
    bool fits = false;
    for (const TrialRecord& trial : trials_) {
      if (trial.label != label) continue;
      any = true;
      fits = fits || std::any_of(trial.graphs.begin(), trial.graphs.end(),
                                 [](const GraphRecord& graph) { return graph.best_micros.has_value(); });
    }
    return !any ? "no trial finished" : fits ? "none" : "does not fit";
  }

  // The methods of the first baseline that has both values.
  std::vector<const ReproducedMethod*> Baselines(const ReproducedTable& table, std::string* name) const {
    for (const Conditions& baseline : published_.baselines) {
      std::vector<const ReproducedMethod*> found;
      for (const ReproducedMethod& method : table.methods) {
        const bool has_both = method.ours && method.ours->mean != 0 && method.published && method.published->value &&
                              *method.published->value != 0;
        if (has_both && HasAgent(baseline, *agents_.at(method.label))) found.push_back(&method);
      }
      if (found.empty()) continue;
      *name = baseline.empty() ? found.front()->label : baseline.begin()->second;
      return found;
    }
    return {};
  }

  void AddRatios(ReproducedTable* table) const {
    const std::vector<const ReproducedMethod*> baselines = Baselines(*table, &table->baseline);
    if (baselines.empty()) return;
    for (ReproducedMethod& method : table->methods) {
      const auto same = std::find_if(baselines.begin(), baselines.end(),
                                     [&method](const auto* other) { return other->options == method.options; });
      const ReproducedMethod& baseline = same == baselines.end() ? *baselines.front() : **same;
      if (method.ours) method.our_ratio = method.ours->mean / baseline.ours->mean;
      if (method.published && method.published->value) {
        method.published_ratio = *method.published->value / *baseline.published->value;
      }
    }
  }

  static void AddOrders(ReproducedTable* table) {
    const bool smaller = table->metric->smaller_is_better;
    std::set<std::string> places;
    bool several = false;  // figures that match several methods
    for (const ReproducedMethod& method : table->methods) {
      if (method.published) several = !places.insert(method.published->place).second || several;
    }
    std::vector<std::string> keys;  // in the order of the methods
    std::map<std::string, std::vector<ReproducedMethod*>> groups;
    for (ReproducedMethod& method : table->methods) {
      if (!OurKey(method, smaller) || !PublishedKey(method, smaller)) continue;
      const std::string key = several ? method.options : "";
      if (!groups.contains(key)) keys.push_back(key);
      groups[key].push_back(&method);
    }
    for (const std::string& key : keys) {
      if (groups[key].size() > 1) table->orders.push_back(Compare(groups[key], smaller));
    }
  }

  static OrderAgreement Compare(std::vector<ReproducedMethod*> methods, bool smaller_is_better) {
    std::vector<double> ours;
    std::vector<double> theirs;
    for (const ReproducedMethod* method : methods) {
      ours.push_back(*OurKey(*method, smaller_is_better));
      theirs.push_back(*PublishedKey(*method, smaller_is_better));
    }
    OrderAgreement agreement{.spearman = SpearmanCorrelation(ours, theirs)};
    for (std::size_t a = 0; a < methods.size(); ++a) {
      for (std::size_t b = a + 1; b < methods.size(); ++b) {
        if (theirs[a] == theirs[b]) continue;
        ++agreement.ordered;
        if (ours[a] == ours[b]) continue;
        (ours[a] < ours[b]) == (theirs[a] < theirs[b]) ? ++agreement.alike : ++agreement.reversed;
      }
    }
    const std::vector<double> our_ranks = Ranks(ours);
    const std::vector<double> their_ranks = Ranks(theirs);
    for (std::size_t i = 0; i < methods.size(); ++i) {
      methods[i]->our_rank = our_ranks[i];
      methods[i]->published_rank = their_ranks[i];
    }
    std::stable_sort(methods.begin(), methods.end(),
                     [](const ReproducedMethod* a, const ReproducedMethod* b) { return *a->our_rank < *b->our_rank; });
    for (const ReproducedMethod* method : methods) agreement.labels.push_back(method->label);
    return agreement;
  }

  const PublishedRow& row_;
  const PublishedFigures& published_;
  const std::vector<TrialRecord>& trials_;
  ReportGrid grid_;
  std::vector<std::string> labels_;                 // in the order of the plan
  std::map<std::string, const JsonValue*> agents_;  // the first spec of each label
};

}  // namespace

std::vector<ReproducedTable> ReproduceRow(const PublishedRow& row, const PublishedFigures& published,
                                          const std::vector<JsonValue>& specs, const std::vector<TrialRecord>& trials) {
  const RowMaker maker(row, published, specs, trials);
  std::vector<ReproducedTable> tables;
  std::set<std::string> metrics;
  for (const PublishedFigure& figure : row.figures) {
    if (metrics.insert(figure.metric).second) maker.Add(FindMetric(figure.metric, figure.place), &tables);
  }
  return tables;
}

}  // namespace emplace::experiments
