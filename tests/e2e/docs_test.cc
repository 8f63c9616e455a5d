// Tests the documentation: its commands give the shown results, and its links exist. Comments may
// only name files that exist.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "agents/agent.h"
#include "tests/testing/comments.h"
#include "tests/testing/markdown.h"
#include "tests/testing/run_program.h"

namespace emplace::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const fs::path& DocsRoot() {
  static const fs::path root = fs::path(EMPLACE_TEST_SOURCE_DIR).parent_path();
  return root;
}

std::string ReadFromRoot(const std::string& name) {
  std::ifstream in(DocsRoot() / name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Every file of the repository, relative to its root, without build results and fuzzing results.
const std::set<std::string>& AllFiles() {
  static const std::set<std::string> files = [] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(DocsRoot())) {
      if (entry.is_regular_file()) names.insert(entry.path().filename());
    }
    for (const std::string folder :
         {"sim", "profiler", "datasets", "agents", "experiments", "tools", "python", "tests", "docs", ".ci"}) {
      if (!fs::exists(DocsRoot() / folder)) continue;
      for (auto entry = fs::recursive_directory_iterator(DocsRoot() / folder);
           entry != fs::recursive_directory_iterator(); ++entry) {
        if (entry->path().filename() == "corpus") entry.disable_recursion_pending();
        if (entry->is_regular_file()) names.insert(fs::relative(entry->path(), DocsRoot()));
      }
    }
    return names;
  }();
  return files;
}

// README.md and the pages of docs/, whose commands run.
std::vector<std::string> Pages() {
  std::vector<std::string> pages;
  for (const std::string& file : AllFiles()) {
    if (file == "README.md" || (file.starts_with("docs/") && file.ends_with(".md"))) pages.push_back(file);
  }
  return pages;
}

// The pages that have commands marked as slow, or the pages that have none.
std::vector<std::string> PagesWithSlowCommands(bool slow) {
  std::vector<std::string> pages;
  for (const std::string& page : Pages()) {
    if ((ReadFromRoot(page).find("\n<!-- slow -->\n") != std::string::npos) == slow) pages.push_back(page);
  }
  return pages;
}

// docs/results/sgdp.md becomes docs_results_sgdp.
std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '-' || c == '.'; }, '_');
  return name;
}

// Each test runs the blocks of one page in an empty folder with links to the repository's folders.
class PageTest : public ProgramTest, public ::testing::WithParamInterface<std::string> {
 protected:
  PageTest() : ProgramTest(EMPLACE_BINARY) {
    for (const char* const folder : {"experiments", "datasets", "tests", "tools", "docs"}) {
      Shell("ln -s '" + (DocsRoot() / folder).string() + "' " + folder);
    }
    if (IsAboutPython()) Shell(std::string("mkdir .bin && ln -s '") + EMPLACE_PYTHON_PROGRAM + "' .bin/python3");
  }

  // Its commands need the Python package, which not every build has.
  static bool IsAboutPython() { return GetParam() == "docs/python.md"; }
  static bool CanRun() { return !IsAboutPython() || EMPLACE_HAS_PYTHON != 0; }

  void RunBlocks() const {
    if (!CanRun()) GTEST_SKIP() << "this build has no Python package";
    std::vector<PageStep> steps;
    try {
      steps = PageSteps(ParseMarkdown(ReadFromRoot(GetParam())));
    } catch (const std::invalid_argument& error) {
      FAIL() << GetParam() << ": " << error.what();
    }
    RunSteps(steps);
    if (!HasFailure()) ComparePictures();
  }

 private:
  void RunSteps(const std::vector<PageStep>& steps) const {
    Ran last;
    for (const PageStep& step : steps) {
      const std::string place = GetParam() + ":" + std::to_string(step.line) + ": ";
      switch (step.kind) {
        case PageStep::Kind::kFile:
          if (const fs::path folder = fs::path(step.name).parent_path(); !folder.empty()) {
            Shell("mkdir -p '" + folder.string() + "'");
          }
          Write(step.name, step.text);
          break;
        case PageStep::Kind::kRun:
          Write(".block", step.text);
          last = Shell("PYTHONPATH=${emplace%/*}/python PATH=$PWD/.bin:${emplace%/*}:$PATH timeout " +
                       std::to_string(step.slow ? 1500 : 120) + " bash -euo pipefail .block");
          ASSERT_EQ(last.status, step.status)
              << place << (last.status == 124 ? "these commands took too long:\n" : "these commands ended so:\n")
              << step.text << "and printed:\n"
              << last.out.substr(0, 2000) << last.err;
          break;
        case PageStep::Kind::kOutput:
        case PageStep::Kind::kExcerpt:
          if (const std::string difference = OutputDifference(step, last.out); !difference.empty()) {
            ADD_FAILURE() << place << difference << "\nThe whole output:\n" << last.out;
          }
          break;
      }
    }
  }

  // If the page shows a picture of the name that its commands draw, both must be equal.
  void ComparePictures() const {
    for (const PageLink& link : ParseMarkdown(ReadFromRoot(GetParam())).links) {
      const fs::path picture = link.target;
      if (picture.extension() != ".svg" || !Exists(picture.filename())) continue;
      const fs::path file = (fs::path(GetParam()).parent_path() / picture).lexically_normal();
      EXPECT_TRUE(ReadFromRoot(file) == Read(picture.filename()))
          << GetParam() << ":" << link.line << ": " << file << " is not what the commands draw";
    }
  }
};

// Under sanitizers each command would take many times as long. Other tests run them there.
TEST_P(PageTest, CommandsDoWhatThePageSaysSlow) { RunBlocks(); }
INSTANTIATE_TEST_SUITE_P(Docs, PageTest, ::testing::ValuesIn(PagesWithSlowCommands(false)), TestName);

using PageSlowTest = PageTest;

TEST_P(PageSlowTest, SlowCommandsDoWhatThePageSays) { RunBlocks(); }
INSTANTIATE_TEST_SUITE_P(Docs, PageSlowTest, ::testing::ValuesIn(PagesWithSlowCommands(true)), TestName);

TEST(DocsTest, LinksLeadToFilesAndHeadings) {
  std::map<std::string, MarkdownPage> pages;
  for (const std::string& file : AllFiles()) {
    if (file.ends_with(".md")) pages[file] = ParseMarkdown(ReadFromRoot(file));
  }
  ASSERT_FALSE(pages.empty());
  for (const auto& [name, page] : pages) {
    for (const PageLink& link : page.links) {
      if (link.target.find("://") != std::string::npos || link.target.starts_with("mailto:")) continue;
      const std::size_t hash = std::min(link.target.find('#'), link.target.size());
      const std::string path = link.target.substr(0, hash);
      const std::string file = path.empty() ? name : (fs::path(name).parent_path() / path).lexically_normal().string();
      const std::string place = name + ":" + std::to_string(link.line) + ": " + link.target;
      if (file.starts_with("..") || !fs::exists(DocsRoot() / file)) {
        ADD_FAILURE() << place << " leads to no file of the repository";
      } else if (hash < link.target.size()) {
        const auto page_there = pages.find(file);
        if (page_there == pages.end()) continue;  // a line of a source
        const std::vector<std::string>& anchors = page_there->second.anchors;
        if (std::find(anchors.begin(), anchors.end(), link.target.substr(hash + 1)) == anchors.end()) {
          ADD_FAILURE() << place << " leads to no heading of " << file;
        }
      }
    }
  }
}

TEST(DocsTest, ReadmeHasAtMost120Lines) {
  const std::string readme = ReadFromRoot("README.md");
  EXPECT_LE(std::count(readme.begin(), readme.end(), '\n'), 120);
}

TEST(DocsTest, TheReadmeCountsTheAgents) {
  EXPECT_THAT(ReadFromRoot("README.md"), HasSubstr("All " + std::to_string(agents::AllAgents().size()) + " agents"));
}

TEST(DocsTest, TheIndexNamesEveryPage) {
  std::set<std::string> linked;
  for (const PageLink& link : ParseMarkdown(ReadFromRoot("docs/README.md")).links) {
    linked.insert("docs/" + link.target.substr(0, link.target.find('#')));
  }
  for (const std::string& page : Pages()) {
    if (page == "README.md" || page == "docs/README.md") continue;
    EXPECT_TRUE(linked.contains(page)) << "docs/README.md has no link to " << page;
  }
}

TEST(DocsTest, CliIsWhatTheProgramSays) {
  const std::string script = (DocsRoot() / "tools/update_docs").string();
  const Ran ran = RunShell("'" + script + "' --check $emplace", ::testing::TempDir(), EMPLACE_BINARY);
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
}

struct NotInTheTree {
  std::string name;  // * matches any text without a slash
  std::string reason;
};

const std::vector<NotInTheTree>& NamesOfOtherFiles() {
  static const std::vector<NotInTheTree> names = {
      {"FOLDER/*", "FOLDER is a placeholder"},
      {"RUNS/EXPERIMENT/*", "a file that a sweep writes"},
      {"runs/*/report.html", "a file that a script writes"},
      {"results/box/summary.json", "a file that a test writes"},
      {"c.yaml", "a file that a test writes"},
      {"experiment.yaml", "a file of the user's"},
      {"emplace.yaml", "a file of the user's"},
      {"human-experts/STEM_expert.json", "a file of dnn-partitioning"},
      {"cuda.h", "a header of the CUDA toolkit"},
      {"cupti.h", "a header of the CUDA toolkit"},
      {"hwy/foreach_target.h", "a header of Google Highway"},
  };
  return names;
}

bool IsInTheTree(const std::string& name, const std::string& source) {
  const std::string beside = (fs::path(source).parent_path() / name).lexically_normal();
  const bool bare = name.find('/') == std::string::npos;
  return std::any_of(AllFiles().begin(), AllFiles().end(), [&](const std::string& file) {
    return MatchesName(name, file) || MatchesName(beside, file) ||
           (bare && MatchesName(name, fs::path(file).filename()));
  });
}

// Whether the line has a comment or a docstring that begins with "Of".
bool HasCommentThatBeginsWithOf(std::string_view line) {
  for (std::size_t at = line.find("Of "); at != std::string_view::npos; at = line.find("Of ", at + 1)) {
    const std::size_t before = line.substr(0, at).find_last_not_of(' ');
    const std::string_view head = before == std::string_view::npos ? "" : line.substr(0, before + 1);
    for (const std::string_view marker : {"//", "/*", "#", "\"\"\""}) {
      if (head.ends_with(marker)) return true;
    }
  }
  return false;
}

TEST(DocsTest, NoCommentBeginsWithOf) {
  EXPECT_TRUE(
      HasCommentThatBeginsWithOf("int x;  //"
                                 " Of y."));
  EXPECT_TRUE(
      HasCommentThatBeginsWithOf("#"
                                 " Of y."));
  EXPECT_FALSE(HasCommentThatBeginsWithOf("  // The y. Of x."));
  for (const std::string& file : AllFiles()) {
    static const std::set<std::string> kSources = {".cc", ".h", ".py", ".cmake", ".txt", ".yaml", ".yml", ".sh", ""};
    if (kSources.count(fs::path(file).extension()) == 0) continue;
    std::istringstream lines(ReadFromRoot(file));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (HasCommentThatBeginsWithOf(line)) ADD_FAILURE() << file << ":" << number << ": " << line;
    }
  }
}

TEST(DocsTest, CommentsNameFilesThatAreThere) {
  int found = 0;
  std::vector<bool> used(NamesOfOtherFiles().size(), false);
  for (const std::string& file : AllFiles()) {
    const bool cpp = file.ends_with(".h") || file.ends_with(".cc");
    const std::string name = fs::path(file).filename();
    const bool script = name == "CMakeLists.txt" || file.ends_with(".cmake") || file.ends_with(".yaml") ||
                        (file.starts_with("tools/") && name.find('.') == std::string::npos);
    if (!cpp && !script) continue;
    const CommentStyle style = cpp ? CommentStyle::kSlashes : CommentStyle::kHash;
    for (const NamedFile& named : FilesNamedInComments(ReadFromRoot(file), style)) {
      ++found;
      if (IsInTheTree(named.name, file)) continue;
      const auto& others = NamesOfOtherFiles();
      const auto other = std::find_if(others.begin(), others.end(),
                                      [&](const NotInTheTree& entry) { return MatchesName(entry.name, named.name); });
      if (other == others.end()) {
        ADD_FAILURE() << file << ":" << named.line << ": no file " << named.name << " is in the repository";
      } else {
        used[static_cast<std::size_t>(other - others.begin())] = true;
      }
    }
  }
  EXPECT_GT(found, 100);
  for (std::size_t i = 0; i < used.size(); ++i) {
    EXPECT_TRUE(used[i]) << "no comment names " << NamesOfOtherFiles()[i].name << " any more: leave the exception out";
  }
}

// Tests of the tests above, on made-up pages and sources.

TEST(MarkdownTest, BlocksHaveTheirNotesAndSteps) {
  const MarkdownPage page = ParseMarkdown(
      "# Title\n<!-- file: a/b.txt -->\n```json\n{}\n```\n\n```sh\nls\n```\n<!-- excerpt -->\n```text\na\n...\n```\n"
      "<!-- slow -->\n<!-- fails: 2 -->\n```sh\nfalse\n```\n<!-- not run: no GPU -->\n```sh\nrm -rf /\n```\n"
      "- item\n  ```sh\n  if\n    x\n  ```\n");
  const std::vector<PageStep> steps = PageSteps(page);
  ASSERT_THAT(steps, SizeIs(5));
  EXPECT_EQ(steps[0].kind, PageStep::Kind::kFile);
  EXPECT_EQ(steps[0].name, "a/b.txt");
  EXPECT_EQ(steps[0].line, 3);
  EXPECT_EQ(steps[0].text, "{}\n");
  EXPECT_EQ(steps[1].kind, PageStep::Kind::kRun);
  EXPECT_EQ(steps[2].kind, PageStep::Kind::kExcerpt);
  EXPECT_TRUE(steps[3].slow);
  EXPECT_EQ(steps[3].status, 2);
  EXPECT_EQ(steps[4].text, "if\n  x\n");
}

TEST(MarkdownTest, NotesThatMakeNoSenseAreRefused) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      PageSteps(ParseMarkdown(text));
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal("<!-- outptu -->\n```text\n```\n"), "line 2: a note that is not known: outptu");
  EXPECT_EQ(refusal("<!-- not run: -->\n```sh\n```\n"), "line 2: a note that is not known: not run:");
  EXPECT_EQ(refusal("<!-- output -->\n```text\n```\n"), "line 2: an output without commands before it");
  EXPECT_EQ(refusal("<!-- fails: x -->\n```sh\n```\n"), "line 2: not an exit status: x");
  EXPECT_EQ(refusal("<!-- slow -->\n```text\n```\n"), "line 2: a note for commands before another block");
  EXPECT_EQ(refusal("<!-- file: ../x -->\n```text\n```\n"), "line 2: a file outside the folder: ../x");
  EXPECT_EQ(refusal("```bash\n```\n"), "line 1: commands are blocks of language sh, not bash");
  EXPECT_EQ(refusal("```sh\nls\n"), "line 2: a block is not closed");
  EXPECT_EQ(refusal("<!-- any text -->\nprose\n```text\n```\n"), "");
}

TEST(MarkdownTest, AnOutputIsComparedLineByLine) {
  const PageStep whole{.kind = PageStep::Kind::kOutput, .text = "a\nb\n", .name = ""};
  EXPECT_EQ(OutputDifference(whole, "a\nb\n"), "");
  EXPECT_THAT(OutputDifference(whole, "a\nc\n"), HasSubstr("on the page: b\n  printed:     c"));
  EXPECT_THAT(OutputDifference(whole, "a\nb\nc\n"), HasSubstr("on the page: (nothing)\n  printed:     c"));
  EXPECT_THAT(OutputDifference(whole, "a\n"), HasSubstr("printed:     (nothing)"));
  const PageStep excerpt{.kind = PageStep::Kind::kExcerpt, .text = "a\n...\nc\n", .name = ""};
  EXPECT_EQ(OutputDifference(excerpt, "0\na\nb\nc\nd\n"), "");
  EXPECT_THAT(OutputDifference(excerpt, "c\na\n"), HasSubstr("lacks, after the lines before it: c"));
}

TEST(MarkdownTest, LinksAndAnchorsAreFound) {
  const MarkdownPage page = ParseMarkdown(
      "# What `--x` is: a, *b* – c_d\n## Same\n## Same\n[a](b.md) ![c](d.png \"title\") `[e](f.md)` <img "
      "src=\"g.svg\">\n"
      "| [h](i_(j).md#k) |\n```text\n[l](m.md)\n```\n<a id=\"here\"></a>\n");
  std::vector<std::string> targets;
  for (const PageLink& link : page.links) targets.push_back(link.target);
  EXPECT_THAT(targets, ElementsAre("b.md", "d.png", "g.svg", "i_(j).md#k"));
  EXPECT_EQ(page.links[3].line, 5);
  EXPECT_THAT(page.anchors, ElementsAre("what---x-is-a-b--c_d", "same", "same-1", "here"));
}

TEST(CommentsTest, FilesAreFoundInCommentsOnly) {
  const auto names = [](const std::string& source, CommentStyle style) {
    std::string all;
    for (const NamedFile& file : FilesNamedInComments(source, style)) {
      all += std::to_string(file.line) + ":" + file.name + " ";
    }
    return all;
  };
  EXPECT_EQ(
      names("#include \"a/b.h\"\n// See a/c.md, and d.{h,cc}.\nf(\"// e.h\"); /* g.h\n h.cc */ i.h '\"' // j/k.json\n",
            CommentStyle::kSlashes),
      "2:a/c.md 2:d.h 2:d.cc 3:g.h 4:h.cc 4:j/k.json ");
  EXPECT_EQ(names("x = R\"sh(\n# a.h // b.h\n)sh\"; // https://c.org/d.html <e.h> $x/f.h s/GB g.json 1.5/2.5\n",
                  CommentStyle::kSlashes),
            "");
  EXPECT_EQ(names("#!/bin/a.sh\nx=${y#a.h} # sim/b_*.cc\nz: c.md#d.md\n", CommentStyle::kHash), "2:sim/b_*.cc ");
  EXPECT_TRUE(MatchesName("a/*_b.cc", "a/x_b.cc"));
  EXPECT_FALSE(MatchesName("a/*_b.cc", "a/c/x_b.cc"));
  EXPECT_FALSE(MatchesName("a/*.cc", "a/x.h"));
}

}  // namespace
}  // namespace emplace::testing
