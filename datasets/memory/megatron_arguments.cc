#include "datasets/memory/megatron_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "datasets/memory/megatron_argument_reader.h"
#include "datasets/memory/megatron_network.h"
#include "datasets/memory/megatron_stages.h"
#include "datasets/memory/training_memory.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostRanksOfRun = std::int64_t{1} << 16;
constexpr std::int64_t kMostPipelineRanks = 256;

std::int64_t RoundUpTo(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

// The sequences of a step: the last, and largest, of a schedule such as "0:384 200B:768 400B:1152".
std::int64_t LargestBatch(MegatronArgumentReader& args) {
  const std::string schedule = args.Text("step-batch-size-schedule", "");
  const std::size_t colon = schedule.rfind(':');
  std::int64_t batch = args.Integer("global-batch-size", 0);
  if (colon != std::string::npos) {
    std::from_chars(schedule.data() + colon + 1, schedule.data() + schedule.size(), batch);
  }
  return batch;
}

// How many ranks a run is taken to have if nothing says it: one node, or more if its length is counted in samples, as
// it is where networks are trained for use. The numbers are fitted on Megatron-LM's tests.
std::int64_t UsualWorldSize(MegatronArgumentReader& args) {
  if (!args.Has("train-samples")) return 8;
  return LargestBatch(args) >= 1024 ? 128 : 64;
}

void ReadDegrees(MegatronArgumentReader& args, std::int64_t world_size, MegatronRun* run) {
  TrainingSetup& setup = run->setup;
  setup.tp = args.Integer("tensor-model-parallel-size", 1, 1, kMostRanksOfRun);
  setup.pp = args.Integer("pipeline-model-parallel-size", 1, 1, kMostPipelineRanks);
  setup.cp = args.Integer("context-parallel-size", 1, 1, kMostRanksOfRun);
  setup.ep = args.Integer("expert-model-parallel-size", 1, 1, kMostRanksOfRun);
  setup.etp = args.Integer("expert-tensor-parallel-size", setup.tp, 1, kMostRanksOfRun);
  setup.sequence_parallel = args.Flag("sequence-parallel") && setup.tp > 1;
  const std::int64_t dense = setup.tp * setup.pp * setup.cp;
  const auto check = [](std::int64_t ranks) {
    if (ranks > kMostRanksOfRun) {
      throw InputError(
          "tensor-model-parallel-size",
          fmt::format("and the other degrees make {} ranks of one model (at most {})", ranks, kMostRanksOfRun));
    }
  };
  check(dense);
  check(setup.etp * setup.ep * setup.pp);
  std::int64_t needed = dense;
  if (args.Integer("num-experts", 0) > 0) needed = std::lcm(dense, setup.etp * setup.ep * setup.pp);
  check(needed);
  run->world_size = world_size > 0 ? world_size : RoundUpTo(UsualWorldSize(args), needed);
  if (run->world_size % needed != 0) {
    const std::int64_t taken = RoundUpTo(run->world_size, needed);
    run->unmodelled.push_back(fmt::format("world size: {} is no multiple of {}, the ranks of one model: {} is taken",
                                          run->world_size, needed, taken));
    run->world_size = taken;
  }
  setup.dp = run->world_size / dense;
  setup.pipeline_before_data = args.Flag("use-tp-pp-dp-mapping");
}

void CheckDegrees(const TrainingSetup& setup) {
  const NetworkShape& network = setup.network;
  CheckDegreeDivides("tensor-model-parallel-size", setup.tp, "num-attention-heads", network.heads);
  CheckDegreeDivides("tensor-model-parallel-size", setup.tp, "ffn-hidden-size", network.d_ff);
  CheckDegreeDivides("context-parallel-size", setup.cp, "seq-length", network.sequence);
  if (setup.sequence_parallel) {
    CheckDegreeDivides("tensor-model-parallel-size", setup.tp, "the sequence of a rank", network.sequence / setup.cp);
  }
  if (network.experts > 0) {
    CheckDegreeDivides("expert-model-parallel-size", setup.ep, "num-experts", network.experts);
    CheckDegreeDivides("expert-tensor-parallel-size", setup.etp, "moe-ffn-hidden-size", network.d_expert);
  }
}

void ReadBatch(MegatronArgumentReader& args, MegatronRun* run) {
  TrainingSetup& setup = run->setup;
  setup.micro_batch = args.Integer("micro-batch-size", 1, 1);
  const std::int64_t global = args.Integer("global-batch-size", setup.micro_batch * setup.dp, 1);
  setup.micro_batches = std::max<std::int64_t>(1, global / (setup.micro_batch * setup.dp));
}

void ReadRecompute(MegatronArgumentReader& args, TrainingSetup* setup) {
  Recompute& recompute = setup->recompute;
  if (args.Flag("recompute-activations")) recompute.kind = RecomputeKind::kSelective;
  if (args.Has("recompute-granularity")) {
    recompute.kind = args.Word("recompute-granularity", "", {"full", "selective"}) == "full"
                         ? RecomputeKind::kFull
                         : RecomputeKind::kSelective;
  }
  recompute.is_uniform = args.Word("recompute-method", "uniform", {"uniform", "block"}) == "uniform";
  recompute.layers = args.Integer("recompute-num-layers", 1, 1);
  std::set<std::string> modules = args.Words("recompute-modules");
  if (modules.empty()) modules = {"core_attn"};
  recompute.core_attention = modules.contains("core_attn");
  recompute.expert_activation = modules.contains("moe_act");
  recompute.norms = modules.contains("layernorm");
  recompute.latent_up_projection = modules.contains("mla_up_proj");
  recompute.mlp = modules.contains("mlp");
  if (args.Flag("moe-layer-recompute")) {
    if (recompute.kind == RecomputeKind::kNone) recompute.kind = RecomputeKind::kSelective;
    modules.insert("moe");
  }
  recompute.experts = modules.contains("moe");
  recompute.shared_experts = modules.contains("shared_experts");
}

AttentionKernel ReadAttention(MegatronArgumentReader& args, const TrainingSetup& setup) {
  const std::string backend = args.Word("attention-backend", args.Flag("use-flash-attn") ? "flash" : "auto",
                                        {"auto", "flash", "fused", "unfused", "local"});
  if (!setup.transformer_engine || backend == "unfused" || backend == "local") return AttentionKernel::kUnfused;
  if (backend == "flash") return AttentionKernel::kFlash;
  return backend == "fused" ? AttentionKernel::kFused : AttentionKernel::kAutomatic;
}

ProductRecipe ReadRecipe(MegatronArgumentReader& args) {
  const std::string eight =
      args.Word("fp8-recipe", "delayed", {"delayed", "tensorwise", "mxfp8", "blockwise", "custom"});
  args.Word("fp4-recipe", "nvfp4", {"nvfp4", "custom"});
  if (args.Has("fp4-format") || args.Has("fp4")) return ProductRecipe::kNvfp4;
  if (!args.Has("fp8-format") && !args.Has("fp8")) return ProductRecipe::kWhole;
  return eight == "mxfp8" ? ProductRecipe::kMxfp8 : ProductRecipe::kFp8;
}

void ReadOptimizer(MegatronArgumentReader& args, TrainingSetup* setup) {
  const bool is_fp16 = args.Flag("fp16");
  const bool is_bf16 = args.Flag("bf16");
  if (is_fp16 && is_bf16) throw InputError("fp16", "is set beside bf16 (one of them)");
  setup->number_bytes = is_fp16 || is_bf16 ? 2 : 4;
  setup->distributed_optimizer = args.Flag("use-distributed-optimizer");
  setup->optimizer_instances = args.Integer("num-distributed-optimizer-instances", 1, 1);
  const bool sums_in_f32 = args.Flag("accumulate-allreduce-grads-in-fp32") || !is_fp16;
  setup->gradient_bytes = sums_in_f32 && !args.Flag("grad-reduce-in-bf16") ? 4 : 2;
  setup->keeps_f32_gradients = setup->gradient_bytes == 2;
  const auto bytes_of = [&](std::string_view key) {
    return args.Word(key, "fp32", {"fp32", "fp16", "bf16", "fp8"}) == "fp32" ? 4 : 2;
  };
  setup->optimizer_bytes = bytes_of("main-params-dtype") + bytes_of("exp-avg-dtype") + bytes_of("exp-avg-sq-dtype");
  args.Word("main-grads-dtype", "fp32", {"fp32", "bf16"});
  if (args.Flag("optimizer-cpu-offload")) {
    setup->optimizer_on_device = std::clamp(1 - args.Number("optimizer-offload-fraction", 1), 0.0, 1.0);
  }
  setup->matrix_optimizer_bytes = setup->optimizer_bytes;
  const std::string optimizer = args.Word("optimizer", "adam", {"adam", "sgd", "muon", "dist_muon", "adaptive_muon"});
  if (optimizer == "sgd") setup->optimizer_bytes = setup->matrix_optimizer_bytes = 8;
  if (optimizer.find("muon") != std::string::npos) setup->matrix_optimizer_bytes = 8;
  setup->deals_parameters = optimizer == "dist_muon" || (optimizer == "muon" && setup->distributed_optimizer &&
                                                         args.Flag("no-use-layer-wise-param-layout"));
  const bool is_fsdp = args.Flag("use-torch-fsdp2") || args.Flag("use-megatron-fsdp");
  const std::string shards = args.Word("data-parallel-sharding-strategy",
                                       is_fsdp && args.Flag("use-torch-fsdp2") ? "optim_grads_params" : "no_shard",
                                       {"no_shard", "optim", "optim_grads", "optim_grads_params"});
  setup->shards_gradients = is_fsdp && shards.starts_with("optim_grads");
  setup->shards_weights = is_fsdp && shards == "optim_grads_params";
  if (is_fsdp) setup->distributed_optimizer = true;
}

void ReadKernels(MegatronArgumentReader& args, TrainingSetup* setup) {
  setup->transformer_engine = args.Word("transformer-impl", "transformer_engine",
                                        {"transformer_engine", "local", "inference_optimized"}) != "local" &&
                              args.Text("spec", "") != "local";
  setup->is_deterministic = args.Flag("deterministic-mode");
  setup->attention = ReadAttention(args, *setup);
  if (args.Flag("cross-entropy-loss-fusion")) {
    const bool is_native = args.Word("cross-entropy-fusion-impl", "native", {"native", "te"}) == "native";
    setup->cross_entropy = is_native ? CrossEntropyKind::kFusedByCompiler : CrossEntropyKind::kKernel;
  }
  setup->hidden_dropout = args.Number("hidden-dropout", 0.1) > 0;
  setup->attention_dropout = args.Number("attention-dropout", 0.1) > 0;
  setup->fuses_weight_gradients = !args.Flag("no-gradient-accumulation-fusion");
  setup->fuses_activation = !args.Flag(setup->network.gated() ? "no-bias-swiglu-fusion" : "no-bias-gelu-fusion");
  setup->fuses_rope = !args.Flag("no-rope-fusion");
  setup->has_attention_mask = !args.Flag("no-create-attention-mask-in-dataloader") && setup->network.image_tokens == 0;
  // Graphs that are captured later leave the peak of the steps before as it is. Those of other modules count as eager.
  const std::set<std::string> graphed = args.Words("cuda-graph-modules");
  setup->graphs_attention = args.Text("cuda-graph-impl", "none") == "transformer_engine" && graphed.contains("attn") &&
                            args.Integer("cuda-graph-warmup-steps", 3) == 0;
  setup->has_teacher = args.Has("export-kd-teacher-load");
  setup->products = ReadRecipe(args);
  // Has no effect on memory otherwise.
  if (args.Has("moe-expert-capacity-factor")) {
    setup->expert_capacity = args.Number("moe-expert-capacity-factor", 1);
    setup->pads_experts = args.Flag("moe-pad-expert-input-to-capacity");
  }
  setup->overlaps_tensor_parallel = args.Flag("tp-comm-overlap") && setup->tp > 1;
  args.Text("tp-comm-overlap-cfg", "");
  setup->fuses_expert_weights = args.Flag("use-fused-weighted-squared-relu");
  setup->fp8_weights = args.Flag("fp8-param-gather");
  setup->grouped_experts = args.Flag("moe-grouped-gemm");
  const std::string dispatcher =
      args.Word("moe-token-dispatcher-type", "allgather", {"allgather", "alltoall", "alltoall_seq", "flex"});
  setup->dispatcher = dispatcher == "allgather" ? ExpertDispatcher::kAllGather
                      : dispatcher == "flex"    ? ExpertDispatcher::kFlex
                                                : ExpertDispatcher::kAllToAll;
  setup->defers_embedding_gradients = args.Flag("defer-embedding-wgrad-compute");
  setup->deferred_micro_batches = args.Integer("wgrad-deferral-limit", 0);
  setup->fuses_softmax = !args.Flag("no-masked-softmax-fusion");
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  if (args.Flag("perform-rl-step")) {
    setup->inference_cache_bytes = args.Integer("inference-dynamic-batching-buffer-size-gb", 40) * kGiB;
  }
}

void ReadOffload(MegatronArgumentReader& args, Offload* offload) {
  if (!args.Flag("fine-grained-activation-offloading")) return;
  const std::set<std::string> modules = args.Words("offload-modules");
  offload->attention_norm = modules.contains("attn_norm");
  offload->mlp_norm = modules.contains("mlp_norm");
  offload->query_product = modules.contains("qkv_linear");
  offload->core_attention = modules.contains("core_attn");
  offload->attention_output = modules.contains("attn_proj");
  offload->expert_product = modules.contains("expert_fc1");
  offload->expert_activation = modules.contains("moe_act");
}

// Adds a line for each argument that Megatron-LM refuses, or that has no effect beside the others.
void AddContradictions(MegatronArgumentReader& args, const std::string& model, std::int64_t world_size,
                       MegatronRun* run) {
  const TrainingSetup& setup = run->setup;
  const NetworkShape& network = setup.network;
  const auto add = [run](std::string line) { run->unmodelled.push_back(std::move(line)); };
  if (network.experts == 0 && (setup.ep > 1 || model == "moe" || model == "mixtral")) {
    add(setup.ep > 1 ? fmt::format("expert-model-parallel-size: is {}, but there is no num-experts", setup.ep)
                     : fmt::format("model: is {}, but there is no num-experts", model));
  }
  if (const std::string graphs = args.Text("cuda-graph-impl", "none");
      graphs != "none" && graphs != "transformer_engine") {
    add("cuda-graph-impl: the memory pools of CUDA graphs are not modelled");
  }
  if (network.experts > 0 && network.top_k > network.experts) {
    add(fmt::format("moe-router-topk: is {}, but num-experts is {}", network.top_k, network.experts));
  }
  const std::int64_t sequences = setup.micro_batch * setup.dp;
  const std::int64_t batch = args.Integer("global-batch-size", sequences, 1);
  if (world_size > 0 && batch % sequences != 0) {
    add(fmt::format("global-batch-size: is {}, which micro-batches of {} on {} data-parallel ranks do not divide",
                    batch, setup.micro_batch, setup.dp));
  }
  static const std::set<std::string> known = {"core_attn", "moe_act", "layernorm",     "mla_up_proj",
                                              "mlp",       "moe",     "shared_experts"};
  for (const std::string& module : args.Words("recompute-modules")) {
    if (!known.contains(module)) {
      add(fmt::format("recompute-modules: {} is not known ({})", Quoted(module), fmt::join(known, ", ")));
    }
  }
}

}  // namespace

MegatronRun ReadMegatronArguments(const JsonValue& arguments, std::int64_t world_size) {
  MegatronArgumentReader args(arguments);
  const std::string model = args.Text("model", "gpt");
  MegatronRun run;
  run.setup.knows_device = false;
  ReadDegrees(args, world_size, &run);
  ReadBatch(args, &run);
  ReadMegatronNetwork(args, model, &run.setup);
  ReadMegatronStages(args, &run.setup);
  CheckDegrees(run.setup);
  CheckSetup(run.setup);
  ReadOptimizer(args, &run.setup);
  ReadKernels(args, &run.setup);
  ReadRecompute(args, &run.setup);
  ReadOffload(args, &run.setup.offload);
  for (std::string& line : args.Unmodelled()) run.unmodelled.push_back(std::move(line));
  AddContradictions(args, model, world_size, &run);
  return run;
}

}  // namespace emplace::datasets
