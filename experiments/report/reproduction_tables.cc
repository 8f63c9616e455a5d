#include "experiments/report/reproduction_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "experiments/report/document.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

std::string WithUnit(const std::string& name, const MetricEntry& metric) {
  return metric.unit.empty() ? name : fmt::format("{}, {}", name, metric.unit);
}

std::string OurText(const ReproducedMethod& method) {
  if (!method.ours) return method.no_value;
  const bool varies = method.ours->interval && method.ours->interval->low < method.ours->interval->high;
  if (!varies) return ShownNumber(method.ours->mean);
  const EstimateText text = ShownEstimate(*method.ours);
  return text.mean + " " + text.interval;
}

std::string RatioText(const std::optional<double>& ratio) { return ratio ? fmt::format("{:.2f}", *ratio) : "-"; }
std::string RankText(const std::optional<double>& rank) { return rank ? fmt::format("{}", *rank) : "-"; }
std::string Exact(const std::optional<double>& value) { return value ? NumberText(*value) : ""; }

std::string RowText(const ReproducedTable& table) {
  return table.column.empty() ? table.row : fmt::format("{}, {}", table.row, table.column);
}

std::string SpearmanText(const std::optional<double>& spearman) {
  return spearman ? fmt::format("{:.2f}", *spearman) : "-";
}

}  // namespace

std::string CaptionOf(const ReproducedTable& table) {
  return fmt::format("{} ({}): {}", RowText(table), fmt::join(table.tables, ", "),
                     WithUnit(std::string(table.metric->title), *table.metric));
}

Table MethodTable(const ReproducedTable& table) {
  std::vector<std::string> header = {"method", "ours", "published"};
  const bool has_ratios = !table.baseline.empty();
  const bool has_ranks = !table.orders.empty();
  if (has_ratios) header.insert(header.end(), {"ours / " + table.baseline, "published / " + table.baseline});
  if (has_ranks) header.insert(header.end(), {"our rank", "published rank"});
  Table shown(std::move(header));
  for (const ReproducedMethod& method : table.methods) {
    std::vector<std::string> cells = {method.label, OurText(method),
                                      method.published ? FigureText(*method.published) : "-"};
    if (has_ratios) cells.insert(cells.end(), {RatioText(method.our_ratio), RatioText(method.published_ratio)});
    if (has_ranks) cells.insert(cells.end(), {RankText(method.our_rank), RankText(method.published_rank)});
    shown.Add(std::move(cells));
  }
  return shown;
}

std::vector<std::string> OrderTexts(const ReproducedTable& table) {
  std::vector<std::string> texts;
  for (const OrderAgreement& order : table.orders) {
    std::string text;
    if (order.ordered == 0) {
      text = "The paper orders none of the pairs of methods that both have";
    } else {
      text = fmt::format("Of {} that the paper orders, {} ordered alike here, {} the other way round, {} tied",
                         Counted(order.ordered, "pair"), order.alike, order.reversed,
                         order.ordered - order.alike - order.reversed);
    }
    if (order.spearman) text += fmt::format("; rank correlation (Spearman) {:.2f}", *order.spearman);
    texts.push_back(fmt::format("{}. Our order, best first: {}.", text, fmt::join(order.labels, " | ")));
  }
  return texts;
}

Table AgreementTable(const std::vector<ReproducedTable>& tables) {
  Table shown({"row", "metric", "methods", "pairs ordered", "alike", "reversed", "rank correlation"});
  const auto add = [&shown](const std::string& row, std::string_view metric, const std::string& methods,
                            const OrderAgreement& order) {
    shown.Add({row, std::string(metric), methods, std::to_string(order.ordered), std::to_string(order.alike),
               std::to_string(order.reversed), SpearmanText(order.spearman)});
  };
  std::vector<std::pair<std::string_view, OrderAgreement>> sums;
  for (const ReproducedTable& table : tables) {
    for (const OrderAgreement& order : table.orders) {
      const std::string_view metric = table.metric->name;
      const bool is_one_of_several = table.orders.size() > 1;
      add(is_one_of_several ? fmt::format("{}: {}", RowText(table), fmt::join(order.labels, " | ")) : RowText(table),
          metric, std::to_string(order.labels.size()), order);
      auto sum = std::find_if(sums.begin(), sums.end(), [metric](const auto& other) { return other.first == metric; });
      if (sum == sums.end()) sum = sums.insert(sum, {metric, {}});
      sum->second.ordered += order.ordered;
      sum->second.alike += order.alike;
      sum->second.reversed += order.reversed;
    }
  }
  for (const auto& [metric, sum] : sums) add("all", metric, "", sum);
  return shown;
}

Table ReproductionCsv(const std::vector<ReproducedTable>& tables) {
  Table csv({"row", "metric", "unit", "method", "ours", "low", "high", "ours_missing", "published", "published_missing",
             "baseline", "our_ratio", "published_ratio", "our_rank", "published_rank", "place"});
  for (const ReproducedTable& table : tables) {
    for (const ReproducedMethod& method : table.methods) {
      const auto& ours = method.ours;
      const bool has_interval = ours && ours->interval;
      const auto& published = method.published;
      csv.Add({RowText(table), std::string(table.metric->name), std::string(table.metric->unit), method.label,
               ours ? NumberText(ours->mean) : "", has_interval ? NumberText(ours->interval->low) : "",
               has_interval ? NumberText(ours->interval->high) : "", method.no_value,
               published ? Exact(published->value) : "", published ? published->missing : "", table.baseline,
               Exact(method.our_ratio), Exact(method.published_ratio), Exact(method.our_rank),
               Exact(method.published_rank), published ? published->place : ""});
    }
  }
  return csv;
}

}  // namespace emplace::experiments
