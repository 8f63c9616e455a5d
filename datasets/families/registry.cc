#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "datasets/families/families.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr FamilyEntry kFamilies[] = {
    {"cifar10", "32 convolutional networks for small images, from ENAS's macro search space",
     "Addanki et al. 2019 (Placeto), A.3; Pham et al. 2018 (ENAS), 2.3", 301, 12, MakeCifar10Member},
    {"ptb", "32 recurrent language models, from ENAS's search space of cells",
     "Addanki et al. 2019 (Placeto), A.3; Pham et al. 2018 (ENAS), 2.1", 500, 47, MakePtbMember},
    {"nmt", "32 translation models with 2 layers and various lengths and batch sizes",
     "Addanki et al. 2019 (Placeto), A.3", 188, 31, MakeNmtMember},
};

// The quantile of the standard normal distribution at `probability`, by bisection: exact up to the last digits on any
// machine whose erf differs by only a few units in the last place.
double NormalQuantile(double probability) {
  double low = -8;
  double high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

// The random choices of a seed, before any graph is built.
struct Draws {
  explicit Draws(std::uint64_t seed) {
    Rng rng(seed);
    std::vector<char> shuffled(kFamilySize);  // not bool: Shuffle swaps elements
    std::fill_n(shuffled.begin(), kFamilySize / 2, 1);
    rng.Shuffle(shuffled);
    for (std::size_t i = 0; i < kFamilySize; ++i) {
      training[i] = shuffled[i] != 0;
      seeds[i] = rng.Next();
    }
  }
  std::array<bool, kFamilySize> training{};
  // Each member draws from a stream of its own: none depends on how much another one drew.
  std::array<std::uint64_t, kFamilySize> seeds{};
};

}  // namespace

std::span<const FamilyEntry> AllFamilies() { return kFamilies; }

const FamilyEntry& FindFamily(std::string_view name) { return FindByName(kFamilies, name, "dataset"); }

std::array<std::size_t, kFamilySize> GroupNumbers(double mean, double sd) {
  std::array<double, kFamilySize> quantiles{};
  double squares = 0;
  for (std::size_t i = 0; i < kFamilySize; ++i) {
    quantiles[i] = NormalQuantile((static_cast<double>(i) + 0.5) / kFamilySize);
    squares += quantiles[i] * quantiles[i];
  }
  // Strata have less spread than the whole: brought back.
  const double scale = sd / std::sqrt(squares / (kFamilySize - 1));
  std::array<std::size_t, kFamilySize> numbers{};
  for (std::size_t i = 0; i < kFamilySize; ++i) {
    numbers[i] = static_cast<std::size_t>(std::llround(mean + scale * quantiles[i]));
  }
  return numbers;
}

std::vector<FamilyMember> MakeFamily(const FamilyEntry& family, std::uint64_t seed) {
  std::vector<FamilyMember> members;
  for (std::size_t i = 0; i < kFamilySize; ++i) members.push_back(MakeFamilyMember(family, seed, i));
  std::vector<std::size_t> by_size(kFamilySize);
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return members[a].graph.num_ops() < members[b].graph.num_ops();
  });
  const auto numbers = GroupNumbers(family.mean_groups, family.sd_groups);
  for (std::size_t rank = 0; rank < kFamilySize; ++rank) members[by_size[rank]].num_groups = numbers[rank];
  return members;
}

FamilyMember MakeFamilyMember(const FamilyEntry& family, std::uint64_t seed, std::size_t index) {
  EMPLACE_CHECK_LT(index, kFamilySize);
  const Draws draws(seed);
  Rng own(draws.seeds[index]);
  std::vector<std::pair<std::string, std::string>> drawn;
  Graph graph = family.make(own, fmt::format("{}_{:02}", family.name, index), &drawn);
  return {.graph = std::move(graph), .training = draws.training[index], .num_groups = 0, .drawn = std::move(drawn)};
}

std::array<bool, kFamilySize> FamilySplit(std::uint64_t seed) { return Draws(seed).training; }

}  // namespace emplace::datasets
