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

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_CSV_H_
