#include "agents/saved_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"

namespace emplace {
namespace saved_state_test {

enum class Colour : std::uint8_t { kRed, kGreen };

struct Part {
  std::uint16_t number = 0;
  std::vector<double> values;
  bool operator==(const Part&) const = default;
  static void SavedFields(auto& state, auto& self) {
    state(self.number, self.values);
    state.NewLine();
  }
};

struct Whole {
  std::string name = "whole";
  bool flag = false;
  Colour colour = Colour::kRed;
  std::optional<std::size_t> absent;
  std::optional<double> present;
  std::optional<Part> part;
  std::optional<std::size_t> count;
  Placement placement;
  std::map<std::size_t, Part> parts;
  std::vector<std::pair<std::size_t, double>> pairs;
  std::vector<float> weights;
  std::size_t doubled = 0;  // not saved
  bool operator==(const Whole&) const = default;
  template <typename State>
  static void SavedFields(State& state, auto& self) {
    state.Word("test");
    state.Name(self.name);
    state(self.flag, self.colour, self.absent, self.present, self.part, self.placement, self.pairs, self.weights);
    state.CountAsDouble(self.count);
    state.Lines(self.parts);
    state.Check(self.pairs.size() < 3, "two pairs at most");
    if constexpr (State::kLoads) self.doubled = 2 * self.pairs.size();
  }
};

std::string Saved(const Whole& whole) {
  std::ostringstream out;
  agents::SaveState(out, whole);
  return out.str();
}

Whole Loaded(const std::string& text) {
  std::istringstream in(text);
  Whole whole;
  agents::LoadState(in, &whole);
  return whole;
}

TEST(SavedStateTest, OneListSavesAndLoads) {
  Whole whole;
  EXPECT_EQ(Saved(whole), "test whole 0 0 0 0 0 0 0 0 0 0  0 0 0\n");
  EXPECT_EQ(Loaded(Saved(whole)), whole);
  whole = {.name = "other",
           .flag = true,
           .colour = Colour::kGreen,
           .absent = std::nullopt,
           .present = -0.1,
           .part = Part{.number = 65535, .values = {1e300, 0}},
           .count = 12,
           .placement = Placement(2, MakeId<DeviceId>(3)),
           .parts = {{7, {}}, {9, {.number = 1, .values = {std::nextafter(1, 2)}}}},
           .pairs = {{1, 2.5}},
           .weights = {0.1F, -0.0F},
           .doubled = 2};
  EXPECT_EQ(Loaded(Saved(whole)), whole);
}

TEST(SavedStateTest, WhatTheListDoesNotAllowIsRefused) {
  const std::string text = Saved({});
  EXPECT_THROW(Loaded("best" + text.substr(4)), InputError);
  EXPECT_THROW(Loaded("test whole 0 256"), InputError);  // above what the enum's type holds
  EXPECT_THROW(Loaded("test whole 0 0 0 0 0 0 1 65536 0 0 0 0  0 0 0\n"), InputError);
  Whole many;
  many.pairs.resize(3);
  const std::string saved = Saved(many);
  EXPECT_THROW(Loaded(saved), InputError);
}

}  // namespace saved_state_test
}  // namespace emplace
