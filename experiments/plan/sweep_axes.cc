#include "experiments/plan/sweep_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "agents/settings_json.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

// A larger product is probably a mistake.
constexpr std::size_t kMostCells = 100'000;

// Paths beside those of settings that may be swept and excluded. NAME.* allows any key below NAME.
constexpr std::string_view kOtherPaths[] = {"graphs",
                                            "graphs.dataset",
                                            "graphs.family_seed",
                                            "graphs.split",
                                            "graphs.sample",
                                            "graphs.seed",
                                            "graphs.index",
                                            "graphs.instances",
                                            "graphs.files",
                                            "graphs.model",
                                            "graphs.set",
                                            "graphs.set.*",
                                            "graphs.models",
                                            "graphs.transform",
                                            "graphs.transform.recompute",
                                            "graphs.transform.tensor_parallel",
                                            "graphs.transform.expert_parallel",
                                            "graphs.transform.data_parallel",
                                            "graphs.transform.bucket_mib",
                                            "graphs.transform.shard_optimizer",
                                            "graphs.together",
                                            "transfer",
                                            "transfer.dataset",
                                            "transfer.split",
                                            "transfer.sample",
                                            "transfer.seed",
                                            "transfer.index",
                                            "transfer.family_seed",
                                            "transfer.files",
                                            "transfer.model",
                                            "transfer.set",
                                            "transfer.set.*",
                                            "transfer.models",
                                            "transfer.transform",
                                            "transfer.transform.recompute",
                                            "transfer.transform.tensor_parallel",
                                            "transfer.transform.expert_parallel",
                                            "transfer.transform.data_parallel",
                                            "transfer.transform.bucket_mib",
                                            "transfer.transform.shard_optimizer",
                                            "cluster",
                                            "cluster.name",
                                            "cluster.file",
                                            "cluster.devices",
                                            "cluster.gpus",
                                            "cluster.memory",
                                            "costs",
                                            "costs.profile",
                                            "seeds"};

const std::vector<std::string>& KnownPaths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> known(std::begin(kOtherPaths), std::end(kOtherPaths));
    for (std::string& path : agents::SettingPaths()) known.push_back(std::move(path));
    return known;
  }();
  return paths;
}

bool IsKnownPath(std::string_view path) {
  return std::ranges::any_of(KnownPaths(), [path](std::string_view known) {
    if (!known.ends_with(".*")) return path == known;
    known.remove_suffix(1);  // keeps the dot
    return path.starts_with(known) && path.size() > known.size() && path.find('.', known.size()) == path.npos;
  });
}

void CheckPath(const JsonNode& axes, const std::string& path) {
  if (IsKnownPath(path)) return;
  throw InputError(PlaceOfKey(axes.Place(), path), fmt::format("unknown key path ({})", fmt::join(KnownPaths(), ", ")));
}

// Whether `path` is `of` or a path below it.
bool IsPartOf(std::string_view path, std::string_view of) {
  return path.starts_with(of) && (path.size() == of.size() || path[of.size()] == '.');
}

using Leaves = std::map<std::string, std::string>;  // keyed by path

bool HoldsParts(const JsonValue& value) {
  if (const auto* const object = value.As<JsonObject>()) return !object->empty();
  const auto* const list = value.As<JsonList>();
  return list != nullptr && std::any_of(list->begin(), list->end(),
                                        [](const JsonValue& element) { return element.As<JsonObject>() != nullptr; });
}

// The values that have no parts, as JSON.
void AddLeaves(const JsonValue& value, const std::string& path, Leaves* leaves) {
  if (!HoldsParts(value)) {
    const auto* const text = value.As<std::string>();
    (*leaves)[path] = text != nullptr ? *text : JsonText(value);
  } else if (const auto* const object = value.As<JsonObject>()) {
    for (const JsonMember& member : *object) {
      AddLeaves(member.value, path.empty() ? member.key : path + "." + member.key, leaves);
    }
  } else {
    const JsonList& list = *value.As<JsonList>();
    for (std::size_t i = 0; i < list.size(); ++i) AddLeaves(list[i], fmt::format("{}[{}]", path, i), leaves);
  }
}

// The content of a value as text that does not depend on the order of its keys.
std::string ContentText(const JsonValue& value) {
  if (const auto* const list = value.As<JsonList>()) {
    std::string text = "[";
    for (const JsonValue& element : *list) text += ContentText(element) + ",";
    return text + "]";
  }
  const auto* const object = value.As<JsonObject>();
  if (object == nullptr) return JsonText(value);
  Leaves members;
  for (const JsonMember& member : *object) members[member.key] = ContentText(member.value);
  std::string text = "{";
  for (const auto& [key, content] : members) text += key + ":" + content + ",";
  return text + "}";
}

SweepAxis ReadAxis(const JsonNode& node, const std::string& path) {
  constexpr std::string_view kAllowed = "a list of at least one value";
  const JsonList& list = node.List(kAllowed);
  if (list.empty()) node.Refuse(kAllowed);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (seen.insert(ContentText(list[i])).second) continue;
    throw InputError(PlaceOfIndex(node.Place(), i), "is a duplicate entry (each value once)");
  }
  std::vector<std::string> texts;
  for (const JsonValue& value : list) texts.push_back(SettingText(value));
  return {.path = path, .values = list, .texts = DistinctTexts(std::move(texts), list)};
}

std::vector<SweepAxis> ReadAxes(const JsonNode& sweep) {
  std::vector<SweepAxis> axes;
  std::size_t cells = 1;
  for (const JsonMember& member : sweep.Object("key paths, each with a list of values")) {
    CheckPath(sweep, member.key);
    const JsonNode node(sweep, member.key, member.value);
    for (const SweepAxis& earlier : axes) {
      if (!IsPartOf(earlier.path, member.key)) continue;
      throw InputError(node.Place(), fmt::format("would undo {} above it (the larger part first)", earlier.path));
    }
    axes.push_back(ReadAxis(node, member.key));
    cells *= axes.back().values.size();
    if (cells > kMostCells) {
      throw InputError(sweep.Place(), fmt::format("has more than {} cells (fewer or shorter lists)", kMostCells));
    }
  }
  return axes;
}

// Sets `value` at `path`, creating missing objects on the way.
void SetAt(JsonValue* root, std::string_view path, const JsonValue& value, const std::string& place) {
  JsonValue* at = root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    auto* members = std::get_if<JsonObject>(&at->data);
    if (members == nullptr) {
      throw InputError(place, fmt::format("cannot be set: {} is not an object", path.substr(0, begin - 1)));
    }
    const std::string_view key = path.substr(begin, end - begin);
    auto found = std::find_if(members->begin(), members->end(), [key](const JsonMember& m) { return m.key == key; });
    if (found == members->end()) {
      found = members->insert(members->end(), {std::string(key), JsonValue{JsonObject{}}});
    }
    at = &found->value;
    begin = end + 1;
  }
  *at = value;
}

// An entry of `exclude`.
struct Exclusion {
  std::vector<std::pair<std::string, std::string>> pairs;  // key path, value as JSON
  bool used = false;
};

std::vector<Exclusion> ReadExclusions(const JsonNode& node) {
  std::vector<Exclusion> exclusions;
  const JsonList& list = node.List("a list of objects, each of key paths and values");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode entry(node, i, list[i]);
    Exclusion exclusion;
    for (const JsonMember& member : entry.Object("an object of key paths and values")) {
      CheckPath(entry, member.key);
      exclusion.pairs.emplace_back(member.key, JsonText(member.value));
    }
    if (exclusion.pairs.empty()) entry.Refuse("at least one key path with a value");
    exclusions.push_back(std::move(exclusion));
  }
  return exclusions;
}

bool Excludes(const Exclusion& exclusion, const JsonValue& cell) {
  return std::all_of(exclusion.pairs.begin(), exclusion.pairs.end(), [&cell](const auto& pair) {
    const JsonValue* value = FindPath(cell, pair.first);
    return value != nullptr && JsonText(*value) == pair.second;
  });
}

// Every matching entry is marked as used, even if another entry already excludes the cell.
bool IsExcluded(std::vector<Exclusion>* exclusions, const JsonValue& cell) {
  bool excluded = false;
  for (Exclusion& exclusion : *exclusions) {
    if (!Excludes(exclusion, cell)) continue;
    exclusion.used = true;
    excluded = true;
  }
  return excluded;
}

SweepCell MakeCell(const JsonNode& root, const JsonValue& base, const std::vector<SweepAxis>& axes,
                   const std::vector<std::size_t>& at) {
  SweepCell cell{.root = base, .settings = {}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const JsonValue& value = axes[i].values[at[i]];
    const std::string place = PlaceOfKey(PlaceOfKey(root.Place(), "sweep"), axes[i].path);
    SetAt(&cell.root, axes[i].path, value, place);
    cell.settings.push_back({.path = axes[i].path, .index = at[i], .value = value, .text = axes[i].texts[at[i]]});
  }
  return cell;
}

// Advances to the next combination, the last axis fastest; false after the last one.
bool Advance(const std::vector<SweepAxis>& axes, std::vector<std::size_t>* at) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (++(*at)[i] < axes[i].values.size()) return true;
    (*at)[i] = 0;
  }
  return false;
}

}  // namespace

SweepCells ExpandSweep(const JsonNode& root) {
  std::vector<SweepAxis> axes;
  std::vector<Exclusion> exclusions;
  JsonValue base{JsonObject{}};
  for (const JsonMember& member : root.Object()) {
    const JsonNode node(root, member.key, member.value);
    if (member.key == "sweep") {
      axes = ReadAxes(node);
    } else if (member.key == "exclude") {
      exclusions = ReadExclusions(node);
    } else {
      std::get<JsonObject>(base.data).push_back(member);
    }
  }
  SweepCells cells;
  std::vector<std::size_t> at(axes.size(), 0);
  do {
    SweepCell cell = MakeCell(root, base, axes, at);
    if (IsExcluded(&exclusions, cell.root)) {
      ++cells.excluded;
    } else {
      cells.cells.push_back(std::move(cell));
    }
  } while (Advance(axes, &at));
  for (std::size_t i = 0; i < exclusions.size(); ++i) {
    if (exclusions[i].used) continue;
    throw InputError(PlaceOfIndex(PlaceOfKey(root.Place(), "exclude"), i),
                     "matches no cell (key paths with values that some cell has)");
  }
  if (cells.cells.empty()) throw InputError(PlaceOfKey(root.Place(), "exclude"), "leaves nothing (at least one cell)");
  return cells;
}

namespace {

// Adds related swept values to the error of a value that is not swept, as they may be its cause.
InputError WithCell(const InputError& error, const SweepCell& cell) {
  const std::string_view what = error.what();
  const std::string_view key = what.substr(0, what.find_first_of(".[:"));
  std::string where;
  for (const SweepCell::Setting& setting : cell.settings) {
    if (!IsPartOf(setting.path, key)) continue;
    where += fmt::format("{} {} is {}", where.empty() ? ", where" : " and", setting.path, setting.text);
  }
  return InputError("", std::string(what) + where);
}

}  // namespace

InputError PlacedInSweep(const InputError& error, const SweepCell& cell) {
  const std::string_view what = error.what();
  // The last axis that set the value, as later axes may set parts of earlier ones.
  const SweepCell::Setting* nearest = nullptr;
  for (const SweepCell::Setting& setting : cell.settings) {
    const bool is_there = what.starts_with(setting.path) && what.size() > setting.path.size() &&
                          std::string_view(".[:").find(what[setting.path.size()]) != std::string_view::npos;
    if (is_there) nearest = &setting;
  }
  if (nearest == nullptr) return WithCell(error, cell);
  return InputError("", PlaceOfIndex(PlaceOfKey("sweep", nearest->path), nearest->index) +
                            std::string(what.substr(nearest->path.size())));
}

std::string SettingText(const JsonValue& value) {
  if (const auto* text = value.As<std::string>()) return *text;
  for (const char* const key : {"label", "name", "dataset", "model", "file"}) {
    const JsonValue* named = FindMember(value, key);
    if (named != nullptr && named->As<std::string>() != nullptr) return *named->As<std::string>();
  }
  if (const JsonValue* const models = FindMember(value, "models")) return SettingText(*models);
  const auto* const list = value.As<JsonList>();
  if (list == nullptr || list->empty() || list->front().As<JsonObject>() == nullptr) return JsonText(value);
  std::string text;
  for (const JsonValue& element : *list) text += (text.empty() ? "" : ", ") + SettingText(element);
  return text;
}

std::vector<std::string> DistinctTexts(std::vector<std::string> texts, const std::vector<JsonValue>& values) {
  std::map<std::string, std::vector<std::size_t>> sharing;
  for (std::size_t i = 0; i < texts.size(); ++i) sharing[texts[i]].push_back(i);
  for (const auto& [text, indices] : sharing) {
    if (indices.size() < 2) continue;
    std::vector<Leaves> leaves(indices.size());
    std::set<std::string> paths;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      AddLeaves(values[indices[i]], "", &leaves[i]);
      for (const auto& [path, leaf] : leaves[i]) paths.insert(path);
    }
    const auto leaf_at = [&leaves](std::size_t i, const std::string& path) {
      const auto found = leaves[i].find(path);
      return found == leaves[i].end() ? "-" : found->second;
    };
    for (const std::string& path : paths) {
      bool differs = false;
      for (std::size_t i = 1; i < indices.size(); ++i) differs |= leaf_at(i, path) != leaf_at(0, path);
      if (!differs) continue;
      for (std::size_t i = 0; i < indices.size(); ++i) {
        texts[indices[i]] += fmt::format("{}{} {}", path.empty() ? "" : " ", path, leaf_at(i, path));
      }
    }
  }
  return texts;
}

}  // namespace emplace::experiments
