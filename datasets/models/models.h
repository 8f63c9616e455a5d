#ifndef EMPLACE_DATASETS_MODELS_MODELS_H_
#define EMPLACE_DATASETS_MODELS_MODELS_H_

#include "sim/base/options.h"
#include "sim/graph.h"

// The networks of datasets/models/registry.cc, one file each. Each declares its options, calls reader.Finish() and
// returns the graph of one training step. Throws InputError on bad options.
namespace emplace::datasets {

// Inception-V3: an image classifier.
// Source: Szegedy et al. 2016, "Rethinking the Inception architecture for computer vision", table 1 and figures 5 to
// 7, 10; filter counts, which the paper leaves out, from its authors' published model (TensorFlow-Slim inception_v3).
// Training as in section 8: RMSProp, gradients clipped, variables averaged; labels smoothed (section 7) where they
// come from, so the loss takes distributions. Batch normalisation without scale, as in that model. Weight decay,
// which the paper does not mention, is left out.
Graph MakeInceptionV3(OptionReader& reader);

// Neural machine translation with attention: an unrolled encoder and decoder of LSTM layers.
// Source: Wu et al. 2016, "Google's neural machine translation system", sections 3 (equation 4: attention with one
// hidden layer, asked by the bottom decoder layer of the step before, its context read by every decoder layer), 3.1
// (residual connections from the third layer on) and 3.2 (bottom encoder layer in both directions), 8.1 (gradients
// clipped to a norm). LSTM: Hochreiter and Schmidhuber 1997, with forget gates, no peepholes.
// Deviations: words, not pieces of words; embeddings as wide as the hidden state; decoder layer l begins with the
// last state of encoder layer l (the bottom one: of its forward direction), which the paper leaves open; no dropout;
// every sentence is as long as the unrolling, so nothing is masked.
Graph MakeNmt(OptionReader& reader);

// ResNet-50, -101, -152 and the pre-activation ResNet-200: image classifiers.
// Source: He et al. 2016a, "Deep residual learning for image recognition", table 1 and figure 5 (the stride in the
// first 1x1 convolution of a block, projections where sizes change); 2016b, "Identity mappings in deep residual
// networks", for 200 layers. Training as in section 3.4: momentum; weight decay, which would be one more op for each
// variable, is left out.
Graph MakeResnet(OptionReader& reader);

// A language model of LSTM layers, unrolled.
// Source: Zaremba et al. 2014, "Recurrent neural network regularization", section 3.1 (dropout on what passes between
// layers) and 4.1 (35 steps, 10,000 words, clipped gradients). Width 2048 and batch 64 as in Jozefowicz et al. 2016
// and the placement papers (Zhou et al., SGDP, appendix A).
Graph MakeRnnlm(OptionReader& reader);

// NASNet-A (6 @ 4032), an image classifier. Source: Zoph et al. 2018; see nas_cells.h.
Graph MakeNasnet(OptionReader& reader);

// AmoebaNet-A (N = 6, F = 190), an image classifier.
// Source: Real et al. 2019, "Regularized evolution for image classifier architecture search", figure 5 and table 2;
// stacked and trained as NASNet-A is, which that paper says; the 7x7 convolution in two parts on a quarter of the
// filters, between 1x1 convolutions, as in its authors' published model.
Graph MakeAmoebanet(OptionReader& reader);

// Transformer-XL: a language model whose segments look back on the one before.
// Source: Dai et al. 2019, "Transformer-XL", section 3 and appendix B. A sequence is run through segment by segment;
// the first segment's memory comes from the step before. Sizes: Zhou et al. (SGDP), appendix A. The published code's
// granularity: one product for queries, keys and values of memory and segment, of which the memory's queries are
// thrown away; each head's attention on its own, so that heads can be placed apart. Input and output share the table
// of embeddings. Deviation: biases u and v belong to a layer, no adaptive softmax.
Graph MakeTransformerXl(OptionReader& reader);

// WaveNet: stacks of dilated convolutions over raw audio.
// Source: van den Oord et al. 2016, "WaveNet", sections 2.1 to 2.4, figure 4; filters of 2 samples, dilations 1, 2, 4
// to 2^(layers - 1) in each stack: 4 stacks of 9 layers see 2,046 samples. Widths of the channels are ours: neither
// that paper nor the placement papers give them. Training with Adam and averaged variables as in van den Oord et al.
// 2018.
Graph MakeWavenet(OptionReader& reader);

// GPT-2: a Transformer decoder.
// Source: Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3 (normalisation in
// front of each part and after the last block); inner width 4 d_model; input and output share the table. With
// experts: every MLP is a mixture (experts.h), where GShard has one in every second block.
Graph MakeGpt(OptionReader& reader);

// BERT, pre-training: a Transformer encoder with both of its losses.
// Source: Devlin et al. 2019, "BERT", sections 3 and 3.1, appendix A; inner width 4 d_model; 20 masked words of 128
// as in its authors' published code.
Graph MakeBert(OptionReader& reader);

// A Transformer of today (transformer_graph.h): Llama 3 8B with other sizes and parts as the options say.
// Sources: Touvron et al. 2023, "LLaMA", section 2.2; Grattafiori et al. 2024, "The Llama 3 herd of models", table 3.
Graph MakeLlama(OptionReader& reader);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_MODELS_H_
