#ifndef EMPLACE_AGENTS_NN_TANH_SCORES_H_
#define EMPLACE_AGENTS_NN_TANH_SCORES_H_

#include <cstddef>

namespace emplace::agents {

// Additive attention of a decoder that attends to every key in every step, which is most of a sequence policy's time.
// The rows * num_keys * width intermediate values are recomputed in the backward pass instead of stored. tanh is
// accurate to 3e-7.
// Source: Bahdanau et al. 2015, appendix A.1.2.

// scores[r][j] = v . tanh(queries[r] + keys[j]). queries: [rows, width]; keys: [num_keys, width]; v: [width]; scores:
// [rows, num_keys]; all dense, width a multiple of kLane.
void TanhScores(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys, const float* v,
                std::size_t width, float* scores);

// Adds the gradients of a loss to those with respect to queries, keys and v. d_scores: its gradient with respect to the
// scores.
void TanhScoresBackward(const float* queries, std::size_t rows, const float* keys, std::size_t num_keys, const float* v,
                        std::size_t width, const float* d_scores, float* d_queries, float* d_keys, float* d_v);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TANH_SCORES_H_
