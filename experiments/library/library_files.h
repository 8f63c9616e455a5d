#ifndef EMPLACE_EXPERIMENTS_LIBRARY_LIBRARY_FILES_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_LIBRARY_FILES_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace emplace::experiments {

// The content of a file of datasets/library, by its path there without ".yaml": "instances", "clusters/equal-8". The
// files are compiled into the program; placements are not. None if there is no such file.
std::optional<std::string_view> FindLibraryFile(std::string_view name);
// The committed scores of searchers: name and content of each file of datasets/library/scores.
std::vector<std::pair<std::string_view, std::string_view>> LibraryScoreFiles();

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_LIBRARY_FILES_H_
