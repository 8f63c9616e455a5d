#ifndef EMPLACE_DATASETS_MODELS_MODELS_H_
#define EMPLACE_DATASETS_MODELS_MODELS_H_

#include "sim/graph.h"
#include "sim/options.h"

// The networks of datasets/registry.cc, one file each. Each declares its options, calls reader.Finish() and returns the
// graph of one training step. Throws InputError on bad options.
namespace emplace {

// Inception-V3: an image classifier.
// Source: Szegedy et al. 2016, "Rethinking the Inception architecture for computer vision", table 1 and figures 5 to 7,
// 10; filter counts, which the paper leaves out, from its authors' published model (TensorFlow-Slim inception_v3).
// Training as in section 8: RMSProp, gradients clipped, variables averaged; labels smoothed (section 7) where they come
// from, so the loss takes distributions. Batch normalisation without scale, as in that model. Weight decay, which the
// paper does not mention, is left out.
Graph MakeInceptionV3(OptionReader& reader);

// Neural machine translation with attention: an unrolled encoder and decoder of LSTM layers.
// Source: Wu et al. 2016, "Google's neural machine translation system", sections 3 (equation 4: attention with one
// hidden layer, asked by the bottom decoder layer of the step before, its context read by every decoder layer), 3.1
// (residual connections from the third layer on) and 3.2 (bottom encoder layer in both directions), 8.1 (gradients
// clipped to a norm). LSTM: Hochreiter and Schmidhuber 1997, with forget gates, no peepholes.
// Deviations: words, not pieces of words; embeddings as wide as the hidden state; decoder layer l begins with the last
// state of encoder layer l (the bottom one: of its forward direction), which the paper leaves open; no dropout; every
// sentence is as long as the unrolling, so nothing is masked.
Graph MakeNmt(OptionReader& reader);

}  // namespace emplace

#endif  // EMPLACE_DATASETS_MODELS_MODELS_H_
