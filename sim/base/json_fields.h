#ifndef EMPLACE_SIM_BASE_JSON_FIELDS_H_
#define EMPLACE_SIM_BASE_JSON_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/json_value.h"

namespace emplace {

// Sizes in bytes, and counts, stay below 2^62 (graph.h).
inline constexpr std::int64_t kMaxJsonInteger = (std::int64_t{1} << 62) - 1;
inline constexpr double kMaxJsonMicros = 1e12;

// A value and its place in its file. Holds pointers to the value and to the node that it is part of: both must
// outlive it. The accessors throw InputError(PLACE, "is WHAT IT IS (WHAT IS ALLOWED)").
class JsonNode {
 public:
  explicit JsonNode(const JsonValue& root) : value_(&root) {}
  JsonNode(const JsonNode& parent, std::string_view key, const JsonValue& value)
      : value_(&value), parent_(&parent), key_(key) {}
  JsonNode(const JsonNode& parent, std::size_t index, const JsonValue& value)
      : value_(&value), parent_(&parent), index_(index), is_element_(true) {}
  JsonNode(JsonNode&& parent, std::string_view key, const JsonValue& value) = delete;
  JsonNode(JsonNode&& parent, std::size_t index, const JsonValue& value) = delete;

  const JsonValue& value() const { return *value_; }
  std::string Place() const;
  [[noreturn]] void Refuse(std::string_view allowed) const;

  const std::string& Text(std::string_view allowed = "a string") const;
  std::string NonEmptyText() const;
  // In [low, high]; `allowed` says it in words, made from the bounds if empty. Integers count as numbers, numbers with
  // a point or an exponent never as integers.
  double Number(double low, double high, std::string_view allowed = {}) const;
  std::int64_t Integer(std::int64_t low, std::int64_t high, std::string_view allowed = {}) const;
  bool Flag() const;
  const JsonList& List(std::string_view allowed = "a list") const;
  const JsonObject& Object(std::string_view allowed = "an object") const;

 private:
  const JsonValue* value_;
  const JsonNode* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
  bool is_element_ = false;
};

// The members of an object. Throws InputError if `node` is not an object or has a key that is not among `known`.
class JsonFields {
 public:
  JsonFields(const JsonNode& node, std::initializer_list<std::string_view> known)
      : JsonFields(node, std::span(known.begin(), known.size())) {}
  JsonFields(const JsonNode& node, std::span<const std::string_view> known);
  // The node must outlive its fields.
  JsonFields(JsonNode&& node, std::initializer_list<std::string_view> known) = delete;
  JsonFields(JsonNode&& node, std::span<const std::string_view> known) = delete;

  std::optional<JsonNode> Find(std::string_view key) const;
  // Throws InputError("PLACE.KEY", "is missing (ALLOWED)").
  JsonNode Get(std::string_view key, std::string_view allowed) const;

 private:
  const JsonNode& node_;
  const JsonObject& members_;
};

// A member of an object that may have others too. Throws InputError("PLACE.KEY", "is missing (ALLOWED)"), and as
// Object().
JsonNode NeedMember(const JsonNode& node, std::string_view key, std::string_view allowed);

// Refuses a root that is not an object of this schema and version. Precedes the check of its keys, so that a file of
// another kind is called that. With `complete` false (only the first members have been read), what is missing is let
// pass. Returns the version, 1 to `newest`; 0 if it has not been read yet.
int CheckSchema(const JsonNode& root, std::string_view schema, bool complete = true, int newest = 1);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_JSON_FIELDS_H_
