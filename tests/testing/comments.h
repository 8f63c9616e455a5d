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

// Files that the comments of a source name: with a folder and any ending, or without one and ending in .md, .cc, .h or
// .yaml. Not parts of addresses, names that a variable completes, or <system headers>. Endings in braces, such as
// {h,cc}, make two names; `*` is any text without a slash.
std::vector<NamedFile> FilesNamedInComments(const std::string& source, CommentStyle style);

// True if `name`, in which `*` is any text without a slash, matches the whole of `path`.
bool MatchesName(const std::string& name, const std::string& path);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_COMMENTS_H_
