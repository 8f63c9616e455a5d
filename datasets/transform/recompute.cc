// Recomputation of activations. Ops that are run again read what is kept: results of other ops, weights, and data.
// Their gradients read what was computed again, so the first results are free after the forward pass.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "datasets/transform/passes.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/op_kinds.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kGradients = "gradients/";
constexpr std::string_view kRecompute = "recompute/";

// The part of attention that selective recomputation runs again: Korthikanti et al. 2022, section 5.
constexpr std::array<std::string_view, 6> kAttentionCore = {"scores",  "scaled_scores", "masked_scores",
                                                            "weights", "dropout",       "context"};

bool IsOfAttentionCore(const RankOp& op) {
  if (op.kind == "attention") return true;
  const std::string_view name = op.name;
  const std::size_t cut = name.rfind('/');
  if (cut == std::string_view::npos) return false;
  const std::string_view scope = name.substr(0, cut);
  return (scope.ends_with("/attention") || scope.ends_with("_attn")) &&
         std::find(kAttentionCore.begin(), kAttentionCore.end(), name.substr(cut + 1)) != kAttentionCore.end();
}

bool IsBlock(std::string_view layer) {
  constexpr std::string_view kBlock = "block";
  return layer.starts_with(kBlock) && layer.size() > kBlock.size() &&
         layer.find_first_not_of("0123456789", kBlock.size()) == std::string_view::npos;
}

// The block around a layer: "block3", or "model.layers.3" of any module in it; "": none.
std::string_view BlockOf(std::string_view layer) {
  constexpr std::string_view kLayers = ".layers.";
  if (IsBlock(layer)) return layer;
  const std::size_t found = layer.find(kLayers);
  if (found == std::string_view::npos) return {};
  const std::size_t begin = found + kLayers.size();
  const std::size_t end = std::min(layer.find_first_not_of("0123456789", begin), layer.size());
  return end > begin && (end == layer.size() || layer[end] == '.') ? layer.substr(0, end) : std::string_view();
}

class Recomputer {
 public:
  Recomputer(const std::string& which, RankPlan* plan) : which_(which), plan_(*plan), num_ops_(plan->ops.size()) {}

  void Run() {
    ChooseOps();
    for (std::size_t i = 0; i < num_ops_; ++i) {
      if (!groups_[i].empty()) by_name_.emplace(plan_.ops[i].name, i);
    }
    Clone();
    ReadClones();
    plan_.Sort("the layers take turns in the backward pass, so that none can run again by itself (other layers)");
  }

 private:
  static bool MayRunAgain(const RankOp& op) {
    return op.pass == Pass::kForward && !IsSourceKind(op.kind) && !op.outputs.empty();
  }

  // The group of an op: what is run again together, when the backward pass comes there; "": it is not run again.
  void ChooseOps() {
    groups_.resize(num_ops_);
    std::set<std::string, std::less<>> layers;  // those that were named and not found yet
    const bool full = which_ == "full";
    const bool selective = which_ == "selective";
    if (!full && !selective) {
      for (std::size_t begin = 0; begin <= which_.size();) {
        const std::size_t end = std::min(which_.find(',', begin), which_.size());
        layers.insert(which_.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    std::set<std::string, std::less<>> missing = layers;
    bool any = false;
    for (std::size_t i = 0; i < num_ops_; ++i) {
      const RankOp& op = plan_.ops[i];
      if (op.name.starts_with(kRecompute)) throw InputError("", "the graph has ops that are run again already");
      if (!MayRunAgain(op)) continue;
      const std::string_view block = BlockOf(op.layer);
      const bool by_name = !full && !selective;
      const std::string_view group = by_name && layers.contains(op.layer) ? std::string_view(op.layer) : block;
      const bool chosen = by_name ? layers.contains(group) : !block.empty() && (full || IsOfAttentionCore(op));
      if (!chosen) continue;
      groups_[i] = group;
      const auto named = missing.find(group);
      if (named != missing.end()) missing.erase(named);
      any = true;
    }
    if (!missing.empty()) {
      throw InputError("", fmt::format("no forward op is of layer {} (full, selective, or layers of the graph)",
                                       Quoted(*missing.begin())));
    }
    if (!any) throw InputError("", fmt::format("{} finds no blocks to recompute (models gpt, bert and llama)", which_));
  }

  // For a gradient op, the group of the op that it belongs to: "gradients/NAME/KIND" belongs to NAME.
  std::string_view GroupOfGradient(const RankOp& op) const {
    std::string_view name = op.name;
    if (op.pass != Pass::kBackward || !name.starts_with(kGradients)) return {};
    name.remove_prefix(kGradients.size());
    const auto found = by_name_.find(std::string(name.substr(0, name.rfind('/'))));
    return found == by_name_.end() ? std::string_view() : std::string_view(groups_[found->second]);
  }

  void Clone() {
    clones_.resize(num_ops_);
    for (std::size_t i = 0; i < num_ops_; ++i) {
      if (groups_[i].empty()) continue;
      RankOp clone = plan_.ops[i];
      clone.name.insert(0, kRecompute);
      clone.pass = Pass::kBackward;
      clone.controls.clear();
      for (OutputPosition& input : clone.inputs) {
        if (groups_[input.op] == groups_[i]) input.op = *clones_[input.op];  // producers come first
      }
      clones_[i] = static_cast<std::uint32_t>(plan_.ops.size());
      plan_.ops.push_back(std::move(clone));
    }
  }

  // The gradients of a group read its clones; others read the first results, which are kept for them. A clone that
  // reads no other waits for the gradients that come to its group from outside.
  void ReadClones() {
    std::map<std::string_view, std::set<std::uint32_t>> arrivals;
    std::map<std::string_view, std::uint32_t> first;
    for (std::size_t i = 0; i < num_ops_; ++i) {
      RankOp& op = plan_.ops[i];
      const std::string_view group = GroupOfGradient(op);
      if (!group.empty()) first.try_emplace(group, static_cast<std::uint32_t>(i));
      for (OutputPosition& input : op.inputs) {
        if (!group.empty() && plan_.ops[input.op].pass == Pass::kBackward &&
            GroupOfGradient(plan_.ops[input.op]) != group) {
          arrivals[group].insert(input.op);
        }
        if (!group.empty() && groups_[input.op] == group) input.op = *clones_[input.op];
      }
    }
    for (std::size_t i = 0; i < num_ops_; ++i) {
      if (!clones_[i]) continue;
      RankOp& clone = plan_.ops[*clones_[i]];
      const auto begin = first.find(groups_[i]);
      if (begin == first.end()) throw InputError("", "the graph has no gradients of layer " + Quoted(groups_[i]));
      clone.anchor = begin->second;
      const bool reads_clone = std::any_of(clone.inputs.begin(), clone.inputs.end(),
                                           [this](OutputPosition input) { return input.op >= num_ops_; });
      if (reads_clone) continue;
      const std::set<std::uint32_t>& arrived = arrivals[groups_[i]];
      clone.controls.assign(arrived.begin(), arrived.end());
    }
  }

  const std::string& which_;
  RankPlan& plan_;
  std::size_t num_ops_;  // without clones
  std::vector<std::string> groups_;
  std::unordered_map<std::string, std::size_t> by_name_;  // recomputed ops
  std::vector<std::optional<std::uint32_t>> clones_;
};

}  // namespace

void Recompute(const std::string& which, RankPlan* plan) { Recomputer(which, plan).Run(); }

}  // namespace emplace::datasets
