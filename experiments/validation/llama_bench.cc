#include "experiments/validation/llama_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <istream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

constexpr double kMicrosPerSecond = 1e6;
constexpr double kNoise = 1.05;  // by which a row may be faster than the data sheet's rates

// The number of a key, at least `least`.
double NumberOf(const nlohmann::json& row, const char* key, double least, const std::string& place) {
  const auto found = row.find(key);
  const bool is_number = found != row.end() && found->is_number();
  const double value = is_number ? found->get<double>() : 0;
  if (is_number && std::isfinite(value) && value >= least) return value;
  throw InputError(place, fmt::format("{} is {} (a number of at least {})", key,
                                      found == row.end() ? "missing" : Quoted(found->dump()), least));
}

std::string TextOf(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

// The billions of active parameters that a name says: 3 of "qwen3moe 30B.A3B Q4_K", 13 of "hunyuan-moe A13B Q6_K".
std::optional<double> ActiveBillions(const std::string& name) {
  for (std::size_t at = 1; at < name.size(); ++at) {
    if (name[at] != 'A' || (name[at - 1] != '.' && name[at - 1] != ' ')) continue;
    double billions = 0;
    int read = 0;
    if (std::sscanf(name.c_str() + at + 1, "%lfB%n", &billions, &read) == 1 && read > 0) return billions;
  }
  return std::nullopt;
}

// "8x7B" and the like, and architectures that have experts without saying so.
bool LooksLikeExperts(const std::string& name) {
  for (const std::string_view word : {"moe", "gpt-oss", "deepseek2", "llama4", "grok", "dbrx", "arctic"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  for (std::size_t i = 1; i + 1 < name.size(); ++i) {
    const auto is_digit = [&](std::size_t at) { return std::isdigit(static_cast<unsigned char>(name[at])) != 0; };
    if (name[i] == 'x' && is_digit(i - 1) && is_digit(i + 1)) return true;
  }
  return false;
}

// Nullopt where a mixture of experts does not say which part of it a token uses.
std::optional<double> ActiveShare(const std::string& model, double parameters) {
  constexpr double kBillion = 1e9;
  if (const auto active = ActiveBillions(model)) return std::min(1.0, *active * kBillion / parameters);
  if (LooksLikeExperts(model)) return std::nullopt;
  return 1;
}

}  // namespace

double BenchRow::Micros() const {
  return (is_prompt() ? std::min(prompt_tokens, batch_tokens) : 1) / tokens_per_s * kMicrosPerSecond;
}

bool IsLlamaBench(std::string_view text) {
  constexpr std::string_view kOfEachRow = "\"model_n_params\"";
  if (text.starts_with("[")) return text.find(kOfEachRow) != std::string_view::npos;
  return text.starts_with("{") && text.substr(0, text.find('\n')).find(kOfEachRow) != std::string_view::npos;
}

void BenchRows::Add(BenchRow row) {
  const auto test = [](const BenchRow& of) {
    return std::tie(of.model, of.model_bytes, of.prompt_tokens, of.generated_tokens);
  };
  const auto same =
      std::find_if(rows.begin(), rows.end(), [&](const BenchRow& each) { return test(each) == test(row); });
  if (same == rows.end()) {
    rows.push_back(std::move(row));
    return;
  }
  ++slower;
  if (row.tokens_per_s > same->tokens_per_s) *same = std::move(row);
}

namespace {

// A row of a file, counted or added.
void AddBenchRow(const nlohmann::json& json, const std::string& place, BenchRows* read) {
  if (!json.is_object()) throw InputError(place, "is no JSON object (a row of llama-bench -o jsonl or -o json)");
  std::string device = TextOf(json, "gpu_info");
  if (device.empty()) device = TextOf(json, "cpu_info");
  if (read->device.empty()) read->device = device;
  if (device != read->device) {
    throw InputError(place, fmt::format("was measured on {}, others on {} (one device in a file of curves)",
                                        Quoted(device), Quoted(read->device)));
  }
  BenchRow row{.model = TextOf(json, "model_type"),
               .model_bytes = NumberOf(json, "model_size", 1, place),
               .parameters = NumberOf(json, "model_n_params", 1, place),
               .prompt_tokens = NumberOf(json, "n_prompt", 0, place),
               .generated_tokens = NumberOf(json, "n_gen", 0, place),
               .batch_tokens = NumberOf(json, "n_ubatch", 1, place),
               .tokens_per_s = NumberOf(json, "avg_ts", 1e-6, place)};
  if (json.contains("n_depth") && NumberOf(json, "n_depth", 0, place) > 0) {
    ++read->deep;
    return;
  }
  if ((row.prompt_tokens > 0) == (row.generated_tokens > 0)) {
    ++read->both;
    return;
  }
  const std::optional<double> share = ActiveShare(row.model, row.parameters);
  if (!share) {
    ++read->experts;
    return;
  }
  row.active_share = *share;
  read->Add(std::move(row));
}

bool IsBlank(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; });
}

}  // namespace

BenchRows ReadLlamaBench(std::istream& in, const std::string& file, BenchRows others) {
  BenchRows read = std::move(others);
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (IsBlank(line)) continue;
    // `-o json` is one list of the rows, over many lines.
    if (number == 1 && line.starts_with("[")) {
      const std::string text = line + "\n" + std::string(std::istreambuf_iterator<char>(in), {});
      const nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!list.is_array()) throw InputError(file, "is no whole JSON list (of llama-bench -o json)");
      for (std::size_t i = 0; i < list.size(); ++i) AddBenchRow(list[i], fmt::format("{}[{}]", file, i), &read);
      break;
    }
    AddBenchRow(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false), fmt::format("{}:{}", file, number),
                &read);
  }
  return read;
}

namespace {

double FlopOf(const BenchRow& row) {
  const double tokens = row.is_prompt() ? std::min(row.prompt_tokens, row.batch_tokens) : 1;
  return 2 * tokens * row.parameters * row.active_share;
}

// A token reads the weights that it uses; the tokens of a prompt's batch use all of them, one or another.
double BytesOf(const BenchRow& row) { return row.model_bytes * (row.is_prompt() ? 1 : row.active_share); }

// The bandwidth in bytes per us, and the time beside it, that have the least squares of relative errors; the time is 0
// where sizes are too alike to tell it.
std::pair<double, double> FitBandwidth(const std::vector<const BenchRow*>& rows) {
  constexpr double kDifferentSizes = 2;
  double smallest = BytesOf(*rows.front());
  double largest = smallest;
  // time = fixed + bytes * slope; each equation divided by its time.
  double a = 0;
  double b = 0;
  double c = 0;
  double d = 0;
  double e = 0;
  std::vector<double> rates;
  for (const BenchRow* const row : rows) {
    const double time = row->Micros();
    const double bytes = BytesOf(*row);
    smallest = std::min(smallest, bytes);
    largest = std::max(largest, bytes);
    a += 1 / (time * time);
    b += bytes / (time * time);
    c += bytes * bytes / (time * time);
    d += 1 / time;
    e += bytes / time;
    rates.push_back(bytes / time);
  }
  const double determinant = a * c - b * b;
  if (largest >= kDifferentSizes * smallest && determinant > 0) {
    const double fixed = (d * c - e * b) / determinant;
    const double slope = (a * e - b * d) / determinant;
    if (fixed > 0 && slope > 0) return {1 / slope, fixed};
  }
  return {Median(std::move(rates)), 0};
}

double Percent(double predicted, double measured) { return 100 * std::abs(predicted / measured - 1); }

}  // namespace

SustainedRates FindSustainedRates(const std::vector<BenchRow>& rows, const DeviceKind& device) {
  const double peak = RateOf(device, Precision::kF16).peak.count / kMicrosPerSecond;
  const double bandwidth = static_cast<double>(device.memory_bandwidth.count) / kMicrosPerSecond;
  using Model = std::pair<std::string, double>;
  const auto model_of = [](const BenchRow& row) { return Model(row.model, row.model_bytes); };
  SustainedRates rates;
  std::vector<const BenchRow*> prompts;
  std::vector<const BenchRow*> generations;
  // Where a row of a model is too fast, a token does not use all of its weights, in its other rows either.
  std::set<Model> too_fast;
  for (const BenchRow& row : rows) {
    if (FlopOf(row) > kNoise * peak * row.Micros() || BytesOf(row) > kNoise * bandwidth * row.Micros()) {
      too_fast.insert(model_of(row));
    }
  }
  for (const BenchRow& row : rows) {
    if (too_fast.contains(model_of(row))) {
      ++rates.beyond_rates;
    } else {
      (row.is_prompt() ? prompts : generations).push_back(&row);
    }
  }
  double bytes_per_us = bandwidth;
  if (!generations.empty()) std::tie(bytes_per_us, rates.token_micros) = FitBandwidth(generations);
  // Long prompts spend time on attention, and short ones do not fill the device: the fastest counts.
  std::map<Model, double> fastest_flop_per_us;
  for (const BenchRow* const row : prompts) {
    constexpr double kMost = 0.5;  // of the time that the weights may take
    if (BytesOf(*row) / bytes_per_us > kMost * row->Micros()) {
      ++rates.bound_by_memory;
      continue;
    }
    ++rates.prompts;
    double& fastest = fastest_flop_per_us[model_of(*row)];
    fastest = std::max(fastest, FlopOf(*row) / row->Micros());
  }
  if (rates.prompts < kFewestBenchRows || generations.size() < kFewestBenchRows) {
    const std::size_t unused = rates.bound_by_memory + rates.beyond_rates;
    throw InputError("", fmt::format("has {} of prompts and {} of generation that can be used{} (at least {} of each: "
                                     "llama-bench -p 256,512,1024 -n 32,64,128)",
                                     rates.prompts, generations.size(),
                                     unused == 0 ? "" : fmt::format(", {} cannot", unused), kFewestBenchRows));
  }
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  std::vector<double> of_models;
  of_models.reserve(fastest_flop_per_us.size());
  for (const auto& [model, flop_per_us] : fastest_flop_per_us) of_models.push_back(flop_per_us);
  const double sustained = Median(of_models);
  rates.tflop_per_s = sustained * kMicrosPerSecond / kTera;
  rates.gb_per_s = bytes_per_us * kMicrosPerSecond / kGiga;
  rates.generations = generations.size();
  std::set<Model> models;
  std::vector<double> errors;
  for (const auto& [model, flop_per_us] : fastest_flop_per_us) {
    models.insert(model);
    errors.push_back(Percent(flop_per_us, sustained));
  }
  rates.prompt_error_percent = Median(std::move(errors));
  errors.clear();
  for (const BenchRow* const row : generations) {
    models.insert(model_of(*row));
    errors.push_back(Percent(rates.token_micros + BytesOf(*row) / bytes_per_us, row->Micros()));
  }
  rates.generation_error_percent = Median(std::move(errors));
  rates.models = models.size();
  return rates;
}

GenerationRates GenerationRatesOf(const std::vector<BenchRow>& rows, const SustainedRates& rates,
                                  const std::string& source) {
  const auto read_by_token = [](const BenchRow& row) { return row.model_bytes * row.active_share; };
  const BenchRow& largest = *std::max_element(rows.begin(), rows.end(), [&](const BenchRow& a, const BenchRow& b) {
    return read_by_token(a) < read_by_token(b);
  });
  return {.gb_per_s = rates.gb_per_s,
          .tflop_per_s = rates.tflop_per_s,
          .token_us = rates.token_micros,
          .model_bytes = read_by_token(largest),
          .parameters = largest.parameters,
          .source = source};
}

DeviceCurves WithSustainedRates(const DeviceCurves& base, const DeviceKind& device, const std::vector<BenchRow>& rows,
                                const SustainedRates& rates, const std::string& source) {
  OwnCurves own = {{base.kind, base}};
  std::string owner;
  const emplace::Curve<ProductForm>* const begin = FindCurve(base, &DeviceCurves::product, "half", &own, &owner);
  EMPLACE_CHECK(begin != nullptr);
  emplace::Curve<ProductForm> curve = *begin;
  curve.precision = "half";
  curve.fit.source = source;
  curve.fit.rows = static_cast<double>(rates.prompts + rates.generations);
  curve.fit.median_percent = std::max(rates.prompt_error_percent, rates.generation_error_percent);
  curve.fit.p95_percent = 0;
  const auto key = CurveKeyOf(device, Precision::kF16, base);
  EMPLACE_CHECK(key.has_value());
  // A network is as many products as it has; one that is as large stands for them. Its time falls with the rates of the
  // form, so that these are found by their ratio to those of the measurements.
  std::vector<double> sizes;
  std::vector<double> batches;
  for (const BenchRow& row : rows) {
    sizes.push_back(row.parameters * row.active_share);
    if (row.is_prompt()) batches.push_back(std::min(row.prompt_tokens, row.batch_tokens));
  }
  const double side = std::sqrt(Median(std::move(sizes)));
  const ProductShape prompt = {.m = Median(std::move(batches)), .n = side, .k = side};
  const ProductShape token = {.m = 1, .n = side, .k = side};
  constexpr double kGiga = 1e9;
  constexpr double kTera = 1e12;
  const double prompt_micros = 2 * prompt.m * side * side / (rates.tflop_per_s * kTera / kMicrosPerSecond);
  const double token_micros = 2 * side * side / (rates.gb_per_s * kGiga / kMicrosPerSecond);
  for (int round = 0; round < 8; ++round) {
    curve.form.rate *= Time(curve, key->device, prompt).formula_micros / prompt_micros;
    curve.form.memory.bandwidth *= Time(curve, key->device, token).formula_micros / token_micros;
  }
  curve.fit.exceeds_sheet = curve.form.rate > 1 || curve.form.memory.bandwidth > 1;
  DeviceCurves curves = base;
  std::erase_if(curves.product, [](const emplace::Curve<ProductForm>& each) { return each.precision == "half"; });
  curves.product.push_back(std::move(curve));
  return curves;
}

}  // namespace emplace::experiments
