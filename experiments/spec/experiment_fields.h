#ifndef EMPLACE_EXPERIMENTS_SPEC_EXPERIMENT_FIELDS_H_
#define EMPLACE_EXPERIMENTS_SPEC_EXPERIMENT_FIELDS_H_

#include "experiments/spec/experiment.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// The members of an experiment, those that only experiment.json has too (run_folder.h). Throws InputError on others.
JsonFields ExperimentFields(const JsonNode& root);

// What the fields of an experiment say of one cell; its `values` stay empty. With `complete` false, what is missing is
// let pass (some cell will give it), and nothing is asked of several fields together. Throws InputError, its place a
// path.
ExperimentCell ReadCell(const JsonValue& root, bool complete);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_SPEC_EXPERIMENT_FIELDS_H_
