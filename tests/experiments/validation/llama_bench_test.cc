#include "experiments/validation/llama_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "sim/base/check.h"

namespace emplace {
namespace llama_bench_test {

using ::testing::HasSubstr;

// A device that computes 40 TFLOP/s, reads 200 GB/s, and needs 0.5 ms for each token beside its weights.
std::string Line(const std::string& model, double bytes, double parameters, int prompt, int generated,
                 const std::string& more = "") {
  const int batch = std::min(prompt, 512);
  const double micros = prompt > 0 ? 2.0 * parameters * batch / 40e6 : 500 + bytes / 200e3;
  const double rate = (prompt > 0 ? batch : 1) / micros * 1e6;
  return fmt::format(
      R"({{"build_commit": "b1", "gpu_info": "a GPU", "cpu_info": "a CPU", "model_type": "{}", "model_size": {}, )"
      R"("model_n_params": {}, "n_batch": 2048, "n_ubatch": 512, "n_prompt": {}, "n_gen": {}, "avg_ts": {}{}}})"
      "\n",
      model, bytes, parameters, prompt, generated, rate, more);
}

std::string Bench() {
  std::string text;
  for (const int prompt : {256, 512, 1024}) text += Line("llama 8B Q4_K", 4.9e9, 8e9, prompt, 0);
  for (const int generated : {32, 64}) text += Line("llama 8B Q4_K", 4.9e9, 8e9, 0, generated);
  return text + Line("llama 1B Q4_K", 0.8e9, 1.24e9, 0, 128);
}

experiments::BenchRows Read(const std::string& text) {
  std::istringstream in(text);
  return experiments::ReadLlamaBench(in, "b.jsonl");
}

std::string ErrorOf(const std::string& text) {
  try {
    const experiments::BenchRows read = Read(text);
    experiments::FindSustainedRates(read.rows, *FindDeviceKind("h100"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LlamaBenchTest, RatesAreThoseOfTheDevice) {
  EXPECT_TRUE(experiments::IsLlamaBench(Bench()));
  EXPECT_FALSE(experiments::IsLlamaBench("kind,type,m\n"));
  const experiments::BenchRows read = Read(Bench());
  EXPECT_EQ(read.device, "a GPU");
  EXPECT_EQ(read.rows.size(), 6U);
  const experiments::SustainedRates rates = experiments::FindSustainedRates(read.rows, *FindDeviceKind("l4"));
  EXPECT_NEAR(rates.tflop_per_s, 40, 1e-6);
  EXPECT_NEAR(rates.gb_per_s, 200, 1e-6);
  EXPECT_NEAR(rates.token_micros, 500, 1e-3);
  EXPECT_EQ(rates.prompts, 3U);
  EXPECT_EQ(rates.generations, 3U);
  EXPECT_EQ(rates.models, 2U);
  EXPECT_NEAR(rates.prompt_error_percent + rates.generation_error_percent, 0, 1e-6);
}

TEST(LlamaBenchTest, TheCurveOfProductsTakesTheRates) {
  const DeviceKind& device = *FindDeviceKind("l4");
  const experiments::BenchRows read = Read(Bench());
  const experiments::SustainedRates rates = experiments::FindSustainedRates(read.rows, device);
  const OwnCurves own = {
      {"l4", experiments::WithSustainedRates(*FindDeviceCurves("l4"), device, read.rows, rates, "a test")}};
  const auto micros = [&](double m) {
    const ProductShape network = {.m = m, .n = std::sqrt(8e9), .k = std::sqrt(8e9)};
    return CurveMicros(device, Precision::kF16, network, 0, &own)->time.micros;
  };
  const double prompt = 2.0 * 512 * 8e9 / 40e6;
  const double token = 2 * 8e9 / 200e3;
  EXPECT_NEAR(micros(512), prompt, 0.02 * prompt);
  EXPECT_NEAR(micros(1), token, 0.02 * token);
}

TEST(LlamaBenchTest, RowsThatSayNothingAboutTheRatesAreCounted) {
  const std::string text = Bench() + Line("llama 8B Q4_K", 4.9e9, 8e9, 512, 0, R"(, "n_depth": 4096)") +
                           Line("llama 8B Q4_K", 4.9e9, 8e9, 512, 128) + Line("llama 8B Q4_K", 4.9e9, 8e9, 512, 0) +
                           Line("llama 8x7B Q4_K", 26e9, 47e9, 0, 64) + Line("gpt-oss 20B", 12e9, 21e9, 0, 64);
  const experiments::BenchRows read = Read(text);
  EXPECT_EQ(read.deep, 1U);
  EXPECT_EQ(read.both, 1U);
  EXPECT_EQ(read.slower, 1U);
  EXPECT_EQ(read.experts, 2U);
  EXPECT_EQ(read.rows.size(), 6U);
  // A tenth of the weights of a mixture of experts.
  const experiments::BenchRows active = Read(Line("qwen3moe 30B.A3B Q4_K", 18e9, 30e9, 0, 64));
  ASSERT_EQ(active.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(active.rows[0].active_share, 0.1);
  EXPECT_DOUBLE_EQ(active.rows[0].Micros(), 500 + 18e9 / 200e3);
  // A prompt of two tokens takes the time of its weights, and no device reads all weights faster than its memory.
  std::vector<experiments::BenchRow> rows = read.rows;
  rows.push_back({.model = "m",
                  .model_bytes = 4e9,
                  .parameters = 8e9,
                  .prompt_tokens = 2,
                  .batch_tokens = 512,
                  .tokens_per_s = 2e6 / (500 + 4e9 / 200e3)});
  rows.push_back({.model = "n",
                  .model_bytes = 4e9,
                  .parameters = 8e9,
                  .generated_tokens = 8,
                  .batch_tokens = 512,
                  .tokens_per_s = 1000});
  const experiments::SustainedRates rates = experiments::FindSustainedRates(rows, *FindDeviceKind("l4"));
  EXPECT_EQ(rates.bound_by_memory, 1U);
  EXPECT_EQ(rates.beyond_rates, 1U);
  EXPECT_NEAR(rates.gb_per_s, 200, 1e-6);
}

TEST(LlamaBenchTest, AListOfRowsIsReadAsLinesAre) {
  std::string list = "[\n";
  std::istringstream lines(Bench());
  for (std::string line; std::getline(lines, line);) list += (list.size() > 2 ? ",\n" : "") + line;
  list += "\n]\n";
  EXPECT_TRUE(experiments::IsLlamaBench(list));
  EXPECT_FALSE(experiments::IsLlamaBench("[{\"ph\": \"X\"}]"));
  const experiments::BenchRows read = Read(list);
  EXPECT_EQ(read.rows.size(), 6U);
  const DeviceKind& device = *FindDeviceKind("l4");
  const auto rates = experiments::FindSustainedRates(read.rows, device);
  EXPECT_NEAR(rates.gb_per_s, 200, 1e-6);
  const GenerationRates generation = experiments::GenerationRatesOf(read.rows, rates, "a test");
  EXPECT_NEAR(generation.tflop_per_s, 40, 1e-6);
  EXPECT_DOUBLE_EQ(generation.model_bytes, 4.9e9);
  EXPECT_DOUBLE_EQ(generation.parameters, 8e9);
  // The rows of a second file count with those of the first; of a test that both have, the faster one.
  std::istringstream more(Line("llama 1B Q4_K", 0.8e9, 1.24e9, 0, 256) + Line("llama 1B Q4_K", 0.8e9, 1.24e9, 0, 128));
  const experiments::BenchRows both = experiments::ReadLlamaBench(more, "c.jsonl", read);
  EXPECT_EQ(both.rows.size(), 7U);
  EXPECT_EQ(both.slower, 1U);
  EXPECT_EQ(ErrorOf("[{\"model_n_params\": 1}]"), "b.jsonl[0]: model_size is missing (a number of at least 1)");
  EXPECT_EQ(ErrorOf("[{\n"), "b.jsonl: is no whole JSON list (of llama-bench -o json)");
}

TEST(LlamaBenchTest, BadLinesAndTooFewAreNamed) {
  EXPECT_EQ(ErrorOf("1\n"), "b.jsonl:1: is no JSON object (a row of llama-bench -o jsonl or -o json)");
  EXPECT_EQ(ErrorOf("{\"model_n_params\": 1}\n"), "b.jsonl:1: model_size is missing (a number of at least 1)");
  const std::string one = Line("m", 1e9, 2e9, 512, 0);
  std::string other = one;
  other.replace(other.find("a GPU"), 5, "B GPU");
  EXPECT_EQ(ErrorOf(one + other),
            "b.jsonl:2: was measured on \"B GPU\", others on \"a GPU\" (one device in a file of curves)");
  EXPECT_THAT(ErrorOf(one), HasSubstr("has 1 of prompts and 0 of generation that can be used (at least 3 of each"));
}

}  // namespace llama_bench_test
}  // namespace emplace
