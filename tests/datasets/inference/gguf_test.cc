#include "datasets/inference/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "tests/datasets/importers/samples.h"
#include "tests/testing/gguf_file.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace gguf_test {

using ::testing::HasSubstr;

std::string Refused(const std::string& bytes) {
  return Refusal([&] { ReadGgufBytes(bytes); });
}

TEST(GgufTest, BytesAreThoseOfWholeBlocks) {
  GgufFile file("llama");
  // Elements and bytes of a row of 512, as the Python package gguf has them.
  const std::map<std::string, std::int64_t> bytes = {
      {"f32", 2048},   {"f16", 1024},  {"bf16", 1024},  {"q4_0", 288},    {"q4_1", 320},    {"q5_0", 352},
      {"q5_1", 384},   {"q8_0", 544},  {"q2_k", 168},   {"q3_k", 220},    {"q4_k", 288},    {"q5_k", 352},
      {"q6_k", 420},   {"q8_k", 584},  {"iq2_xs", 148}, {"iq2_xxs", 132}, {"iq3_xxs", 196}, {"iq1_s", 100},
      {"iq4_nl", 288}, {"iq3_s", 220}, {"iq2_s", 164},  {"iq4_xs", 272},  {"iq1_m", 112},   {"tq1_0", 108},
      {"tq2_0", 132},  {"mxfp4", 272}, {"i8", 512},     {"f64", 4096}};
  for (const auto& [type, row] : bytes) file.Tensor(type, type, {512, 3});
  for (const datasets::GgufTensor& tensor : ReadGgufBytes(file.Bytes()).tensors) {
    EXPECT_EQ(tensor.bytes, 3 * bytes.at(tensor.name)) << tensor.name;
    EXPECT_EQ(tensor.elements, 1536);
    EXPECT_EQ(tensor.type->name, tensor.name);
    EXPECT_EQ(datasets::FindGgmlType(tensor.type->number), tensor.type);
  }
}

TEST(GgufTest, MetadataHaveTheirTypes) {
  GgufFile file("llama");
  file.Integer("a.count", 7);
  file.Integers("a.list", {1, -2, 3});
  file.Texts("a.tokens", {"x", "yz", ""});
  const datasets::GgufHeader header = ReadGgufBytes(file.Bytes());
  EXPECT_EQ(header.Text("general.name"), "a model");
  EXPECT_EQ(header.Integer("a.count"), 7);
  EXPECT_EQ(header.Number("a.count"), 7.0);
  EXPECT_EQ(header.Integer("a.other"), std::nullopt);
  ASSERT_NE(header.List("a.list"), nullptr);
  EXPECT_THAT(header.List("a.list")->numbers, ::testing::ElementsAre(1, -2, 3));
  EXPECT_EQ(header.List("a.tokens")->length, 3);
  EXPECT_EQ(header.List("a.count"), nullptr);
  EXPECT_EQ(Refusal([&] { header.Text("a.count"); }), "a.count: expected a text");
  EXPECT_EQ(Refusal([&] { header.Integer("general.name"); }), "general.name: expected an integer");
  EXPECT_TRUE(datasets::LooksLikeGguf(file.Bytes()));
  EXPECT_FALSE(datasets::LooksLikeGguf("{}"));
}

TEST(GgufTest, TensorsOfAllPartsAreJoined) {
  GgufFile first("llama");
  first.Integer("split.count", 2);
  first.Integer("split.no", 0);
  first.Tensor("a", "f32", {4});
  GgufFile second("llama");
  second.Integer("split.no", 1);
  second.Tensor("b", "f32", {8});
  std::istringstream in(first.Bytes());
  const auto header = datasets::ReadGguf(in, [&](std::int64_t part, std::int64_t parts) {
    EXPECT_EQ(part, 2);
    EXPECT_EQ(parts, 2);
    return std::make_unique<std::istringstream>(second.Bytes());
  });
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.Integer("split.no"), 0);
  GgufFile later("llama");
  later.Integer("split.count", 2);
  later.Integer("split.no", 1);
  EXPECT_EQ(Refused(later.Bytes()),
            "split.no: is part 2 of 2: expected the first, whose name ends in -00001-of-00002.gguf");
}

TEST(GgufTest, WhatCannotBeIsRefusedWithItsPlace) {
  GgufFile file("llama");
  file.Tensor("a", "q4_0", {32, 2});
  const std::string good = file.Bytes();
  EXPECT_EQ(Refused("GGML" + good.substr(4)), "byte 4: is no GGUF file: expected GGUF as its first four bytes");
  for (std::size_t size = 4; size < good.size(); ++size) {
    EXPECT_THAT(Refused(good.substr(0, size)), HasSubstr("the file ends within ")) << size;
  }
  std::string old = good;
  old[4] = 1;
  EXPECT_EQ(Refused(old), "byte 8: version 1: expected 2 or 3, little-endian");
  std::string many = good;
  many[15] = '\x7f';
  EXPECT_THAT(Refused(many), HasSubstr("tensors: expected at most 1000000"));
  const auto with = [](std::uint32_t type, const std::vector<std::uint64_t>& shape) {
    GgufFile other("llama");
    other.Tensor("a", type, shape);
    return other.Bytes();
  };
  EXPECT_THAT(Refused(with(99, {32})), HasSubstr("a has type 99, which is not known: expected one of f32 to q2_0"));
  EXPECT_THAT(Refused(with(2, {33})),
              HasSubstr("rows of a have 33 elements: expected a multiple of 32, the block of q4_0"));
  EXPECT_THAT(Refused(with(0, {0})), HasSubstr("dimension 0 of a is 0: expected 1 or more"));
  EXPECT_THAT(Refused(with(0, {std::uint64_t{1} << 40, std::uint64_t{1} << 40})), HasSubstr("at most 2^50 elements"));
  EXPECT_THAT(Refused(with(0, {1, 1, 1, 1, 1})), HasSubstr("a has 5 dimensions: expected at most 4"));
  GgufFile twice("llama");
  twice.Tensor("a", "f32", {4});
  twice.Tensor("a", "f32", {4});
  EXPECT_EQ(Refused(twice.Bytes()), "a: there are two tensors of this name");
}

}  // namespace gguf_test
}  // namespace emplace::testing
