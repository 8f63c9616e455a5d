#include "experiments/library/score/library_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <map>
#include <ostream>
#include <set>

#include "experiments/library/instances.h"
#include "experiments/library/known_results.h"
#include "experiments/report/charts.h"
#include "experiments/report/learning_curves.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kScoresSchema = "emplace.library_scores";

using ScoreOfInstance = std::map<std::string, const InstanceScore*, std::less<>>;

// The scores of instances that are in the library with the same hash and that have a best known result.
ScoreOfInstance Valid(const LibraryScores& scores) {
  ScoreOfInstance valid;
  for (const InstanceScore& score : scores.instances) {
    for (const LibraryInstance& instance : LibraryInstances()) {
      if (instance.name == score.instance && instance.hash == score.hash &&
          FindKnownResult(score.instance) != nullptr) {
        valid.emplace(score.instance, &score);
      }
    }
  }
  return valid;
}

double RatioToBest(const BudgetResult& result, std::string_view instance) {
  if (!result.found) return kRatioOfNothing;
  const KnownResult* known = FindKnownResult(instance);
  EMPLACE_CHECK(known != nullptr);
  // An empty step is as good as any.
  if (known->step_time_ns == 0) return result.step_time_ns == 0 ? 1 : kRatioOfNothing;
  return static_cast<double>(result.step_time_ns) / static_cast<double>(known->step_time_ns);
}

std::uint64_t BestNs(std::string_view instance) {
  return static_cast<std::uint64_t>(FindKnownResult(instance)->step_time_ns);
}

const BudgetResult* ResultOf(const InstanceScore& score, std::uint64_t budget) {
  const auto found = std::find_if(score.results.begin(), score.results.end(),
                                  [budget](const BudgetResult& result) { return result.budget == budget; });
  return found == score.results.end() ? nullptr : &*found;
}

std::vector<std::uint64_t> BudgetsOf(const LibraryScores& scores) {
  std::set<std::uint64_t> budgets;
  for (const InstanceScore& score : scores.instances) {
    for (const BudgetResult& result : score.results) budgets.insert(result.budget);
  }
  return {budgets.begin(), budgets.end()};
}

// The instances of a tier that `own` has, in the order of the library.
std::vector<std::string> InstancesOf(Tier tier, const ScoreOfInstance& own) {
  std::vector<std::string> names;
  for (const LibraryInstance& instance : LibraryInstances()) {
    if (instance.tier == tier && own.contains(instance.name)) names.push_back(instance.name);
  }
  return names;
}

bool Covers(const ScoreOfInstance& scores, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [&scores](const std::string& name) { return scores.contains(name); });
}

TierScore ScoreTier(const std::string& label, const ScoreOfInstance& scores, const std::vector<std::string>& names,
                    const std::vector<std::uint64_t>& budgets) {
  TierScore tier{.label = label, .instances = names.size(), .gaps = {}};
  for (const std::uint64_t budget : budgets) {
    std::vector<double> ratios;
    for (const std::string& name : names) {
      const BudgetResult* result = ResultOf(*scores.find(name)->second, budget);
      if (result != nullptr) ratios.push_back(RatioToBest(*result, name));
    }
    tier.gaps.push_back(ratios.size() == names.size() ? std::optional(GeometricMeanGap(ratios)) : std::nullopt);
  }
  double sum = 0;
  for (const std::string& name : names) {
    const InstanceScore& score = *scores.find(name)->second;
    const BudgetResult& last = score.results.back();
    if (!last.found) ++tier.not_found;
    if (last.found && last.step_time_ns < BestNs(name)) ++tier.records;
    sum += PrimalIntegral(score.trace, last.budget, BestNs(name));
  }
  tier.primal_integral = sum / static_cast<double>(names.size());
  return tier;
}

// The mean gap by evaluations, from where all instances of which anything is found have something.
Curve GapCurve(const std::string& label, const ScoreOfInstance& scores, const std::vector<std::string>& names) {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  for (const std::string& name : names) {
    const InstanceScore& score = *scores.find(name)->second;
    if (!score.trace.empty()) first = std::max(first, score.trace.front().first);
    last = std::max(last, score.results.back().budget);
  }
  Curve curve{.label = label, .points = {}};
  constexpr double kStep = 1.15;
  for (std::uint64_t at = first;;
       at = std::min(std::max(at + 1, static_cast<std::uint64_t>(static_cast<double>(at) * kStep)), last)) {
    std::vector<double> ratios;
    for (const std::string& name : names) {
      const InstanceScore& score = *scores.find(name)->second;
      BudgetResult result;
      for (const auto& [evaluations, nanos] : score.trace) {
        if (evaluations <= at)
          result = {.budget = at, .evaluations = evaluations, .step_time_ns = nanos, .found = true};
      }
      ratios.push_back(RatioToBest(result, name));
    }
    const double gap = GeometricMeanGap(ratios);
    curve.points.push_back({.x = static_cast<double>(at), .centre = gap, .low = gap, .high = gap});
    if (at >= last) break;
  }
  return curve;
}

std::string TwoDigits(double value) { return fmt::format("{:.2f}", value); }

TableBlock MakeTierTable(const std::vector<TierScore>& scores, const std::vector<std::uint64_t>& budgets) {
  TableBlock table{.caption = "Geometric mean of the gap to the best known step time, in percent",
                   .header = {"searcher"}};
  for (const std::uint64_t budget : budgets) table.header.push_back(fmt::format("{} evaluations", budget));
  for (const char* const column : {"primal integral %", "nothing found", "records"}) table.header.emplace_back(column);
  for (const TierScore& score : scores) {
    std::vector<TextCell> row = {{.text = score.label, .strong = &score == scores.data()}};
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      std::optional<double> best;
      for (const TierScore& other : scores) {
        if (other.gaps[i] && (!best || *other.gaps[i] < *best)) best = other.gaps[i];
      }
      row.push_back({.text = score.gaps[i] ? TwoDigits(*score.gaps[i]) : "–",
                     .tone = score.gaps[i] && *score.gaps[i] == *best ? CellTone::kBetter : CellTone::kPlain});
    }
    row.push_back({.text = TwoDigits(score.primal_integral)});
    row.push_back({.text = std::to_string(score.not_found)});
    row.push_back({.text = std::to_string(score.records)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

TableBlock MakeInstanceTable(const ScoreOfInstance& own, const std::vector<std::string>& names,
                             const std::vector<std::uint64_t>& budgets) {
  TableBlock table{.caption = "Each instance: gap to the best known, in percent",
                   .header = {"instance", "best known ns", "status"},
                   .text_columns = 1,
                   .folded = true};
  for (const std::uint64_t budget : budgets) table.header.push_back(fmt::format("{} evaluations", budget));
  table.header.emplace_back("primal integral %");
  for (const std::string& name : names) {
    const InstanceScore& score = *own.find(name)->second;
    const KnownResult& known = *FindKnownResult(name);
    std::vector<TextCell> row = {
        {.text = name}, {.text = std::to_string(known.step_time_ns)}, {.text = std::string(NameOf(known.status))}};
    for (const std::uint64_t budget : budgets) {
      const BudgetResult* result = ResultOf(score, budget);
      row.push_back({.text = result == nullptr ? "–"
                             : !result->found  ? "nothing"
                                               : TwoDigits(100 * (RatioToBest(*result, name) - 1))});
    }
    row.push_back({.text = TwoDigits(PrimalIntegral(score.trace, score.results.back().budget, BestNs(name)))});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// `own`, then those of the others that cover the instances.
struct Contender {
  const LibraryScores* scores;
  ScoreOfInstance by_instance;
};
std::vector<Contender> ContendersOn(const std::vector<std::string>& names, const LibraryScores& own,
                                    std::span<const LibraryScores> others) {
  std::vector<Contender> contenders = {{&own, Valid(own)}};
  for (const LibraryScores& other : others) {
    Contender contender{&other, Valid(other)};
    if (Covers(contender.by_instance, names)) contenders.push_back(std::move(contender));
  }
  return contenders;
}

}  // namespace

LibraryScores ReadLibraryScores(std::istream& in, const std::string& file) {
  return WithLocation(file, [&in] {
    const JsonValue root = ParseJson(in, {}, JsonLimitsOf(InputKind::kMeasurement));
    const JsonNode node(root);
    CheckSchema(node, kScoresSchema);
    return ReadFields<LibraryScores>(node);
  });
}

void WriteLibraryScores(std::ostream& out, const LibraryScores& scores) {
  // One line for each instance.
  LibraryScores head = scores;
  head.instances.clear();
  std::string text = JsonText({FieldsToJson(head)});
  text.resize(text.size() - std::string_view("]}").size());
  for (std::size_t i = 0; i < scores.instances.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    AppendJson(&text, {FieldsToJson(scores.instances[i])});
  }
  out << text << "]}\n";
}

double GeometricMeanGap(std::span<const double> ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return 100 * (std::exp(sum / static_cast<double>(ratios.size())) - 1);
}

double PrimalIntegral(std::span<const std::pair<std::uint64_t, std::uint64_t>> trace, std::uint64_t budget,
                      std::uint64_t best_ns) {
  double area = 0;
  double gap = 1;
  std::uint64_t at = 1;  // the first evaluation that `gap` holds for
  for (const auto& [evaluations, nanos] : trace) {
    const std::uint64_t until = std::clamp(evaluations, at, budget + 1);
    area += gap * static_cast<double>(until - at);
    at = until;
    gap = nanos <= best_ns ? 0 : static_cast<double>(nanos - best_ns) / static_cast<double>(nanos);
  }
  area += gap * static_cast<double>(budget + 1 - at);
  return 100 * area / static_cast<double>(budget);
}

std::vector<std::pair<std::string, std::vector<TierScore>>> CompareScores(const LibraryScores& own,
                                                                          std::span<const LibraryScores> others) {
  const std::vector<std::uint64_t> budgets = BudgetsOf(own);
  const ScoreOfInstance mine = Valid(own);
  std::vector<std::pair<std::string, std::vector<TierScore>>> tiers;
  for (const auto& [tier, name] : EnumNames<Tier>::kNames) {
    const std::vector<std::string> names = InstancesOf(tier, mine);
    if (names.empty()) continue;
    std::vector<TierScore> scores;
    for (const Contender& contender : ContendersOn(names, own, others)) {
      scores.push_back(ScoreTier(contender.scores->label, contender.by_instance, names, budgets));
    }
    tiers.emplace_back(name, std::move(scores));
  }
  return tiers;
}

ReportDocument MakeScorePage(const LibraryScores& own, std::span<const LibraryScores> others) {
  ReportDocument page{.title = "Library scores: " + own.label, .blocks = {}};
  const std::vector<std::uint64_t> budgets = BudgetsOf(own);
  const ScoreOfInstance mine = Valid(own);
  std::vector<std::string> labels = {own.label};
  for (const LibraryScores& other : others) labels.push_back(other.label);
  page.blocks.emplace_back(
      ParagraphBlock{fmt::format("{} on the library of instances, seed {}, emplace {}. Each budget is a search of its "
                                 "own. The primal integral is the "
                                 "mean gap over the course of the longest search (Berthold 2013). Finding nothing "
                                 "counts as {} times the best known.",
                                 own.label, own.seed, own.emplace, kRatioOfNothing)});
  for (const auto& [tier, scores] : CompareScores(own, others)) {
    const std::vector<std::string> names = InstancesOf(FindTier(tier), mine);
    page.blocks.emplace_back(HeadingBlock{.level = 2, .text = fmt::format("{}: {} instances", tier, names.size())});
    page.blocks.emplace_back(MakeTierTable(scores, budgets));
    std::vector<Curve> curves;
    for (const Contender& contender : ContendersOn(names, own, others)) {
      curves.push_back(GapCurve(contender.scores->label, contender.by_instance, names));
    }
    page.blocks.emplace_back(ChartBlock{
        .caption = "Gap by evaluations, tier " + tier,
        .note = "The geometric mean of the gap to the best known step time, over the course of the longest search.",
        .vega = CurveChart(
            curves, {.x_title = "evaluations", .y_title = "gap to best known, %", .labels = labels, .log_x = true})});
    page.blocks.emplace_back(MakeInstanceTable(mine, names, budgets));
  }
  return page;
}

}  // namespace emplace::experiments
