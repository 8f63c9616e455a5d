#include "datasets/memory/rank_program.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "datasets/memory/tape.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMebi = std::int64_t{1} << 20;

std::int64_t Of(const RankPeak& peak, MemoryClass memory_class) {
  return peak.classes[static_cast<std::size_t>(memory_class)];
}

TEST(RankProgramTest, ThePeakHasAMomentClassesAndHolders) {
  RankProgram program;
  program.Mark("first");
  program.Allocate("weights", 4 * kMebi, MemoryClass::kWeights);
  const RankProgram::Buffer a = program.Allocate("activations", 6 * kMebi, MemoryClass::kActivations);
  program.Mark("second");
  program.Touch("workspace", 8 * kMebi);
  program.Release(a);
  program.Mark("third");
  program.Allocate("activations", 2 * kMebi, MemoryClass::kActivations);
  const RankPeak peak = PeakOf(program);
  EXPECT_EQ(peak.allocated_bytes, 18 * kMebi);
  EXPECT_EQ(peak.moment, "second");
  EXPECT_EQ(peak.end_bytes, 6 * kMebi);
  EXPECT_EQ(Of(peak, MemoryClass::kWeights), 4 * kMebi);
  EXPECT_EQ(Of(peak, MemoryClass::kActivations), 6 * kMebi);
  EXPECT_EQ(Of(peak, MemoryClass::kTemporary), 8 * kMebi);
  ASSERT_EQ(peak.holders.size(), 3U);
  EXPECT_EQ(peak.holders[0].label, "workspace");
  EXPECT_EQ(peak.holders[1].label, "activations");
  EXPECT_EQ(peak.holders[2].bytes, 4 * kMebi);
  EXPECT_EQ(Name(MemoryClass::kOptimizer), "optimizer");
}

TEST(RankProgramTest, ABufferIsFreedWithItsLastOwner) {
  RankProgram program;
  const RankProgram::Buffer a = program.Allocate("a", 2 * kMebi, MemoryClass::kActivations);
  program.Retain(a);
  program.Release(a);
  program.Touch("b", 2 * kMebi);
  program.Release(a);
  program.Touch("c", 3 * kMebi);
  EXPECT_EQ(PeakOf(program).allocated_bytes, 4 * kMebi);
  EXPECT_EQ(PeakOf(program).end_bytes, 0);
}

TEST(RankProgramTest, WhatACollectiveReadsIsReusedLater) {
  const auto reserved_after = [](std::int64_t launched, bool waits) {
    RankProgram program;
    const RankProgram::Buffer a = program.Allocate("a", 20 * kMebi, MemoryClass::kActivations);
    program.ReleaseLate(a, 100);
    program.Launch(launched);
    if (waits) program.Synchronize();
    program.Allocate("b", 20 * kMebi, MemoryClass::kActivations);
    EXPECT_EQ(PeakOf(program).allocated_bytes, 20 * kMebi) << "no longer counts";
    return PeakOf(program).reserved_bytes;
  };
  EXPECT_EQ(reserved_after(99, false), 40 * kMebi);
  EXPECT_EQ(reserved_after(100, false), 20 * kMebi);
  EXPECT_EQ(reserved_after(0, true), 20 * kMebi);
}

TEST(RankProgramTest, SegmentsMayExpand) {
  RankProgram program;
  program.ExpandSegments();
  program.Touch("a", 20 * kMebi);
  program.Touch("b", 30 * kMebi);
  EXPECT_EQ(PeakOf(program).reserved_bytes, 30 * kMebi);
}

// y = f(x), which keeps x; z = x + y.
struct Chain {
  explicit Chain(Tape* tape) {
    x = tape->New("x", 2 * kMebi);
    const Tape::Tensor y = tape->New("y", 2 * kMebi);
    tape->Record({.label = "f", .output = y, .inputs = {x}, .saved = {x}, .backward_bytes = {4 * kMebi}});
    z = tape->New("z", 2 * kMebi);
    tape->Record({.label = "sum", .output = z, .inputs = {x, y}, .passes_gradient = true});
    tape->Drop(y);
    tape->Drop(z);
    tape->Drop(x);
  }
  Tape::Tensor x = 0;
  Tape::Tensor z = 0;
};

TEST(TapeTest, TheBackwardPassFreesWhatWasKept) {
  RankProgram program;
  Tape tape(&program);
  const Chain chain(&tape);
  EXPECT_EQ(PeakOf(program).end_bytes, 2 * kMebi);  // x
  const RankProgram::Buffer gradient = tape.Backward(chain.z, chain.x, 0);
  // x, the gradient of z, the buffer of f's backward pass and the gradient of its input.
  EXPECT_EQ(PeakOf(program).allocated_bytes, 10 * kMebi);
  EXPECT_EQ(PeakOf(program).end_bytes, 2 * kMebi);  // the gradient
  program.Release(gradient);
  EXPECT_EQ(PeakOf(program).end_bytes, 0);
}

TEST(TapeTest, ACheckpointKeepsItsInputAlone) {
  RankProgram program;
  Tape tape(&program);
  const Tape::Tensor x = tape.New("x", 2 * kMebi);
  const Tape::Forward forward = [](Tape& inner, const std::vector<Tape::Tensor>& inputs) {
    const Tape::Tensor hidden = inner.New("hidden", 4 * kMebi);
    inner.Record({.label = "f", .output = hidden, .inputs = inputs, .saved = inputs});
    const Tape::Tensor output = inner.New("output", 2 * kMebi);
    inner.Record({.label = "g", .output = output, .inputs = {hidden}, .saved = {hidden}});
    inner.Drop(hidden);
    return output;
  };
  const Tape::Tensor y = tape.Checkpoint("inputs", {x}, forward, 0);
  EXPECT_EQ(PeakOf(program).end_bytes, 4 * kMebi);  // x and y
  tape.Drop(x);
  tape.Drop(y);
  EXPECT_EQ(PeakOf(program).end_bytes, 2 * kMebi);
  program.Release(tape.Backward(y, x, 0));
  EXPECT_EQ(PeakOf(program).end_bytes, 0);
  // x, hidden, the output that is made again, its gradient, and that of hidden.
  EXPECT_EQ(PeakOf(program).allocated_bytes, 14 * kMebi);
}

TEST(TapeTest, AllInputsOfACheckpointHaveGradients) {
  RankProgram program;
  Tape tape(&program);
  const Tape::Tensor x = tape.New("x", 2 * kMebi);
  const Tape::Tensor unused = tape.New("unused", kMebi);
  const Tape::Tensor y = tape.New("y", 8 * kMebi);
  const Tape::Forward forward = [](Tape& inner, const std::vector<Tape::Tensor>& inputs) {
    const Tape::Tensor output = inner.New("output", 4 * kMebi);
    inner.Record({.label = "f", .output = output, .inputs = inputs, .saved = inputs});
    return output;
  };
  const Tape::Tensor z = tape.Checkpoint("inputs", {x, y}, forward, 0);
  for (const Tape::Tensor tensor : {x, unused, y, z}) tape.Drop(tensor);
  EXPECT_EQ(PeakOf(program).end_bytes, 10 * kMebi);  // x and y
  const RankProgram::Buffer of_x = tape.Backward(z, x, 0);
  EXPECT_EQ(PeakOf(program).end_bytes, 10 * kMebi);  // their gradients
  program.Release(of_x);
  EXPECT_EQ(PeakOf(program).end_bytes, 8 * kMebi);
  program.Release(tape.TakeGradient(y));
  EXPECT_EQ(PeakOf(program).end_bytes, 0);
}

TEST(TapeTest, TensorsThatAreMadeAgainOrMovedAwayAreNotKept) {
  RankProgram program;
  Tape tape(&program);
  const Tape::Tensor x = tape.New("x", 2 * kMebi);
  const Tape::Tensor y = tape.New("y", 2 * kMebi);
  tape.MakeAgain(x);
  tape.Record({.label = "f", .output = y, .inputs = {x}, .saved = {x}});
  EXPECT_EQ(tape.moved_bytes(), 0);
  tape.MoveAway(y);
  const Tape::Tensor z = tape.New("z", 2 * kMebi);
  tape.Record({.label = "g", .output = z, .inputs = {y}, .saved = {y}});
  EXPECT_EQ(tape.moved_bytes(), 2 * kMebi);
  for (const Tape::Tensor tensor : {x, y, z}) tape.Drop(tensor);
  EXPECT_EQ(PeakOf(program).end_bytes, 0);
  program.Release(tape.Backward(z, x, 0));
  EXPECT_EQ(PeakOf(program).end_bytes, 0);
}

}  // namespace
}  // namespace emplace::datasets
