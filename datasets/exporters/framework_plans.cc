#include "datasets/exporters/framework_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include "sim/base/check.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/base/whole_number.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_csv.h"

namespace emplace::datasets {
namespace {

constexpr FieldRule kCount = {.most = 1 << 20};
constexpr FieldRule kOptionalCount = {.optional = true, .most = 1 << 20};

template <typename T>
T ReadJsonFile(std::string_view text) {
  const JsonValue root = ParseJson(text);
  return ReadFields<T>(JsonNode(root));
}

// `whole` divided by `part`, which it is a multiple of.
std::int64_t Quotient(std::string_view field, std::int64_t whole, std::int64_t part, std::string_view what) {
  if (part < 1 || whole < 1 || whole % part != 0) {
    throw InputError(std::string(field), fmt::format("is {} (a multiple of {}, which is {})", whole, what, part));
  }
  return whole / part;
}

// Stages of so many layers each. The first and the last may have none, only what is before and after the layers.
std::vector<std::vector<JsonValue>> StagesOfCounts(const std::vector<std::int64_t>& counts) {
  std::vector<std::vector<JsonValue>> stages;
  std::int64_t next = 0;
  for (const std::int64_t count : counts) {
    stages.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) stages.back().push_back(ToJson(next++));
  }
  if (stages.front().empty()) stages.front().push_back(ToJson("embedding"));
  if (stages.back().empty()) stages.back().push_back(ToJson("output"));
  return stages;
}

// ---- FSDP2 and tensor parallelism

struct FsdpFile {
  struct Mesh {
    std::int64_t dp = 0, replicate = 0, shard = 0, tp = 1;  // either dp, or replicas and shards
    static void Fields(auto& visit, auto& self) {
      visit("dp", self.dp, kOptionalCount);
      visit("dp_replicate", self.replicate, kOptionalCount);
      visit("dp_shard", self.shard, kOptionalCount);
      visit("tp", self.tp, kCount);
    }
  };
  Mesh mesh;
  std::vector<std::string> fully_shard;
  bool reshard_after_forward = false;
  std::int64_t micro_batch = 1, grad_accumulation = 1;
  bool sequence_parallel = false;
  JsonValue parallelize_plan;
  static void Fields(auto& visit, auto& self) {
    visit("mesh", self.mesh);
    visit("fully_shard", self.fully_shard);
    visit("reshard_after_forward", self.reshard_after_forward);
    visit("micro_batch", self.micro_batch, kCount);
    visit("grad_accumulation", self.grad_accumulation, kCount);
    visit("sequence_parallel", self.sequence_parallel);
    visit("parallelize_plan", self.parallelize_plan);
  }
};

ParallelPlan ReadFsdp(std::string_view text, std::int64_t) {
  const auto file = ReadJsonFile<FsdpFile>(text);
  ParallelPlan plan;
  const FsdpFile::Mesh& mesh = file.mesh;
  const bool is_plain = mesh.dp > 0 && mesh.replicate == 0 && mesh.shard == 0;
  if (!is_plain && (mesh.dp > 0 || mesh.replicate == 0 || mesh.shard == 0)) {
    throw InputError("mesh", "has other sizes (dp and tp, or dp_replicate, dp_shard and tp)");
  }
  plan.dp = is_plain ? mesh.dp : mesh.replicate * mesh.shard;
  plan.dp_replicate = is_plain ? 1 : mesh.replicate;
  plan.tp = mesh.tp;
  plan.zero = file.fully_shard.empty() ? 0 : file.reshard_after_forward ? 3 : 2;
  plan.micro_batch = file.micro_batch;
  plan.grad_accumulation = file.grad_accumulation;
  plan.sequence_parallel = file.sequence_parallel;
  return plan;
}

// ---- DeepSpeed

struct DeepSpeedFile {
  struct Zero {
    std::int64_t stage = 0;
    static void Fields(auto& visit, auto& self) { visit("stage", self.stage, {.most = 3}); }
  };
  struct TensorParallel {
    std::int64_t autotp_size = 1;
    static void Fields(auto& visit, auto& self) { visit("autotp_size", self.autotp_size, kCount); }
  };
  std::int64_t train_batch_size = 1, micro_batch = 1, grad_accumulation = 1;
  Zero zero;
  TensorParallel tensor_parallel;
  static void Fields(auto& visit, auto& self) {
    visit("train_batch_size", self.train_batch_size);
    visit("train_micro_batch_size_per_gpu", self.micro_batch, kCount);
    visit("gradient_accumulation_steps", self.grad_accumulation, kCount);
    visit("zero_optimization", self.zero);
    visit("tensor_parallel", self.tensor_parallel, {.optional = true});
  }
};

ParallelPlan ReadDeepSpeed(std::string_view text, std::int64_t) {
  const auto file = ReadJsonFile<DeepSpeedFile>(text);
  ParallelPlan plan;
  plan.tp = file.tensor_parallel.autotp_size;
  plan.zero = file.zero.stage;
  plan.micro_batch = file.micro_batch;
  plan.grad_accumulation = file.grad_accumulation;
  plan.dp = Quotient("train_batch_size", file.train_batch_size, file.micro_batch * file.grad_accumulation,
                     "the micro-batch times the accumulation steps");
  return plan;
}

// ---- torchtitan

struct TorchtitanFile {
  struct Parallelism {
    std::int64_t replicate = 1, shard = 1, tp = 1, cp = 1, ep = 1, pp = 1, microbatch = 1;
    bool sequence_parallel = true;
    std::string reshard;
    std::string schedule;
    std::vector<std::vector<std::string>> parts;
    static void Fields(auto& visit, auto& self) {
      visit("data_parallel_replicate_degree", self.replicate, kOptionalCount);
      visit("data_parallel_shard_degree", self.shard, kOptionalCount);
      visit("tensor_parallel_degree", self.tp, kOptionalCount);
      visit("enable_sequence_parallel", self.sequence_parallel, {.optional = true});
      visit("context_parallel_degree", self.cp, kOptionalCount);
      visit("expert_parallel_degree", self.ep, kOptionalCount);
      visit("pipeline_parallel_degree", self.pp, kOptionalCount);
      visit("fsdp_reshard_after_forward", self.reshard, {.optional = true});
      visit("pipeline_parallel_schedule", self.schedule, {.optional = true});
      visit("pipeline_parallel_microbatch_size", self.microbatch, kOptionalCount);
      visit("module_fqns_per_model_part", self.parts, {.optional = true});
    }
  };
  struct Training {
    std::int64_t local_batch_size = 1, global_batch_size = 1;
    static void Fields(auto& visit, auto& self) {
      visit("local_batch_size", self.local_batch_size);
      visit("global_batch_size", self.global_batch_size);
    }
  };
  Parallelism parallelism;
  Training training;
  std::string checkpointing;
  static void Fields(auto& visit, auto& self) {
    visit("parallelism", self.parallelism);
    visit("training", self.training);
    visit("activation_checkpoint", self.checkpointing, {.null_if_empty = true});
  }
};

void ReadTorchtitanPipeline(const TorchtitanFile& file, ParallelPlan* plan) {
  const TorchtitanFile::Parallelism& parallelism = file.parallelism;
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSchedules = {
      {{"GPipe", "gpipe"}, {"1F1B", "1f1b"}, {"Interleaved1F1B", "interleaved"}, {"ZBVZeroBubble", "zb-v"}}};
  const auto* const known = std::find_if(kSchedules.begin(), kSchedules.end(),
                                         [&](const auto& pair) { return pair.first == parallelism.schedule; });
  if (known == kSchedules.end()) {
    throw InputError(
        "parallelism.pipeline_parallel_schedule",
        fmt::format("is {} (GPipe, 1F1B, Interleaved1F1B or ZBVZeroBubble)", Quoted(parallelism.schedule)));
  }
  plan->schedule = known->second;
  plan->micro_batch = parallelism.microbatch;
  plan->vpp = plan->schedule == "interleaved" || plan->schedule == "zb-v" ? 2 : 1;
  if (parallelism.parts.empty()) return;
  plan->vpp = Quotient("parallelism.module_fqns_per_model_part", static_cast<std::int64_t>(parallelism.parts.size()),
                       plan->pp, "pipeline_parallel_degree");
  for (const std::vector<std::string>& part : parallelism.parts) {
    plan->stages.emplace_back();
    for (const std::string& name : part) plan->stages.back().push_back(ToJson(name));
  }
}

ParallelPlan ReadTorchtitan(std::string_view text, std::int64_t) {
  const auto file = ReadJsonFile<TorchtitanFile>(text);
  const TorchtitanFile::Parallelism& parallelism = file.parallelism;
  ParallelPlan plan;
  plan.dp = parallelism.replicate * parallelism.shard;
  plan.tp = parallelism.tp;
  plan.cp = parallelism.cp;
  plan.ep = parallelism.ep;
  plan.pp = parallelism.pp;
  plan.sequence_parallel = plan.tp > 1 && parallelism.sequence_parallel;
  if (file.checkpointing == "FullAC" || file.checkpointing == "SelectiveAC") {
    plan.recompute = ToJson(file.checkpointing == "FullAC" ? "full" : "selective");
  } else if (!file.checkpointing.empty()) {
    throw InputError("activation_checkpoint",
                     fmt::format("is {} (null, \"FullAC\" or \"SelectiveAC\")", Quoted(file.checkpointing)));
  }
  if (!parallelism.reshard.empty()) {
    if (parallelism.reshard != "never" && parallelism.reshard != "always") {
      throw InputError("parallelism.fsdp_reshard_after_forward",
                       fmt::format("is {} (\"never\" or \"always\")", Quoted(parallelism.reshard)));
    }
    plan.zero = parallelism.reshard == "never" ? 2 : 3;
    plan.dp_replicate = parallelism.replicate;
  } else if (parallelism.shard > 1) {
    throw InputError("parallelism.fsdp_reshard_after_forward", "is missing (\"never\" or \"always\", with shards)");
  }
  plan.micro_batch = file.training.local_batch_size;
  if (plan.pp > 1) ReadTorchtitanPipeline(file, &plan);
  plan.grad_accumulation = Quotient("training.global_batch_size", file.training.global_batch_size,
                                    plan.micro_batch * plan.dp, "the micro-batch times the data parallel degrees");
  return plan;
}

// ---- Flags

// The words of a text, and the flags among them as they are taken.
class Flags {
 public:
  explicit Flags(std::string_view text) {
    std::istringstream in{std::string(text)};
    for (std::string word; in >> word;) words_.push_back(word);
  }

  // Calls on(flag, value) for each flag, in the order of the text; value() takes the word after it.
  template <typename On>
  void ForEach(On on) {
    std::map<std::string, bool> seen;
    while (next_ < words_.size()) {
      const std::string& flag = words_[next_++];
      if (std::exchange(seen[flag], true)) throw InputError(flag, "is given twice (once)");
      on(flag, [&]() -> const std::string& {
        if (next_ == words_.size()) throw InputError(flag, "has no value");
        return words_[next_++];
      });
    }
  }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

std::int64_t CountIn(std::string_view place, std::string_view text, std::int64_t least = 1) {
  const auto number = WholeNumber<std::int64_t>(text);
  if (!number || *number < least || *number > (1 << 20)) {
    throw InputError(std::string(place), fmt::format("is {} (an integer from {})", Quoted(text), least));
  }
  return *number;
}

[[noreturn]] void RefuseFlag(const std::string& flag, std::string_view format, std::string_view known) {
  throw InputError(flag, fmt::format("is not a flag of a plan for {} ({})", format, known));
}

// ---- Megatron-LM

constexpr std::string_view kLayoutFlag = "--pipeline-model-parallel-layout";

// "Et*3|(tt|)*2L" without its repetitions: "Ettt|tt|tt|L". The text begins at `*next` and ends at a ")" or its own end.
std::string Unrolled(std::string_view text, std::size_t* next, int depth = 0) {
  const auto refuse = [&](std::string_view what) {
    throw InputError(std::string(kLayoutFlag), fmt::format("has {} at character {}", what, *next + 1));
  };
  std::string unrolled;
  while (*next < text.size() && text[*next] != ')') {
    const char c = text[*next];
    std::string unit;
    if (c == '(') {
      if (depth == 8) refuse("too many parentheses");
      ++*next;
      unit = Unrolled(text, next, depth + 1);
      if (*next == text.size()) refuse("no \")\"");
    } else if (std::string_view("EtL|").find(c) != std::string_view::npos) {
      unit = c;
    } else if (c != ',') {
      refuse(fmt::format("{} (E, t, L, |, parentheses and *N)", Quoted(std::string_view(&c, 1))));
    }
    ++*next;
    std::int64_t times = 1;
    if (*next < text.size() && text[*next] == '*') {
      const std::size_t begin = *next + 1;
      const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
      times = CountIn(kLayoutFlag, text.substr(begin, end - begin));
      *next = end;
    }
    if (unrolled.size() + unit.size() * static_cast<std::size_t>(times) > (1 << 20)) refuse("too many layers");
    for (std::int64_t i = 0; i < times; ++i) unrolled += unit;
  }
  if (depth == 0 && *next < text.size()) refuse("\")\" without \"(\"");
  return unrolled;
}

// The number of layers in each stage.
std::vector<std::int64_t> CountsOfLayout(std::string_view layout) {
  std::size_t next = 0;
  const std::string unrolled = Unrolled(layout, &next);
  std::vector<std::int64_t> counts = {0};
  for (std::size_t i = 0; i < unrolled.size(); ++i) {
    if ((unrolled[i] == 'E') != (i == 0) || (unrolled[i] == 'L') != (i + 1 == unrolled.size())) {
      throw InputError(std::string(kLayoutFlag), fmt::format("is {} (E first, L last, and each once)", Quoted(layout)));
    }
    if (unrolled[i] == '|') counts.push_back(0);
    if (unrolled[i] == 't') ++counts.back();
  }
  return counts;
}

constexpr std::string_view kPatternFlag = "--hybrid-layer-pattern";

// The same of a pattern of parts, "MEM*|EME/*E", where it is divided.
std::vector<std::int64_t> CountsOfPattern(std::string_view pattern) {
  std::vector<std::int64_t> counts = {0};
  for (const char c : pattern.substr(0, pattern.find('/'))) {
    if (c == '|') counts.push_back(0);
    if (c != '|') ++counts.back();
  }
  return counts;
}

// That a plan does not say: what all are timed with, and what is of the network.
constexpr std::array<std::string_view, 4> kUnsaidFlags = {"--overlap-grad-reduce", "--overlap-param-gather",
                                                          "--tp-comm-overlap", "--mtp-use-repeated-layer"};

struct MegatronFlags {
  std::int64_t global_batch = 0, recompute_layers = 0;
  bool distributed_optimizer = false, fsdp = false;
  std::string sharding, granularity, method, fp8, fp8_recipe, fp4, fp4_recipe;
};

void TakeMegatronFlag(const std::string& flag, const auto& value, ParallelPlan* plan, MegatronFlags* flags) {
  const std::map<std::string_view, std::int64_t*> counts = {
      {"--tensor-model-parallel-size", &plan->tp},
      {"--pipeline-model-parallel-size", &plan->pp},
      {"--context-parallel-size", &plan->cp},
      {"--expert-model-parallel-size", &plan->ep},
      {"--expert-tensor-parallel-size", &plan->etp},
      {"--micro-batch-size", &plan->micro_batch},
      {"--global-batch-size", &flags->global_batch},
      {"--recompute-num-layers", &flags->recompute_layers},
      {"--num-distributed-optimizer-instances", &plan->dp_replicate}};
  const std::map<std::string_view, std::string*> words = {{"--data-parallel-sharding-strategy", &flags->sharding},
                                                          {"--recompute-granularity", &flags->granularity},
                                                          {"--recompute-method", &flags->method},
                                                          {"--fp8-format", &flags->fp8},
                                                          {"--fp8-recipe", &flags->fp8_recipe},
                                                          {"--fp4-format", &flags->fp4},
                                                          {"--fp4-recipe", &flags->fp4_recipe}};
  if (const auto count = counts.find(flag); count != counts.end()) {
    *count->second = CountIn(flag, value());
  } else if (const auto word = words.find(flag); word != words.end()) {
    *word->second = value();
  } else if (flag == kLayoutFlag) {
    plan->stages = StagesOfCounts(CountsOfLayout(value()));
  } else if (flag == kPatternFlag) {
    const std::vector<std::int64_t> counts = CountsOfPattern(value());
    if (counts.size() > 1) plan->stages = StagesOfCounts(counts);
  } else if (flag == "--sequence-parallel") {
    plan->sequence_parallel = true;
  } else if (flag == "--use-tp-pp-dp-mapping") {
    plan->rank_order = {"tp", "cp", "pp", "dp"};
  } else if (flag == "--use-distributed-optimizer") {
    flags->distributed_optimizer = true;
  } else if (flag == "--use-megatron-fsdp") {
    flags->fsdp = true;
  } else if (flag == "--recompute-activations") {
    plan->recompute = ToJson("selective");
  } else if (std::ranges::find(kUnsaidFlags, flag) == kUnsaidFlags.end()) {
    std::vector<std::string_view> known = {kLayoutFlag,
                                           kPatternFlag,
                                           "--sequence-parallel",
                                           "--use-tp-pp-dp-mapping",
                                           "--use-megatron-fsdp",
                                           "--use-distributed-optimizer",
                                           "--recompute-activations"};
    known.insert(known.end(), kUnsaidFlags.begin(), kUnsaidFlags.end());
    for (const auto& [name, unused] : counts) known.push_back(name);
    for (const auto& [name, unused] : words) known.push_back(name);
    RefuseFlag(flag, "Megatron-LM", fmt::format("{}", fmt::join(known, ", ")));
  }
}

// The recipe of Megatron's flags, whose scales are for tensors (delayed, tensorwise) or for blocks.
std::string RecipeOf(const MegatronFlags& flags) {
  if (!flags.fp4.empty()) return "nvfp4";
  if (flags.fp8.empty()) return "bf16";
  for (const std::string_view of_tensors : {"", "delayed", "tensorwise", "blockwise"}) {
    if (flags.fp8_recipe == of_tensors) return "fp8";
  }
  if (flags.fp8_recipe == "mxfp8") return "mxfp8";
  throw InputError("--fp8-recipe",
                   fmt::format("is {} (delayed, tensorwise, blockwise or mxfp8)", Quoted(flags.fp8_recipe)));
}

// What several flags say together.
void JoinMegatronFlags(const MegatronFlags& flags, ParallelPlan* plan) {
  plan->zero = flags.distributed_optimizer ? 1 : 0;
  if (flags.fsdp != !flags.sharding.empty()) {
    throw InputError("--data-parallel-sharding-strategy",
                     flags.fsdp ? "is missing (with --use-megatron-fsdp)" : "needs --use-megatron-fsdp");
  }
  if (flags.fsdp) {
    if (flags.sharding != "optim_grads" && flags.sharding != "optim_grads_params") {
      throw InputError("--data-parallel-sharding-strategy",
                       fmt::format("is {} (optim_grads or optim_grads_params)", Quoted(flags.sharding)));
    }
    plan->zero = flags.sharding == "optim_grads" ? 2 : 3;
  }
  plan->precision = RecipeOf(flags);
  if (flags.granularity.empty()) return;
  const bool uniform = flags.method == "uniform" && flags.recompute_layers == 1;
  const bool block = flags.method == "block" && flags.recompute_layers > 0;
  if (flags.granularity != "full" || (!uniform && !block)) {
    throw InputError("--recompute-granularity",
                     fmt::format("is {} with method {} and {} layers (full with uniform and 1, or block)",
                                 Quoted(flags.granularity), Quoted(flags.method), flags.recompute_layers));
  }
  plan->recompute = uniform ? ToJson("full") : ToJson(flags.recompute_layers);
}

ParallelPlan ReadMegatron(std::string_view text, std::int64_t devices) {
  ParallelPlan plan;
  MegatronFlags flags;
  Flags(text).ForEach(
      [&](const std::string& flag, const auto& value) { TakeMegatronFlag(flag, value, &plan, &flags); });
  JoinMegatronFlags(flags, &plan);
  if (flags.global_batch == 0) throw InputError("--global-batch-size", "is missing");
  if (devices == 0) throw InputError("", "needs the number of devices, which Megatron-LM's flags do not say");
  plan.dp =
      Quotient("devices", devices, plan.tp * plan.pp * plan.cp, "the tensor, pipeline and context parallel degrees");
  plan.grad_accumulation = Quotient("--global-batch-size", flags.global_batch, plan.micro_batch * plan.dp,
                                    "the micro-batch times the data parallel degree");
  if (!plan.stages.empty()) {
    plan.vpp = Quotient(kLayoutFlag, static_cast<std::int64_t>(plan.stages.size()), plan.pp, "the pipeline's degree");
  }
  if (plan.vpp > 1) plan.schedule = "interleaved";
  return plan;
}

// ---- Inference servers

ParallelPlan ReadVllm(std::string_view text, std::int64_t) {
  constexpr std::string_view kPartition = "VLLM_PP_LAYER_PARTITION";
  constexpr std::string_view kKnown =
      "VLLM_PP_LAYER_PARTITION=.., --pipeline-parallel-size, --tensor-parallel-size, --data-parallel-size and "
      "--enable-expert-parallel";
  ParallelPlan plan;
  bool experts = false;
  Flags(text).ForEach([&](const std::string& flag, const auto& value) {
    if (flag.starts_with(std::string(kPartition) + "=")) {
      std::vector<std::int64_t> counts;
      std::istringstream numbers(flag.substr(kPartition.size() + 1));
      for (std::string number; std::getline(numbers, number, ',');) counts.push_back(CountIn(kPartition, number));
      plan.stages = StagesOfCounts(counts);
    } else if (flag == "--pipeline-parallel-size") {
      plan.pp = CountIn(flag, value());
    } else if (flag == "--tensor-parallel-size") {
      plan.tp = CountIn(flag, value());
    } else if (flag == "--data-parallel-size") {
      plan.dp = CountIn(flag, value());
    } else if (flag == "--enable-expert-parallel") {
      experts = true;
    } else {
      RefuseFlag(flag, "vLLM", kKnown);
    }
  });
  if (experts) plan.ep = plan.tp * plan.dp;
  return plan;
}

// The numbers in "blk\.(0|1|2)\.".
std::vector<std::int64_t> LayersOfPattern(std::string_view pattern) {
  constexpr std::string_view kBegin = "blk\\.(";
  constexpr std::string_view kEnd = ")\\.";
  if (!pattern.starts_with(kBegin) || !pattern.ends_with(kEnd)) {
    throw InputError("-ot", fmt::format(R"(has the pattern {} ("blk\.(0|1)\." or "output"))", Quoted(pattern)));
  }
  std::vector<std::int64_t> layers;
  std::istringstream numbers(std::string(pattern.substr(kBegin.size(), pattern.size() - kBegin.size() - kEnd.size())));
  for (std::string number; std::getline(numbers, number, '|');) layers.push_back(CountIn("-ot", number, 0));
  return layers;
}

ParallelPlan ReadLlamaCppPlan(std::string_view text, std::int64_t) {
  const LlamaCppRules rules = ReadLlamaCppRules(text);
  ParallelPlan plan;
  std::vector<std::string> devices;
  for (const auto& [device, layers] : rules.layers) {
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    plan.stages.emplace_back();
    for (const std::int64_t layer : layers) plan.stages.back().push_back(ToJson(layer));
  }
  plan.pp = static_cast<std::int64_t>(devices.size());
  for (std::size_t s = 0; s < rules.layers.size(); ++s) {
    const std::string expected = fmt::format("CUDA{}", s % devices.size());
    if (rules.layers[s].first != expected) {
      throw InputError("-ot", fmt::format("has stage {} on {} ({}: stages of a plan take turns on its devices)", s,
                                          rules.layers[s].first, expected));
    }
  }
  if (rules.layers.empty()) throw InputError("-ot", "has no layers (blk\\.(0|1)\\.=CUDA0)");
  if (rules.output != rules.layers.back().first) {
    throw InputError("-ot", fmt::format("has the output on {} (that of the last layers, {})", Quoted(rules.output),
                                        rules.layers.back().first));
  }
  plan.vpp = Quotient("-ot", static_cast<std::int64_t>(plan.stages.size()), plan.pp, "its devices");
  if (plan.vpp > 1) plan.schedule = "interleaved";
  return plan;
}

// ---- Schedules

// The schedule of ours whose actions these are.
ParallelPlan ReadScheduleCsvPlan(std::string_view text, std::int64_t) {
  std::istringstream in{std::string(text)};
  const PipelineSchedule schedule = ReadScheduleCsv(in, "");
  ParallelPlan plan;
  plan.pp = static_cast<std::int64_t>(schedule.ranks.size());
  plan.vpp = Quotient("", static_cast<std::int64_t>(schedule.num_stages), plan.pp, "its lines");
  plan.grad_accumulation = static_cast<std::int64_t>(schedule.micro_batches);
  for (const ScheduleEntry& entry : AllSchedules()) {
    plan.schedule = entry.name;
    try {
      const ScheduleName name = ParseScheduleName(plan.schedule_name(), "");
      if (name.chunks == static_cast<std::size_t>(plan.vpp) &&
          MakeSchedule(name, schedule.ranks.size(), schedule.micro_batches) == schedule) {
        return plan;
      }
    } catch (const InputError&) {  // no such schedule for so many stages of a rank, or micro-batches
    }
  }
  throw InputError("", "is no schedule of `emplace list schedules` (a plan names one of them)");
}

struct PlanReader {
  std::string_view name;
  ParallelPlan (*read)(std::string_view text, std::int64_t devices);
};
constexpr std::array<PlanReader, 8> kReaders = {{{"schedule-csv", ReadScheduleCsvPlan},
                                                 {"schedule-comms-csv", ReadScheduleCsvPlan},
                                                 {"fsdp", ReadFsdp},
                                                 {"torchtitan", ReadTorchtitan},
                                                 {"megatron", ReadMegatron},
                                                 {"deepspeed", ReadDeepSpeed},
                                                 {"vllm", ReadVllm},
                                                 {"llama.cpp", ReadLlamaCppPlan}}};

}  // namespace

std::span<const std::string_view> PlanFormats() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kReaders.size()> names;
    for (std::size_t i = 0; i < kReaders.size(); ++i) names[i] = kReaders[i].name;
    return names;
  }();
  return kNames;
}

ParallelPlan ReadFrameworkPlan(std::string_view target, std::string_view text, const std::string& file,
                               std::int64_t devices) {
  const PlanReader& reader = FindByName(kReaders, target, "--from");
  const ParallelPlan plan = WithLocation(file, [&] { return reader.read(text, devices); });
  // A plan's own rules hold for it too.
  std::stringstream written;
  WritePlan(written, plan);
  return ReadPlan(written, file);
}

LlamaCppRules ReadLlamaCppRules(std::string_view text) {
  LlamaCppRules rules;
  Flags(text).ForEach([&](const std::string& flag, const auto& value) {
    if (flag == "-ngl") {
      if (value() != "999") throw InputError("-ngl", "is not 999 (all layers; -ot says where they are)");
      return;
    }
    if (flag != "-ot") RefuseFlag(flag, "llama.cpp", "-ngl and -ot");
    std::istringstream list(value());
    for (std::string rule; std::getline(list, rule, ',');) {
      const std::size_t equals = rule.find('=');
      if (equals == std::string::npos) throw InputError("-ot", fmt::format("has {} (PATTERN=DEVICE)", Quoted(rule)));
      const std::string pattern = rule.substr(0, equals);
      const std::string device = rule.substr(equals + 1);
      if (pattern == "output") {
        rules.output = device;
      } else {
        rules.layers.emplace_back(device, LayersOfPattern(pattern));
      }
    }
  });
  return rules;
}

}  // namespace emplace::datasets
