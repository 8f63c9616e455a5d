#include "agents/rl/placeto/options.h"

#include <fmt/format.h>

#include "agents/rl/read_options.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr std::int64_t kMany = 1'000'000;

std::string_view NameOf(Aggregation aggregation) {
  constexpr std::string_view kNames[] = {"mean", "max", "min", "sum"};
  return kNames[static_cast<std::size_t>(aggregation)];
}

// Appendix A.7 and the authors' code. The entropy weight decreases as in the appendix, which gives no values (the
// code's default is a constant 1).
void SetPlacetoProtocol(PlacetoOptions* options) {
  options->start = StartPlacement::kSingleDevice;
  options->discount = 1;
  options->learning_rate = 1e-3;
  options->final_learning_rate = 1e-4;
  options->entropy_weight = 0.1;
}

// Table 4.2 and section 4.1.3 of the thesis, otherwise the defaults of its code.
void SetThesisProtocol(PlacetoOptions* options) {
  SetPlacetoProtocol(options);
  options->episodes = 20;
  options->start = StartPlacement::kBest;
  options->baseline_episodes = 1000;
  options->final_learning_rate = options->learning_rate;
  options->entropy_weight = options->final_entropy_weight = 1;
  options->evaluate_every = 5;
  options->evaluation_counts = false;
  options->final_evaluation = false;
  options->network.thesis_code = options->network.embedding != Embedding::kPlaceto;
}

void ReadNetwork(OptionReader& reader, NetworkOptions* network) {
  const bool placeto = network->embedding == Embedding::kPlaceto;
  const bool pgnn = network->embedding == Embedding::kPGnn;
  std::string head = "relations";
  if (placeto) {
    std::string geometry = "code";
    reader.Read("geometry", &geometry, {"code", "paper"},
                "widths of the layers: those of Placeto's code or of its appendix");
    network->paper_geometry = geometry == "paper";
    ReadCount(reader, "rounds", &network->rounds, 0, 1000, "rounds of messages; 0: one sweep over the whole graph");
    reader.Read("small", &network->small_classifier, "a classifier with one hidden layer");
  } else {
    const std::string_view other = pgnn ? "pgnn_original" : "thesis_text";
    std::string variant(network->thesis_code ? "thesis_code" : other);
    reader.Read("variant", &variant, {other, "thesis_code"},
                "the algorithm as described in the text or paper, or as computed by the code");
    network->thesis_code = variant == "thesis_code";
    network->sage.both_directions = !network->thesis_code;
    if (network->thesis_code && !pgnn) head = "sum";
    ReadCount(reader, "hops", &network->sage.hops, 1, 6, "levels of neighbours");
    reader.Read("sample_ratio", &network->sage.sample_ratio, 0, 1, "share of its neighbours that a node aggregates");
    reader.Read("dropout", &network->sage.dropout, 0, 0.99, "dropout rate after a level");
    ReadWord<Aggregation>(reader, "aggregation", &network->sage.aggregation,
                          {{"mean", Aggregation::kMean},
                           {"max", Aggregation::kMax},
                           {"min", Aggregation::kMin},
                           {"sum", Aggregation::kSum}},
                          "aggregation over neighbours");
  }
  if (pgnn) {
    reader.Read("copies", &network->p_gnn.copies, 0, 10, "anchor sets per size, relative to the number of sizes");
    ReadCount(reader, "cutoff", &network->p_gnn.cutoff, 1, 200, "distance in edges beyond which an anchor is ignored");
    ReadCount(reader, "anchor_exponent", &network->p_gnn.exponent, 0, 20,
              "thesis_code: the largest anchor set holds n / 2^this nodes");
    std::string anchors = "max";
    reader.Read("anchors", &anchors, {"max", "mean"},
                "thesis_code: relation to the furthest anchor of a set, or the mean over all");
    network->p_gnn.mean_anchors = anchors == "mean";
  }
  reader.Read("head", &head, {"relations", "sum"},
              "groups that are summed: parents, children and parallel groups separately, or all together");
  network->sum_head = head == "sum";
  if (network->thesis_code && !pgnn && !network->sum_head) {
    throw InputError("graphsage",
                     "head cannot be relations with variant thesis_code, whose embeddings have several "
                     "rows (sum)");
  }
  reader.Read("average", &network->average, "means in the head instead of sums");
}

}  // namespace

std::string ShapeText(const PlacetoOptions& options) {
  const NetworkOptions& n = options.network;
  std::string text = fmt::format("head={}{}{},start_feature={},memory_feature={}", n.sum_head ? "sum" : "relations",
                                 n.average ? "/average" : "", n.small_classifier ? "/small" : "",
                                 static_cast<int>(options.features.start), options.features.memory);
  if (n.embedding == Embedding::kPlaceto) {
    return text + fmt::format(",geometry={},rounds={}", n.paper_geometry ? "paper" : "code", n.rounds);
  }
  text += fmt::format(",variant={},hops={},sample_ratio={},dropout={},aggregation={}", n.thesis_code ? "code" : "text",
                      n.sage.hops, n.sage.sample_ratio, n.sage.dropout, NameOf(n.sage.aggregation));
  if (n.embedding == Embedding::kGraphSage) return text;
  return text + fmt::format(",copies={},cutoff={},exponent={},anchors={}", n.p_gnn.copies, n.p_gnn.cutoff,
                            n.p_gnn.exponent, n.p_gnn.mean_anchors ? "mean" : "max");
}

PlacetoOptions ReadPlacetoOptions(OptionReader& reader, Embedding embedding) {
  PlacetoOptions options;
  options.network.embedding = embedding;
  std::string protocol = "default";
  reader.Read("protocol", &protocol, {"default", "placeto", "thesis"},
              "settings to start from; the others change them");
  if (protocol == "placeto") SetPlacetoProtocol(&options);
  if (protocol == "thesis") SetThesisProtocol(&options);
  ReadNetwork(reader, &options.network);
  ReadWord<StartFeature>(reader, "start_feature", &options.features.start,
                         {{"start_time", StartFeature::kStartTime},
                          {"raw_start", StartFeature::kRawStart},
                          {"peak_memory", StartFeature::kPeakMemory},
                          {"none", StartFeature::kNone}},
                         "start time of a group; peak_memory: the feature that the thesis's code uses instead");
  reader.Read("memory_feature", &options.features.memory, "add the memory of a group to its features");
  ReadCount(reader, "episodes", &options.episodes, 0, kMany,
            "rounds of one episode per worker; 0: as many as the budget allows");
  ReadCount(reader, "passes", &options.passes, 1, 100, "number of times that an episode places each group");
  ReadWord<TraversalOrder>(reader, "order", &options.order,
                           {{"topological", TraversalOrder::kTopological}, {"random", TraversalOrder::kRandom}},
                           "order of the groups in an episode; random: one random order for all episodes");
  ReadWord<StartPlacement>(reader, "start", &options.start,
                           {{"single_device", StartPlacement::kSingleDevice},
                            {"random", StartPlacement::kRandom},
                            {"random_each", StartPlacement::kRandomEach},
                            {"best", StartPlacement::kBest}},
                           "placement at the start of an episode; best: the best so far, single_device at first");
  ReadWord<Credit>(
      reader, "credit", &options.credit,
      {{"intermediate", Credit::kIntermediate}, {"terminal", Credit::kTerminal}, {"min_runtime", Credit::kMinRuntime}},
      "reward assigned to a step");
  reader.Read("discount", &options.discount, 0, 1, "gamma");
  reader.Read("thesis_sign", &options.thesis_sign, "reward slower placements, as the thesis's code does");
  ReadCount(reader, "baseline_episodes", &options.baseline_episodes, 1, kMany,
            "episodes in the mean return that is the baseline of a step");
  reader.Read("learning_rate", &options.learning_rate, 0, 10, "learning rate of Adam at the start");
  if (protocol == "thesis") options.final_learning_rate = options.learning_rate;
  reader.Read("final_learning_rate", &options.final_learning_rate, 0, 10,
              "learning rate of Adam at the end; linear in between");
  reader.Read("entropy", &options.entropy_weight, 0, 1000, "weight of the policy's entropy at the start");
  if (protocol == "thesis") options.final_entropy_weight = options.entropy_weight;
  reader.Read("final_entropy", &options.final_entropy_weight, 0, 1000, "weight of the policy's entropy at the end");
  reader.Read("entropy_decay", &options.entropy_decay, 0, 1, "share of the rounds over which the weight changes");
  reader.Read("clip", &options.clip, 1e-9, 1e9, "largest norm of the gradient of an update");
  ReadCount(reader, "workers", &options.workers, 1, 64, "number of parallel episodes, whose gradients are summed");
  ReadCount(reader, "evaluate_every", &options.evaluate_every, 0, kMany,
            "interval in rounds between argmax episodes without learning, from the first round on; 0: none");
  reader.Read("evaluation_counts", &options.evaluation_counts, "placements of argmax episodes count as results");
  reader.Read("final_evaluation", &options.final_evaluation,
              "the last round is an argmax episode from the initial start");
  reader.Read("output_scale", &options.output_scale, 0, 1000, "factor on the initial weights of the last layer");
  reader.Read("train", &options.train, "false: the weights stay as initialised");
  reader.Read("use_cpus", &options.use_cpus, "also use CPUs");
  reader.Read("fine_tune", &options.fine_tune, "continue to train a loaded policy");
  reader.Read("autograd", &options.autograd, "compute gradients with LibTorch instead of the built-in kernels");
  reader.Finish();
  if (options.network.paper_geometry && options.network.small_classifier) {
    throw InputError("placeto", "geometry=paper has a classifier of its own (small=false)");
  }
  if (options.credit == Credit::kTerminal && options.start == StartPlacement::kBest) {
    throw InputError("credit", "terminal needs episodes with the same start (start=single_device or random)");
  }
  return options;
}

}  // namespace emplace::agents
