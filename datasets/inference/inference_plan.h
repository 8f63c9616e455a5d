#ifndef EMPLACE_DATASETS_INFERENCE_INFERENCE_PLAN_H_
#define EMPLACE_DATASETS_INFERENCE_INFERENCE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/inference/inference_model.h"
#include "datasets/inference/layer_split.h"
#include "datasets/inference/token_time.h"
#include "sim/cluster.h"
#include "sim/placement.h"

namespace emplace::datasets {

// What a split of a model is to make fast.
enum class InferenceObjective : std::uint8_t { kDecode, kPrefill, kDecodeThroughput };
struct InferenceObjectiveEntry {
  std::string_view name;
  InferenceObjective objective;
  std::string_view summary;
};
std::span<const InferenceObjectiveEntry> AllInferenceObjectives();

struct InferenceOptions {
  InferenceObjective objective = InferenceObjective::kDecode;
  std::int64_t context = 4096;     // tokens of each text
  std::int64_t parallel = 1;       // texts in flight; with kDecodeThroughput they share each pass
  std::int64_t micro_batch = 512;  // tokens of a pass over a prompt
  // Tokens in the caches of each text when tokens are generated, or before the prompt; none: the context, or 0.
  std::optional<std::int64_t> depth = {};
  std::optional<std::int64_t> prompt = {};  // tokens of a prompt; none: the context
  const GgmlType* key_type = nullptr;       // of the caches; null: f16
  const GgmlType* value_type = nullptr;
  std::map<std::string, InferenceRates, std::less<>> rates = {};  // measured ones, by kind of device
  std::string client = {};  // machine that runs llama.cpp's program; "": the one with which the split is fastest
};

// What a device of a split holds and how long it works.
struct InferenceStage {
  DeviceId device{};
  std::size_t first = 0;   // layer
  std::size_t end = 0;     // one behind the last layer
  std::size_t hosted = 0;  // of its first layers the experts are in the client's memory
  bool has_output = false;
  double micros = 0;  // of a pass, transfers included
  std::int64_t weight_bytes = 0;
  std::int64_t cache_bytes = 0;
  std::int64_t compute_bytes = 0;
  std::int64_t reserved_bytes = 0;  // the driver's context
  std::string LayersText() const;   // "0 to 14", "61 to 79, output"
  std::int64_t bytes() const { return weight_bytes + cache_bytes + compute_bytes + reserved_bytes; }
};

// A split of a model over the devices of a cluster that llama.cpp can express.
struct InferencePlan {
  std::string client;
  std::optional<DeviceId> client_cpu;
  std::vector<InferenceStage> stages;
  std::int64_t host_bytes = 0;  // in the client's memory: the embedding, experts, and the layers of its CPU
  double pass_micros = 0;
  double bound_micros = 0;  // of any split with any client
  double tokens_per_s = 0;  // of all texts together
  bool is_proved() const { return bound_micros >= pass_micros * (1 - 1e-9); }
};

// The machine of each device: its `host`, or without one the machine of the first device to which it has a link with a
// latency under 30 us, which is no network. A machine without a name has that of its first device.
std::vector<std::string> MachinesOf(const Cluster& cluster);

// The memory of a device, or else of its kind; none: no limit is known.
std::optional<Bytes> MemoryOf(const Cluster& cluster, DeviceId device);

// ggml-rpc-server of a machine's first device listens here, that of its second one port further, and so on.
inline constexpr int kFirstRpcPort = 50052;

// llama.cpp's names of the devices on their own machines: CPU, or CUDA0, ROCm0, MTL0, SYCL0, .. counted by backend.
std::vector<std::string> LlamaCppNames(const Cluster& cluster);

// The fastest split of `model` over `cluster`; none fits: nullopt. Throws InputError on a kind of device without rates,
// and on options that contradict one another.
std::optional<InferencePlan> PlanInference(const InferenceModel& model, const Cluster& cluster,
                                           const InferenceOptions& options);
// The longest context, a multiple of 256, with which some split fits; 0: none.
std::int64_t LongestContext(const InferenceModel& model, const Cluster& cluster, const InferenceOptions& options);

// The placement of InferenceGraph(model) that the plan is.
Placement PlacementOf(const InferencePlan& plan, const Graph& graph);

// A script of sh that runs the plan with llama.cpp: the servers of other machines as comments, and the client's
// command. `file` is the model's file.
std::string LlamaCppScript(const InferencePlan& plan, const InferenceModel& model, const Cluster& cluster,
                           const InferenceOptions& options, const std::string& file);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_INFERENCE_INFERENCE_PLAN_H_
