#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/machine/machine_profiler.h"
#include "profiler/measure/activity_meter.h"
#include "profiler/measure/machine_cluster.h"
#include "profiler/measure/machine_load.h"
#include "profiler/measure/sample_log.h"
#include "profiler/torchscript.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/json_struct.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "tools/cli/commands.h"
#include "tools/cli/hardware.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace {

template <>
struct EnumNames<profiler::Sampling> {
  using enum profiler::Sampling;
  static constexpr std::pair<profiler::Sampling, std::string_view> kNames[] = {
      {kAuto, "auto"}, {kSteps, "steps"}, {kOps, "ops"}};
};

}  // namespace emplace

namespace emplace::tools {
namespace {

struct ProfileOptions {
  std::string graph;
  std::string torchscript;
  std::vector<std::string> inputs;
  bool backward = false;
  std::string graph_output;
  std::string devices = "cpu:0";
  std::string output;
  std::string cluster_output;
  profiler::OpProfilerOptions ops{.patience_seconds = 60};
  std::string sampling = "auto";
  bool no_links = false;
};

// The default path of the cluster file is beside the profile.
std::string ClusterPath(const ProfileOptions& options) {
  if (!options.cluster_output.empty()) return options.cluster_output;
  if (options.output == "-") return "";
  return (std::filesystem::path(options.output).parent_path() / "cluster.yaml").string();
}

// The path of the samples of a run that is stopped; "" where there is no file to put it beside.
std::string SamplesPath(const ProfileOptions& options) {
  return options.output == "-" ? "" : options.output + ".samples";
}

// Do not overwrite a cluster.yaml that was written by hand.
void CheckClusterPath(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || path == "-" || !std::filesystem::exists(path, ignored)) return;
  if (ReadWholeFile(path, InputKind::kCluster).find("measured by emplace profile") != std::string::npos) return;
  throw InputError(path,
                   "would be written over, but emplace profile has not written it (--cluster-out with another name)");
}

Graph LoadModel(const ProfileOptions& options) {
  if (options.graph.empty() == options.torchscript.empty()) {
    throw InputError("", options.graph.empty() ? "a model is missing (--graph or --torchscript)"
                                               : "--graph and --torchscript exclude each other");
  }
  if (options.torchscript.empty()) {
    for (const auto& [given, name] : {std::pair{!options.inputs.empty(), "--input"},
                                      {options.backward, "--backward"},
                                      {!options.graph_output.empty(), "--graph-out"}}) {
      if (given) throw InputError(name, "can only be used with --torchscript");
    }
    return experiments::LoadGraph({.file = options.graph});
  }
  profiler::TorchScriptOptions module{.file = options.torchscript, .inputs = {}, .backward = options.backward};
  for (const std::string& input : options.inputs)
    module.inputs.push_back(profiler::ParseTorchScriptInput(input, "--input"));
  return profiler::GraphFromTorchScript(module);
}

// The existing profile, to be extended, or a new one.
Profile LoadOrBegin(const std::string& path) {
  const std::map<std::string, std::string> host = profiler::TorchHardware().Describe();
  std::error_code ignored;
  if (path != "-" && std::filesystem::exists(path, ignored)) {
    Profile profile = LoadProfile(path);
    for (const auto& [key, value] : host) {
      const auto known = profile.host.find(key);
      if (known != profile.host.end() && known->second != value) {
        throw InputError(path,
                         fmt::format("was measured with {} {}, this machine has {} (another file; a profile is of "
                                     "one machine)",
                                     key, known->second, value));
      }
    }
    return profile;
  }
  Profile profile;
  profile.host.insert(host.begin(), host.end());
  return profile;
}

// Advice if samples of important ops spread too widely.
std::string AdviceOnSpread(double share) {
  constexpr double kMuch = 0.2;
  if (share <= kMuch) return "";
  return fmt::format(
      "ops whose samples are far apart take {:.0f} % of the step: what is simulated with this profile can be as far "
      "off. "
      "Measure again on an idle machine, with more --patience, into another file",
      100 * share);
}

void Summarise(const ProfileOptions& options, const Profile& profile, const profiler::MachineProfilerResult& result,
               const std::string& load_advice) {
  std::string text;
  for (const auto& [kind, count] : result.new_ops) {
    text += fmt::format("{}: {} ops measured{}, {} known before\n", kind, count,
                        result.in_steps.contains(kind) ? " within whole steps" : "", result.known_ops.at(kind));
  }
  if (!result.not_in_steps.empty()) {
    text += fmt::format("{}: each op was measured by itself\n", result.not_in_steps);
  }
  if (result.sampled_again > 0) {
    text += fmt::format(
        "{} ops of those that take {:.0f} % of the step had fewer samples than --samples, and were measured "
        "again\n",
        result.sampled_again, 100 * profiler::kMostOfAStep);
  }
  for (const Profile::DeviceEntry& device : profile.devices) {
    text += fmt::format("{}: {:.2f} us between ops ({})\n", device.kind, device.op_gap_micros, device.backend);
    for (const auto& [op_class, factor] : device.contention) {
      text +=
          fmt::format("{}: {} ops take {:.2f} times as long beside a busy neighbour\n", device.kind, op_class, factor);
    }
  }
  for (const Profile::LinkEntry& link : profile.links) {
    text += fmt::format("{} to {}: {:.2f} GB/s", link.from_device.empty() ? link.from : link.from_device,
                        link.to_device.empty() ? link.to : link.to_device, link.bandwidth_gb_per_s);
    if (link.knee.count > 0) {
      text += fmt::format(" up to {} KiB, {:.2f} beyond", link.knee.count / 1024, link.beyond_gb_per_s);
    }
    text += fmt::format(", latency {:.2f} us\n", link.latency_micros);
  }
  if (result.disturbed > 0) {
    text += fmt::format("{} samples count though other programs disturbed the core (--patience {:g} was over)\n",
                        result.disturbed, options.ops.patience_seconds);
  }
  if (result.repeated_rounds > 0) {
    text += fmt::format("{} rounds of samples were measured again: records of the GPU could not be trusted\n",
                        result.repeated_rounds);
  }
  if (!result.too_wide.empty()) {
    text += fmt::format("{} ops whose samples stay far apart (p90 - p10 over {:.0f} % of the median), such as {}\n",
                        result.too_wide.size(), 100 * options.ops.wide_spread, result.too_wide.front());
  }
  for (const std::string& advice : {AdviceOnSpread(result.wide_share), load_advice, result.clocks.Advice()}) {
    if (!advice.empty()) text += advice + '\n';
  }
  if (options.output == "-") {
    PrintMessages(text);
  } else {
    std::cout << text;
  }
}

int Run(const ProfileOptions& options) {
  const std::string cluster_path = ClusterPath(options);
  CheckFiles({options.graph, options.torchscript},
             {options.output, SamplesPath(options), cluster_path, options.graph_output});
  CheckClusterPath(cluster_path);
  const OpenDevices open(options.devices);
  Profile profile = LoadOrBegin(options.output);
  const Graph graph = LoadModel(options);
  profile.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  profiler::MachineProfilerOptions machine{.ops = options.ops,
                                           .links = !options.no_links,
                                           .contention = !options.no_links,
                                           .contention_options = {},
                                           .make_meter = {}};
  machine.sampling = *EnumOfName<profiler::Sampling>(options.sampling);
  machine.make_meter = [](profiler::HardwareDevice& device) {
    return device.is_cpu() ? profiler::MakeClockMeter() : profiler::MakeCuptiMeter(device);
  };
  std::optional<profiler::SampleLog> log;
  if (const std::string path = SamplesPath(options); !path.empty()) {
    log.emplace(path, profile.host);
    machine.ops.log = machine.contention_options.log = &*log;
    if (log->num_earlier() > 0) {
      PrintMessage(
          fmt::format("profile: {} samples of a run that was stopped count too ({})", log->num_earlier(), path));
    }
  }
  profiler::MachineProfilerResult result;
  const profiler::LoadWatch load(open.devices());
  {
    Progress progress("profile");
    result = WithLocation(options.graph.empty() ? options.torchscript : options.graph, [&] {
      return profiler::ExtendProfile(
          graph, open.devices(), machine, &profile,
          [&](const Profile& now) {
            if (options.output != "-") WriteFile(options.output, [&](std::ostream& out) { WriteProfile(out, now); });
          },
          [&](const profiler::MachineProfilerProgress& now) {
            const double rate =
                now.seconds > 0 ? static_cast<double>(now.done) / now.seconds : 0;  // rate of this `what`
            progress.Show(
                {.done = now.done, .total = now.total, .things = "ops", .per_second = rate, .note = now.what});
          });
    });
  }
  const std::string load_advice = profiler::AdviceOnLoad(load.OthersBusyCores(), load.num_cores());
  std::vector<FileToWrite> files = {{options.output, [&](std::ostream& out) { WriteProfile(out, profile); }}};
  if (!options.graph_output.empty()) {
    files.push_back({options.graph_output, [&](std::ostream& out) { WriteGraph(out, graph); }});
  }
  if (!cluster_path.empty() && !options.no_links) {
    files.push_back({cluster_path, [&](std::ostream& out) {
                       WriteCluster(out, profiler::MachineCluster("this machine", open.Named(), profile));
                     }});
  }
  WriteFiles(files);
  if (log) log->Finish(profile);
  Summarise(options, profile, result, load_advice);
  return kSuccess;
}

}  // namespace

Command AddProfile(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("profile", "Measure the time of each distinct op of a model on real devices");
  auto options = std::make_shared<ProfileOptions>();
  command->add_option("graph,--graph", options->graph, "graph.json")->type_name("FILE");
  command->add_option("--torchscript", options->torchscript, "Module written by torch.jit.save, instead of a graph")
      ->type_name("FILE");
  command
      ->add_option("--input", options->inputs,
                   "Shape of each input of the module, such as 32x3x299x299, or i64:32x20:10000 with dtype and bound")
      ->type_name("SHAPE");
  command->add_flag("--backward", options->backward, "Include the module's backward pass");
  command->add_option("--graph-out", options->graph_output, "Write the module's graph")->type_name("FILE");
  command->add_option("--devices", options->devices, "cpu:N is the N-th core, cuda:N a GPU")
      ->type_name("NAME,...")
      ->capture_default_str();
  command
      ->add_option("-o,--output", options->output,
                   "profile.json; missing entries are added to an existing one, so that a stopped run resumes")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--cluster-out", options->cluster_output,
                   "cluster.yaml to write, with the devices and their links (default: cluster.yaml beside the profile)")
      ->type_name("FILE");
  command
      ->add_option("--sampling", options->sampling,
                   "steps runs all ops in program order, step after step; ops repeats each op by itself; auto is steps "
                   "for graphs of PyTorch's operators whose steps fit in memory, else ops")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "steps", "ops"}).description(""))
      ->capture_default_str();
  command
      ->add_option("--samples", options->ops.samples,
                   "Samples of each op, unless --seconds run out first; with --sampling steps, measured steps")
      ->type_name("N")
      ->transform(IntegerFrom(3, 100'000))
      ->capture_default_str();
  command
      ->add_option(
          "--seconds", options->ops.seconds,
          "Seconds to spend on one op by itself at most; three samples are always taken, and the ops that make up 90 % "
          "of the step have all")
      ->type_name("S")
      ->transform(NumberFrom(0.001, 3600))
      ->capture_default_str();
  command
      ->add_option("--patience", options->ops.patience_seconds,
                   "Seconds in all to repeat samples that other programs disturbed on a shared core")
      ->type_name("S")
      ->transform(NumberFrom(0, 36'000))
      ->capture_default_str();
  command->add_flag("--no-links", options->no_links, "Do not measure links and contention, and write no cluster");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
