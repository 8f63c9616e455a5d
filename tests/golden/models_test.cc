// The properties of every network and every family at its default size are in models.csv, so every change shows as a
// difference there. tools/update_goldens regenerates the file.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "datasets/families/families.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "experiments/validation/network_table.h"
#include "sim/cost_model.h"
#include "sim/simulator.h"
#include "tests/golden/golden_file.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace models_test {

constexpr const char* kFile = "models.csv";
constexpr const char* kHeader = "graph,ops,tensors,parameters,persistent_bytes,flop,step_ns,peak_bytes";

// On one K80 of p2.8xlarge: roofline costs, engine fifo.
std::string RowOf(const Graph& graph) {
  const Cluster cluster = datasets::LoadCluster("p2.8xlarge").Keep({"gpu:0"});
  const CostTable costs(graph, cluster, *MakeCostModel("roofline"));
  const StepResult result = Simulator(graph, cluster, costs).Run(Placement(graph.num_ops(), MakeId<DeviceId>(0)));
  Bytes persistent;
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    persistent += graph.op(MakeId<OpId>(i)).persistent;
    flop += graph.op(MakeId<OpId>(i)).flop;
  }
  return fmt::format("{},{},{},{:.0f},{},{:.0f},{:.0f},{}", graph.name(), graph.num_ops(), graph.num_tensors(),
                     experiments::TrainedParameters(graph), persistent.count, flop, result.step_time_micros * 1000,
                     result.peak_memory[0].count);
}

std::map<std::string, std::string> Goldens() {
  std::map<std::string, std::string> goldens;
  for (const std::string& line : ReadGoldens(kFile)) goldens[line.substr(0, line.find(','))] = line;
  return goldens;
}

std::vector<std::string> Rows() {
  std::vector<std::string> rows;
  for (const datasets::ModelEntry& model : datasets::AllModels())
    rows.push_back(RowOf(datasets::MakeModel(model.name)));
  for (const datasets::FamilyEntry& family : datasets::AllFamilies()) {
    for (const datasets::FamilyMember& member : datasets::MakeFamily(family, 1)) rows.push_back(RowOf(member.graph));
  }
  return rows;
}

TEST(ModelGoldenTest, NetworksAndFamiliesAreWhatTheyWereSlow) {
  const std::vector<std::string> rows = Rows();
  if (UpdatesGoldens(kFile, kHeader, rows)) GTEST_SKIP() << "wrote " << kFile;
  const auto goldens = Goldens();
  EXPECT_EQ(goldens.size(), rows.size()) << "run tools/update_goldens";
  for (const std::string& row : rows) {
    const auto golden = goldens.find(row.substr(0, row.find(',')));
    ASSERT_NE(golden, goldens.end()) << "no golden for " << row << ": run tools/update_goldens";
    EXPECT_EQ(row, golden->second);
  }
}

}  // namespace models_test
}  // namespace emplace::testing
