#include "experiments/plan/checked_json.h"

#include <fmt/format.h>

#include <ostream>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

std::string ChecksumOf(JsonObject members) {
  std::erase_if(members, [](const JsonMember& member) { return member.key == kChecksumKey; });
  std::string text;
  AppendJson(&text, {std::move(members)});
  return FingerprintText(text);
}

}  // namespace

void AddChecksum(JsonObject* members) { AddMember(members, kChecksumKey, ChecksumOf(*members)); }

void CheckChecksum(const JsonNode& root, bool required, std::string_view advice) {
  const JsonObject& members = root.Object();
  const JsonValue* found = FindMember(members, kChecksumKey);
  if (found == nullptr) {
    if (required) throw InputError(std::string(kChecksumKey), fmt::format("is missing ({})", advice));
    return;
  }
  if (JsonNode(root, kChecksumKey, *found).Text() == ChecksumOf(members)) return;
  throw InputError(std::string(kChecksumKey),
                   fmt::format("is not that of the rest of the file, which is damaged or was changed ({})", advice));
}

std::string TrialId(const JsonValue& spec) {
  std::string text;
  AppendJson(&text, spec);
  return FingerprintText(text);
}

void CheckTrialId(const JsonValue& spec, std::string_view id) {
  const std::string own = TrialId(spec);
  if (own == id) return;
  throw InputError("", fmt::format("is the spec of trial {}, not of {}: it is damaged or was changed (the same sweep "
                                   "writes it again)",
                                   own, id));
}

JsonValue ReadJsonFile(const std::string& path) {
  const std::string text = ReadWholeFile(path, InputKind::kTrialFile);
  try {
    return ParseJson(text, JsonLimitsOf(InputKind::kTrialFile));
  } catch (const InputError& error) {
    throw error.In(path);
  }
}

void WriteJsonFile(const std::string& path, const JsonValue& value) {
  std::string text;
  AppendJson(&text, value);
  text.push_back('\n');
  WriteFiles({{.path = path, .write = [&text](std::ostream& out) { out << text; }, .only_regular = true}});
}

}  // namespace emplace::experiments
