#include "experiments/report/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>

#include "experiments/report/charts.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kFewestPairs = 6;  // with fewer, no two-sided signed-rank test is below kSignificant

// A name as it appears in a sentence.
std::string NameInText(const std::string& name) {
  return name.find_first_of(",;:") == std::string::npos ? name : "“" + name + "”";
}

// "a, b and c"
std::string Enumerated(std::vector<std::string> names) {
  std::transform(names.begin(), names.end(), names.begin(), NameInText);
  if (names.size() == 1) return names[0];
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

bool AreEqual(const Comparison& comparison, const std::string& a, const std::string& b) {
  const PairedTest* const test = FindTest(comparison.tests, a, b);
  return test != nullptr && test->over_pairs.n == 0;
}

// The best agent, and those with the same step time in every pair with it.
std::vector<std::string> Leaders(const Comparison& comparison) {
  std::vector<std::string> leaders;
  const std::string& first = comparison.contenders[0].label;
  for (const ComparedAgent& contender : comparison.contenders) {
    if (contender.label == first || AreEqual(comparison, first, contender.label)) leaders.push_back(contender.label);
  }
  return leaders;
}

// The best agent that is not a leader; null if there is none.
const ComparedAgent* NextBest(const Comparison& comparison) {
  const std::vector<std::string> leaders = Leaders(comparison);
  const auto found = std::find_if(comparison.contenders.begin(), comparison.contenders.end(),
                                  [&leaders](const ComparedAgent& contender) {
                                    return std::find(leaders.begin(), leaders.end(), contender.label) == leaders.end();
                                  });
  return found == comparison.contenders.end() ? nullptr : &*found;
}

// Whether a test shows that `label` is the better of its two agents.
bool IsSure(const PairedTest* test, const std::string& label) {
  return test != nullptr && test->better == label &&
         (test->adjusted_pairs < kSignificant || test->adjusted_graphs < kSignificant);
}

// The lead of `label` over the other agent of the test.
Estimate LeadOf(const PairedTest& test, const std::string& label) {
  return test.better == label ? test.difference : Negated(test.difference);
}

// "42.9 % shorter"
std::string Shorter(const ComparedAgent& contender) {
  const bool is_longer = contender.improvement.mean < 0;
  const Estimate size = is_longer ? Negated(contender.improvement) : contender.improvement;
  return fmt::format("{} % {}", ShownEstimate(size).mean, is_longer ? "longer" : "shorter");
}

std::string PText(double p) { return p < 0.0001 ? "p " + ShownPValue(p) : "p = " + ShownPValue(p); }

std::string CertaintySentence(const PairedTest& test) {
  const std::string pairs = Counted(test.pairs, "pair");
  const std::string graphs = Counted(test.graphs, "graph");
  if (test.adjusted_graphs < kSignificant) {
    return fmt::format("That is significant over graphs: {} over {}.", PText(test.adjusted_graphs), graphs);
  }
  if (test.adjusted_pairs < kSignificant && test.graphs == 1) {
    return fmt::format("That is significant for this graph alone: {} over {}.", PText(test.adjusted_pairs), pairs);
  }
  if (test.adjusted_pairs < kSignificant) {
    return fmt::format("That is significant for these graphs alone: {} over {}, but {} over {}.",
                       PText(test.adjusted_pairs), pairs, PText(test.adjusted_graphs), graphs);
  }
  if (test.pairs < kFewestPairs) return fmt::format("It rests on {}, too few for a test to be sure.", pairs);
  return fmt::format("That may be chance: {} over {}.", PText(test.adjusted_pairs), pairs);
}

// The agents after the next best that do not differ significantly from the first.
std::vector<std::string> NotDistinguished(const Comparison& comparison) {
  std::vector<std::string> names;
  const std::vector<std::string> leaders = Leaders(comparison);
  const ComparedAgent* const next = NextBest(comparison);
  const PairedTest* const test = next == nullptr ? nullptr : FindTest(comparison.tests, leaders[0], next->label);
  if (test == nullptr || test->pairs < kFewestPairs) return {};  // the sentence on the lead states it
  for (const ComparedAgent& contender : comparison.contenders) {
    if (std::find(leaders.begin(), leaders.end(), contender.label) != leaders.end()) continue;
    if (contender.label == next->label) continue;
    if (!IsSure(FindTest(comparison.tests, leaders[0], contender.label), leaders[0])) names.push_back(contender.label);
  }
  return names;
}

std::string ControlSentence(const Comparison& comparison) {
  const ComparedAgent& first = comparison.contenders[0];
  if (comparison.contenders.size() < 2) return "";
  if (first.is_control) return fmt::format("{} is a control: no other agent is ahead of it.", NameInText(first.label));
  const auto control = std::find_if(comparison.contenders.begin(), comparison.contenders.end(),
                                    [](const ComparedAgent& contender) { return contender.is_control; });
  const ComparedAgent* const next = NextBest(comparison);
  if (control == comparison.contenders.end() || next == nullptr) return "";
  if (control->label == next->label) return fmt::format("{} is a control.", NameInText(next->label));
  const PairedTest* const test = FindTest(comparison.tests, first.label, control->label);
  if (test == nullptr) return "";
  return fmt::format("The best control, {}, is {} percentage points behind: {} over {}.", NameInText(control->label),
                     ShownEstimate(LeadOf(*test, first.label)).mean, PText(test->adjusted_pairs),
                     Counted(test->pairs, "pair"));
}

// Explains the numbers in `text`.
std::string MethodSentence(const Comparison& comparison, const std::string& text) {
  std::string method = "Brackets hold 95 % bootstrap intervals.";
  if (text.find("p = ") == std::string::npos && text.find("p < ") == std::string::npos) return method;
  const std::size_t rivals = comparison.tests.size();
  method += " p is of Wilcoxon's signed-rank test";
  if (rivals > 1) {
    method +=
        fmt::format(", corrected by Holm over the {} rivals of {}", rivals, NameInText(comparison.contenders[0].label));
  }
  return method + ".";
}

// The number of trials of each agent, if some had more trials of the problems than others; "" if all had as many.
std::string UnlikeTrials(const Comparison& comparison) {
  std::vector<std::string> counts;
  bool unlike = false;
  for (const ComparedAgent& contender : comparison.contenders) {
    unlike |= contender.improvement.observations != comparison.contenders[0].improvement.observations;
    counts.push_back(fmt::format("{} {}", NameInText(contender.label), contender.improvement.observations));
  }
  if (!unlike) return "";
  return fmt::format(" Agents had different numbers of trials of these problems: {}.", fmt::join(counts, ", "));
}

std::string ScopeSentences(const Comparison& comparison) {
  const std::string what = comparison.quantity == PairedQuantity::kTransferImprovement
                               ? "A problem is a graph that was not trained on, in one column of the tables."
                               : "A problem is a graph in one column of the tables.";
  std::string text;
  if (comparison.unfinished > 0) {
    text =
        fmt::format("{} so far: those that every agent in the figure solved. {}",
                    Counted(comparison.problems, "problem") + (comparison.problems == 1 ? " counts" : " count"), what);
  } else if (comparison.problems == comparison.all_problems) {
    text = comparison.problems == 1
               ? "One problem counts, which every agent in the figure solved. "
               : fmt::format("Every agent in the figure solved all {} problems. ", comparison.problems);
    text += what;
  } else {
    text = fmt::format("{} of {} count: those that every agent in the figure solved. {}", comparison.problems,
                       Counted(comparison.all_problems, "problem"), what);
  }
  if (comparison.columns < comparison.all_columns) {
    text += fmt::format(" {} of {} {}: those in which every agent in the figure has trials.", comparison.columns,
                        Counted(comparison.all_columns, "column"), comparison.columns == 1 ? "counts" : "count");
  }
  text += UnlikeTrials(comparison);
  std::vector<std::string> absent;
  std::vector<std::string> too_few;
  std::vector<std::string> failed;
  std::vector<std::string> unfinished;
  for (const LeftOutAgent& agent : comparison.left_out) {
    (agent.failed ? failed : agent.unfinished ? unfinished : agent.solved ? too_few : absent).push_back(agent.label);
  }
  if (!failed.empty()) text += fmt::format(" Not in the figure, because trials failed: {}.", Enumerated(failed));
  if (!unfinished.empty()) {
    text += fmt::format(" Not in the figure, because trials are not finished: {}.", Enumerated(unfinished));
  }
  if (!absent.empty())
    text += fmt::format(" Not in the figure, without trials in every column: {}.", Enumerated(absent));
  if (!too_few.empty())
    text += fmt::format(" Not in the figure, with too few problems solved: {}.", Enumerated(too_few));
  return text;
}

std::string FigureNote(const Comparison& comparison) {
  std::string text = "Dots are means, bars their 95 % intervals.";
  const auto is_control = [](const ComparedAgent& contender) { return contender.is_control; };
  if (std::any_of(comparison.contenders.begin(), comparison.contenders.end(), is_control)) {
    text += " Hollow dots are controls: they decide by chance, or in the same way for every graph.";
  }
  text += " The line at 0 is everything on the fastest device, whether its memory is large enough or not.";
  if (comparison.bound) {
    text += fmt::format(" No placement is beyond the lower bound, at {} %.", ShownNumber(*comparison.bound));
  }
  return text;
}

ChartBlock AnswerFigure(const Comparison& comparison) {
  std::vector<IntervalRow> rows;
  for (const ComparedAgent& contender : comparison.contenders) {
    const EstimateText text = ShownEstimate(contender.improvement);
    const double mean = contender.improvement.mean;
    const Interval interval = contender.improvement.interval.value_or(Interval{mean, mean});
    rows.push_back({.label = contender.label,
                    .note = contender.is_control ? " (control)" : "",
                    .text = text.interval.empty() ? text.mean : text.mean + " " + text.interval,
                    .mean = mean,
                    .low = interval.low,
                    .high = interval.high,
                    .is_hollow = contender.is_control});
  }
  std::vector<ChartLine> lines = {{"one device", 0}};
  if (comparison.bound) lines.push_back({"lower bound", *comparison.bound});
  const IntervalChartOptions options{.x_title = "improvement, %", .lines = lines};
  std::string note = FigureNote(comparison);
  if (HasCutRow(rows, options)) note += " A triangle is farther to the left than the axis goes.";
  return {"Improvement over everything on the fastest device, %", note, IntervalChart(rows, options)};
}

}  // namespace

std::string WinnerSentence(const Comparison& comparison) {
  const ComparedAgent& first = comparison.contenders[0];
  const std::vector<std::string> leaders = Leaders(comparison);
  const std::string how = Shorter(first) + " than with everything on the fastest device";
  if (comparison.contenders.size() == 1) {
    return fmt::format("{} is the only agent here: its step times are {}.", NameInText(first.label), how);
  }
  if (leaders.size() > 1) return fmt::format("{} are level: their step times are {}.", Enumerated(leaders), how);
  const bool is_sure = IsSure(FindTest(comparison.tests, first.label, NextBest(comparison)->label), first.label);
  return fmt::format("{} {}: its step times are {}.", NameInText(first.label),
                     is_sure ? "wins" : "is ahead, but not for certain", how);
}

std::string LeadSentences(const Comparison& comparison) {
  const ComparedAgent* const next = NextBest(comparison);
  if (comparison.contenders.size() < 2) return "";
  if (next == nullptr) return "No agent is slower: every pair of placements takes equally long.";
  const std::vector<std::string> leaders = Leaders(comparison);
  const std::string who = leaders.size() > 1 ? "They lead" : "It leads";
  const PairedTest* const test = FindTest(comparison.tests, leaders[0], next->label);
  if (test == nullptr) {
    const double lead = comparison.contenders[0].improvement.mean - next->improvement.mean;
    return fmt::format("{} {}, the next best, by {} percentage points. They share no seed, so there is no test.", who,
                       NameInText(next->label), ShownNumber(lead));
  }
  const EstimateText lead = ShownEstimate(LeadOf(*test, leaders[0]));
  const std::string interval = lead.interval.empty() ? "" : " " + lead.interval;
  return fmt::format("{} {}, the next best, by {} percentage points{}. {}", who, NameInText(next->label), lead.mean,
                     interval, CertaintySentence(*test));
}

std::vector<std::string> NamedInQuestion(const std::string& question, const std::vector<std::string>& labels) {
  const auto normalized = [](const std::string& text) {
    std::string plain;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
      }
    }
    return plain;
  };
  std::vector<std::string> named;
  std::istringstream words(question);
  for (std::string word; words >> word;) {
    std::string plain = normalized(word);
    for (const std::string& label : labels) {
      const std::string name = normalized(label);
      const bool is_named = !name.empty() && (plain == name || plain == name + "s");
      if (is_named && std::find(named.begin(), named.end(), label) == named.end()) named.push_back(label);
    }
  }
  return named;
}

std::string RivalSentences(const std::string& question, const std::vector<TrialRecord>& trials,
                           const ReportGrid& grid) {
  const std::vector<std::string> named = NamedInQuestion(question, grid.labels);
  if (named.size() < 2) return "";
  std::vector<std::size_t> columns(grid.columns.size());
  std::iota(columns.begin(), columns.end(), 0);
  const PairedQuantity quantity = QuantityToPair(trials);
  const std::vector<PairedTest> tests = MakePairedTests(trials, grid, columns, quantity);
  std::string text;
  for (std::size_t i = 1; i < named.size(); ++i) {
    if (!text.empty()) text += " ";
    const PairedTest* const test = FindTest(tests, named[0], named[i]);
    if (test == nullptr) {
      text += fmt::format("{} and {} share no problem, so nothing compares them.", NameInText(named[0]),
                          NameInText(named[i]));
      continue;
    }
    if (test->over_pairs.n == 0) {
      text += fmt::format("{} and {} are level.", NameInText(named[0]), NameInText(named[i]));
      continue;
    }
    const EstimateText lead = ShownEstimate(test->difference);
    text += fmt::format("{} is ahead of {} by {}{}{}. {}", NameInText(test->better), NameInText(test->worse), lead.mean,
                        quantity == PairedQuantity::kLogStepTime ? " %" : " percentage points",
                        lead.interval.empty() ? "" : " " + lead.interval, CertaintySentence(*test));
  }
  return text;
}

std::optional<SettingComparison> CompareSettings(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  const std::size_t first = !grid.axes.empty() && grid.axes[0] == "graph.dataset" ? 1 : 0;
  if (grid.axes.size() == first) return std::nullopt;
  const auto after = static_cast<std::ptrdiff_t>(first);
  ReportGrid settings = grid;  // without the axis of graphs
  settings.axes.erase(settings.axes.begin(), settings.axes.begin() + after);
  for (auto& column : settings.columns) column.erase(column.begin(), column.begin() + after);
  struct Mean {
    double sum = 0;
    double count = 0;
  };
  std::map<std::string, std::map<std::string, Mean>> log_times;  // keyed by problem, then by setting
  std::vector<std::string> titles;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const std::string title = ColumnTitle(settings, settings.columns[grid.column_of[t]]);
    if (std::find(titles.begin(), titles.end(), title) == titles.end()) titles.push_back(title);
    for (const GraphRecord& graph : trials[t].graphs) {
      if (!graph.best_micros || *graph.best_micros <= 0) continue;
      const std::string group = first == 1 ? grid.columns[grid.column_of[t]][0] : "";
      Mean& mean = log_times[trials[t].label + '\n' + group + '\n' + graph.graph][title];
      mean.sum += std::log(*graph.best_micros);
      ++mean.count;
    }
  }
  if (titles.size() < 2) return std::nullopt;
  SettingComparison comparison;
  std::map<std::string, double> sums;
  for (const auto& [problem, times] : log_times) {
    if (times.size() != titles.size()) continue;
    ++comparison.problems;
    for (const auto& [title, mean] : times) sums[title] += mean.sum / mean.count;
  }
  if (comparison.problems == 0) return std::nullopt;
  double shortest = sums.begin()->second;
  for (const auto& [title, sum] : sums) shortest = std::min(shortest, sum);
  for (const std::string& title : titles) {
    const double mean_log = (sums.at(title) - shortest) / static_cast<double>(comparison.problems);
    comparison.settings.push_back({title, std::exp(mean_log)});
  }
  std::stable_sort(comparison.settings.begin(), comparison.settings.end(),
                   [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
  return comparison;
}

std::string SettingSentence(const SettingComparison& comparison) {
  constexpr std::size_t kMostShown = 6;
  std::vector<std::string> others;
  for (std::size_t i = 1; i < std::min(kMostShown, comparison.settings.size()); ++i) {
    const SettingComparison::Setting& setting = comparison.settings[i];
    others.push_back(fmt::format("{:.3g} times as long with {}", setting.ratio, setting.title));
  }
  std::string text =
      fmt::format("Steps are shortest with {}; they take {}", comparison.settings[0].title, fmt::join(others, ", "));
  if (comparison.settings.size() > kMostShown) {
    text += fmt::format(", and longer with {} more", comparison.settings.size() - kMostShown);
  }
  return text + fmt::format(" (geometric means over {}).", Counted(comparison.problems, "problem"));
}

AnswerBlock MakeAnswer(const std::string& question, const std::optional<Comparison>& comparison,
                       const std::string& rivals, const std::optional<SettingComparison>& settings) {
  AnswerBlock block{.question = question};
  const auto add = [&block](const std::string& text) {
    if (!text.empty()) block.answer += (block.answer.empty() ? "" : " ") + text;
  };
  add(rivals);
  const bool is_about_settings = settings && (!comparison || comparison->contenders.size() == 1);
  if (is_about_settings) add(SettingSentence(*settings));
  if (!comparison) {
    if (block.answer.empty()) {
      block.answer =
          "There is no improvement to compare. No placement was found, or the step time of one device is not known.";
    }
    return block;
  }
  if (comparison->unfinished > 0) {
    add(fmt::format("{} of these agents {} not finished, so this is not a final answer.",
                    Counted(comparison->unfinished, "trial"), comparison->unfinished == 1 ? "is" : "are"));
  }
  add(WinnerSentence(*comparison));
  add(LeadSentences(*comparison));
  std::vector<std::string> more;
  if (settings && !is_about_settings) more.push_back(SettingSentence(*settings));
  if (std::string control = ControlSentence(*comparison); !control.empty()) more.push_back(std::move(control));
  if (const auto names = NotDistinguished(*comparison); !names.empty()) {
    more.push_back(fmt::format("No test separates it from {}.", Enumerated(names)));
  }
  more.push_back(MethodSentence(*comparison, fmt::format("{} {}", block.answer, fmt::join(more, " "))));
  block.notes.push_back(fmt::format("{}", fmt::join(more, " ")));
  block.notes.push_back(ScopeSentences(*comparison));
  block.figure = AnswerFigure(*comparison);
  return block;
}

}  // namespace emplace::experiments
