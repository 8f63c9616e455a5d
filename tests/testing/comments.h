#ifndef EMPLACE_TESTS_TESTING_COMMENTS_H_
#define EMPLACE_TESTS_TESTING_COMMENTS_H_

#include <string>
#include <vector>

namespace emplace::testing {

struct NamedFile {
  int line = 0;
  std::string name;
};

enum class CommentStyle { kSlashes, kHash };  // C++; scripts, CMake and YAML

// The files that a source's comments name: with a folder and any ending, or without a folder and ending in .md, .cc, .h
// or .yaml. Excludes parts of URLs, names with variables, and <system headers>. Endings in braces, such as {h,cc}, give
// two names; `*` matches any text without a slash.
std::vector<NamedFile> FilesNamedInComments(const std::string& source, CommentStyle style);

// Whether `name`, in which `*` matches any text without a slash, matches the whole of `path`.
bool MatchesName(const std::string& name, const std::string& path);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_COMMENTS_H_
