#include "sim/base/suggestion.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace emplace {
namespace {

constexpr std::size_t kLongestName = 64;  // longer names are pasted text, not slips

std::string InLowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// The optimal string alignment distance. Source: Boytsov 2011, "Indexing methods for approximate dictionary searching",
// section 2.1.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  if (name.empty() || name.size() > kLongestName) return "";
  const std::string own = InLowerCase(name);
  const std::string* nearest = nullptr;
  std::size_t least = std::min<std::size_t>(3, std::max<std::size_t>(1, own.size() / 3)) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongestName) continue;
    const std::size_t distance = Distance(own, InLowerCase(candidate));
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = &candidate;
  }
  if (nearest != nullptr) return *nearest;
  const auto begins = [&own](const std::string& candidate) { return InLowerCase(candidate).starts_with(own); };
  constexpr std::size_t kShortestPrefix = 3;
  if (own.size() < kShortestPrefix || std::count_if(known.begin(), known.end(), begins) != 1) return "";
  return *std::find_if(known.begin(), known.end(), begins);
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace emplace
