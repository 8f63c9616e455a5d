#include "experiments/plan/checked_json.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/fingerprint.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using testing::ErrorOf;

JsonObject Members(const std::string& text) { return std::get<JsonObject>(ParseJson(text).data); }

std::string Refusal(const std::string& text, bool required = true) {
  const JsonValue value = ParseJson(text);
  return ErrorOf([&] { experiments::CheckChecksum(JsonNode(value), required, "again"); });
}

TEST(CheckedJsonTest, AChecksumIsOfTheOtherMembersInTheirOrder) {
  JsonObject members = Members(R"({"a": 1.5, "b": ["x", null]})");
  experiments::AddChecksum(&members);
  const std::string sum = FingerprintText(R"({"a":1.5,"b":["x",null]})");
  std::string text;
  AppendJson(&text, {members});
  EXPECT_EQ(text, R"({"a":1.5,"b":["x",null],"checksum":")" + sum + "\"}");
  EXPECT_EQ(Refusal(text), "(no error)");
  EXPECT_EQ(Refusal(R"( { "a" : 1.50 , "b":["x", null],)"
                    "\n"
                    R"("checksum":")" +
                    sum + "\"}\n"),
            "(no error)");
  const std::string other = "checksum: is not that of the rest of the file, which is damaged or was changed (again)";
  EXPECT_EQ(Refusal(R"({"a":1.5,"b":["y",null],"checksum":")" + sum + "\"}"), other);
  EXPECT_EQ(Refusal(R"({"b":["x",null],"a":1.5,"checksum":")" + sum + "\"}"), other);
  EXPECT_EQ(Refusal(R"({"a":1.5,"b":["x",null],"checksum":""})"), other);
  EXPECT_EQ(Refusal(R"({"a":1.5,"b":["x",null],"checksum":1})"), "checksum: is the number 1 (a string)");
}

TEST(CheckedJsonTest, AChecksumThatMustBeThereIsMissed) {
  EXPECT_EQ(Refusal(R"({"a": 1})"), "checksum: is missing (again)");
  EXPECT_EQ(Refusal(R"({"a": 1})", /*required=*/false), "(no error)");
}

// FNV-1a of the text and of a zero byte, as the reference implementation computes it.
TEST(CheckedJsonTest, FingerprintsAreSixteenDigits) {
  EXPECT_EQ(FingerprintText(""), "af63bd4c8601b7df");
  EXPECT_EQ(FingerprintText("a"), "089be207b544f1e4");
  EXPECT_EQ(experiments::TrialId(ParseJson("{ }")), FingerprintText("{}"));
}

TEST(CheckedJsonTest, ASpecIsOfOneTrial) {
  const JsonValue spec = ParseJson(R"({"seed": 1})");
  experiments::CheckTrialId(spec, FingerprintText(R"({"seed":1})"));
  EXPECT_EQ(ErrorOf([&] { experiments::CheckTrialId(spec, "0123456789abcdef"); }),
            "is the spec of trial " + experiments::TrialId(spec) +
                ", not of 0123456789abcdef: it is damaged or was changed (the same sweep writes it again)");
}

TEST(CheckedJsonTest, FilesAreReadAsTheyWereWritten) {
  const std::string file = ::testing::TempDir() + "checked.json";
  experiments::WriteJsonFile(file, ParseJson(R"({"a": [1, 2.5, "x"]})"));
  std::string text;
  AppendJson(&text, experiments::ReadJsonFile(file));
  EXPECT_EQ(text, R"({"a":[1,2.5,"x"]})");
  EXPECT_EQ(ErrorOf([] { experiments::ReadJsonFile("/nonexistent"); }),
            "/nonexistent: cannot be read (No such file or directory)");
}

}  // namespace
}  // namespace emplace
