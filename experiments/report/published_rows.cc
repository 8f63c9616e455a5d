#include "experiments/report/published_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "sim/base/registry.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kAgent = "agent.";

std::vector<std::string> Parts(const std::string& place) {
  constexpr std::string_view kComma = ", ";
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= place.size();) {
    const std::size_t end = std::min(place.find(kComma, begin), place.size());
    parts.push_back(place.substr(begin, end - begin));
    begin = end + kComma.size();
  }
  return parts;
}

// Lower case, with one '-' for whatever is neither a letter nor a digit: "Inception-V3, 4 GPUs" is inception-v3-4-gpus.
std::string NameOf(const std::string& title) {
  std::string name;
  for (const char c : title) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      name += static_cast<char>(std::tolower(letter));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  if (name.ends_with('-')) name.pop_back();
  return name;
}

void Describe(PublishedRow* row) {
  std::vector<std::string>& tables = row->tables;
  std::vector<std::string> shared;
  for (const PublishedFigure& figure : row->figures) {
    std::vector<std::string> parts = Parts(figure.place);
    if (std::find(tables.begin(), tables.end(), parts.front()) == tables.end()) tables.push_back(parts.front());
    parts.erase(parts.begin());
    if (&figure == &row->figures.front()) shared = parts;
    std::erase_if(shared, [&parts](const std::string& part) {
      return std::find(parts.begin(), parts.end(), part) == parts.end();
    });
  }
  // The part that names the method is shared too if there is one figure.
  if (row->figures.size() == 1 && shared.size() > 1) shared.pop_back();
  row->title = fmt::format("{}", fmt::join(shared, ", "));
}

std::string ConditionsText(const PublishedRow& row) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : row.match) parts.push_back(key + " " + value);
  for (const auto& [key, values] : row.over) parts.push_back(fmt::format("{} {}", key, fmt::join(values, " ")));
  return parts.empty() ? "all" : fmt::format("{}", fmt::join(parts, ", "));
}

void NameRows(std::vector<PublishedRow>* rows) {
  std::multiset<std::string> names;
  for (PublishedRow& row : *rows) {
    Describe(&row);
    row.name = NameOf(row.title);
    names.insert(row.name);
  }
  for (PublishedRow& row : *rows) {
    if (!row.name.empty() && names.count(row.name) == 1) continue;
    row.title = ConditionsText(row);
    row.name = NameOf(row.title);
  }
}

}  // namespace

std::string TableOf(const PublishedFigure& figure) { return Parts(figure.place).front(); }

std::vector<PublishedRow> RowsOf(const PublishedFigures& published) {
  std::vector<PublishedRow> rows;
  for (const PublishedFigure& figure : published.figures) {
    std::map<std::string, std::string> match = figure.match;
    std::erase_if(match, [](const auto& condition) { return condition.first.starts_with(kAgent); });
    auto row = std::find_if(rows.begin(), rows.end(), [&](const PublishedRow& other) {
      return other.match == match && other.over == figure.over;
    });
    if (row == rows.end()) row = rows.insert(row, {.match = std::move(match), .over = figure.over});
    row->figures.push_back(figure);
  }
  NameRows(&rows);
  return rows;
}

const PublishedRow& FindRow(const std::vector<PublishedRow>& rows, const std::string& name, const std::string& place) {
  return FindByName(rows, NameOf(name), "row", place);
}

bool IsInRow(const PublishedRow& row, const JsonValue& spec) {
  const auto has = [&spec](const auto& condition) { return MatchText(spec, condition.first) == condition.second; };
  const auto is_one = [&spec](const auto& condition) {
    const auto& [key, values] = condition;
    return std::find(values.begin(), values.end(), MatchText(spec, key)) != values.end();
  };
  return std::all_of(row.match.begin(), row.match.end(), has) && std::all_of(row.over.begin(), row.over.end(), is_one);
}

}  // namespace emplace::experiments
