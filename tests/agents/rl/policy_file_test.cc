#include "agents/rl/policy_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

std::string Policy(const std::string& agent, const std::string& body) {
  std::ostringstream file;
  agents::WritePolicy(file, agent, body);
  return std::move(file).str();
}

std::string Refusal(const std::string& text, const std::string& agent) {
  std::istringstream in(text);
  return testing::ErrorOf([&] { agents::ReadPolicy(in, agent); });
}

TEST(PolicyFileTest, WhatWasWrittenForAnAgentIsReadForIt) {
  const std::string text = Policy("sgdp", "layers=4 7\n");
  EXPECT_EQ(text.rfind("emplace.policy 2 sgdp ", 0), 0U);
  std::istringstream file(text);
  EXPECT_EQ(agents::ReadPolicyText(file), text);
  file.seekg(0);
  std::istringstream body(agents::ReadPolicy(file, "sgdp"));
  agents::ExpectPolicyShape(body, "layers=4");
  int rest = 0;
  body >> rest;
  EXPECT_EQ(rest, 7);
}

TEST(PolicyFileTest, ABitThatFlipsAByteThatIsLostAndOneTooManyAreRefused) {
  const std::string text = Policy("sgdp", std::string("layers=4 \0\x80\xff 7\n", 15));
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Refusal(flipped, "sgdp"), "(no error)") << bit;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_NE(Refusal(text.substr(0, i), "sgdp"), "(no error)") << i;
    EXPECT_NE(Refusal(std::string(text).erase(i, 1), "sgdp"), "(no error)") << i;
  }
  EXPECT_EQ(Refusal(text + ' ', "sgdp"), "is broken or of another program (expected other content for its checksum)");
}

TEST(PolicyFileTest, APolicyOfAnEarlierVersionIsCalledThat) {
  EXPECT_EQ(Refusal("emplace.policy 1 sgdp 2 layers=4\n", "sgdp"),
            "is a policy of an earlier version of emplace, without a checksum (train it again)");
  EXPECT_EQ(Refusal("emplace.policy 3 sgdp 2 layers=4\n", "sgdp"),
            "is not a policy (a file with a policy that emplace trained)");
}

// An endless stream of zeros.
class Zeros : public std::streambuf {
 public:
  std::size_t given() const { return given_; }

 protected:
  int_type underflow() override {
    given_ += block_.size();
    if (given_ > (1 << 20)) return traits_type::eof();
    setg(block_.data(), block_.data(), block_.data() + block_.size());
    return 0;
  }

 private:
  std::array<char, 4096> block_{};
  std::size_t given_ = 0;
};

TEST(PolicyFileTest, WhatDoesNotBeginLikeAPolicyIsNotReadToItsEnd) {
  Zeros zeros;
  std::istream in(&zeros);
  EXPECT_EQ(testing::ErrorOf([&] { agents::ReadPolicyText(in); }),
            "is not a policy (a file with a policy that emplace trained)");
  EXPECT_EQ(testing::ErrorOf([&] { agents::ReadPolicy(in, "sgdp"); }),
            "is not a policy (a file with a policy that emplace trained)");
  EXPECT_LE(zeros.given(), 4096U);
}

TEST(PolicyFileTest, AnythingElseIsRefused) {
  EXPECT_EQ(Refusal("{}", "sgdp"), "is not a policy (a file with a policy that emplace trained)");
  EXPECT_EQ(Refusal(Policy("placeto", "3"), "sgdp"), "is a policy of agent placeto (sgdp)");
  std::stringstream shape("layers=4");
  EXPECT_EQ(testing::ErrorOf([&] { agents::ExpectPolicyShape(shape, "layers=3"); }),
            "is a policy trained with other options: layers=4 (layers=3: the options must be the same)");
}

}  // namespace
}  // namespace emplace
