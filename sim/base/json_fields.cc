#include "sim/base/json_fields.h"

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"

namespace emplace {
namespace {

std::string Describe(const JsonValue& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return "the number " + std::to_string(number); }
    std::string operator()(std::uint64_t number) const { return "the number " + std::to_string(number); }
    std::string operator()(double number) const { return "the number " + NumberText(number); }
    std::string operator()(const std::string& text) const { return "the text " + Quoted(text); }
    std::string operator()(const JsonList& list) const {
      return "a list of " + std::to_string(list.size()) + (list.size() == 1 ? " element" : " elements");
    }
    std::string operator()(const JsonObject&) const { return "an object"; }
  };
  return std::visit(Visitor(), value.data);
}

}  // namespace

std::string JsonNode::Place() const {
  if (parent_ == nullptr) return "";
  return is_element_ ? PlaceOfIndex(parent_->Place(), index_) : PlaceOfKey(parent_->Place(), key_);
}

void JsonNode::Refuse(std::string_view allowed) const {
  throw InputError(Place(), "is " + Describe(*value_) + " (" + std::string(allowed) + ")");
}

const std::string& JsonNode::Text(std::string_view allowed) const {
  const auto* text = value_->As<std::string>();
  if (text == nullptr) Refuse(allowed);
  return *text;
}

bool JsonNode::Flag() const {
  const auto* flag = value_->As<bool>();
  if (flag == nullptr) Refuse("true or false");
  return *flag;
}

std::string JsonNode::NonEmptyText() const {
  constexpr std::string_view kAllowed = "a string that is not empty";
  const std::string& text = Text(kAllowed);
  if (text.empty()) Refuse(kAllowed);
  return text;
}

double JsonNode::Number(double low, double high, std::string_view allowed) const {
  std::optional<double> number;
  if (const auto* real = value_->As<double>()) number = *real;
  if (const auto* integer = value_->As<std::int64_t>()) number = static_cast<double>(*integer);
  if (const auto* integer = value_->As<std::uint64_t>()) number = static_cast<double>(*integer);
  if (!number || !(*number >= low && *number <= high)) {
    if (!allowed.empty()) Refuse(allowed);
    Refuse("a number from " + NumberText(low) + " to " + NumberText(high));
  }
  return *number + 0.0;  // -0 becomes 0, so that what is written reads back the same
}

std::int64_t JsonNode::Integer(std::int64_t low, std::int64_t high, std::string_view allowed) const {
  const auto* integer = value_->As<std::int64_t>();
  if (integer == nullptr || *integer < low || *integer > high) {
    std::string words(allowed);
    if (words.empty()) words = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
    // "1e3" and "4.0" are whole, but no integers: say why they are refused.
    if (value_->As<double>() != nullptr) words += ", written without a point or an exponent";
    Refuse(words);
  }
  return *integer;
}

const JsonList& JsonNode::List(std::string_view allowed) const {
  const auto* list = value_->As<JsonList>();
  if (list == nullptr) Refuse(allowed);
  return *list;
}

const JsonObject& JsonNode::Object(std::string_view allowed) const {
  const auto* object = value_->As<JsonObject>();
  if (object == nullptr) Refuse(allowed);
  return *object;
}

JsonFields::JsonFields(const JsonNode& node, std::span<const std::string_view> known)
    : node_(node), members_(node.Object()) {
  for (const JsonMember& member : members_) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    throw InputError(PlaceOfKey(node.Place(), member.key),
                     "unknown key (" + Listed(known) + ")" + DidYouMean(member.key, NamesOf(known)));
  }
}

std::optional<JsonNode> JsonFields::Find(std::string_view key) const {
  const JsonValue* value = FindMember(members_, key);
  if (value == nullptr) return std::nullopt;
  return JsonNode(node_, key, *value);
}

JsonNode JsonFields::Get(std::string_view key, std::string_view allowed) const {
  return NeedMember(node_, key, allowed);
}

JsonNode NeedMember(const JsonNode& node, std::string_view key, std::string_view allowed) {
  const JsonValue* const value = FindMember(node.Object(), key);
  if (value == nullptr) throw InputError(PlaceOfKey(node.Place(), key), "is missing (" + std::string(allowed) + ")");
  return {node, key, *value};
}

int CheckSchema(const JsonNode& root, std::string_view schema, bool complete, int newest) {
  const std::string allowed = Quoted(schema);
  const JsonObject& members = root.Object("an object of schema " + allowed);
  const JsonValue* found = FindMember(members, "schema");
  if (found == nullptr && complete) throw InputError("schema", "is missing (" + allowed + ")");
  if (found != nullptr) {
    const JsonNode node(root, "schema", *found);
    if (node.Text(allowed) != schema) node.Refuse(allowed);
  }
  found = FindMember(members, "version");
  const std::string versions = newest == 1 ? "1" : "1 to " + std::to_string(newest);
  if (found == nullptr && complete) throw InputError("version", "is missing (" + versions + ")");
  return found == nullptr ? 0 : static_cast<int>(JsonNode(root, "version", *found).Integer(1, newest, versions));
}

}  // namespace emplace
