// A snapshot of an environment of the Python package, as it is and with the right checksum: either is refused, or the
// environment is where the snapshot says, and an episode can go on.
#include <memory>
#include <optional>
#include <utility>

#include "python/src/vector_env.h"
#include "sim/base/fingerprint.h"
#include "sim/cost/cost_models.h"
#include "tests/fuzz/round_trip.h"

namespace {

using emplace::python::VectorEnv;

// Three ops one behind the other, on two devices of which one has a limit.
std::unique_ptr<VectorEnv> MakeEnv() {
  emplace::GraphBuilder builder("chain");
  std::string previous;
  for (const std::string name : {"a", "b", "c"}) {
    emplace::OpSpec spec;
    spec.name = name;
    spec.kind = "k";
    spec.time_micros = 10.0;
    spec.outputs.resize(1);
    spec.outputs[0].size = emplace::Bytes{1000};
    if (!previous.empty()) spec.inputs = {previous};
    previous = name;
    builder.Add(spec);
  }
  emplace::Device device;
  device.name = "x";
  device.kind = "k";
  device.memory = emplace::Bytes{2000};
  emplace::Device other = device;
  other.name = "y";
  other.memory.reset();
  const emplace::Graph graph = builder.Build();
  const auto cluster = emplace::Cluster::Uniform("two", {device, other},
                                                 {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
  const emplace::CostTable costs(graph, cluster, *emplace::MakeMeasuredCostModel());
  return std::make_unique<VectorEnv>(
      std::make_shared<const emplace::python::BatchEvaluator>(graph, cluster, costs, emplace::SimOptions{}),
      emplace::FindGrouper("identity").make(graph, {}),
      emplace::python::VectorEnvOptions{
          .num_envs = 1, .start = emplace::python::Start::kRandom, .autoreset = emplace::python::Autoreset::kSameStep});
}

bool Restores(VectorEnv* env, const std::string& snapshot) {
  try {
    env->Restore(0, snapshot);
    return true;
  } catch (const emplace::InputError& error) {
    emplace::fuzz::CheckMessage(error, "snapshot");
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<VectorEnv> env = MakeEnv();
  env->Reset(std::vector<std::int64_t>{1}, {});
  const std::string text = emplace::fuzz::Text(data, size);
  for (const std::string& snapshot : {text, text + emplace::FingerprintText(text)}) {
    if (!Restores(env.get(), snapshot)) continue;
    emplace::fuzz::Expect(env->Snapshot(0) == snapshot, "the snapshot of what was restored is another", snapshot);
    try {
      for (int step = 0; step < 4; ++step) env->Step(std::vector<std::int64_t>{step % 2});
    } catch (const emplace::InputError& error) {
      emplace::fuzz::CheckMessage(error, "actions[0]");
    }
  }
  return 0;
}
