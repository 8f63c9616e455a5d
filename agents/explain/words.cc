#include "agents/explain/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/printable.h"

namespace emplace::agents {
namespace {

// Whether a UTF-8 sequence may begin at `text[at]`.
bool MayCut(std::string_view text, std::size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U;
}

std::string ItemText(const Graph& graph, const ChainItem& item) {
  const std::string name = ShortName(graph.op(item.op).name);
  if (!item.is_transfer) return name;
  if (!item.tensor) return "control input " + name;
  const Tensor& tensor = graph.tensor(*item.tensor);
  return graph.num_outputs(item.op) > 1 ? fmt::format("{}:{}", name, tensor.output_index) : name;
}

}  // namespace

std::string ShortName(std::string_view name, std::size_t most) {
  constexpr std::string_view kDots = "...";
  if (name.size() <= most) return std::string(name);
  std::size_t head = (most - kDots.size()) / 2;
  while (head > 0 && !MayCut(name, head)) --head;
  std::size_t tail = name.size() - (most - kDots.size() - (most - kDots.size()) / 2);
  while (!MayCut(name, tail)) ++tail;
  return std::string(name.substr(0, head)).append(kDots).append(name.substr(tail));
}

std::string OpsText(const Graph& graph, std::span<const OpId> ops) {
  std::string text = ShortName(graph.op(ops[0]).name);
  if (ops.size() == 1) return text;
  text += fmt::format(" and {} more", ops.size() - 1);
  const std::string_view layer = graph.op(ops[0]).layer;
  const auto in_layer = [&](OpId op) { return graph.op(op).layer == layer; };
  if (!layer.empty() && std::all_of(ops.begin(), ops.end(), in_layer)) text += " of layer " + ShortName(layer);
  return text;
}

std::string MoveText(const Graph& graph, const Move& move) {
  switch (move.unit) {
    case MoveUnit::kOp:
      return "op " + OpsText(graph, move.ops);
    case MoveUnit::kColocationClass:
      return "colocated " + OpsText(graph, move.ops);
    case MoveUnit::kChainPiece:
      return "piece of the chain: " + OpsText(graph, move.ops);
    case MoveUnit::kLayer:
      break;
  }
  // With colocation classes a layer may bring ops of others; most are its own.
  std::map<std::string_view, std::size_t> layers;
  for (const OpId op : move.ops) ++layers[graph.op(op).layer];
  const auto most =
      std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("layer {}, {}", ShortName(most->first), Counted(move.ops.size(), "op"));
}

std::string PartText(const Graph& graph, const ChainPart& part) {
  const std::string item = ItemText(graph, part.item);
  switch (part.kind) {
    case ChainKind::kCompute:
    case ChainKind::kTransfer:
      return item;
    case ChainKind::kDeviceQueue:
      if (part.item.is_transfer) return fmt::format("{} waits while {} is sent", ItemText(graph, *part.waiter), item);
      [[fallthrough]];
    case ChainKind::kChannelQueue:
      return fmt::format("{} waits for {}", ItemText(graph, *part.waiter), item);
    case ChainKind::kIssue:
      return "issue of " + item;
    case ChainKind::kLaunch:
      return "launch of " + item;
    case ChainKind::kGap:
      break;
  }
  return "after " + item;
}

std::string PlaceText(const Cluster& cluster, const ChainItem& item) {
  const std::string& device = cluster.device(item.device).name;
  return item.is_transfer ? fmt::format("{} to {}", device, cluster.device(item.to).name) : device;
}

std::string_view Meaning(ChainKind kind) {
  static constexpr std::string_view kMeanings[] = {
      "ops whose results the rest of the chain needs",      "tensors on their way between devices",
      "ops that are ready, while their device runs others", "tensors that are ready, while their channel sends others",
      "devices after an op, channels after a transfer",     "threads of the host that issue ops",
      "from the end of an op's issue to its start"};
  return kMeanings[static_cast<std::size_t>(kind)];
}

std::string_view Words(ChainKind kind) {
  static constexpr std::string_view kWords[] = {"compute", "transfer", "device queue", "channel queue",
                                                "gap",     "issue",    "launch"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::vector<ChainShare> SharesOf(const Graph& graph, const StepExplanation& explained) {
  std::map<std::pair<bool, std::string_view>, ChainShare> shares;
  for (const ChainPart& part : explained.chain) {
    const Op& op = graph.op(part.item.op);
    const bool has_layer = !op.layer.empty();
    ChainShare& share = shares[{has_layer, has_layer ? op.layer : op.kind}];
    if (share.name.empty()) share.name = (has_layer ? "layer " : "kind ") + ShortName(has_layer ? op.layer : op.kind);
    const bool is_needed = part.kind == ChainKind::kCompute || part.kind == ChainKind::kTransfer;
    (is_needed ? share.needed : share.other) += part.length();
  }
  std::vector<ChainShare> sorted;
  for (auto& [key, share] : shares) sorted.push_back(std::move(share));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ChainShare& a, const ChainShare& b) { return a.sum() > b.sum(); });
  return sorted;
}

std::vector<ChainPart> LongestParts(const StepExplanation& explained, std::size_t most) {
  std::vector<ChainPart> parts = explained.chain;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const ChainPart& a, const ChainPart& b) { return a.length() > b.length(); });
  if (parts.size() > most) parts.resize(most);
  return parts;
}

}  // namespace emplace::agents
