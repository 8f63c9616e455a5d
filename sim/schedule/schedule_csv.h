#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_CSV_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_CSV_H_

#include <iosfwd>
#include <string>

#include "sim/schedule/schedule.h"

namespace emplace {

// Schedules as torch.distributed.pipelining stores them: CSV with a line for each rank and an action in each cell:
// stage, kind, micro-batch, as in 0F0, 1B3, 0I1, 2W1. Empty cells, and those of communication and of sharded weights
// (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD), are left out: what is sent follows from the rest.
// In a file with W or BW, but without I, BW is the whole backward and B the input's part: so older files have it.
// Throws InputError, its place "FILE: line 2, cell 7", on anything else and on what CheckSchedule refuses.
PipelineSchedule ReadScheduleCsv(std::istream& in, const std::string& file);
void WriteScheduleCsv(std::ostream& out, const PipelineSchedule& schedule);

// The same with communication: 0SEND_F1 behind the action whose result goes to a stage of another rank, 1RECV_F1 where
// the receiving rank has come to by then, and 0REDUCE_GRAD behind the last backward pass of a stage, where PyTorch
// divides gradients by the number of micro-batches. Ranks take turns of one action, so that each rank sends to and
// receives from another in the same order. Requires: CheckSchedule has passed.
void WriteScheduleWithCommunication(std::ostream& out, const PipelineSchedule& schedule);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_CSV_H_
