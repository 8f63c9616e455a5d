#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "datasets/importers/importers.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace task_graphs_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph Stg(const std::string& text) { return datasets::ImportStg(text, "g.stg").graph; }

TEST(StgTest, TasksHaveTimesAndPredecessors) {
  EXPECT_TRUE(datasets::LooksLikeStg(kStgSample));
  EXPECT_FALSE(datasets::LooksLikeStg("3\n1 2 3\n"));
  const Graph graph = Stg(kStgSample);
  ASSERT_EQ(graph.num_ops(), 5U);
  EXPECT_EQ(FindOp(graph, "task0").time_micros, 0);
  EXPECT_EQ(FindOp(graph, "task2").time_micros, 10);
  EXPECT_THAT(Inputs(graph, "task3"), ElementsAre("task1:0=0", "task2:0=0"));
  EXPECT_EQ(graph.num_outputs(*graph.FindOp("task4")), 0U);
}

TEST(StgTest, FaultsHaveTheirLine) {
  const auto refused = [](std::string_view from, std::string_view to) {
    return Refusal([&] { Stg(Edited(kStgSample, from, to)); });
  };
  EXPECT_EQ(refused("2 10 1 0", "2 x 1 0"),
            "g.stg: line 4: \"x\": expected a processing time, an integer from 0 to 1099511627776");
  EXPECT_EQ(refused("3 9 2 1 2", "3 9 2 1 3"),
            "g.stg: line 5: \"3\": expected a predecessor with a smaller number, an integer from 0 to 2");
  EXPECT_EQ(refused("3 9 2 1 2", "3 9 2 1 1"), "g.stg: line 5: predecessor 1 twice");
  EXPECT_THAT(refused(" 4 0 1 3\n", ""), HasSubstr("the file ends where a task's number was expected"));
  EXPECT_THAT(refused(" 4 0 1 3\n", " 4 0 1 3\n 5 0 0\n"), HasSubstr("there is more behind 3 tasks and 2 dummies"));
}

TEST(WfCommonsTest, FilesAreTensorsBetweenTasks) {
  EXPECT_TRUE(datasets::LooksLikeWfCommons(kWfCommonsSample));
  const datasets::Imported imported = datasets::ImportWfCommons(kWfCommonsSample, "w.json");
  const Graph& graph = imported.graph;
  EXPECT_EQ(graph.name(), "fork");
  EXPECT_EQ(FindOp(graph, "split_1").time_micros, 1.5e6);
  EXPECT_THAT(Inputs(graph, "a"), ElementsAre("split_1:0=100"));
  EXPECT_THAT(Inputs(graph, "b"), ElementsAre("split_1:1=200"));
  EXPECT_THAT(Inputs(graph, "end"), ElementsAre("a:0=3"));
  EXPECT_EQ(graph.control_inputs(*graph.FindOp("end")).size(), 1U);  // b hands on no file
  EXPECT_THAT(imported.notes, ElementsAre("1 inputs come from outside: they are there at the start",
                                          "1 tasks without a runtime take no time"));
}

TEST(WfCommonsTest, FaultsHaveTheirPlace) {
  const auto refused = [](std::string_view from, std::string_view to) {
    return Refusal([&] { datasets::ImportWfCommons(Edited(kWfCommonsSample, from, to), "w.json"); });
  };
  EXPECT_EQ(refused("\"parents\": [\"a\", \"b\"]", "\"parents\": [\"c\"]"),
            "w.json: workflow.specification.tasks[3].parents: \"c\" is no task");
  EXPECT_EQ(refused("\"id\": \"b\", \"parents\"", "\"id\": \"a\", \"parents\""),
            "w.json: workflow.specification.tasks[2].id: \"a\" is there twice");
  EXPECT_EQ(refused("\"specification\"", "\"specifications\""),
            "w.json: workflow.specification: is missing (schema 1.5 of WfCommons)");
  EXPECT_THAT(refused("\"sizeInBytes\": 100", "\"sizeInBytes\": -1"),
              HasSubstr("workflow.specification.files[1].sizeInBytes"));
}

}  // namespace task_graphs_test
}  // namespace emplace::testing
