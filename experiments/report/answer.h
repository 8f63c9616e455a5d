#ifndef EMPLACE_EXPERIMENTS_REPORT_ANSWER_H_
#define EMPLACE_EXPERIMENTS_REPORT_ANSWER_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/comparison.h"
#include "experiments/report/document.h"

namespace emplace::experiments {

// One sentence that names the best agent.
std::string WinnerSentence(const Comparison& comparison);
// Sentences on the lead over the next best agent and its significance. "" if there is no other agent.
std::string LeadSentences(const Comparison& comparison);

// The agents that a question names, in its order: "Does P-GNN beat Placeto's embedding?" names pgnn and placeto.
std::vector<std::string> NamedInQuestion(const std::string& question, const std::vector<std::string>& labels);
// Sentences on the first agent that the question names against each other one that it names; "" if there are not two.
std::string RivalSentences(const std::string& question, const std::vector<TrialRecord>& trials, const ReportGrid& grid);

// The settings of the swept axes, such as clusters or engines, by step time: the geometric mean of the ratio to the
// setting with the shortest steps, over the problems that every setting solved. A problem is an agent on a graph.
struct SettingComparison {
  struct Setting {
    std::string title;
    double ratio = 1;
  };
  std::vector<Setting> settings;  // shortest steps first; at least two
  std::size_t problems = 0;
};
// nullopt if nothing but agents, graphs and seeds was swept, or if no problem is solved in every setting.
std::optional<SettingComparison> CompareSettings(const std::vector<TrialRecord>& trials, const ReportGrid& grid);
std::string SettingSentence(const SettingComparison& comparison);

// The first block of an experiment's report: the rivals that the question names, if it names some; the swept settings,
// if there is one agent; else the agents. For a nullopt of `comparison`, it states that the improvement is not known.
AnswerBlock MakeAnswer(const std::string& question, const std::optional<Comparison>& comparison,
                       const std::string& rivals = "", const std::optional<SettingComparison>& settings = std::nullopt);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_ANSWER_H_
