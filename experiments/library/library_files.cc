#include "experiments/library/library_files.h"

namespace emplace::experiments {
namespace {

struct LibraryFile {
  // The length of a text is that of its literal: compilers bound the steps in which they would count a long one.
  template <std::size_t kSize>
  constexpr LibraryFile(std::string_view name_of_file, const char (&literal)[kSize])
      : name(name_of_file), text(literal, kSize - 1) {}
  std::string_view name;
  std::string_view text;
};
constexpr LibraryFile kLibraryFiles[] = {
#include "library_files.inc"
};
constexpr LibraryFile kLibraryClusters[] = {
#include "library_clusters.inc"
};
// The last row stands for none: there may be no scores.
constexpr LibraryFile kLibraryScores[] = {
#include "library_scores.inc"
    {"", ""},
};

constexpr std::string_view kClusters = "clusters/";

}  // namespace

std::optional<std::string_view> FindLibraryFile(std::string_view name) {
  if (name.starts_with(kClusters)) {
    for (const LibraryFile& file : kLibraryClusters) {
      if (file.name == name.substr(kClusters.size())) return file.text;
    }
    return std::nullopt;
  }
  for (const LibraryFile& file : kLibraryFiles) {
    if (file.name == name) return file.text;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string_view>> LibraryScoreFiles() {
  std::vector<std::pair<std::string_view, std::string_view>> files;
  for (const LibraryFile& file : kLibraryScores) {
    if (!file.name.empty()) files.emplace_back(file.name, file.text);
  }
  return files;
}

}  // namespace emplace::experiments
