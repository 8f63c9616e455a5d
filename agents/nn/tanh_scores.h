#ifndef EMPLACE_AGENTS_NN_TANH_SCORES_H_
#define EMPLACE_AGENTS_NN_TANH_SCORES_H_

#include <cstddef>
#include <vector>

namespace emplace::agents {

// Additive attention of a decoder that attends to every key in every step. The rows * num_keys * width intermediate
// values are recomputed in the backward pass instead of stored. tanh is accurate to 4e-7.
// tanh(q + k) = 1 - 2 / (1 + exp(2q) exp(2k)), so an intermediate value costs a product and half a division: two values
// share one. Where an entry of a query, or of any key, is beyond +-10 its products would overflow; tanh is then
// computed from the sum. Source: Bahdanau et al. 2015, appendix A.1.2.

// The keys of many queries: [num_keys, width], dense, width a multiple of kLane. Keeps a pointer to them.
class TanhKeys {
 public:
  TanhKeys() = default;
  TanhKeys(const float* keys, std::size_t num_keys, std::size_t width);

  const float* keys() const { return keys_; }
  const float* exponentials() const { return exponentials_.data(); }  // exp(2k), laid out like the keys
  std::size_t num_keys() const { return num_keys_; }
  std::size_t width() const { return width_; }
  bool small() const { return small_; }  // all entries within +-10

 private:
  const float* keys_ = nullptr;
  std::size_t num_keys_ = 0;
  std::size_t width_ = 0;
  std::vector<float> exponentials_;
  bool small_ = false;
};

// scores[r][j] = v . tanh(queries[r] + keys[j]). queries: [rows, width]; v: [width]; scores: [rows, num_keys]; dense.
void TanhScores(const float* queries, std::size_t rows, const TanhKeys& keys, const float* v, float* scores);

// Adds the gradients of a loss to those with respect to queries, keys and v. d_scores: its gradient with respect to the
// scores.
void TanhScoresBackward(const float* queries, std::size_t rows, const TanhKeys& keys, const float* v,
                        const float* d_scores, float* d_queries, float* d_keys, float* d_v);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TANH_SCORES_H_
