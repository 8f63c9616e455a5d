#include "experiments/report/test_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/report/comparison.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

using Blocks = std::vector<ReportBlock>;

std::string CountsOf(const PairedTest& test) {
  return fmt::format("{}, {}", Counted(test.pairs, "pair"), Counted(test.graphs, "graph"));
}

// The counts shared by the most tests, stated once for the table; on ties the first.
std::string UsualCounts(const std::vector<PairedTest>& tests) {
  std::map<std::string, std::size_t> uses;
  for (const PairedTest& test : tests) ++uses[CountsOf(test)];
  return std::max_element(uses.begin(), uses.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

TextCell MatrixCell(const PairedTest& test, const std::string& row, const std::string& usual) {
  const bool is_better = test.better == row;
  const bool is_sure = test.adjusted_pairs < kSignificant;
  TextCell cell = EstimateCell(is_better ? test.difference : Negated(test.difference));
  if (is_better && test.difference.mean > 0) cell.text.insert(0, "+");
  cell.details.push_back("p " + ShownPValue(test.adjusted_pairs));
  if (test.graphs > 1) cell.details.push_back("graphs: p " + ShownPValue(test.adjusted_graphs));
  if (CountsOf(test) != usual) cell.details.push_back(CountsOf(test));
  cell.strong = is_sure;
  if (is_sure) cell.tone = is_better ? CellTone::kBetter : CellTone::kWorse;
  return cell;
}

void AddMatrices(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const std::vector<std::string>& labels,
                 PairedQuantity quantity, const std::string& caption, Blocks* blocks) {
  std::vector<std::size_t> all(grid.columns.size());
  for (std::size_t c = 0; c < all.size(); ++c) all[c] = c;
  const auto add = [&](const std::vector<std::size_t>& columns, const std::string& title, bool folded) {
    const std::vector<PairedTest> tests = MakePairedTests(trials, grid, columns, quantity);
    if (tests.empty()) return;
    TableBlock block = TestMatrix(tests, labels, title);
    block.folded = folded;
    blocks->push_back(std::move(block));
  };
  add(all, caption, false);
  const auto groups = ColumnsByDataset(grid);
  if (groups.size() < 2) return;
  for (const auto& group : groups) add(group, fmt::format("{}; {}", caption, grid.columns[group[0]][0]), true);
}

}  // namespace

TableBlock TestMatrix(const std::vector<PairedTest>& tests, const std::vector<std::string>& labels,
                      const std::string& caption) {
  const std::string usual = UsualCounts(tests);
  const bool all_usual =
      std::all_of(tests.begin(), tests.end(), [&usual](const PairedTest& test) { return CountsOf(test) == usual; });
  TableBlock block{
      .caption = fmt::format("{}; {}{}", caption, usual, all_usual ? "" : ", unless a cell says otherwise"),
      .header = {"row minus column"}};
  std::vector<std::string> shown;
  for (const std::string& label : labels) {
    const bool is_tested = std::any_of(tests.begin(), tests.end(), [&label](const PairedTest& test) {
      return test.better == label || test.worse == label;
    });
    if (is_tested) shown.push_back(label);
  }
  block.header.insert(block.header.end(), shown.begin(), shown.end());
  for (const std::string& row : shown) {
    auto& cells = block.rows.emplace_back();
    cells.push_back({row});
    for (const std::string& column : shown) {
      const PairedTest* const test = row == column ? nullptr : FindTest(tests, row, column);
      cells.push_back(test == nullptr ? TextCell{row == column ? "" : "–"} : MatrixCell(*test, row, usual));
    }
  }
  return block;
}

std::vector<ReportBlock> TestBlocks(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                    const std::vector<std::string>& labels) {
  if (grid.labels.size() < 2) return {};
  Blocks tables;
  const PairedQuantity quantity = QuantityToPair(trials);
  AddMatrices(trials, grid, labels, quantity,
              quantity == PairedQuantity::kImprovement ? "Improvement, percentage points"
                                                       : "Step time: 100 × the log of the ratio, positive is faster",
              &tables);
  AddMatrices(trials, grid, labels, PairedQuantity::kTransferImprovement,
              "Improvement on graphs not trained on, percentage points", &tables);
  if (tables.empty()) return {};
  Blocks blocks;
  blocks.push_back(HeadingBlock{3, "Paired comparisons"});
  blocks.push_back(ParagraphBlock{
      "A pair is the same graph, devices and seed. A cell is the mean difference of the pairs, with its 95 % bootstrap "
      "interval over graphs and their pairs. p is of the two-sided Wilcoxon signed-rank test, corrected by Holm over "
      "all pairs of agents of a table. Pairs of one graph are not independent: the second p is of the test over each "
      "graph's mean difference. Differences with p below 0.05 over pairs are bold."});
  blocks.insert(blocks.end(), tables.begin(), tables.end());
  return blocks;
}

}  // namespace emplace::experiments
