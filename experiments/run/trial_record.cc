#include "experiments/run/trial_record.h"

#include <fmt/format.h>

#include <string_view>

#include "experiments/plan/checked_json.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

constexpr std::string_view kTrialSchema = "emplace.trial";
constexpr std::string_view kTimingSchema = "emplace.timing";
constexpr int kNewest = 2;

// Advice for a file whose checksum does not match.

// The file as JSON: its schema and version, the fields of `record` and a checksum.
template <typename Record>
JsonValue FileOf(std::string_view schema, const Record& record) {
  JsonObject json;
  AddMember(&json, "schema", schema);
  AddMember(&json, "version", kNewest);
  for (JsonMember& member : FieldsToJson(record)) json.push_back(std::move(member));
  AddChecksum(&json);
  return {std::move(json)};
}

// A version 1 file with a checksum is rejected, so that a damaged version number cannot disable the checksum.
template <typename Record>
Record ReadVersioned(const JsonNode& root, std::string_view schema) {
  const int version = CheckSchema(root, schema, /*complete=*/true, kNewest);
  if (version == 1 && FindMember(root.value(), kChecksumKey) != nullptr) {
    throw InputError(std::string(kChecksumKey), "is unknown in version 1 (version 2 has one)");
  }
  return ReadFields<Record>(root, {"schema", "version"}, {kChecksumKey});
}
void CheckSum(const JsonNode& root) {
  CheckChecksum(root, *FindMember(root.value(), "version")->As<std::int64_t>() > 1, kRunAgain);
}

// A text in the spec; "" if there is none.
std::string SpecText(const JsonNode& spec, std::string_view path) {
  const JsonValue* const value = FindPath(spec.value(), path);
  return value == nullptr ? "" : JsonNode(spec, path, *value).Text();
}

// Fills in the fields that come from the spec.
void ReadSpecOf(const JsonNode& root, TrialRecord* trial) {
  const JsonNode spec(root, "spec", trial->spec);
  trial->label = SpecText(spec, "agent.label");
  if (trial->label.empty()) trial->label = SpecText(spec, "agent.name");
  if (trial->label.empty()) throw InputError("spec.agent.name", "is missing");
  const JsonValue* const seed = FindMember(trial->spec, "seed");
  if (seed == nullptr) throw InputError("spec.seed", "is missing");
  const auto* text = seed->As<std::string>();
  trial->seed = text != nullptr ? *text : JsonText(*seed);
}

}  // namespace

std::optional<double> ImprovementPercent(const std::optional<double>& single_device_micros,
                                         const std::optional<double>& micros) {
  if (!single_device_micros || !micros || *single_device_micros <= 0) return std::nullopt;
  return 100 * (*single_device_micros - *micros) / *single_device_micros;
}

JsonValue TrialRecordToJson(const TrialRecord& trial) { return FileOf(kTrialSchema, trial); }

JsonValue TimingRecordToJson(const TimingRecord& timing) { return FileOf(kTimingSchema, timing); }

TimingRecord ReadTimingRecord(const JsonNode& root) {
  auto timing = ReadVersioned<TimingRecord>(root, kTimingSchema);
  // Earlier versions counted a search without episodes as one episode.
  if (timing.episodes == 0) timing.policy_seconds_per_episode.reset();
  CheckSum(root);
  return timing;
}

// Version 1 had no checksum: only its spec is verified.
TrialRecord ReadTrialRecord(const JsonNode& root) {
  auto trial = ReadVersioned<TrialRecord>(root, kTrialSchema);
  ReadSpecOf(root, &trial);
  if (trial.graphs.empty()) {
    JsonNode(root, "graphs", *FindMember(root.value(), "graphs")).Refuse("one entry for each graph");
  }
  CheckSum(root);
  if (trial.id != TrialId(trial.spec)) {
    throw InputError("spec",
                     fmt::format("is that of trial {}, not of {} ({})", TrialId(trial.spec), trial.id, kRunAgain));
  }
  return trial;
}

}  // namespace emplace::experiments
