#ifndef EMPLACE_EXPERIMENTS_PLAN_EXPERIMENT_FIELDS_H_
#define EMPLACE_EXPERIMENTS_PLAN_EXPERIMENT_FIELDS_H_

#include "experiments/plan/experiment.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// The fields of an experiment, including those that only experiment.json has (run_folder.h). Throws InputError on
// others.
JsonFields ExperimentFields(const JsonNode& root);

// Reads one cell from the fields of an experiment; its `values` stay empty. With `complete` false, missing fields are
// allowed, as cells provide them, and constraints between fields are not checked. Throws InputError, its place a path.
ExperimentCell ReadCell(const JsonValue& root, bool complete);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_EXPERIMENT_FIELDS_H_
