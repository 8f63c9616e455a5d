#include "agents/heuristics/one_shot.h"

#include <utility>

#include "agents/saved_state.h"

namespace emplace::agents {
namespace {

class OneShot : public SavedByFields<OneShot, Agent> {
 public:
  OneShot(std::function<Placement(const Environment&, Rng&)> place, std::function<void(std::size_t)> check_groups)
      : place_(std::move(place)), check_groups_(std::move(check_groups)) {}

  Proposal Propose(const Environment& env, Mode, Rng& rng) override {
    if (!has_answer_) answer_ = place_(env, rng);
    has_answer_ = true;
    return {.placements = {answer_}};
  }
  bool Finished() const override { return has_answer_; }
  void CheckGroups(std::size_t num_groups) const override {
    if (check_groups_) check_groups_(num_groups);
  }

  static void SavedFields(auto& state, auto& self) {
    state.Word("one-shot");
    state(self.has_answer_, self.answer_);
  }

 private:
  std::function<Placement(const Environment&, Rng&)> place_;
  std::function<void(std::size_t)> check_groups_;
  bool has_answer_ = false;
  Placement answer_;
};

}  // namespace

std::unique_ptr<Agent> MakeOneShot(std::function<Placement(const Environment& env, Rng& rng)> place,
                                   std::function<void(std::size_t num_groups)> check_groups) {
  return std::make_unique<OneShot>(std::move(place), std::move(check_groups));
}

}  // namespace emplace::agents
