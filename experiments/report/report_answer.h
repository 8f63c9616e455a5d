#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_ANSWER_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_ANSWER_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/report_comparison.h"
#include "experiments/report/report_document.h"

namespace emplace::experiments {

// Who won: one sentence.
std::string WinnerSentence(const Comparison& comparison);
// By how much, and how sure that is: sentences on the lead over the next best agent. "" for an agent without rivals.
std::string LeadSentences(const Comparison& comparison);

// What a report on an experiment begins with; of nullopt it says that improvement is not known.
AnswerBlock MakeAnswer(const std::string& question, const std::optional<Comparison>& comparison);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_ANSWER_H_
