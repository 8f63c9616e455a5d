#ifndef EMPLACE_DATASETS_IMPORTERS_HLO_READING_H_
#define EMPLACE_DATASETS_IMPORTERS_HLO_READING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/hlo_module.h"

// What the readers of HLO and StableHLO share.
namespace emplace::datasets {

// StableHLO's name of an operation of HLO.
std::string HloOpcode(std::string_view name);

// "f32[2,3]{1,0}", "(f32[2], s32[])" or "token[]" at the start of `text`, which loses it. Throws InputError.
HloShape TakeHloShape(std::string_view* text);
// The inside of a tensor type of MLIR: "2x3xf32". Throws InputError.
HloShape MlirTensor(std::string_view inside);

// The parts of a text between commas that are within no brackets and no quotes, without white space around them.
std::vector<std::string_view> SplitHloList(std::string_view text);
// All integers in a text, such as 1 and 0 of "{1, 0}".
HloDims HloIntegers(std::string_view text);
// The only integer of a constant: of "3", "true" or "dense<-1>"; none of other texts.
std::optional<std::int64_t> HloScalar(std::string_view text);
// The trip count in a backend's configuration of a loop, {"known_trip_count":{"n":"12"}}, if there is one.
std::optional<std::int64_t> HloTripCount(std::string_view config);
// "b01f_01io->b01f" of HLO, or "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" of StableHLO. Throws InputError.
HloConvolutionDims HloConvolutionFrom(std::string_view labels);
// "{size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=2x2 rhs_dilate=1x1}".
std::vector<HloWindowDim> HloWindowFrom(std::string_view text);

// Puts the parameters of a computation in the order of their numbers. Throws InputError where one is missing.
void OrderHloParameters(const HloModule& module, HloComputation* computation);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_HLO_READING_H_
