// Every placement of the library is simulated again, and every instance is what it was when it was frozen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/library/instances.h"
#include "experiments/library/known_results.h"
#include "experiments/library/library_files.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/units.h"
#include "sim/bounds.h"
#include "sim/placement.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<const LibraryInstance*> OfTiers(Tier first, Tier last) {
  std::vector<const LibraryInstance*> chosen;
  for (const LibraryInstance& instance : LibraryInstances()) {
    if (first <= instance.tier && instance.tier <= last) chosen.push_back(&instance);
  }
  return chosen;
}

const fs::path& PlacementFolder() {
  static const fs::path folder = fs::path(EMPLACE_TEST_SOURCE_DIR).parent_path() / "datasets/library/placements";
  return folder;
}

std::string PlacementFile(const std::string& instance) {
  const std::string plain = (PlacementFolder() / (instance + ".json")).string();
  return fs::exists(plain) ? plain : plain + ".gz";
}

std::string MessageOf(const auto& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// A placement that the instance was built around has no file.
Placement BestKnownPlacement(const LibraryInstance& instance, const LibraryProblem& problem, const KnownResult& known) {
  if (known.method == "construction") return problem.planted.value();
  const std::string file = PlacementFile(instance.name);
  EXPECT_EQ(InstanceOfPlacement(*OpenForReading(file), file).name, instance.name);
  return ReadPlacement(*OpenForReading(file), file, problem.graph, problem.cluster);
}

// The instance has its hash and its number of ops, and its best known placement has its step time to the nanosecond.
void CheckInstances(const std::vector<const LibraryInstance*>& instances) {
  for (const LibraryInstance* instance : instances) {
    SCOPED_TRACE(instance->name);
    const LibraryProblem problem = LoadInstance(*instance);
    EXPECT_EQ(InstanceHash(problem), instance->hash);
    EXPECT_EQ(problem.graph.num_ops(), instance->ops);
    EXPECT_EQ(problem.cluster.name(), instance->name);
    const KnownResult* known = FindKnownResult(instance->name);
    if (known == nullptr) continue;
    const PlacementVerdict verdict = Judge(problem, BestKnownPlacement(*instance, problem, *known));
    EXPECT_EQ(verdict.step_time_ns, known->step_time_ns);
    EXPECT_TRUE(verdict.fits_memory);
    const Bounds bounds = ComputeBounds(problem.graph, problem.cluster, problem.costs);
    EXPECT_GE(known->lower_bound_ns, DurationFromMicros(bounds.lower_bound_micros).count());
  }
}

TEST(LibraryTest, HasTwoHundredInstancesInFiveTiers) {
  std::set<std::string> names;
  std::set<std::string> hashes;
  std::vector<std::size_t> tiers(5);
  for (const LibraryInstance& instance : LibraryInstances()) {
    EXPECT_TRUE(names.insert(instance.name).second) << instance.name;
    EXPECT_TRUE(hashes.insert(instance.hash).second) << instance.name;
    EXPECT_EQ(instance.hash.size(), 16U) << instance.name << ": tools/update_library --freeze";
    EXPECT_EQ(instance.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
    EXPECT_LE(instance.ops, MostOps(instance.tier)) << instance.name;
    if (instance.tier != Tier::kTiny) {
      EXPECT_GT(instance.ops, MostOps(static_cast<Tier>(static_cast<int>(instance.tier) - 1))) << instance.name;
    }
    ++tiers[static_cast<std::size_t>(instance.tier)];
  }
  EXPECT_GE(names.size(), 200U);
  EXPECT_GE(tiers[0], 80U);
  EXPECT_GE(tiers[4], 3U);
  EXPECT_EQ(FindTier("huge"), Tier::kHuge);
  EXPECT_THAT(MessageOf([] { FindTier("big"); }),
              HasSubstr("unknown tier \"big\" (tiny, small, medium, large, huge, plans)"));
  EXPECT_THAT(MessageOf([] { FindTier("plan"); }), HasSubstr("did you mean plans?"));
}

TEST(LibraryTest, TinyAndSmallInstancesAndPlacementsAreUnchanged) {
  CheckInstances(OfTiers(Tier::kTiny, Tier::kSmall));
}
TEST(LibraryTest, MediumInstancesAndPlacementsAreUnchangedLengthy) {
  CheckInstances(OfTiers(Tier::kMedium, Tier::kMedium));
}
TEST(LibraryTest, LargeInstancesAndPlacementsAreUnchangedSlow) { CheckInstances(OfTiers(Tier::kLarge, Tier::kHuge)); }

TEST(LibraryTest, EachPlacementHasARowAndEachRowAPlacement) {
  std::set<std::string> rows;
  for (const auto& [name, known] : KnownResults()) {
    if (known.method != "construction") rows.insert(fs::path(PlacementFile(name)).filename());
  }
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(PlacementFolder())) files.insert(entry.path().filename());
  EXPECT_EQ(files, rows);
}

TEST(LibraryTest, APlantedPlacementIsOptimal) {
  for (const LibraryInstance* instance : OfTiers(Tier::kTiny, Tier::kMedium)) {
    if (instance->graph.synthetic != "planted") continue;
    const LibraryProblem problem = LoadFrozenInstance(*instance);
    ASSERT_TRUE(problem.planted) << instance->name;
    const PlacementVerdict verdict = Judge(problem, *problem.planted);
    EXPECT_TRUE(verdict.fits_memory) << instance->name;
    EXPECT_EQ(verdict.step_time_ns, problem.planted_ns) << instance->name;
    const Bounds bounds = ComputeBounds(problem.graph, problem.cluster, problem.costs);
    EXPECT_EQ(DurationFromMicros(bounds.lower_bound_micros).count(), problem.planted_ns) << instance->name;
  }
}

TEST(LibraryTest, AChangedInstanceIsRefused) {
  LibraryInstance instance = FindInstance("chain-8-equal-2");
  instance.graph.set["seed"] = "1";
  EXPECT_THAT(MessageOf([&] { LoadFrozenInstance(instance); }), HasSubstr("an instance is frozen"));
  instance = FindInstance("chain-8-equal-2");
  instance.cluster.memory_kb = 1000;
  EXPECT_NE(InstanceHash(LoadInstance(instance)), instance.hash);
  EXPECT_EQ(LoadInstanceCluster(instance).name(), "chain-8-equal-2");
  EXPECT_EQ(LoadInstanceCluster(instance).num_devices(), 2U);
  const LibraryInstance& frozen = FindInstance("chain-8-equal-2");
  EXPECT_EQ(&KeptInstance(frozen), &KeptInstance(frozen));
  EXPECT_EQ(InstanceHash(KeptInstance(frozen)), frozen.hash);
  instance.graph.set["oops"] = "1";
  EXPECT_THAT(MessageOf([&] { LoadInstance(instance); }), HasSubstr("instance chain-8-equal-2: "));
}

TEST(LibraryTest, AnUnknownInstanceIsToldTheNearestNames) {
  EXPECT_THAT(MessageOf([] { FindInstance("chain-8-equal-3"); }),
              HasSubstr("unknown instance \"chain-8-equal-3\" (the nearest are chain-8-equal-2, "));
  std::vector<LibraryInstance> instances(4);
  instances[0].name = "abcd";
  instances[1].name = "bcd";
  instances[2].name = "xbcd";
  instances[3].name = "something else";
  EXPECT_THAT(NearestNames("abcd", instances), ElementsAre("abcd", "bcd", "xbcd"));
}

TEST(LibraryTest, WrongTablesAreRefused) {
  const auto instances = [](const std::string& rows) {
    return MessageOf([&] {
      std::istringstream in("schema: emplace.library\nversion: 1\ninstances:\n" + rows);
      ReadLibraryInstances(in, "i.yaml");
    });
  };
  const std::string row = "  - {name: a, tier: tiny, ops: 1, graph: {synthetic: chain}, cluster: {name: equal-8}}\n";
  EXPECT_EQ(instances(row), "nothing was thrown");
  EXPECT_EQ(instances(row + row), "i.yaml: instances[1].name: \"a\" is there already");
  EXPECT_THAT(instances("  - {name: a, tier: vast}\n"), HasSubstr("i.yaml: instances[0]"));
  EXPECT_THAT(instances("  - {name: a, tier: tiny, ops: 1, graph: {}, cluster: {name: equal-8}}\n"),
              HasSubstr("a synthetic graph, a dataset or a model"));

  const auto results = [](const std::string& instance, int step, int bound, const std::string& status) {
    return MessageOf([&] {
      std::istringstream in("schema: emplace.best_known\nversion: 1\nresults:\n  - {instance: " + instance +
                            ", step_time_ns: " + std::to_string(step) + ", lower_bound_ns: " + std::to_string(bound) +
                            ", status: " + status + ", finder: f, method: m, date: d, bound_method: b}\n");
      EXPECT_EQ(ReadKnownResults(in, "b.yaml").size(), 1U);
    });
  };
  EXPECT_EQ(results("chain-8-equal-2", 10, 10, "proved"), "nothing was thrown");
  EXPECT_EQ(results("chain-8-equal-2", 10, 10, "open"), "b.yaml: results[0].status: is open (proved, by the numbers)");
  EXPECT_EQ(results("chain-8-equal-2", 9, 10, "proved"),
            "b.yaml: results[0].step_time_ns: is 9 (at least 10, the lower bound)");
  EXPECT_THAT(results("nobody", 10, 10, "proved"), HasSubstr("b.yaml: results[0].instance: is unknown: \"nobody\""));
}

TEST(LibraryTest, AStatusFollowsFromStepTimeAndBound) {
  EXPECT_EQ(StatusOf(100, 100), ResultStatus::kProved);
  EXPECT_EQ(StatusOf(109, 100), ResultStatus::kBounded);
  EXPECT_EQ(StatusOf(110, 100), ResultStatus::kOpen);
  EXPECT_EQ(StatusOf(1, 0), ResultStatus::kOpen);
  EXPECT_EQ(PercentAbove(150, 100), 50);
  EXPECT_EQ(PercentAbove(0, 0), 0);
  EXPECT_TRUE(std::isinf(PercentAbove(1, 0)));
}

TEST(LibraryTest, AJudgeNamesTheDevicesThatAreOver) {
  const LibraryProblem problem = LoadInstance(FindInstance("layered-12-equal-2-tight"));
  const PlacementVerdict verdict = Judge(problem, Placement(problem.graph.num_ops(), MakeId<DeviceId>(1)));
  EXPECT_FALSE(verdict.fits_memory);
  ASSERT_EQ(verdict.overflows.size(), 1U);
  EXPECT_EQ(verdict.overflows[0].first, "gpu:1");
  EXPECT_GT(verdict.overflows[0].second.count, 0);
}

TEST(LibraryTest, ThePlacementFileSaysItsInstance) {
  const auto instance_of = [](const std::string& graph, const std::string& cluster) {
    std::istringstream in(R"({"schema": "emplace.placement", "version": 1, "graph": ")" + graph + R"(", "cluster": ")" +
                          cluster + R"(", "devices": {}})");
    return InstanceOfPlacement(in, "p.json").name;
  };
  EXPECT_EQ(instance_of("anything", "gpt-small-h100-4"), "gpt-small-h100-4");
  EXPECT_EQ(instance_of("chain-8-equal-2", "equal-8"), "chain-8-equal-2");
  EXPECT_EQ(instance_of("cifar10_20", "p2.8xlarge"), "cifar10-20-p2-4");
  EXPECT_THAT(
      MessageOf([&] { instance_of("inception_v3", "p2.8xlarge"); }),
      HasSubstr("p.json: may belong to several instances: inception-v3-p2-2, inception-v3-p2-4, inception-v3-p2-8"));
  EXPECT_THAT(MessageOf([&] { instance_of("mine", "p2.8xlarge"); }), HasSubstr("those of no instance"));
}

TEST(LibraryTest, ItsFilesAreCompiledIn) {
  EXPECT_TRUE(FindLibraryFile("instances"));
  EXPECT_TRUE(FindLibraryFile("clusters/equal-8"));
  EXPECT_FALSE(FindLibraryFile("clusters/equal-9"));
  EXPECT_FALSE(FindLibraryFile("nothing"));
}

}  // namespace
}  // namespace emplace::experiments
