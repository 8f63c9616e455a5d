// Data parallelism. A gradient is what an op of the backward pass makes and an op of the update pass reads. Gradients
// are added up over replicas in buckets, in the order in which the backward pass makes them (Li et al. 2020, "PyTorch
// Distributed", 3.2.3). With a sharded optimiser each replica gets its share of the sums, updates its share of the
// weights, and all gather the weights (Rajbhandari et al. 2020, "ZeRO", 5.1).

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "datasets/builder.h"
#include "datasets/transform/passes.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kSparse = "sparse_";

bool IsSparse(const RankOp& op) { return op.kind.starts_with(kSparse); }

// Whether the op is an optimizer's: it reads a variable, its gradient and, if sparse, the gradient's row numbers.
bool IsOptimizer(const RankOp& op) {
  std::string_view kind = op.kind;
  if (IsSparse(op)) kind.remove_prefix(kSparse.size());
  return (kind == "sgd" || kind == "momentum" || kind == "rmsprop" || kind == "adam") &&
         op.inputs.size() == (IsSparse(op) ? 3U : 2U);
}

bool IsClipped(const RankOp& op) { return op.kind == "scale" && op.outputs.size() == 1; }

OutputSpec Flat(const OutputSpec& whole, std::int64_t elements) {
  OutputSpec part;
  part.dtype = whole.dtype;
  part.shape = {elements};
  return part;
}

std::int64_t BytesOf(const OutputSpec& output) {
  return output.size ? output.size->count : TensorBytes(output.dtype, output.shape, "").count;
}

class Reducer {
 public:
  Reducer(const Ranks& ranks, const ReductionOptions& options, RankPlan* plan)
      : ranks_(ranks), options_(options), plan_(*plan) {}

  void Run() {
    FindGradients();
    if (gradients_.empty()) {
      throw InputError("", "no op of the update pass reads a gradient, an output of the backward pass");
    }
    if (ranks_.expert > 1 && !options_.shard_optimizer) CountSharedNormsOnce();
    for (Gradient& gradient : gradients_) {
      if (gradient.is_sparse) ReduceRows(&gradient);
    }
    for (const Gradient& gradient : gradients_) {
      if (!gradient.is_sparse) PutInBucket(gradient);
    }
    for (auto& [key, bucket] : open_) Close(key, &bucket);
    plan_.Sort("a gradient waits for an update");
    if (ranks_.expert > 1 && !options_.shard_optimizer) SumNormsOver(Members::kParts, "", &plan_);
    if (options_.shard_optimizer) {
      SumNormsOver(ranks_.expert > 1 ? Members::kAll : Members::kReplicas, ranks_.tensor > 1 ? "/data" : "", &plan_);
    }
  }

 private:
  struct Gradient {
    OutputPosition tensor;
    std::vector<std::uint32_t> readers = {};      // readers in the update pass
    std::optional<std::uint32_t> optimizer = {};  // the op that updates with it
    std::vector<std::uint32_t> clipped = {};      // its products with a factor, which the optimiser reads
    bool is_sparse = false;
    Members members = Members::kReplicas;
  };
  struct Bucket {
    std::vector<const Gradient*> gradients;
    double bytes = 0;
  };
  using Key = std::tuple<Members, DType>;

  // The gradients that need a sum over ranks, in the order in which they are computed: by the longest chain of ops
  // behind them.
  void FindGradients() {
    readers_ = plan_.Readers();
    std::vector<std::uint32_t> depth(plan_.ops.size());
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> order;
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
      const RankOp& op = plan_.ops[i];
      for (const OutputPosition input : op.inputs) depth[i] = std::max(depth[i], depth[input.op] + 1);
      for (const std::uint32_t control : op.controls) depth[i] = std::max(depth[i], depth[control] + 1);
      if (op.pass != Pass::kBackward) continue;
      for (std::size_t o = 0; o < op.outputs.size(); ++o) {
        order.emplace_back(depth[i], static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(o));
      }
    }
    std::sort(order.begin(), order.end());
    for (const auto& [of_op, op, output] : order) AddGradient({.op = op, .output = output});
  }

  void AddGradient(OutputPosition tensor) {
    const DType dtype = plan_.Output(tensor).dtype;
    if (dtype != DType::kNone && !IsReal(dtype)) return;  // row numbers follow their rows
    Gradient gradient{.tensor = tensor};
    for (const std::uint32_t reader : readers_[tensor.op][tensor.output]) {
      const RankOp& op = plan_.ops[reader];
      if (op.pass != Pass::kUpdate) continue;
      gradient.readers.push_back(reader);
      if (IsOptimizer(op)) gradient.optimizer = reader;
      if (!IsClipped(op)) continue;
      gradient.clipped.push_back(reader);
      for (const std::uint32_t next : readers_[reader][0]) {
        if (IsOptimizer(plan_.ops[next])) gradient.optimizer = next;
      }
    }
    if (gradient.readers.empty()) return;
    if (gradient.optimizer) {
      const RankOp& optimizer = plan_.ops[*gradient.optimizer];
      gradient.is_sparse = IsSparse(optimizer);
      const bool is_expert = plan_.ops[optimizer.inputs[0].op].is_expert;
      if (ranks_.expert > 1 && !is_expert) gradient.members = Members::kAll;
    } else if (options_.shard_optimizer) {
      throw InputError(
          "", fmt::format("{} is read by no sgd, momentum, rmsprop or adam", Quoted(plan_.ops[tensor.op].name)));
    }
    if (ranks_.Count(gradient.members) > 1) gradients_.push_back(std::move(gradient));
  }

  // All parts have the same sums of the gradients of weights that they share.
  void CountSharedNormsOnce() {
    for (const Gradient& gradient : gradients_) {
      if (gradient.members != Members::kAll) continue;
      for (const std::uint32_t reader : gradient.readers) {
        plan_.ops[reader].same_norm = plan_.ops[reader].kind == "l2_loss";
      }
    }
  }

  // Readers of `from` in the update pass read `to` instead.
  void Redirect(const std::vector<std::uint32_t>& readers, OutputPosition from, OutputPosition to) {
    for (const std::uint32_t reader : readers) {
      for (OutputPosition& input : plan_.ops[reader].inputs) {
        if (input.op == from.op && input.output == from.output) input = to;
      }
    }
  }
  // The shape of the gradient differs for its readers.
  void Resize(const Gradient& gradient, const OutputSpec& to) {
    for (const std::uint32_t reader : gradient.readers) {
      const RankOp& op = plan_.ops[reader];
      if (op.kind != "l2_loss" && !IsClipped(op) && !IsOptimizer(op)) {
        throw InputError("", fmt::format("op {} of kind {} cannot read a part of a gradient (l2_loss, scale, sgd, "
                                         "momentum, rmsprop or adam)",
                                         Quoted(op.name), op.kind));
      }
      plan_.ops[reader].resized = true;
    }
    for (const std::uint32_t op : gradient.clipped) plan_.ops[op].outputs[0] = to;
    plan_.ops[*gradient.optimizer].resized = true;
  }

  const std::string& VariableName(const Gradient& gradient) const {
    return plan_.ops[plan_.ops[*gradient.optimizer].inputs[0].op].name;
  }

  // Rows of a table with their numbers: gathered from all replicas, or added to a table of zeros where that is smaller.
  void ReduceRows(Gradient* gradient) {
    const std::uint32_t optimizer = *gradient->optimizer;
    const OutputPosition rows = gradient->tensor;
    const OutputPosition numbers = plan_.ops[optimizer].inputs[2];
    const OutputSpec table = plan_.Output(plan_.ops[optimizer].inputs[0]);
    const std::string name = VariableName(*gradient);
    if (table.shape.size() != 2 || plan_.Output(rows).shape.size() != 2 || plan_.Output(numbers).shape.size() != 1) {
      throw InputError("", fmt::format("op {} updates no rows of a table", Quoted(plan_.ops[optimizer].name)));
    }
    const std::int64_t members = ranks_.Count(gradient->members);
    const std::int64_t of_rank = plan_.Output(rows).shape[0];
    if (options_.shard_optimizer || of_rank >= PartOf(table.shape[0], members)) return ReduceTable(gradient, table);
    const std::int64_t count = of_rank * members;
    OutputSpec all_rows = plan_.Output(rows);
    all_rows.shape[0] = count;
    OutputSpec all_numbers = plan_.Output(numbers);
    all_numbers.shape[0] = count;
    const std::uint32_t gathered = plan_.AddCollective(rows.op, name + "/rows/all_gather", "all_gather",
                                                       gradient->members, {rows, numbers}, {all_rows, all_numbers});
    plan_.ops[gathered].pass = Pass::kUpdate;
    Redirect(gradient->readers, rows, {.op = gathered, .output = 0});
    plan_.ops[optimizer].inputs[2] = {.op = gathered, .output = 1};
    Resize(*gradient, all_rows);
  }

  void ReduceTable(Gradient* gradient, const OutputSpec& table) {
    const std::uint32_t at = gradient->tensor.op;
    RankOp& optimizer = plan_.ops[*gradient->optimizer];
    const OutputPosition numbers = optimizer.inputs[2];
    optimizer.inputs.pop_back();
    optimizer.kind.erase(0, kSparse.size());
    if (const std::size_t word = optimizer.name.rfind(kSparse); word != std::string::npos) {
      optimizer.name.erase(word, kSparse.size());
    }
    const std::string name = "gradients/" + VariableName(*gradient);
    const std::uint32_t zeros = plan_.Add(at, name + "/fill", "fill", {}, {table});
    plan_.ops[zeros].controls = {at};  // not before it is needed
    const OutputPosition sum = {.op = plan_.Add(at, name + "/scatter_add", "scatter_add",
                                                {{.op = zeros, .output = 0}, gradient->tensor, numbers}, {table}),
                                .output = 0};
    Redirect(gradient->readers, gradient->tensor, sum);
    Resize(*gradient, table);
    gradient->tensor = sum;
    gradient->is_sparse = false;
  }

  void PutInBucket(const Gradient& gradient) {
    const OutputSpec& tensor = plan_.Output(gradient.tensor);
    const Key key = {gradient.members, tensor.dtype};
    Bucket& bucket = open_[key];
    bucket.gradients.push_back(&gradient);
    bucket.bytes += static_cast<double>(BytesOf(tensor));
    if (bucket.bytes >= options_.bucket_bytes) Close(key, &bucket);
  }

  // Emits the bucket's collectives. Behind the op that makes its last gradient.
  void Close(const Key& key, Bucket* bucket) {
    if (bucket->gradients.empty()) return;
    const Members members = std::get<Members>(key);
    const bool of_experts = ranks_.expert > 1 && members == Members::kReplicas;
    const std::string name = fmt::format("{}bucket{}", of_experts ? "experts/" : "", num_buckets_[of_experts]++);
    if (options_.shard_optimizer) {
      ReduceToShares(name, members, *bucket);
    } else {
      std::vector<OutputPosition> inputs;
      std::vector<OutputSpec> outputs;
      for (const Gradient* gradient : bucket->gradients) {
        inputs.push_back(gradient->tensor);
        outputs.push_back(plan_.Output(gradient->tensor));
      }
      const std::uint32_t sum = AddBucket(name, "all_reduce", inputs.back().op, members, inputs, outputs);
      RedirectAll(*bucket, sum);
    }
    *bucket = {};
  }

  std::uint32_t AddBucket(const std::string& name, const std::string& kind, std::uint32_t anchor, Members members,
                          std::vector<OutputPosition> inputs, std::vector<OutputSpec> outputs) {
    const std::uint32_t op =
        plan_.AddCollective(anchor, name + "/" + kind, kind, members, std::move(inputs), std::move(outputs));
    plan_.ops[op].name.insert(0, "data/");
    plan_.ops[op].pass = Pass::kUpdate;
    return op;
  }

  void RedirectAll(const Bucket& bucket, std::uint32_t sum) {
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      Redirect(bucket.gradients[i]->readers, bucket.gradients[i]->tensor,
               {.op = sum, .output = static_cast<std::uint32_t>(i)});
    }
  }

  void ReduceToShares(const std::string& name, Members members, const Bucket& bucket) {
    const std::int64_t count = ranks_.Count(members);
    std::vector<OutputPosition> inputs;
    std::vector<OutputSpec> shares;
    for (const Gradient* gradient : bucket.gradients) {
      inputs.push_back(gradient->tensor);
      const OutputSpec& whole = plan_.Output(gradient->tensor);
      if (whole.dtype == DType::kNone) {
        throw InputError(
            "", fmt::format("the gradient that {} makes has no type", Quoted(plan_.ops[inputs.back().op].name)));
      }
      shares.push_back(Flat(whole, PartOf(ElementsOf(whole), count)));
    }
    const std::uint32_t sums = AddBucket(name, "reduce_scatter", inputs.back().op, members, inputs, shares);
    RedirectAll(bucket, sums);
    std::vector<OutputPosition> parts;
    std::vector<OutputSpec> weights;
    std::vector<std::uint32_t> optimizers;
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      const Gradient& gradient = *bucket.gradients[i];
      Resize(gradient, shares[i]);
      const std::uint32_t at = *gradient.optimizer;
      const OutputPosition variable = plan_.ops[at].inputs[0];
      const OutputSpec whole = plan_.Output(variable);
      const std::int64_t share = PartOf(ElementsOf(whole), count);
      const std::uint32_t part =
          plan_.Add(at, "update/" + VariableName(gradient) + "/shard", "shard", {variable}, {Flat(whole, share)});
      plan_.ops[part].colocate_with = variable.op;
      plan_.ops[at].inputs[0] = {.op = part, .output = 0};
      plan_.ops[at].persistent = Scaled(plan_.ops[at].persistent, share, ElementsOf(whole));
      parts.push_back({.op = part, .output = 0});
      weights.push_back(whole);
      optimizers.push_back(at);
    }
    const std::uint32_t gathered =
        AddBucket(name, "all_gather", optimizers.back(), members, std::move(parts), std::move(weights));
    // Ops that wait for an update wait for all of it.
    const std::set<std::uint32_t> updates(optimizers.begin(), optimizers.end());
    for (RankOp& op : plan_.ops) {
      for (std::uint32_t& control : op.controls) {
        if (updates.contains(control)) control = gathered;
      }
    }
    plan_.ops[gathered].controls = std::move(optimizers);
  }

  const Ranks& ranks_;
  const ReductionOptions& options_;
  RankPlan& plan_;
  std::vector<std::vector<std::vector<std::uint32_t>>> readers_;
  std::vector<Gradient> gradients_;
  std::map<Key, Bucket> open_;
  std::map<bool, int> num_buckets_;  // number of buckets, with and without experts
};

}  // namespace

void ReduceGradients(const Ranks& ranks, const ReductionOptions& options, RankPlan* plan) {
  Reducer(ranks, options, plan).Run();
}

void SumNormsOver(Members members, const std::string& suffix, RankPlan* plan) {
  const auto readers = plan->Readers();
  const std::size_t num_ops = plan->ops.size();
  for (std::size_t i = 0; i < num_ops; ++i) {
    if (plan->ops[i].kind != "global_norm_scale" || plan->ops[i].outputs.size() != 1) continue;
    const auto at = static_cast<std::uint32_t>(i);
    const std::string stem = plan->ops[i].name + suffix;
    const OutputSpec scalar = plan->ops[i].outputs[0];
    const std::vector<OutputPosition> norms = plan->ops[i].inputs;
    for (const OutputPosition norm : norms) {
      if (plan->ops[norm.op].same_norm && readers[norm.op][0].size() == 1) plan->ops[norm.op].first_part = true;
    }
    const std::uint32_t sum = plan->Add(at, stem + "/add_n", "add_n", norms, {scalar});
    const std::uint32_t of_all =
        plan->AddCollective(at, stem + "/all_reduce", "all_reduce", members, {{.op = sum, .output = 0}}, {scalar});
    plan->ops[i].inputs = {{.op = of_all, .output = 0}};
    plan->ops[i].resized = true;
  }
  plan->Sort("norms of gradients wait for each other");
}

}  // namespace emplace::datasets
