#include "sim/formats/grouping_json.h"

#include <istream>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

constexpr std::string_view kGroupingSchema = "emplace.grouping";
constexpr std::string_view kAllowed = "an object: the group of each op, by name";

std::string PlaceOfGroupedOp(std::string_view op) { return PlaceOfMember("groups", op); }

using Labels = std::vector<std::optional<std::size_t>>;

void TakeLabel(const std::string& name, const JsonValue& value, const Graph& graph, Labels* labels) {
  const auto op = graph.FindOp(name);
  if (!op) {
    throw InputError(PlaceOfGroupedOp(name), "is not an op of graph " + Quoted(graph.name()) + " (which has " +
                                                 std::to_string(graph.num_ops()) + " ops)");
  }
  std::optional<std::size_t>& label = (*labels)[Index(*op)];
  if (label) throw InputError(PlaceOfKey("groups", name), "duplicate key (each key once)");
  const JsonValue root{JsonObject()};
  const JsonNode parent(root);
  const JsonNode groups(parent, "groups", root);
  label = static_cast<std::size_t>(JsonNode(groups, name, value).Integer(0, kMaxJsonInteger));
}

std::vector<std::size_t> CheckedLabels(const Labels& labels, const Graph& graph) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const OpId id = MakeId<OpId>(i);
    if (!labels[i]) {
      throw InputError(PlaceOfGroupedOp(graph.op(id).name),
                       "is missing (every op of graph " + Quoted(graph.name()) + " once)");
    }
    all.push_back(*labels[i]);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const OpId first = graph.colocation_class(id);
    if (all[i] == all[Index(first)]) continue;
    throw InputError(PlaceOfGroupedOp(graph.op(id).name), "is in group " + std::to_string(all[i]) + ", but " +
                                                              Quoted(graph.op(first).name) +
                                                              ", which colocate_with ties it to, in group " +
                                                              std::to_string(all[Index(first)]) + " (both in one)");
  }
  return all;
}

}  // namespace

Grouping ReadGrouping(std::istream& in, const std::string& file, const Graph& graph) {
  try {
    Labels labels(graph.num_ops());
    bool is_first = true;
    const auto take = [&](const JsonObject& so_far, const std::string& name, const JsonValue& value) {
      // A file of another kind is called that before its ops are looked at.
      if (std::exchange(is_first, false)) CheckSchema(JsonNode(JsonValue{so_far}), kGroupingSchema, /*complete=*/false);
      TakeLabel(name, value, graph, &labels);
    };
    const JsonValue root = ParseJson(in, {.key = "groups", .take_member = take}, JsonLimitsOf(InputKind::kGrouping));
    const JsonNode node(root);
    CheckSchema(node, kGroupingSchema);
    const JsonFields fields(node, {"schema", "version", "graph", "groups"});
    if (const auto field = fields.Find("graph")) field->Text();
    fields.Get("groups", kAllowed).Object(kAllowed);
    return {graph, CheckedLabels(labels, graph)};
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

void WriteGrouping(std::ostream& out, const Grouping& grouping, const Graph& graph) {
  EMPLACE_CHECK_EQ(grouping.num_ops(), graph.num_ops());
  std::string text = R"({"schema": "emplace.grouping", "version": 1, "graph": )";
  AppendQuoted(&text, graph.name());
  text.append(",\n \"groups\": {");
  std::string_view separator = "\n  ";
  for (const OpId id : graph.file_order()) {
    AppendQuoted(&text.append(separator), graph.op(id).name);
    text.append(": ").append(std::to_string(grouping.group_of(id)));
    separator = ",\n  ";
  }
  text.append("}}\n");
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace emplace
