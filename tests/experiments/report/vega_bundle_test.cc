#include "experiments/report/vega_bundle.h"

#include <gmock/gmock.h>

#include <regex>
#include <set>

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(VegaBundleTest, EveryModuleComesAfterThoseItAsksFor) {
  // A module ends with the name under which others require it, and begins with its own require("NAME") calls.
  const std::string script = experiments::VegaScript();
  const std::regex word("require\\(\"([a-z-]+)\"\\)|\\(loaded\\[\"([a-z-]+)\"\\] = \\{\\}");
  std::set<std::string> loaded;
  std::size_t asked = 0;
  for (std::sregex_iterator at(script.begin(), script.end(), word), end; at != end; ++at) {
    if ((*at)[2].matched) {
      loaded.insert((*at)[2]);
    } else {
      ++asked;
      EXPECT_EQ(loaded.count((*at)[1]), 1U) << (*at)[1];
    }
  }
  EXPECT_EQ(loaded.size(), 20U);
  EXPECT_GT(asked, 40U);
}

TEST(VegaBundleTest, TheScriptFitsIntoAPage) {
  const std::string script = experiments::VegaScript();
  EXPECT_THAT(script, Not(HasSubstr("</script")));
  EXPECT_THAT(script, Not(HasSubstr("sourceMappingURL")));
  EXPECT_LT(script.size(), 1'000'000U);
}

TEST(VegaBundleTest, TheLicenceIsThatOfThePackage) {
  EXPECT_THAT(std::string(experiments::VegaLicence()), HasSubstr("BSD-3-Clause"));
  EXPECT_THAT(std::string(experiments::VegaLicence()), HasSubstr("Redistributions in binary form"));
}

}  // namespace
}  // namespace emplace::testing
