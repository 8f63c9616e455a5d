#ifndef EMPLACE_TESTS_TESTING_VECTOR_TARGETS_H_
#define EMPLACE_TESTS_TESTING_VECTOR_TARGETS_H_

#include <gtest/gtest.h>

#include <string>

#include "sim/base/vector_targets.h"

namespace emplace::testing {

// A test that runs with each instruction set that the processor supports:
//   using FooTest = testing::OnVectorTarget;  // a class with its own name
//   INSTANTIATE_TEST_SUITE_P(Targets, FooTest, ::testing::ValuesIn(SupportedVectorTargets()), VectorTargetOf);
class OnVectorTarget : public ::testing::TestWithParam<VectorTarget> {
 protected:
  void SetUp() override { ChooseVectorTarget(GetParam()); }
  void TearDown() override { ChooseVectorTarget(SupportedVectorTargets().back()); }
};

inline std::string VectorTargetOf(const ::testing::TestParamInfo<VectorTarget>& info) {
  return std::string(VectorTargetName(info.param));
}

// Calls function() with each target, the best one last.
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
