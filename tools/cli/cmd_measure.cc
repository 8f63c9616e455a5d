// emplace measure: the rates of the machine at hand, as a cluster.yaml.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/machine/machine_probe.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "sim/formats/cluster_yaml.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {
namespace {

constexpr std::string_view kMeasured = "measured by emplace measure";

struct MeasureOptions {
  profiler::ProbeOptions probe;
  bool bandwidth = false;
  std::string host;
  std::string output;
  bool json = false;
};

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "machine";
  return name.data();
}

// A cluster.yaml that was written by hand stays.
void CheckIsOwnFile(const std::string& path) {
  std::error_code ignored;
  if (path == "-" || !std::filesystem::exists(path, ignored)) return;
  if (ReadWholeFile(path, InputKind::kCluster).find(kMeasured) != std::string::npos) return;
  throw InputError(path, "would be written over, but emplace measure has not written it (-o with another name)");
}

void PrintRate(std::ostream& out, const std::string& what, const profiler::ProbedRate& rate, std::string_view unit) {
  out << fmt::format("{:<8} {:.4g} {}, the median of {} runs, which differ by {:.1f} %\n", what, rate.median(), unit,
                     rate.runs.size(), rate.SpreadPercent());
}

void WarnOfSpread(const std::string& what, const profiler::ProbedRate& rate) {
  if (rate.SpreadPercent() <= profiler::kMostSpreadPercent) return;
  PrintMessage(
      fmt::format("warning: {}: runs differ by {:.0f} %, more than {:.0f} %: something else uses the machine, "
                  "so measure again when it is idle",
                  what, rate.SpreadPercent(), profiler::kMostSpreadPercent));
}

nlohmann::ordered_json RateJson(const profiler::ProbedRate& rate) {
  return {{"median", rate.median()}, {"spread_percent", rate.SpreadPercent()}, {"runs", rate.runs}};
}

void PrintProbe(std::ostream& out, const MeasureOptions& options, const profiler::MachineProbe& probe,
                std::optional<Bytes> memory) {
  if (options.json) {
    nlohmann::ordered_json json = {{"schema", "emplace.measure"},
                                   {"version", 1},
                                   {"host", options.host},
                                   {"threads", probe.threads},
                                   {"cache_bytes", probe.cache_bytes},
                                   {"array_bytes", probe.array_bytes},
                                   {"memory_gb_per_s", RateJson(probe.gb_per_s)},
                                   {"tflop_per_s", RateJson(probe.tflop_per_s)}};
    if (memory) json["memory_bytes"] = memory->count;
    if (probe.disk_gb_per_s) json["disk_gb_per_s"] = RateJson(*probe.disk_gb_per_s);
    out << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    return;
  }
  out << fmt::format("{}: {} threads, last cache {}, three arrays of {}\n", Printable(options.host), probe.threads,
                     HumanReadable(Bytes{probe.cache_bytes}), HumanReadable(Bytes{probe.array_bytes}));
  PrintRate(out, "memory", probe.gb_per_s, "GB/s");
  PrintRate(out, "compute", probe.tflop_per_s, "TFLOP/s in f32");
  if (probe.disk_gb_per_s) PrintRate(out, "disk", *probe.disk_gb_per_s, "GB/s read");
  if (options.output != "-") out << fmt::format("use it: --cluster {}\n", Printable(options.output));
}

int Run(const MeasureOptions& given) {
  MeasureOptions options = given;
  if (!options.bandwidth) throw InputError("measure", "nothing is asked for (--bandwidth)");
  if (options.json && options.output == "-") throw InputError("--json", "and -o - exclude each other");
  if (options.host.empty()) options.host = HostName();
  CheckIsOwnFile(options.output);
  BusyLine busy("measure");
  const std::optional<Bytes> memory = profiler::AvailableMemory();
  const profiler::MachineProbe probe = profiler::ProbeMachine(options.probe);
  busy.End();
  const std::string source = fmt::format(
      "{}, {:%Y-%m-%d}: medians of {} runs, memory {:.4g} GB/s (they differ by {:.1f} %), {:.4g} TFLOP/s "
      "({:.1f} %), on {} threads",
      kMeasured, fmt::gmtime(std::time(nullptr)), probe.gb_per_s.runs.size(), probe.gb_per_s.median(),
      probe.gb_per_s.SpreadPercent(), probe.tflop_per_s.median(), probe.tflop_per_s.SpreadPercent(), probe.threads);
  const Cluster cluster = profiler::ProbedCluster(probe, options.host, memory, source);
  std::vector<FileToWrite> files = {{options.output, [&](std::ostream& out) { WriteCluster(out, cluster); }}};
  if (options.output != "-") {
    files.push_back({"-", [&](std::ostream& out) { PrintProbe(out, options, probe, memory); }});
  }
  WriteFiles(files);
  WarnOfSpread("memory", probe.gb_per_s);
  WarnOfSpread("compute", probe.tflop_per_s);
  if (probe.disk_gb_per_s) WarnOfSpread("disk", *probe.disk_gb_per_s);
  return kSuccess;
}

}  // namespace

Command AddMeasure(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("measure", "Measure the memory and arithmetic of the CPU at hand, as a cluster.yaml");
  auto options = std::make_shared<MeasureOptions>();
  command->add_flag("--bandwidth", options->bandwidth,
                    "Measure the rate of the memory (a triad over arrays of four times the last cache, on all "
                    "threads) and of multiply-adds");
  command->add_option("-o,--output", options->output, "cluster.yaml to write")->required()->type_name("FILE");
  command
      ->add_option("--disk", options->probe.folder,
                   "Measure the read rate of the disk that this folder is on, with a file of 256 MiB")
      ->type_name("FOLDER");
  command->add_option("--threads", options->probe.threads, "Threads to measure with (default: all)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 4096));
  command
      ->add_option_function<double>(
          "--cache-mib", [options](double mib) { options->probe.cache_bytes = std::llround(mib * (1 << 20)); },
          "Size of the last cache in MiB (default: as the system says)")
      ->type_name("MIB")
      ->transform(NumberFrom(0.001, 100'000));
  command->add_option("--host", options->host, "Name of the machine in the file (default: its network name)")
      ->type_name("NAME")
      ->check(NotEmpty());
  command->add_flag("--json", options->json, "Print the runs as JSON (emplace.measure)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
