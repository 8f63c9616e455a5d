#ifndef EMPLACE_DATASETS_MEMORY_MEMORY_CURVE_H_
#define EMPLACE_DATASETS_MEMORY_MEMORY_CURVE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "datasets/memory/rank_program.h"

namespace emplace::datasets {

// What a rank has allocated in the course of its step. A program has an order but no times: a point is an allocation or
// a free.
struct MemoryCurve {
  std::vector<std::array<std::int64_t, kNumMemoryClasses>> bytes;  // after each of them, by class
  struct Part {
    std::string text;  // a pass or a step, as RankPeak's moment
    std::size_t begin = 0;
  };
  std::vector<Part> parts;  // in order; the first begins at 0
};

// From the first pass on: what is there before is the first point. Requires that the program has a moment.
MemoryCurve CurveOf(const RankProgram& program);

// Draws an area for each class, one above the other, with a strip of the passes below (SVG, 960 wide). Where points are
// closer together than two pixels, the one with the most bytes is drawn.
void WriteMemorySvg(std::ostream& out, const MemoryCurve& curve, const std::string& title);

// As Chrome trace events: a counter of each class and a track of the passes, a microsecond for each point.
void WriteMemoryTrace(std::ostream& out, const MemoryCurve& curve, const std::string& title);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_MEMORY_CURVE_H_
