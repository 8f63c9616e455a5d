#ifndef EMPLACE_EXPERIMENTS_PLAN_CHECKED_JSON_H_
#define EMPLACE_EXPERIMENTS_PLAN_CHECKED_JSON_H_

#include <string>
#include <string_view>

#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// JSON files of a run folder, which emplace writes and reads again; damage must be detected. Their last member,
// `checksum`, is the fingerprint (fingerprint.h, 16 hexadecimal digits) of the other members as compact JSON. Blanks
// and newlines are therefore ignored. spec.json needs none, as its folder is named after its fingerprint.
inline constexpr std::string_view kChecksumKey = "checksum";

void AddChecksum(JsonObject* members);
// Throws InputError if the checksum of `root` is wrong, or missing and `required`. `advice` says what the user can do.
void CheckChecksum(const JsonNode& root, bool required, std::string_view advice);

// The ID of the trial that a spec describes.
std::string TrialId(const JsonValue& spec);
// Throws InputError if the spec's ID is not `id`.
void CheckTrialId(const JsonValue& spec, std::string_view id);

// Both throw InputError that begins with the file's name.
JsonValue ReadJsonFile(const std::string& path);
void WriteJsonFile(const std::string& path, const JsonValue& value);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_CHECKED_JSON_H_
