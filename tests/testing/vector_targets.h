#ifndef EMPLACE_TESTS_TESTING_VECTOR_TARGETS_H_
#define EMPLACE_TESTS_TESTING_VECTOR_TARGETS_H_

#include <gtest/gtest.h>

#include <string>

#include "sim/base/vector_targets.h"

namespace emplace::testing {

// A test that runs on each instruction set that the processor has:
//   using FooTest = testing::OnVectorTarget;  // a class of its own name
//   INSTANTIATE_TEST_SUITE_P(Targets, FooTest, ::testing::ValuesIn(SupportedVectorTargets()), VectorTargetOf);
class OnVectorTarget : public ::testing::TestWithParam<VectorTarget> {
 protected:
  void SetUp() override { ChooseVectorTarget(GetParam()); }
  void TearDown() override { ChooseVectorTarget(SupportedVectorTargets().back()); }
};

inline std::string VectorTargetOf(const ::testing::TestParamInfo<VectorTarget>& info) {
  return std::string(VectorTargetName(info.param));
}

// function() on each target, the best one last.
template <typename Function>
void OnEachVectorTarget(const Function& function) {
  for (const VectorTarget target : SupportedVectorTargets()) {
    ChooseVectorTarget(target);
    SCOPED_TRACE(std::string(VectorTargetName(target)));
    function(target);
  }
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_VECTOR_TARGETS_H_
