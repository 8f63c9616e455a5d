#include "tools/cli/schedule_option.h"

#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/schedule/schedule_csv.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {

void AddScheduleOptions(CLI::App& app, ScheduleOptions* options) {
  app.add_option("--schedule", options->name,
                 "The graph is one micro-batch of a pipeline, which runs this schedule: gpipe, 1f1b, interleaved:V "
                 "(V stages on each device), zb-h1, zb-v, or a file of torch.distributed.pipelining that ends in .csv "
                 "(default: none, the graph is the whole step)")
      ->type_name("NAME|FILE");
  app.add_option("--micro-batches", options->micro_batches,
                 "Micro-batches of the schedule (default: what its file has)")
      ->type_name("M")
      ->transform(IntegerFrom(1, kMaxActions));
}

std::string ScheduleFile(const ScheduleOptions& options) {
  const std::string& name = options.name;
  return name == "-" || name.ends_with(".csv") || name.ends_with(".csv.gz") ? name : "";
}

void CheckScheduleOptions(const ScheduleOptions& options, const std::string& engine, const std::string& collectives,
                          const std::string& timeline) {
  if (!options.any()) {
    if (options.micro_batches) throw InputError("--micro-batches", "is used without a schedule (--schedule gpipe ..)");
    return;
  }
  if (engine != "fifo") throw InputError("--engine", fmt::format("{} runs no schedules (fifo)", Quoted(engine)));
  if (collectives != "model") {
    throw InputError("--collectives",
                     fmt::format("is {}, but schedules time collectives by the model (model)", Quoted(collectives)));
  }
  if (timeline.ends_with(".svg") || timeline.ends_with(".svg.gz")) {
    throw InputError("--timeline", fmt::format("{} is no timeline of a schedule (.json, trace events)", timeline));
  }
  if (!ScheduleFile(options).empty()) return;
  ParseScheduleName(options.name, "--schedule");
  if (!options.micro_batches) {
    throw InputError("--micro-batches", fmt::format("is missing (how many {} is to run)", options.name));
  }
}

const ScheduleChoice& LoadScheduleChoice(const ScheduleOptions& options) {
  if (options.loaded) return *options.loaded;
  ScheduleChoice& loaded = options.loaded.emplace();
  loaded.name = options.name;
  if (ScheduleFile(options).empty()) {
    loaded.micro_batches = *options.micro_batches;
    return loaded;
  }
  loaded.given = ReadScheduleCsv(*OpenForReading(options.name, InputKind::kSchedule), options.name);
  loaded.micro_batches = loaded.given->micro_batches;
  if (options.micro_batches && *options.micro_batches != loaded.micro_batches) {
    throw InputError("--micro-batches", fmt::format("is {}, but {} has {} (leave it out)", *options.micro_batches,
                                                    options.name, loaded.micro_batches));
  }
  return loaded;
}

}  // namespace emplace::tools
