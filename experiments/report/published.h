#ifndef EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_
#define EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_

#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// One number from a paper, or what it has in a number's place.
struct PublishedFigure {
  std::map<std::string, std::string> match = {};  // key path in spec.json, or num_devices: value as text
  // The figure is the unweighted mean over these: key path, or num_devices: the values in ascending order.
  std::map<std::string, std::vector<std::string>> over = {};
  std::string metric = {};
  std::optional<double> value = {};  // value in the unit of the report; none: see `missing`
  std::string missing = {};          // "out of memory", "a curve without numbers"
  std::optional<double> rank = {};   // without a value: the place among the figures of its row, 1 the best
  std::string place = {};            // table and row
};

// The value as text, or what is there in its place.
std::string FigureText(const PublishedFigure& figure);

struct PublishedFigures {
  std::string name;
  std::string source;
  std::vector<PublishedFigure> figures;
  // The baseline by whose figures the others in a row are divided: conditions as in PublishedFigure::match. The first
  // counts that has a value; empty: none.
  std::vector<std::map<std::string, std::string>> baselines = {};
};

// experiments/published/*.yaml, `emplace.published` version 1:
//   name, source; baselines: a list of conditions;
//   figures: a list of {match, over, metric, value, place}, or of {match, over, metric, missing, rank, place}
// `baselines`, `over` and `rank` are optional. Throws InputError whose place starts with `file`.
PublishedFigures ReadPublished(std::istream& in, const std::string& file);

// Loads a shipped table by name, else a file. If there is neither, throws InputError that lists the shipped tables.
PublishedFigures LoadPublished(const std::string& name_or_file);

// The value at a key path of the trial's spec as text, or of num_devices; "" if there is none.
std::string MatchText(const TrialRecord& trial, const std::string& key);
// The same for a trial that has not run: its number of devices is its cluster's.
std::string MatchText(const JsonValue& spec, const std::string& key);

// Whether the trial satisfies all conditions of the figure.
bool Matches(const PublishedFigure& figure, const TrialRecord& trial);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_H_
