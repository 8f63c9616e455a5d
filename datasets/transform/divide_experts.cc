// Expert parallelism: Lepikhin et al. 2020, "GShard", section 3. Each rank has a batch of its own, and a part of the
// experts. Tokens go to the ranks of their experts, and results come back, by an all-to-all each, forward and backward.

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "datasets/transform/passes.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// As large as weights, and not as tokens.
bool HoldsWeights(const RankOp& op) {
  return op.pass == Pass::kUpdate || op.kind == "variable" || op.kind == "batch_matmul_grad_b" ||
         op.kind == "broadcast_grad";
}

class Divider {
 public:
  Divider(std::int64_t parts, RankPlan* plan) : parts_(parts), plan_(*plan), num_ops_(plan->ops.size()) {}

  void Run() {
    Check();
    for (std::size_t i = 0; i < num_ops_; ++i) {
      for (std::size_t input = 0; input < plan_.ops[i].inputs.size(); ++input) Exchange(i, input);
      if (IsOfExperts(plan_.ops[i])) DivideOp(&plan_.ops[i]);
    }
    plan_.Sort("experts wait for tokens that wait for them");
  }

 private:
  void Check() const {
    bool any = false;
    for (const RankOp& op : plan_.ops) {
      if (op.kind != "variable" || !IsOfExperts(op)) continue;
      any = true;
      if (op.outputs.empty() || op.outputs[0].shape.empty()) Refuse(op);
      const std::int64_t experts = op.outputs[0].shape[0];
      if (experts % parts_ == 0) continue;
      throw InputError("", fmt::format("{} does not divide experts, of which there are {}", parts_, experts));
    }
    if (!any) throw InputError("", "the graph has no experts (models gpt and llama with experts=N)");
  }

  [[noreturn]] static void Refuse(const RankOp& op) {
    throw InputError("", fmt::format("op {} of kind {} cannot be divided (graphs of the models gpt and llama)",
                                     Quoted(op.name), op.kind));
  }

  // [experts, capacity, ..] to a part of the experts, with the tokens of all ranks.
  OutputSpec OfExperts(const RankOp& op, OutputSpec tokens) const {
    if (tokens.shape.size() < 2 || tokens.dtype == DType::kNone || tokens.shape[0] % parts_ != 0) Refuse(op);
    tokens.shape[0] /= parts_;
    tokens.shape[1] *= parts_;
    tokens.size.reset();
    return tokens;
  }
  OutputSpec OfRank(const RankOp& op, OutputSpec tokens) const {
    if (tokens.shape.size() < 2 || tokens.dtype == DType::kNone || tokens.shape[1] % parts_ != 0) Refuse(op);
    tokens.shape[0] *= parts_;
    tokens.shape[1] /= parts_;
    tokens.size.reset();
    return tokens;
  }

  void Exchange(std::size_t reader, std::size_t index) {
    const OutputPosition tensor = plan_.ops[reader].inputs[index];
    const RankOp& producer = plan_.ops[tensor.op];
    if (plan_.ops[reader].pass == Pass::kUpdate || producer.kind == "variable") return;
    const bool to_experts = IsOfExperts(plan_.ops[reader]);
    if (IsOfExperts(producer) == to_experts) return;
    const auto [found, is_new] = exchanged_.try_emplace({tensor.op, tensor.output}, 0);
    if (is_new) {
      const OutputSpec& from = plan_.Output(tensor);
      const std::string name = producer.name + "/all_to_all";
      found->second = plan_.AddCollective(tensor.op, name, "all_to_all", Members::kParts, {tensor},
                                          {to_experts ? OfExperts(producer, from) : OfRank(producer, from)});
    }
    plan_.ops[reader].inputs[index] = {.op = found->second, .output = 0};
  }

  void DivideOp(RankOp* op) {
    op->resized = true;
    if (op->kind == "variable") {
      op->is_expert = true;
      op->persistent = Scaled(op->persistent, 1, parts_);
    }
    if (op->pass == Pass::kUpdate) op->persistent = Scaled(op->persistent, 1, parts_);
    for (OutputSpec& output : op->outputs) {
      if (output.shape.empty()) continue;  // a norm
      if (HoldsWeights(*op)) {
        if (output.dtype == DType::kNone || output.shape[0] % parts_ != 0) Refuse(*op);
        output.shape[0] /= parts_;
        output.size.reset();
      } else {
        output = OfExperts(*op, output);
      }
    }
  }

  std::int64_t parts_;
  RankPlan& plan_;
  std::size_t num_ops_;                                                         // without those that are added
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> exchanged_;  // tensors, and what is read instead
};

}  // namespace

bool IsOfExperts(const RankOp& op) {
  return op.name.find("/experts/") != std::string::npos || op.name.find(".experts/") != std::string::npos;
}

void DivideExperts(std::int64_t parts, RankPlan* plan) { Divider(parts, plan).Run(); }

}  // namespace emplace::datasets
