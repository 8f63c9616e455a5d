#include "datasets/transform/transform.h"

#include "datasets/transform/passes.h"
#include "datasets/transform/rank_plan.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr std::int64_t kMostRanks = 1'000'000;

void CheckOptions(const Graph& graph, const TransformOptions& options) {
  const auto check = [](const char* option, std::int64_t count) {
    if (count < 1) throw InputError(option, "is 0 (at least 1)");
  };
  check("tensor_parallel", options.tensor_parallel);
  check("expert_parallel", options.expert_parallel);
  check("data_parallel", options.data_parallel);
  if (options.tensor_parallel > 1 && options.expert_parallel > 1) {
    throw InputError("expert_parallel", "excludes tensor parallelism (one of them)");
  }
  const std::int64_t parts = options.tensor_parallel * options.expert_parallel;
  if (options.data_parallel > kMostRanks / parts) {
    throw InputError("data_parallel", "there are too many ranks (at most 1000000)");
  }
  if (options.shard_optimizer && options.data_parallel == 1 && options.expert_parallel == 1) {
    throw InputError("shard_optimizer", "needs replicas (at least 2)");
  }
  if (!graph.metadata().empty() && FindMember(ParseJson(graph.metadata()), "parallel") != nullptr) {
    throw InputError("metadata.parallel", "the graph is one of several ranks already (the graph of one)");
  }
}

}  // namespace

Graph Transform(const Graph& graph, const TransformOptions& options) {
  CheckOptions(graph, options);
  RankPlan plan(graph);
  const Ranks ranks = {
      .replicas = options.data_parallel, .tensor = options.tensor_parallel, .expert = options.expert_parallel};
  if (!options.recompute.empty()) WithLocation("recompute", [&] { Recompute(options.recompute, &plan); });
  if (ranks.tensor > 1) {
    WithLocation("tensor_parallel", [&] {
      SplitTensors(ranks.tensor, &plan);
      plan.SetFlop();
    });
  }
  if (ranks.expert > 1) WithLocation("expert_parallel", [&] { DivideExperts(ranks.expert, &plan); });
  if (ranks.replicas > 1 || ranks.expert > 1) {
    WithLocation("data_parallel", [&] {
      ReduceGradients(
          ranks, {.bucket_bytes = options.bucket_mib * kMebibyte, .shard_optimizer = options.shard_optimizer}, &plan);
      plan.SetFlop();
    });
  }
  return plan.Write(ranks);
}

}  // namespace emplace::datasets
