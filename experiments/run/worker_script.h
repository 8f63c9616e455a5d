#ifndef EMPLACE_EXPERIMENTS_RUN_WORKER_SCRIPT_H_
#define EMPLACE_EXPERIMENTS_RUN_WORKER_SCRIPT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace emplace::experiments {

// The script that starts the workers of a planned sweep.
struct WorkerScript {
  std::string program;     // absolute path of emplace
  std::string experiment;  // its name
  std::string folder;      // RUNS/EXPERIMENT, absolute
  std::size_t workers = 1;
  std::size_t jobs = 1;
  double lease_seconds = 0;                 // 0: the default
  std::vector<std::string> sbatch_options;  // written as lines after #SBATCH
};

// Options as given on the command line ("-p", "cpu", "--time=1:00:00"), one option a line, quoted where necessary.
// Throws InputError if they do not begin with an option, or are not printable.
std::vector<std::string> SbatchLines(const std::vector<std::string>& words);

// An array of jobs, one worker each.
std::string SlurmScript(const WorkerScript& script);
// A script for other schedulers: one worker.
std::string ShellScript(const WorkerScript& script);

// The path of sbatch. Throws InputError if there is none.
std::string FindSbatch();
// Writes the script to the experiment's folder, hands it to sbatch and returns the job's number. Throws InputError with
// the last line of sbatch if it refuses.
std::string SubmitToSlurm(const WorkerScript& script, const std::string& text);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_WORKER_SCRIPT_H_
