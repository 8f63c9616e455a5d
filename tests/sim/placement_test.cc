#include "sim/placement.h"

#include <gmock/gmock.h>

#include <sstream>

#include "sim/cost_model.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace placement_test {

using ::emplace::testing::ErrorOf;
using ::emplace::testing::Replaced;
using ::testing::HasSubstr;

const DeviceId kFirst{0};
const DeviceId kSecond{1};

// Ops a, b, c, d; devices gpu:0, gpu:1; cluster "test".
Graph Diamond() { return testing::MakeDiamond(1, 8); }

Placement Read(const std::string& text) {
  std::istringstream in(text);
  return ReadPlacement(in, "p.json", Diamond(), testing::TwoDevices());
}

constexpr const char* kGood = R"({"schema": "emplace.placement", "version": 1, "graph": "diamond", "cluster": "test",
 "devices": {
  "a": "gpu:0",
  "b": "gpu:1",
  "c": "gpu:0",
  "d": "gpu:1"}}
)";

TEST(PlacementTest, ReadsAndWritesTheSameBytes) {
  const Placement placement = Read(kGood);
  const Graph graph = Diamond();
  EXPECT_EQ(placement[*graph.FindOp("a")], kFirst);
  EXPECT_EQ(placement[*graph.FindOp("b")], kSecond);
  EXPECT_EQ(placement[*graph.FindOp("c")], kFirst);
  EXPECT_EQ(placement[*graph.FindOp("d")], kSecond);
  std::ostringstream out;
  WritePlacement(out, placement, graph, testing::TwoDevices());
  EXPECT_EQ(out.str(), kGood);
}

TEST(PlacementTest, TheOrderOfTheOpsAndWhomItWasMadeForDoNotMatter) {
  EXPECT_EQ(Read(R"({"devices": {"d": "gpu:1", "c": "gpu:0", "b": "gpu:1", "a": "gpu:0"}, "graph": "another",
                     "cluster": "elsewhere", "version": 1, "schema": "emplace.placement"})"),
            Read(kGood));
  EXPECT_EQ(Read(Replaced(Replaced(kGood, R"("graph": "diamond", )", ""), R"("cluster": "test",)", "")), Read(kGood));
}

TEST(PlacementTest, PackedOpsAreInTheOrderOfTheGraph) {
  const auto packed = [](const std::string& ops) {
    return R"({"schema": "emplace.placement", "version": 1, "packed": {"devices": ["gpu:1", "gpu:0"], "ops": ")" + ops +
           "\"}}";
  };
  EXPECT_EQ(Read(packed("1 0 1 0")), Read(kGood));
  const Placement runs = Read(packed("1*3 0"));
  EXPECT_EQ(runs[*Diamond().FindOp("c")], kFirst);
  EXPECT_EQ(runs[*Diamond().FindOp("d")], kSecond);
  const auto error = [&](const std::string& ops) { return ErrorOf([&] { Read(packed(ops)); }); };
  EXPECT_EQ(error("1*3"), "p.json: packed.ops: has devices for 3 ops (graph \"diamond\" has 4)");
  EXPECT_EQ(error("1*3 2"),
            "p.json: packed.ops: \"2\" is no number of a device, with the length of its run behind a *, of 1 ops that "
            "are left");
  EXPECT_THAT(error("1*5"), HasSubstr("\"1*5\" is no number of a device"));
  EXPECT_THAT(error("x"), HasSubstr("\"x\" is no number of a device"));
  EXPECT_THAT(ErrorOf([&] { Read(Replaced(packed("1*4"), "gpu:0", "gpu:7")); }),
              HasSubstr("packed.devices[1]: is the text \"gpu:7\" (a device of test)"));
}

TEST(PlacementTest, AnOrderIsReadWrittenAndMadeOfControlEdges) {
  const Graph graph = Diamond();
  const Cluster cluster = testing::TwoDevices();
  const std::string ordered = Replaced(kGood, "}}", R"(},
 "order": {
  "gpu:0": ["a", "c"],
  "gpu:1": ["b", "d"]}})");
  PlacementOrder order;
  std::istringstream in(ordered);
  const Placement placement = ReadPlacement(in, "p.json", graph, cluster, &order);
  ASSERT_EQ(order.ops.size(), 2U);
  EXPECT_EQ(order.ops[1], (std::vector<OpId>{*graph.FindOp("b"), *graph.FindOp("d")}));
  std::ostringstream out;
  WritePlacement(out, placement, graph, cluster, order);
  EXPECT_EQ(out.str(), ordered);
  const Graph with = WithOrder(graph, order);
  ASSERT_EQ(with.control_inputs(*with.FindOp("d")).size(), 1U);
  EXPECT_EQ(with.op(with.control_inputs(*with.FindOp("d"))[0]).name, "b");
  EXPECT_EQ(with.num_tensors(), graph.num_tensors());
  order.ops[0] = {*graph.FindOp("c"), *graph.FindOp("a")};
  EXPECT_THAT(ErrorOf([&] { WithOrder(graph, order); }), HasSubstr("order: "));
  EXPECT_EQ(ErrorOf([&] { Read(ordered); }),
            "p.json: order: the ops have an order, which is not taken here (simulate takes it)");
  const auto error = [&](const std::string& from, const std::string& to) {
    return ErrorOf([&] {
      std::istringstream broken(Replaced(ordered, from, to));
      PlacementOrder read;
      ReadPlacement(broken, "p.json", graph, cluster, &read);
    });
  };
  EXPECT_EQ(error(R"(["a", "c"])", R"(["a", "d"])"), "p.json: order[\"gpu:0\"][1]: \"d\" is placed on gpu:1");
  EXPECT_EQ(error(R"(["a", "c"])", R"(["a", "a"])"), "p.json: order[\"gpu:0\"][1]: \"a\" is there twice");
  EXPECT_EQ(error(R"(["a", "c"])", R"(["a", "x"])"),
            "p.json: order[\"gpu:0\"][1]: \"x\" is not an op of graph \"diamond\"");
  EXPECT_EQ(error(R"("gpu:0": [)", R"("gpu:9": [)"), "p.json: order[\"gpu:9\"]: is no device of cluster \"test\"");
}

TEST(PlacementTest, NamesThePlaceOfEveryFault) {
  const auto error_with = [](const std::string& from, const std::string& to) {
    return ErrorOf([&] { Read(Replaced(kGood, from, to)); });
  };
  EXPECT_EQ(error_with("emplace.placement", "emplace.graph"),
            "p.json: schema: is the text \"emplace.graph\" (\"emplace.placement\")");
  EXPECT_EQ(error_with(R"("version": 1, )", ""), "p.json: version: is missing (1)");
  EXPECT_EQ(error_with(R"("diamond")", "1"), "p.json: graph: is the number 1 (a string)");
  EXPECT_EQ(error_with(R"("test")", "[]"), "p.json: cluster: is a list of 0 elements (a string)");
  EXPECT_EQ(
      error_with(R"("cluster")", R"("clusters")"),
      "p.json: clusters: unknown key (schema, version, graph, cluster, devices, packed, order); did you mean cluster?");
  EXPECT_EQ(ErrorOf([] { Read(R"({"schema": "emplace.placement", "version": 1})"); }),
            "p.json: devices: is missing (an object: the device of each op, by name)");
  EXPECT_EQ(ErrorOf([] { Read(R"({"schema": "emplace.placement", "version": 1, "devices": ["gpu:0"]})"); }),
            "p.json: devices: is a list of 1 element (an object: the device of each op, by name)");
  EXPECT_EQ(error_with(R"("a": "gpu:0")", R"("a": 0)"), "p.json: devices.a: is the number 0 (the name of a device)");
  EXPECT_EQ(error_with(R"("a": "gpu:0")", R"("a": "gpu:2")"),
            "p.json: devices[\"a\"]: unknown device \"gpu:2\" (cluster \"test\" has gpu:0, gpu:1)");
  EXPECT_EQ(error_with(R"("c": "gpu:0")", R"("a": "gpu:0")"), "p.json: devices.a: duplicate key (each key once)");
  EXPECT_EQ(error_with(R"("a": "gpu:0")", R"("z": "gpu:0")"),
            "p.json: devices[\"z\"]: is not an op of graph \"diamond\" (which has 4 ops)");
  EXPECT_EQ(error_with("\n  \"b\": \"gpu:1\",\n  \"c\": \"gpu:0\",", ""),
            "p.json: devices[\"b\"]: is missing (every op of graph \"diamond\" once; 2 of 4 have no device)");
}

TEST(PlacementTest, EveryTruncationIsRefused) {
  const std::string text = kGood;
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_THAT(ErrorOf([&] { Read(text.substr(0, length)); }), HasSubstr("not valid JSON")) << length;
  }
}

TEST(PlacementTest, APlacementOfManyOpsIsReadInTimeNearLinearLengthy) {
  // 100,000 keys: a quadratic search for duplicates would take minutes.
  const Graph graph = testing::MakeChain(100'000, 1, 1);
  const Cluster cluster = testing::TwoDevices();
  std::stringstream file;
  WritePlacement(file, Placement(graph.num_ops(), kSecond), graph, cluster);
  EXPECT_EQ(ReadPlacement(file, "p.json", graph, cluster), Placement(graph.num_ops(), kSecond));
}

TEST(CheckPlacementTest, TakesWhatCanRun) {
  const Graph graph = Diamond();
  const Cluster cluster = testing::TwoDevices();
  EXPECT_EQ(ErrorOf([&] { CheckPlacement(Read(kGood), graph, cluster, testing::MeasuredCosts(graph, cluster)); }),
            "(no error)");
}

TEST(CheckPlacementTest, RefusesAnOpWhereItHasNoTime) {
  GraphBuilder builder("g");
  OpSpec spec = testing::MakeOp("a", 0);
  spec.time_micros.reset();
  spec.kind_times = {{"test-gpu", 3.0}};
  builder.Add(spec);
  const Graph graph = builder.Build();
  const Cluster cluster = testing::MakeMixedCluster(2);  // cpu:0, gpu:0, gpu:1
  EXPECT_EQ(
      ErrorOf([&] { CheckPlacement(Placement(1, kFirst), graph, cluster, testing::MeasuredCosts(graph, cluster)); }),
      "devices[\"a\"]: the op has no time on device \"cpu:0\" of kind \"test-cpu\" (it may go on gpu:0, gpu:1)");
}

TEST(CheckPlacementTest, RefusesASplitColocationClass) {
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 1));
  OpSpec spec = testing::MakeOp("b", 1);
  spec.colocate_with = "a";
  builder.Add(spec);
  const Graph graph = builder.Build();
  const Cluster cluster = testing::TwoDevices();
  EXPECT_EQ(ErrorOf([&] {
              CheckPlacement(Placement({kFirst, kSecond}), graph, cluster, testing::MeasuredCosts(graph, cluster));
            }),
            "devices[\"b\"]: the op is on \"gpu:1\", but \"a\", which colocate_with ties it to, on \"gpu:0\" (both on "
            "one device)");
}

TEST(CheckPlacementTest, RefusesATensorOrAControlEdgeWithoutALink) {
  std::vector<Device> devices = testing::TwoDevices().devices();
  std::vector<Link> links(4);
  links[1].bandwidth_gb_per_s = 1;  // gpu:0 -> gpu:1 only
  const Cluster cluster("one-way", "", devices, links, Channels::kPerDevice);

  const Graph chain = testing::MakeChain(2, 1, 1);
  const CostTable costs = testing::MeasuredCosts(chain, cluster);
  EXPECT_EQ(ErrorOf([&] { CheckPlacement(Placement({kFirst, kSecond}), chain, cluster, costs); }), "(no error)");
  EXPECT_EQ(ErrorOf([&] {
              CheckPlacement(Placement({kSecond, kFirst}), chain, cluster, costs);
            }),
            "devices[\"op1\"]: the op is on \"gpu:0\" and reads output 0 of \"op0\" on \"gpu:1\", but cluster "
            "\"one-way\" has no link from \"gpu:1\" to \"gpu:0\" (a link with a bandwidth)");

  GraphBuilder builder("control");
  builder.Add(testing::MakeOp("a", 1));
  OpSpec spec = testing::MakeOp("b", 1);
  spec.control_inputs = {"a"};
  builder.Add(spec);
  const Graph control = builder.Build();
  EXPECT_EQ(ErrorOf([&] {
              CheckPlacement(Placement({kSecond, kFirst}), control, cluster, testing::MeasuredCosts(control, cluster));
            }),
            "devices[\"b\"]: the op is on \"gpu:0\" and waits for \"a\" on \"gpu:1\", but cluster \"one-way\" has no "
            "link from \"gpu:1\" to \"gpu:0\" (a link with a bandwidth)");
}

}  // namespace placement_test
}  // namespace emplace
