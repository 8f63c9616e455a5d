#ifndef EMPLACE_EXPERIMENTS_VALIDATION_LLAMA_BENCH_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_LLAMA_BENCH_H_

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/curves.h"
#include "sim/device_catalog.h"

namespace emplace::experiments {

// The fewest rows of prompts, and of generation, from which rates follow.
inline constexpr std::size_t kFewestBenchRows = 3;

// A test of llama-bench: a prompt of so many tokens, or the generation of so many.
struct BenchRow {
  std::string model;
  double model_bytes = 0;
  double parameters = 0;
  double active_share = 1;  // of the parameters that a token uses: less than 1 of a mixture of experts
  double prompt_tokens = 0;
  double generated_tokens = 0;
  double batch_tokens = 0;  // of a prompt that are computed together
  double tokens_per_s = 0;

  bool is_prompt() const { return prompt_tokens > 0; }
  // The time of a batch of the prompt, or of a token.
  double Micros() const;
};

// What a file says, and why some of its rows are not used.
struct BenchRows {
  std::vector<BenchRow> rows;  // the fastest of each test of a model
  std::string device;          // as the file names it
  std::size_t slower = 0;      // the same test with another backend, build or option
  std::size_t deep = 0;        // after other tokens, whose attention the file does not describe
  std::size_t both = 0;        // prompt and generation in one
  std::size_t experts = 0;     // mixtures of experts that do not say which part of them a token uses

  // Keeps the faster one of two rows of a test.
  void Add(BenchRow row);
};

// Whether a text begins as what `llama-bench -o jsonl` or `-o json` prints.
bool IsLlamaBench(std::string_view text);
// Adds what a file says to the rows of others. Throws InputError whose place is `file` and the line, or with `-o json`
// the row; also where two rows are of different devices.
BenchRows ReadLlamaBench(std::istream& in, const std::string& file, BenchRows others = {});

// Rates that a device sustains: of products in half precision, from the fastest prompt of each model, and of reading
// weights, from generation.
struct SustainedRates {
  double tflop_per_s = 0;
  double gb_per_s = 0;
  double token_micros = 0;  // of each generated token beside its weights; 0 too where all models have one size
  std::size_t prompts = 0;  // rows that the rates follow from
  std::size_t generations = 0;
  std::size_t models = 0;
  std::size_t bound_by_memory = 0;  // prompts so short that reading the weights takes most of the time
  std::size_t beyond_rates = 0;     // of models with a row faster than the data sheet: tokens do not use all weights
  double prompt_error_percent = 0;  // medians of the absolute errors: of models, and of rows of generation
  double generation_error_percent = 0;
};

// Throws InputError("") with the count that is needed, if there are fewer rows of prompts or of generation.
SustainedRates FindSustainedRates(const std::vector<BenchRow>& rows, const DeviceKind& device);

// The same for networks that generate text, with the largest model of the rows. Requires: there are rows.
GenerationRates GenerationRatesOf(const std::vector<BenchRow>& rows, const SustainedRates& rates,
                                  const std::string& source);

// Gives the curve of products in half precision these rates. It begins as the one that `base` has, or borrows.
DeviceCurves WithSustainedRates(const DeviceCurves& base, const DeviceKind& device, const std::vector<BenchRow>& rows,
                                const SustainedRates& rates, const std::string& source);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_LLAMA_BENCH_H_
