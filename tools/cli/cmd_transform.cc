// emplace transform: a training step on several ranks, or with activations that are computed again.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "datasets/transform/transform.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/formats/graph_json.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

struct TransformCommand {
  std::string graph;
  datasets::TransformOptions transform;
  std::string output;
};

// Totals over all ranks for the collectives of one kind.
struct CollectiveCounts {
  std::set<std::string, std::less<>> groups;
  std::size_t ops = 0;
  double bytes = 0;  // bytes of the larger side of each op
};

double OpBytes(const Graph& graph, OpId id) {
  double in = 0;
  double out = 0;
  for (const TensorId input : graph.inputs(id)) in += static_cast<double>(graph.tensor(input).size.count);
  for (std::size_t i = 0; i < graph.num_outputs(id); ++i) {
    out += static_cast<double>(graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + i)).size.count);
  }
  return std::max(in, out);
}

void PrintSummary(const Graph& graph, const datasets::TransformOptions& transform) {
  const auto ranks =
      static_cast<double>(transform.data_parallel * transform.tensor_parallel * transform.expert_parallel);
  double flop = 0;
  double persistent = 0;
  std::map<std::string_view, CollectiveCounts> collectives;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    flop += op.flop;
    persistent += static_cast<double>(op.persistent.count);
    if (op.attrs.empty()) continue;
    const JsonValue attrs = ParseJson(op.attrs);
    const JsonValue* const group = FindMember(attrs, "group");
    if (group == nullptr || group->As<std::string>() == nullptr) continue;
    CollectiveCounts& counts = collectives[op.kind];
    counts.groups.insert(*group->As<std::string>());
    ++counts.ops;
    counts.bytes += OpBytes(graph, id);
  }
  const auto bytes = [](double count) { return HumanReadable(Bytes{static_cast<std::int64_t>(count)}); };
  std::cout << fmt::format("{}: {} ops on {} ranks\neach rank  {:.4g} GFLOP, {} of weights and optimiser state\n",
                           Printable(graph.name()), graph.num_ops(), ranks, flop / ranks / 1e9,
                           bytes(persistent / ranks));
  if (collectives.empty()) return;
  std::cout << '\n';
  Table table({"collective", "groups", "of each rank", "bytes of each rank"});
  for (const auto& [kind, counts] : collectives) {
    table.Add({std::string(kind), std::to_string(counts.groups.size()),
               fmt::format("{:.6g}", static_cast<double>(counts.ops) / ranks), bytes(counts.bytes / ranks)});
  }
  table.PrintText(std::cout);
}

// "data_parallel: ..." is "--data-parallel: ..." here.
std::string FlagOf(const std::string& message) {
  const std::size_t end = message.find(':');
  for (const std::string_view option :
       {"recompute", "tensor_parallel", "expert_parallel", "data_parallel", "shard_optimizer"}) {
    if (message.substr(0, end) != option) continue;
    std::string flag = "--" + message;
    std::replace(flag.begin(), flag.begin() + static_cast<std::ptrdiff_t>(end + 2), '_', '-');
    return flag;
  }
  return message;
}

int Run(const TransformCommand& command) {
  const BusyLine busy("transform");
  CheckFiles({command.graph}, {command.output});
  if (!command.transform.ChangesSomething()) {
    throw InputError("", "nothing to do (--tensor-parallel, --data-parallel, --expert-parallel or --recompute)");
  }
  const Graph graph = ReadGraph(*OpenForReading(command.graph, InputKind::kGraph), command.graph);
  Graph transformed;
  try {
    transformed = datasets::Transform(graph, command.transform);
  } catch (const InputError& error) {
    throw InputError(command.graph, FlagOf(error.what()));
  }
  WriteFile(command.output, [&](std::ostream& out) { WriteGraph(out, transformed); });
  if (command.output != "-") PrintSummary(transformed, command.transform);
  return kSuccess;
}

}  // namespace

Command AddTransform(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("transform", "Parallelise a training step over ranks, or recompute activations");
  auto options = std::make_shared<TransformCommand>();
  datasets::TransformOptions& transform = options->transform;
  constexpr std::uint64_t kMost = 65536;
  const auto add_ranks = [&](const char* name, std::int64_t* count, const char* help) {
    command->add_option(name, *count, help)->type_name("N")->transform(IntegerFrom(1, kMost));
  };
  command->add_option("graph,--graph", options->graph, "graph.json of one rank")->required()->type_name("FILE");
  command->add_option("-o,--output", options->output, "graph.json to write")->required()->type_name("FILE");
  command
      ->add_option("--recompute", transform.recompute,
                   "Forward ops to run again before their gradients instead of keeping their results: full (each block "
                   "from its input), selective (scores, softmax, dropout and context of each attention), or a "
                   "comma-separated list of layers")
      ->type_name("WHICH");
  add_ranks("--tensor-parallel", &transform.tensor_parallel,
            "Ranks between which attention, MLP, embeddings and logits of gpt and bert are split");
  add_ranks("--expert-parallel", &transform.expert_parallel,
            "Ranks between which the experts of gpt are divided, each with its own batch");
  add_ranks("--data-parallel", &transform.data_parallel,
            "Replicas of all of the above, each with its own batch; gradients are summed");
  command
      ->add_option("--bucket-mib", transform.bucket_mib,
                   "Size of a bucket of gradients, which are summed together (default: 25)")
      ->type_name("MIB")
      ->transform(NumberFrom(0, 1e6));
  command->add_flag("--shard-optimizer", transform.shard_optimizer,
                    "Each replica keeps and updates a share of the optimiser's state (ZeRO, stage 1)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
