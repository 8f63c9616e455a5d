#ifndef EMPLACE_AGENTS_RL_PLACETO_RETURNS_H_
#define EMPLACE_AGENTS_RL_PLACETO_RETURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace emplace::agents {

enum class Credit : std::uint8_t {
  kIntermediate,  // r_t = R(p_{t-1}) - R(p_t), the improvement by the step
  kTerminal,      // -R(p_T) for every step
  kMinRuntime,    // R(p_{t-1}) - min over j >= t of R(p_j): the best improvement reached later
};

// Returns G_1 .. G_T of an episode from its costs R(p_0) .. R(p_T), where a cost is minus a reward: larger is better.
// `discount` is gamma of kIntermediate. `thesis_sign` reverses all signs, as in the thesis's code, which therefore
// maximised the step time.
// Source: Addanki et al. 2019 (Placeto), A.7. Its r_t = R(p_t) - R(p_{t-1}) is treated as a sign error, as its terminal
// reward -R(p_T) shows.
std::vector<double> EpisodeReturns(std::span<const double> costs, Credit credit, double discount, bool thesis_sign);

// A baseline for each step: the mean return at that step over the last episodes, the current one included.
// Source: Addanki et al. 2019 (Placeto), A.7; including the current episode follows the authors' code.
class StepBaselines {
 public:
  explicit StepBaselines(std::size_t episodes) : episodes_(episodes) {}
  // Adds the returns of one episode, [num_steps], averaged over parallel episodes.
  void Add(std::span<const double> returns);
  double operator[](std::size_t step) const;
  static void SavedFields(auto& state, auto& self) { state(self.returns_); }

 private:
  std::size_t episodes_;
  std::vector<std::deque<double>> returns_;  // [num_steps]
};

// Gradient with respect to the logits of the loss of one step,
//   -advantage log pi(action) - weight H,   H = -sum of p log(p + 1e-3),
// with the 1e-3 of Placeto's code. Disallowed devices get 0.
void LossGradient(std::span<const double> probabilities, std::size_t action, double advantage, double entropy_weight,
                  std::span<float> gradient);
// The loss itself.
double StepLoss(std::span<const double> probabilities, std::size_t action, double advantage, double entropy_weight);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLACETO_RETURNS_H_
