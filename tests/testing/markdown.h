#ifndef EMPLACE_TESTS_TESTING_MARKDOWN_H_
#define EMPLACE_TESTS_TESTING_MARKDOWN_H_

#include <string>
#include <vector>

namespace emplace::testing {

// A fenced block of a Markdown page.
struct CodeBlock {
  int line = 0;                    // of its opening fence, from 1
  std::string language;            // as the fence names it; may be empty
  std::string text;                // every line ends with a newline
  std::vector<std::string> notes;  // HTML comments on the lines directly before the fence, without their marks
};

struct PageLink {
  int line = 0;
  std::string target;  // of a link or an image
};

struct MarkdownPage {
  std::vector<CodeBlock> blocks;
  std::vector<PageLink> links;
  std::vector<std::string> anchors;  // of headings, as GitHub makes them, and of `id="..."`
};

MarkdownPage ParseMarkdown(const std::string& text);

// The action of a test for a block.
struct PageStep {
  enum class Kind { kFile, kRun, kOutput, kExcerpt };
  Kind kind = Kind::kRun;
  int line = 0;
  std::string text;   // content of a file, commands, or expected lines
  std::string name;   // of a file
  bool slow = false;  // the commands take long
  int status = 0;     // the commands' exit status
};

// The steps of a page's blocks, in order. These notes before a block define the step:
//   file: NAME        the block is the content of NAME
//   output            the block (text) is the whole standard output of the commands before it
//   excerpt           its lines are among those of that output, in this order; a line `...` is ignored
//   slow              the commands take more than about five seconds
//   fails: STATUS     the commands end with this exit status
//   not run: REASON   the commands are not run
// Blocks of language sh contain commands. Throws std::invalid_argument, with the line, for invalid notes.
std::vector<PageStep> PageSteps(const MarkdownPage& page);

// Empty if `output` is as the step (kOutput, kExcerpt) expects, otherwise the first difference.
std::string OutputDifference(const PageStep& step, const std::string& output);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_MARKDOWN_H_
