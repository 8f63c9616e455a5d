#ifndef EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_
#define EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// One number from a paper.
struct PublishedFigure {
  std::map<std::string, std::string> match = {};  // key path in spec.json, or num_devices: value as text
  // The figure is the unweighted mean over these: key path, or num_devices: the values in ascending order.
  std::map<std::string, std::vector<std::string>> over = {};
  std::string metric = {};
  double value = 0;        // in the unit of the report
  std::string place = {};  // table and row
};

struct PublishedFigures {
  std::string name;
  std::string source;
  std::vector<PublishedFigure> figures;
};

// experiments/published/*.yaml, `emplace.published` version 1:
//   name, source; figures: a list of {match, over, metric, value, place}
// `over` is optional. Throws InputError whose place starts with `file`.
PublishedFigures ReadPublished(std::istream& in, const std::string& file);

// Loads a shipped table by name, else a file. If there is neither, throws InputError that lists the shipped tables.
PublishedFigures LoadPublished(const std::string& name_or_file);

// The value at a key path of the trial's spec as text, or of num_devices; "" if there is none.
std::string MatchText(const TrialRecord& trial, const std::string& key);

// Whether the trial satisfies all conditions of the figure.
bool Matches(const PublishedFigure& figure, const TrialRecord& trial);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_
