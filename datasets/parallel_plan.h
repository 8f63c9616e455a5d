#ifndef EMPLACE_DATASETS_PARALLEL_PLAN_H_
#define EMPLACE_DATASETS_PARALLEL_PLAN_H_

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_struct.h"

namespace emplace::datasets {

// DualPipe (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1) as a plan's schedule. It is none of
// `emplace list schedules`, as each of its stages is on two ranks.
inline constexpr std::string_view kDualPipe = "dualpipe";

// The recipes that products of weights can be computed by: as everything else is, with factors in 8 bits and a scale
// for each tensor, in 8 bits and a scale for every 32 numbers, and in 4 bits with a scale for every 16.
inline constexpr std::array<std::string_view, 4> kProductRecipes = {"bf16", "fp8", "mxfp8", "nvfp4"};

inline constexpr std::int64_t kMostLoraRank = 1 << 16;

// How a network is trained on many devices, in the words of those who do it: `emplace.plan`, version 1. A placement
// says where each op runs; a plan says into how many parts what is divided.
struct ParallelPlan {
  std::string network;  // a preset's or a graph's name
  OptionMap set;        // the network's options

  std::int64_t dp = 1;            // data parallel
  std::int64_t dp_replicate = 1;  // replicas of the groups that ZeRO shards over; dp counts their ranks too
  std::int64_t tp = 1;            // tensor parallel
  std::int64_t pp = 1;            // pipeline parallel
  std::int64_t vpp = 1;           // stages of each pipeline rank
  std::int64_t cp = 1;            // context parallel
  std::int64_t ep = 1;            // expert parallel
  std::int64_t etp = 1;           // tensor parallel within experts
  std::int64_t zero = 0;          // ZeRO's stage, 0 to 3

  std::int64_t micro_batch = 1;        // sequences
  std::int64_t grad_accumulation = 1;  // micro-batches of a step
  bool sequence_parallel = false;
  std::string precision = "bf16";        // of the products of weights: one of kProductRecipes
  std::int64_t lora = 0;                 // rank of the adapters that are trained instead of all weights; 0: none
  std::string lora_targets;              // modules that have adapters, as ReadLora takes them
  JsonValue recompute = ToJson("none");  // none, selective, full, or a number of layers
  std::string schedule = "1f1b";

  // The stages in the order of the model, pp * vpp of them or none: each a list of paths of modules, or of the numbers
  // of layers.
  std::vector<std::vector<JsonValue>> stages;
  // From the degree whose ranks are next to each other to the one whose ranks are farthest apart. Empty: tp, cp, dp,
  // pp.
  std::vector<std::string> rank_order;

  static void Fields(auto& visit, auto& self) {
    visit("network", self.network, {.optional = true});
    visit("set", self.set, {.optional = true});
    constexpr FieldRule kDegree = {.optional = true, .most = 1 << 20};
    visit("dp", self.dp, kDegree);
    visit("dp_replicate", self.dp_replicate, {.optional = true, .written = self.dp_replicate != 1, .most = 1 << 20});
    visit("tp", self.tp, kDegree);
    visit("pp", self.pp, kDegree);
    visit("vpp", self.vpp, kDegree);
    visit("cp", self.cp, kDegree);
    visit("ep", self.ep, kDegree);
    visit("etp", self.etp, kDegree);
    visit("zero", self.zero, {.optional = true, .allowed = "an integer from 0 to 3", .most = 3});
    visit("micro_batch", self.micro_batch, {.optional = true, .most = 1 << 20});
    visit("grad_accumulation", self.grad_accumulation, {.optional = true, .most = 1 << 20});
    visit("sequence_parallel", self.sequence_parallel, {.optional = true});
    visit("precision", self.precision, {.optional = true, .written = self.precision != "bf16"});
    visit("lora", self.lora, {.optional = true, .written = self.lora != 0, .most = kMostLoraRank});
    visit("lora_targets", self.lora_targets, {.optional = true, .written = !self.lora_targets.empty()});
    visit("recompute", self.recompute, {.optional = true});
    visit("schedule", self.schedule, {.optional = true});
    visit("stages", self.stages, {.optional = true});
    visit("rank_order", self.rank_order, {.optional = true});
  }

  std::int64_t devices() const { return dp * tp * pp * cp; }
  // The ranks that ZeRO shards over, in each of dp_replicate groups.
  std::int64_t dp_shard() const { return dp / dp_replicate; }
  // As `emplace list schedules` has it: "interleaved:2".
  std::string schedule_name() const;
  // What it recomputes: "none", "selective", "full", or the number of layers.
  std::string recompute_text() const;
  // Adds a stage of these layers. One without layers has the name of what it has: the embedding, or the output.
  void AddStage(const auto& layers) {
    std::vector<JsonValue>& stage = stages.emplace_back();
    for (const auto layer : layers) stage.push_back(ToJson(static_cast<std::int64_t>(layer)));
    if (stage.empty()) stage.push_back(ToJson(stages.size() == 1 ? "embedding" : "output"));
  }
};

// Reads plan.json. Throws InputError, its place beginning with `file`, on what is not a plan, and where its values do
// not go together.
ParallelPlan ReadPlan(std::istream& in, const std::string& file);
void WritePlan(std::ostream& out, const ParallelPlan& plan);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PARALLEL_PLAN_H_
