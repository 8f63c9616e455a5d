#ifndef EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_
#define EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// One number of a paper.
struct PublishedFigure {
  std::map<std::string, std::string> match = {};  // key path of spec.json, or num_devices: value as text
  // The figure is the plain mean over these: key path, or num_devices: the values in ascending order.
  std::map<std::string, std::vector<std::string>> over = {};
  std::string metric = {};
  double value = 0;        // in the unit that a report shows
  std::string place = {};  // table and row
};

struct PublishedFigures {
  std::string name;
  std::string source;
  std::vector<PublishedFigure> figures;
};

// experiments/published/*.yaml, `emplace.published` version 1:
//   name, source; figures: a list of {match, over, metric, value, place}
// `over` may be left out. Throws InputError, its place starting with `file`.
PublishedFigures ReadPublished(std::istream& in, const std::string& file);

// A shipped table by its name, else a file. Throws InputError that lists the shipped ones if there is neither.
PublishedFigures LoadPublished(const std::string& name_or_file);

// The value of a key path of the trial's spec as text, or of num_devices; "" if there is none.
std::string MatchText(const TrialRecord& trial, const std::string& key);

// Whether all that the figure asks for is so of the trial.
bool Matches(const PublishedFigure& figure, const TrialRecord& trial);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_
