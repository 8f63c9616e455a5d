#include "experiments/validation/network_table.h"

#include <algorithm>
#include <istream>

#include "datasets/models/registry.h"
#include "datasets/training.h"
#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_options.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/ops/op_catalog.h"

namespace emplace::experiments {
namespace {

constexpr double kMostCounted = 1e15;

PublishedNetwork ReadNetwork(const JsonNode& node) {
  const JsonFields fields(node, {"network", "model", "set", "ops", "parameters", "multiply_adds", "source"});
  PublishedNetwork network;
  network.network = fields.Get("network", "a string").NonEmptyText();
  network.model = fields.Get("model", "a model").NonEmptyText();
  if (const auto field = fields.Find("set")) network.set = OptionsFromFields(field->value(), field->Place());
  if (const auto field = fields.Find("ops")) network.published.ops = field->Number(1, kMostCounted);
  if (const auto field = fields.Find("parameters")) network.published.parameters = field->Number(1, kMostCounted);
  if (const auto field = fields.Find("multiply_adds")) network.published.multiply_adds = field->Number(1, kMostCounted);
  network.source = fields.Get("source", "a string").NonEmptyText();
  return network;
}

bool IsOptimizer(std::string_view kind) {
  constexpr std::string_view kSparse = "sparse_";
  if (kind.starts_with(kSparse)) kind.remove_prefix(kSparse.size());
  const auto& names = datasets::OptimizerNames();
  return std::find(names.begin(), names.end(), kind) != names.end();
}

}  // namespace

double TrainedParameters(const Graph& graph) {
  double parameters = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    if (graph.op(id).pass != Pass::kUpdate || !IsOptimizer(graph.op(id).kind)) continue;
    double elements = 1;
    for (const std::int64_t size : graph.tensor(graph.inputs(id)[0]).shape) elements *= static_cast<double>(size);
    parameters += elements;
  }
  return parameters;
}

double ForwardProductFlop(const Graph& graph) {
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    const OpKind* kind = FindOpKind(op.kind);
    if (op.pass != Pass::kForward || kind == nullptr) continue;
    if (kind->op_class == OpClass::kConvolution || kind->op_class == OpClass::kMatrixProduct) flop += op.flop;
  }
  return flop;
}

std::vector<PublishedNetwork> ReadPublishedNetworks(std::istream& in, const std::string& file) {
  try {
    const JsonValue root = ParseYaml(in, InputKind::kPublished);
    const JsonNode node(root);
    CheckSchema(node, "emplace.networks");
    const JsonFields fields(node, {"schema", "version", "networks"});
    const JsonNode networks = fields.Get("networks", "a list of networks");
    const JsonList& list = networks.List("a list of networks");
    std::vector<PublishedNetwork> result;
    for (std::size_t i = 0; i < list.size(); ++i) result.push_back(ReadNetwork(JsonNode(networks, i, list[i])));
    return result;
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

NetworkRow MakeNetworkRow(const PublishedNetwork& network) {
  try {
    const Graph graph = datasets::MakeModel(network.model, network.set);
    NetworkRow row;
    row.network = &network;
    row.ours = {.ops = static_cast<double>(graph.num_ops()),
                .parameters = TrainedParameters(graph),
                .multiply_adds = ForwardProductFlop(graph) / 2};
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      row.step_flop += graph.op(MakeId<OpId>(i)).flop;
      row.persistent_bytes += static_cast<double>(graph.op(MakeId<OpId>(i)).persistent.count);
    }
    return row;
  } catch (const InputError& error) {
    throw error.In(network.network);
  }
}

}  // namespace emplace::experiments
