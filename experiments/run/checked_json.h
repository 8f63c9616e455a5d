#ifndef EMPLACE_EXPERIMENTS_RUN_CHECKED_JSON_H_
#define EMPLACE_EXPERIMENTS_RUN_CHECKED_JSON_H_

#include <string>
#include <string_view>

#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// The JSON files of a run folder: emplace writes them and reads them again, and no damaged byte may change what it
// reads. Their last member, `checksum`, is the fingerprint (fingerprint.h, 16 hexadecimal digits) of the other members
// as compact JSON: blanks and the ends of lines do not count. spec.json needs none, its folder has its fingerprint for
// a name.
inline constexpr std::string_view kChecksumKey = "checksum";

void AddChecksum(JsonObject* members);
// Throws InputError if `root` has a checksum of something else, or none (`required`). `advice` says what to do then.
void CheckChecksum(const JsonNode& root, bool required, std::string_view advice);

// The ID of the trial that a spec describes.
std::string TrialId(const JsonValue& spec);
// Throws InputError if that is not `id`.
void CheckTrialId(const JsonValue& spec, std::string_view id);

// Both throw InputError, the file's name in front.
JsonValue ReadJsonFile(const std::string& path);
void WriteJsonFile(const std::string& path, const JsonValue& value);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_CHECKED_JSON_H_
