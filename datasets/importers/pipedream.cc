#include "datasets/importers/pipedream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/units.h"
#include "sim/graph.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kSeparator = " -- ";
constexpr std::size_t kMaxPipeDreamName = 200;
constexpr double kMaxPipeDreamMillis = 1e9;
constexpr double kMaxPipeDreamBytes = 1e18;

// A node line. The views are into the content.
struct PipeDreamNode {
  std::string_view name;
  std::string_view description;
  std::string kind;
  double forward_micros = 0;
  double backward_micros = 0;
  Bytes activation;
  Bytes parameters;
  bool has_stage = false;
  std::size_t line = 0;

  bool is_input() const { return kind == "input"; }
};

struct PipeDreamEdge {
  std::string_view from;
  std::string_view to;
  std::size_t line = 0;
};

[[noreturn]] void Refuse(std::size_t line, const std::string& problem) {
  throw InputError("line " + std::to_string(line), problem);
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.push_back(Trimmed(text.substr(0, end)));
    text.remove_prefix(end + separator.size());
  }
  parts.push_back(Trimmed(text));
  return parts;
}

std::string_view NodeName(std::string_view text, std::size_t line) {
  const bool good =
      !text.empty() && text.size() <= kMaxPipeDreamName && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
      });
  if (!good) Refuse(line, Quoted(text) + " is not a node (a word such as node4)");
  return text;
}

// `exponent` is appended to the digits ("e3": times 1000), so that 4.423 ms become 4423 µs to the bit.
double Number(std::string_view text, std::string_view exponent, double high, std::string_view key, std::size_t line) {
  const auto number = [](std::string_view digits) -> std::optional<double> {
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  auto value = number(text);
  if (!value || !(*value >= 0 && *value <= high)) {
    Refuse(line, fmt::format("{}: {} is out of range (a number from 0 to {})", key, Quoted(text), NumberText(high)));
  }
  if (!exponent.empty()) {
    const auto scaled = number(std::string(text).append(exponent));
    value = scaled ? *scaled : *value * *number("1" + std::string(exponent));
  }
  return *value + 0.0;  // -0 becomes 0
}

Bytes Size(std::string_view text, std::string_view key, std::size_t line) {
  return {RoundToInteger(Number(text, "", kMaxPipeDreamBytes, key, line))};
}

// A size, or the sum of a list "[a; b]".
Bytes SumOfSizes(std::string_view text, std::string_view key, std::size_t line) {
  if (!text.starts_with('[')) return Size(text, key, line);
  if (!text.ends_with(']')) Refuse(line, fmt::format("{}: {} is not a list ([a; b])", key, Quoted(text)));
  Bytes sum;
  for (const std::string_view part : Split(text.substr(1, text.size() - 2), ";")) {
    sum += Size(part, key, line);
    if (static_cast<double>(sum.count) > kMaxPipeDreamBytes) {
      Refuse(line, fmt::format("{}: the sum is out of range (0 to {})", key, NumberText(kMaxPipeDreamBytes)));
    }
  }
  return sum;
}

void ReadMeasurements(std::string_view text, std::size_t line, PipeDreamNode* node) {
  constexpr std::array<std::string_view, 4> kKeys = {"forward_compute_time", "backward_compute_time", "activation_size",
                                                     "parameter_size"};
  std::array<bool, kKeys.size()> seen{};
  for (const std::string_view field : Split(text, ",")) {
    const std::size_t equals = std::min(field.find('='), field.size());
    const std::string_view key = field.substr(0, equals);
    const std::string_view value = field.substr(std::min(equals + 1, field.size()));
    const auto found = std::find(kKeys.begin(), kKeys.end(), key);
    if (found == kKeys.end()) {
      Refuse(line, fmt::format("{} is not a measurement (KEY=NUMBER, with the keys {})", Quoted(field),
                               fmt::join(kKeys, ", ")));
    }
    const auto index = static_cast<std::size_t>(found - kKeys.begin());
    if (std::exchange(seen[index], true)) Refuse(line, fmt::format("{}: occurs twice (once)", key));
    if (index == 0) node->forward_micros = Number(value, "e3", kMaxPipeDreamMillis, key, line);
    if (index == 1) node->backward_micros = Number(value, "e3", kMaxPipeDreamMillis, key, line);
    if (index == 2) node->activation = SumOfSizes(value, key, line);
    if (index == 3) node->parameters = Size(value, key, line);
  }
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    if (!seen[i]) Refuse(line, fmt::format("{}: is missing (a number)", kKeys[i]));
  }
}

// "Conv2d(3, 64)" is "conv2d", "__getitem__(0)" is "getitem", "Input0" is "input".
std::string KindOfLayer(std::string_view description) {
  constexpr std::size_t kLongest = 64;
  std::string kind;
  for (const char c : description.substr(0, kLongest)) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') || lower == '_')) break;
    kind.push_back(lower);
  }
  const auto is_underscore = [](char c) { return c == '_'; };
  kind.erase(kind.begin(), std::find_if_not(kind.begin(), kind.end(), is_underscore));
  kind.erase(std::find_if_not(kind.rbegin(), kind.rend(), is_underscore).base(), kind.end());
  if (kind.substr(0, kind.find_last_not_of("0123456789") + 1) == "input") return "input";
  // Not `variable`: such ops take no time on any device, and nothing here is known to.
  return kind.empty() || kind == "variable" ? "op" : kind;
}

PipeDreamNode ReadNode(std::string_view text, std::size_t line) {
  const auto parts = Split(text, kSeparator);
  const bool has_stage = parts.size() == 4 && parts[3].starts_with("stage_id=");
  if (parts.size() != 3 && !has_stage) {
    Refuse(line, Quoted(text) +
                     " is not a node (NAME -- DESCRIPTION -- MEASUREMENTS [-- stage_id=K]), nor an edge, which "
                     "starts with a tab");
  }
  PipeDreamNode node;
  node.name = NodeName(parts[0], line);
  node.description = parts[1];
  node.kind = KindOfLayer(parts[1]);
  node.has_stage = has_stage;
  node.line = line;
  ReadMeasurements(parts[2], line, &node);
  return node;
}

PipeDreamEdge ReadEdge(std::string_view text, std::size_t line) {
  const auto parts = Split(text, kSeparator);
  if (parts.size() != 2) Refuse(line, Quoted(text) + " is not an edge (NODE -- NODE)");
  return {.from = NodeName(parts[0], line), .to = NodeName(parts[1], line), .line = line};
}

// node2 before node10.
bool NaturalLess(std::string_view a, std::string_view b) {
  return std::make_tuple(a.size(), a) < std::make_tuple(b.size(), b);
}

// The file: nodes by name, edges by nodes, an order that no shuffling of lines changes.
struct Layers {
  std::vector<PipeDreamNode> nodes;
  std::set<std::pair<std::size_t, std::size_t>> edges;  // positions in `nodes`: from, to
};

std::size_t FindNode(const std::vector<PipeDreamNode>& nodes, std::string_view name, std::size_t line) {
  const auto found = std::lower_bound(
      nodes.begin(), nodes.end(), name,
      [](const PipeDreamNode& node, std::string_view wanted) { return NaturalLess(node.name, wanted); });
  if (found == nodes.end() || found->name != name) Refuse(line, Quoted(name) + " is unknown (a node of this file)");
  return static_cast<std::size_t>(found - nodes.begin());
}

Layers ReadLayers(std::string_view content) {
  Layers layers;
  std::vector<PipeDreamEdge> edges;
  std::size_t line = 0;
  while (!content.empty()) {
    ++line;
    const std::string_view text = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(text.size() + 1, content.size()));
    const std::string_view trimmed = Trimmed(text);
    if (trimmed.empty()) continue;
    if (!IsValidUtf8(trimmed)) Refuse(line, "is not valid UTF-8");
    if (kBlanks.find(text.front()) == std::string_view::npos) {
      layers.nodes.push_back(ReadNode(trimmed, line));
    } else {
      edges.push_back(ReadEdge(trimmed, line));
    }
  }
  if (layers.nodes.empty()) throw InputError("", "holds no node (NAME -- DESCRIPTION -- MEASUREMENTS)");

  std::vector<PipeDreamNode>& nodes = layers.nodes;
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const PipeDreamNode& a, const PipeDreamNode& b) { return NaturalLess(a.name, b.name); });
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].name != nodes[i - 1].name) continue;
    Refuse(nodes[i].line, fmt::format("{} occurs twice (also on line {})", nodes[i].name, nodes[i - 1].line));
  }
  for (const PipeDreamEdge& edge : edges) {
    layers.edges.emplace(FindNode(nodes, edge.from, edge.line), FindNode(nodes, edge.to, edge.line));
  }
  return layers;
}

std::string ForwardName(const PipeDreamNode& node) { return std::string(node.name) + "/forward"; }
std::string BackwardName(const PipeDreamNode& node) { return std::string(node.name) + "/backward"; }

// An op of a node, without its tensors.
OpSpec MakeOp(const PipeDreamNode& node, Pass pass) {
  const bool is_forward = pass == Pass::kForward;
  OpSpec op;
  op.name = is_forward ? ForwardName(node) : BackwardName(node);
  op.kind = is_forward ? node.kind : node.kind + "_backward";
  op.attrs = "{\"description\":";
  AppendQuoted(&op.attrs, node.description);
  op.attrs.push_back('}');
  op.pass = pass;
  op.layer = node.name;
  const double forward_micros = node.is_input() ? 0 : node.forward_micros;
  op.kind_times.emplace_back(kPipeDreamGpuKind, is_forward ? forward_micros : node.backward_micros);
  if (is_forward) op.persistent = node.parameters;
  if (!is_forward) op.colocate_with = ForwardName(node);
  return op;
}

OutputSpec MakeOutput(Bytes size) {
  OutputSpec output;
  output.size = size;
  return output;
}

// The two ops of every node, wired as pipedream.h says.
Graph MakeGraph(const Layers& layers) {
  const std::size_t n = layers.nodes.size();
  std::vector<OpSpec> forward(n);
  std::vector<OpSpec> backward(n);
  for (std::size_t i = 0; i < n; ++i) {
    const PipeDreamNode& node = layers.nodes[i];
    forward[i] = MakeOp(node, Pass::kForward);
    backward[i] = MakeOp(node, Pass::kBackward);
    forward[i].outputs.push_back(MakeOutput(node.activation));
    backward[i].inputs.push_back(forward[i].name);
  }
  for (const auto& [producer, reader] : layers.edges) {
    forward[reader].inputs.push_back(forward[producer].name);
    backward[producer].inputs.push_back(fmt::format("{}:{}", backward[reader].name, backward[reader].outputs.size()));
    backward[reader].outputs.push_back(MakeOutput(layers.nodes[producer].activation));
  }
  GraphBuilder builder("pipedream");
  for (std::size_t i = 0; i < n; ++i) {
    builder.Add(forward[i]);
    builder.Add(backward[i]);
  }
  return builder.Build();
}

std::vector<std::string> Notes(const Layers& layers) {
  std::vector<std::string> notes;
  std::size_t with_stage = 0;
  for (const PipeDreamNode& node : layers.nodes) {
    with_stage += node.has_stage ? 1 : 0;
    if (!node.is_input() || node.forward_micros == 0) continue;
    notes.push_back(fmt::format("{} ({}): its forward time, {} ms, is loading the data and left out", node.name,
                                node.description, NumberText(node.forward_micros / 1000)));
  }
  if (with_stage > 0) notes.push_back(fmt::format("stage_id: left out ({} nodes have one)", with_stage));
  notes.push_back(
      fmt::format("the file does not name its GPU: times are those of a device kind \"{}\"", kPipeDreamGpuKind));
  return notes;
}

}  // namespace

bool LooksLikePipeDream(std::string_view content) {
  return !StartsAnObject(content) && content.find("forward_compute_time=") != std::string_view::npos;
}

Imported ImportPipeDream(const std::string& content, const std::string& file) {
  try {
    const Layers layers = ReadLayers(content);
    return {.graph = MakeGraph(layers), .cluster = std::nullopt, .notes = Notes(layers)};
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

}  // namespace emplace::datasets
