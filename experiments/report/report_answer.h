#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_ANSWER_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_ANSWER_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/report_comparison.h"
#include "experiments/report/report_document.h"

namespace emplace::experiments {

// One sentence that names the best agent.
std::string WinnerSentence(const Comparison& comparison);
// Sentences on the lead over the next best agent and its significance. "" if there is no other agent.
std::string LeadSentences(const Comparison& comparison);

// The first block of an experiment's report. For nullopt, it states that the improvement is not known.
AnswerBlock MakeAnswer(const std::string& question, const std::optional<Comparison>& comparison);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_ANSWER_H_
