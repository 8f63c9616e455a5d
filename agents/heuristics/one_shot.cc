#include "agents/heuristics/one_shot.h"

#include <utility>

#include "agents/saved_text.h"

namespace emplace::agents {
namespace {

class OneShot : public Agent {
 public:
  explicit OneShot(std::function<Placement(const Environment&, Rng&)> place) : place_(std::move(place)) {}

  Proposal Propose(const Environment& env, Mode, Rng& rng) override {
    if (!has_answer_) answer_ = place_(env, rng);
    has_answer_ = true;
    return {.placements = {answer_}};
  }
  bool Finished() const override { return has_answer_; }

  void Save(std::ostream& out) const override {
    out << "one-shot " << (has_answer_ ? 1 : 0) << ' ';
    SavePlacement(out, answer_);
  }
  void Load(std::istream& in) override {
    ExpectWord(in, "one-shot");
    has_answer_ = LoadNumber(in) != 0;
    answer_ = LoadPlacement(in);
  }

 private:
  std::function<Placement(const Environment&, Rng&)> place_;
  bool has_answer_ = false;
  Placement answer_;
};

}  // namespace

std::unique_ptr<Agent> MakeOneShot(std::function<Placement(const Environment& env, Rng& rng)> place) {
  return std::make_unique<OneShot>(std::move(place));
}

}  // namespace emplace::agents
