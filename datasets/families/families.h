#ifndef EMPLACE_DATASETS_FAMILIES_FAMILIES_H_
#define EMPLACE_DATASETS_FAMILIES_FAMILIES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/rng.h"
#include "sim/graph.h"

namespace emplace::datasets {

inline constexpr std::size_t kFamilySize = 32;

struct FamilyMember {
  Graph graph;                 // its name is FAMILY_NN
  bool training = false;       // whether it belongs to the half for training agents, not for testing them
  std::size_t num_groups = 0;  // number of groups for Merge-and-Colocate
  std::vector<std::pair<std::string, std::string>> drawn;  // the random choices in order, such as {"batch", "271"}
};

// A row of `emplace list datasets`: graphs of one sort that differ in what a seed drew.
struct FamilyEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  double mean_groups;  // over the family, and the standard deviation: Mitropolitsky et al. 2020, table 4.1
  double sd_groups;
  // Draws the member's features, uniformly, and builds its graph.
  Graph (*make)(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn);
};
std::span<const FamilyEntry> AllFamilies();
// Throws InputError that lists the known names.
const FamilyEntry& FindFamily(std::string_view name);

// The kFamilySize graphs of the family that `seed` gives: the same on every machine. Half of them, drawn too, are for
// training. The numbers of groups are the quantiles of a normal distribution with the family's mean and standard
// deviation (so both are met but for rounding), the more the more ops a graph has.
// Source: Addanki et al. 2019 (Placeto), appendix A.3: 32 graphs, half of them for training, uniform draws.
std::vector<FamilyMember> MakeFamily(const FamilyEntry& family, std::uint64_t seed);

// One of them, without making the others: all but num_groups, which is a question of its rank and stays 0.
// Requires: index < kFamilySize.
FamilyMember MakeFamilyMember(const FamilyEntry& family, std::uint64_t seed, std::size_t index);

// Which of them are for training, without making any. The same for all families.
std::array<bool, kFamilySize> FamilySplit(std::uint64_t seed);

// The numbers of groups in rising order.
std::array<std::size_t, kFamilySize> GroupNumbers(double mean, double sd);

// Convolutional networks for 32 x 32 images from ENAS's macro search space, batch 240 to 360.
// Source: Pham et al. 2018, "Efficient neural architecture search via parameter sharing", section 2.3: 12 layers, each
// one of six operations, with a skip connection from each earlier layer or not; 1.6e29 networks. What the paper leaves
// open is as in its authors' published model: a 3x3 convolution in front, 36 filters, a 1x1 convolution in front of
// each operation, skipped layers joined and brought back by a 1x1 convolution; at two thirds, factorized reductions of
// all layers so far, filters doubled. Deviation: uniform draws instead of those of a trained controller.
Graph MakeCifar10Member(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn);

// Recurrent language models from ENAS's space of cells, batch 1536 to 3072, 25 to 40 steps.
// Source: Pham et al. 2018, section 2.1: 12 nodes, each with an earlier node as input and one of four activations;
// loose ends averaged; 4^12 * 12! cells at most, "approximately 10^15". Width 720 as in its authors' published script,
// highway connections and tied embeddings as in section 3.1; 10,000 words of Penn Treebank. Uniform draws, as above.
Graph MakePtbMember(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn);

// The 2-layer NMT network (models.h), batch 64 to 128, 16 to 32 steps.
Graph MakeNmtMember(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_FAMILIES_FAMILIES_H_
