#include "experiments/version.h"

#include <gtest/gtest.h>

#include <string>

namespace emplace {
namespace {

TEST(VersionTest, TheRevisionIsOneOfGitOrUnknown) {
  EXPECT_EQ(experiments::Version(), "0.1.0");
  std::string revision(experiments::Revision());
  if (revision == "unknown") return;
  if (revision.ends_with("-dirty")) revision.resize(revision.size() - 6);
  EXPECT_EQ(revision.size(), 40U);
  EXPECT_EQ(revision.find_first_not_of("0123456789abcdef"), std::string::npos) << revision;
}

}  // namespace
}  // namespace emplace
