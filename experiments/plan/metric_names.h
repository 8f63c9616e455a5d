#ifndef EMPLACE_EXPERIMENTS_PLAN_METRIC_NAMES_H_
#define EMPLACE_EXPERIMENTS_PLAN_METRIC_NAMES_H_

#include <string_view>

namespace emplace::experiments {

// Valid entries of `metrics` in an experiment: the names of AllMetrics() (metrics.h), in its order.
inline constexpr std::string_view kMetricNames[] = {"step_time",
                                                    "step_time_best",
                                                    "step_time_median",
                                                    "step_time_worst",
                                                    "hardware_step_time",
                                                    "improvement",
                                                    "single_device_improvement",
                                                    "thesis_improvement",
                                                    "transfer_improvement",
                                                    "transfer_final",
                                                    "final_improvement",
                                                    "policy_seconds",
                                                    "policy_seconds_in_all",
                                                    "pc_ratio",
                                                    "evaluations",
                                                    "ops",
                                                    "entropy",
                                                    "initial_entropy",
                                                    "lower_bound_ratio",
                                                    "lower_bound_ratio_100",
                                                    "lower_bound_ratio_1000",
                                                    "best_known_ratio",
                                                    "curve_area",
                                                    "rank",
                                                    "search_seconds",
                                                    "simulator_seconds",
                                                    "wall_seconds"};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_METRIC_NAMES_H_
