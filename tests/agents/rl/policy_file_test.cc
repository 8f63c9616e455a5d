#include "agents/rl/policy_file.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

TEST(PolicyFileTest, WhatBeginsAsAnAgentsPolicyIsItsOwn) {
  std::stringstream file;
  BeginPolicy(file, "sgdp");
  file << "layers=4 7";
  ExpectPolicyOf(file, "sgdp");
  ExpectPolicyShape(file, "layers=4");
  int rest = 0;
  file >> rest;
  EXPECT_EQ(rest, 7);
}

TEST(PolicyFileTest, AnythingElseIsRefused) {
  std::stringstream nonsense("{}");
  EXPECT_EQ(testing::ErrorOf([&] { ExpectPolicyOf(nonsense, "sgdp"); }), "is no policy (a file of --policy-out)");
  std::stringstream other("emplace.policy 1 placeto 3");
  EXPECT_EQ(testing::ErrorOf([&] { ExpectPolicyOf(other, "sgdp"); }), "is a policy of agent placeto (sgdp)");
  std::stringstream shape("layers=4");
  EXPECT_EQ(testing::ErrorOf([&] { ExpectPolicyShape(shape, "layers=3"); }),
            "is a policy trained with other options: layers=4 (layers=3: the same --set)");
}

}  // namespace
}  // namespace emplace
