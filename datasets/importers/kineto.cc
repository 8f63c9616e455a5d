#include "datasets/importers/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "datasets/importers/importers.h"
#include "datasets/importers/trace_step.h"
#include "sim/base/check.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/units.h"
#include "sim/cost/cost_models.h"
#include "sim/cost_model.h"
#include "sim/simulator.h"

namespace emplace::datasets {
namespace {

constexpr std::size_t kMaxTracks = 2000;  // links are their square
// Per cent of the device time that may have been launched before the window: what is trimmed, and in all.
constexpr double kMostTrimmed = 50;
constexpr double kMostBefore = 90;

double Micros(std::int64_t nanos) { return MicrosFromDuration(Duration(nanos)); }

std::string_view KindOfTrace(TraceStep::OpType type) {
  switch (type) {
    case TraceStep::OpType::kHost:
    case TraceStep::OpType::kRange:
      return "host";
    case TraceStep::OpType::kWait:
      return "wait";
    case TraceStep::OpType::kArrival:
      return "arrival";
    case TraceStep::OpType::kKernel:
      return "kernel";
    case TraceStep::OpType::kCollective:
      return "collective";
    case TraceStep::OpType::kCopy:
      return "memcpy";
    case TraceStep::OpType::kSet:
      return "memset";
    case TraceStep::OpType::kBacklog:
      return "backlog";
  }
  return "op";
}

class GraphMaker {
 public:
  GraphMaker(const std::vector<KinetoTrace>& traces, const TraceStep& step) : traces_(traces), step_(step) {
    std::size_t events = 0;
    for (const KinetoTrace& trace : traces_) {
      kernels_of_.emplace_back(trace.events.size(), 0);
      tf32_.emplace_back(trace.events.size(), false);
      first_event_.push_back(events);
      events += trace.events.size();
    }
    for (const TraceStep::Op& op : step_.ops) {
      if (op.type != TraceStep::OpType::kKernel || op.source == TraceStep::kNone) continue;
      ++KernelsOf(op);
      const std::size_t rank = step_.devices[op.device].rank;
      if (op.event != TraceStep::kNone && IsTf32(TextOf(op.event, traces_[rank]))) tf32_[rank][op.source] = true;
    }
  }

  Imported Make(double attributed) {
    Imported imported;
    MakeDevices();
    imported.graph = MakeGraph();
    imported.cluster = MakeCluster();
    std::vector<OpId> ids(step_.ops.size());
    Placement placement(step_.ops.size());
    for (std::size_t i = 0; i < step_.ops.size(); ++i) {
      const OpId id = MakeId<OpId>(i);
      const std::uint32_t op = imported.graph.op(id).file_position;
      ids[op] = id;
      placement[id] = MakeId<DeviceId>(step_.ops[op].device);
    }
    imported.placement = std::move(placement);
    imported.measured = MakeMeasured(ids);
    imported.attributed_percent = attributed;
    Simulate(&imported);
    imported.graph.SetMetadata(Metadata(attributed, *imported.measured));
    return imported;
  }

 private:
  static void Simulate(Imported* imported) {
    MeasuredStep& measured = *imported->measured;
    const CostTable costs(imported->graph, *imported->cluster, *MakeMeasuredCostModel());
    const SimOptions options{.peak_memory = measured.peak_bytes.has_value()};
    const StepResult result = Simulator(imported->graph, *imported->cluster, costs, options).Run(*imported->placement);
    measured.simulated_time_micros = result.step_time_micros;
    for (const Bytes& peak : result.peak_memory) measured.simulated_peak_bytes += peak.count;
  }

  // An operator, which cost models know by its kind, unless it is only a range around others.
  std::string_view KindOfTrace(const TraceStep::Op& op, std::string_view name) const {
    const bool is_operator = op.type == TraceStep::OpType::kRange && !op.calls_operators && !name.empty();
    return is_operator ? ShortName(name) : datasets::KindOfTrace(op.type);
  }

  // A GPU whose number the trace's properties lack has the only name that is there: drivers count in their own way.
  static std::string NameOf(const std::map<std::int64_t, std::string>& names, std::int64_t gpu) {
    const auto name = names.find(gpu);
    if (name != names.end()) return name->second;
    const bool is_clear = !names.empty() && std::all_of(names.begin(), names.end(), [&](const auto& other) {
      return other.second == names.begin()->second;
    });
    return is_clear ? names.begin()->second : "";
  }

  void MakeDevices() {
    std::map<std::pair<std::size_t, std::int64_t>, std::size_t> gpus;
    for (const TraceStep::Device& device : step_.devices) {
      if (!device.is_stream) {
        kinds_.emplace_back(kTraceThreadKind);
        gpu_of_.push_back(MeasuredStep::kInvalidGpu);
        continue;
      }
      const std::string name = NameOf(traces_[device.rank].gpus, device.gpu);
      kinds_.push_back(KindOfGpu(name));
      const auto [gpu, added] = gpus.try_emplace({device.rank, device.gpu}, gpus.size());
      if (added) {
        gpus_.push_back((traces_.size() == 1 ? "" : fmt::format("rank {} ", device.rank)) +
                        (name.empty() ? fmt::format("gpu {}", device.gpu) : name));
      }
      gpu_of_.push_back(gpu->second);
    }
  }

  std::string_view TextOf(std::uint32_t event, const KinetoTrace& trace) const {
    return event == TraceStep::kNone ? std::string_view() : trace.text(trace.events[event].name);
  }

  Graph MakeGraph() {
    GraphBuilder builder("kineto");
    builder.Reserve(step_.ops.size());
    OpSpec spec;
    spec.kind_times.resize(1);
    std::vector<std::vector<OutputSpec>> outputs(step_.tensors.empty() ? 0 : step_.ops.size());
    std::vector<std::vector<OutputPosition>> inputs(outputs.size());
    for (const TraceStep::Tensor& tensor : step_.tensors) {
      if (tensor.to != tensor.from) {
        inputs[tensor.to].push_back({tensor.from, static_cast<std::uint32_t>(outputs[tensor.from].size())});
      }
      outputs[tensor.from].push_back({.size = Bytes{tensor.bytes}, .dtype = DType::kNone, .shape = {}});
    }
    for (std::size_t i = 0; i < step_.ops.size(); ++i) {
      const TraceStep::Op& op = step_.ops[i];
      const KinetoTrace& trace = traces_[step_.devices[op.device].rank];
      std::string_view what = TextOf(op.source, trace);
      if (what.empty()) what = TextOf(op.event, trace);
      if (what.empty()) what = datasets::KindOfTrace(op.type);
      spec.name = fmt::format("{:07} {}", i, WithoutColons(ShortName(what)));
      spec.kind = KindOfTrace(op, what);
      spec.attrs = Attrs(op, trace);
      spec.layer = ShortName(TextOf(op.outer, trace));
      spec.kind_times[0] = {kinds_[op.device], Micros(op.time)};
      spec.control_positions = op.after;
      spec.temp = Bytes{op.temp_bytes};
      if (!outputs.empty()) {
        spec.outputs = std::move(outputs[i]);
        spec.input_positions = std::move(inputs[i]);
      }
      builder.Add(spec);
    }
    return builder.Build();
  }

  // A JSON object, put together as text: there may be millions.
  class AttrsText {
   public:
    void Text(std::string_view key, std::string_view value) { AppendQuotedUtf8(Key(key), value); }
    void Number(std::string_view key, double value) { AppendNumber(Key(key), value); }
    void Integer(std::string_view key, std::int64_t value) { AppendNumber(Key(key), value); }
    void Json(std::string_view key, std::string_view value) { Key(key)->append(value); }
    std::string Take() {
      text_.append(text_.empty() ? "{}" : "}");
      text_.shrink_to_fit();
      return std::move(text_);
    }

   private:
    std::string* Key(std::string_view key) {
      text_.push_back(text_.empty() ? '{' : ',');
      AppendQuotedUtf8(&text_, key);
      text_.push_back(':');
      return &text_;
    }
    std::string text_;
  };

  std::string Attrs(const TraceStep::Op& op, const KinetoTrace& trace) {
    AttrsText attrs;
    attrs.Number("measured_start_us", Micros(op.measured_start));
    const bool is_host = op.type == TraceStep::OpType::kHost || op.type == TraceStep::OpType::kWait;
    const bool is_range = op.type == TraceStep::OpType::kRange;
    if (op.event != TraceStep::kNone && !is_range) {
      attrs.Text(is_host ? "call" : "kernel", ShortName(TextOf(op.event, trace)));
    }
    if (op.source != TraceStep::kNone) {
      const TraceEvent& source = trace.events[op.source];
      attrs.Text("op", ShortName(trace.text(source.name)));
      if (!is_host) {
        const TraceDetails& details = trace.details_of(source);
        const std::size_t rank = step_.devices[op.device].rank;
        AddList(&attrs, "input_dims", rank, details.shapes);
        AddList(&attrs, "input_types", rank, details.types);
        AddList(&attrs, "input_values", rank, details.values);
        if (trace.text(details.types).find("TensorList") != std::string_view::npos) {
          const std::string_view type = ElementTypeOf(TextOf(op.event, trace));
          if (!type.empty()) attrs.Text("list_type", type);
        }
      }
      if (op.type == TraceStep::OpType::kKernel && KernelsOf(op) > 1) {
        attrs.Integer("op_call", static_cast<std::int64_t>(first_event_[step_.devices[op.device].rank]) + op.source);
        attrs.Integer("op_kernels", static_cast<std::int64_t>(KernelsOf(op)));
      }
      if (!is_host && tf32_[step_.devices[op.device].rank][op.source]) attrs.Json("tf32", "true");
    }
    if (!is_host && !is_range && op.event != TraceStep::kNone) {
      const TraceDetails& details = trace.details_of(trace.events[op.event]);
      if (details.bytes >= 0) attrs.Integer("copied_bytes", details.bytes);
      if (details.collective != 0) attrs.Text("collective", trace.text(details.collective));
      if (details.group != 0) attrs.Text("process_group", trace.text(details.group));
      if (details.elements >= 0) attrs.Integer("elements", details.elements);
      if (details.dtype != 0) attrs.Text("dtype", trace.text(details.dtype));
    }
    return attrs.Take();
  }

  // Whether a product of f32 matrices runs on tensor cores: 1688 is the shape of their instruction for TF32.
  static bool IsTf32(std::string_view kernel) {
    return kernel.find("tf32") != std::string_view::npos || kernel.find("s1688gemm") != std::string_view::npos;
  }

  // The op range around the call that launched it.
  std::uint32_t& KernelsOf(const TraceStep::Op& op) { return kernels_of_[step_.devices[op.device].rank][op.source]; }

  // The profiler does not say what lists of tensors hold, but the arguments of a kernel's template do.
  static std::string_view ElementTypeOf(std::string_view kernel) {
    if (kernel.find("BFloat16") != std::string_view::npos) return "c10::BFloat16";
    if (kernel.find("c10::Half") != std::string_view::npos) return "c10::Half";
    if (kernel.find("OpaqueType<2u>") != std::string_view::npos) return "c10::BFloat16";
    if (kernel.find("OpaqueType<8u>") != std::string_view::npos) return "double";
    if (kernel.find("OpaqueType<1u>") != std::string_view::npos) return "unsigned char";
    return {};
  }

  // Each text of a rank's trace is looked at once.
  void AddList(AttrsText* attrs, std::string_view key, std::size_t rank, std::uint32_t text) {
    const std::string_view list = traces_[rank].text(text);
    if (list.empty()) return;
    std::string& json = lists_[{rank, text}];
    if (json.empty()) json = JsonText(ParseJson(list));
    attrs->Json(key, json);
  }

  std::string Metadata(double attributed, const MeasuredStep& step) const {
    JsonObject measured;
    AddMember(&measured, "step_time_us", step.step_time_micros);
    AddMember(&measured, "attributed_percent", attributed);
    AddMember(&measured, "simulated_step_time_us", step.simulated_time_micros);
    AddMember(&measured, "unexplained_percent", step.UnexplainedPercent());
    if (step.peak_bytes) {
      AddMember(&measured, "peak_bytes", *step.peak_bytes);
      AddMember(&measured, "simulated_peak_bytes", step.simulated_peak_bytes);
    }
    JsonList gpus;
    for (const std::string& gpu : gpus_) gpus.push_back(ToJson(gpu));
    JsonObject metadata;
    AddMember(&metadata, "source", "kineto");
    AddMember(&metadata, "gpus", std::move(gpus));
    AddMember(&metadata, "measured", std::move(measured));
    return JsonText(ToJson(std::move(metadata)));
  }

  Cluster MakeCluster() const {
    constexpr double kFree = 1e9;  // GB/s: nothing is sent
    std::vector<Device> devices;
    for (std::size_t d = 0; d < step_.devices.size(); ++d) {
      devices.push_back({.name = step_.devices[d].name,
                         .kind = kinds_[d],
                         .memory = std::nullopt,
                         .op_gap_micros = Micros(step_.devices[d].gap),
                         .is_cpu = !step_.devices[d].is_stream});
    }
    std::vector<Link> links;
    for (const TraceStep::Device& from : step_.devices) {
      for (const TraceStep::Device& to : step_.devices) {
        const bool launches = !from.is_stream && to.is_stream;
        links.push_back(
            {.bandwidth_gb_per_s = kFree, .latency_micros = launches ? Micros(to.launch_delay) : 0, .gap_micros = 0});
      }
    }
    std::string source = "threads and streams of a trace of PyTorch's profiler";
    for (std::size_t i = 0; i < std::min<std::size_t>(gpus_.size(), 4); ++i)
      source += (i == 0 ? " on " : ", ") + gpus_[i];
    return {"kineto", std::move(source), std::move(devices), std::move(links), Channels::kPerPair};
  }

  MeasuredStep MakeMeasured(const std::vector<OpId>& ids) const {
    MeasuredStep measured;
    measured.step_time_micros = Micros(step_.measured_time);
    measured.op_start_micros.resize(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      measured.op_start_micros[Index(ids[i])] = Micros(step_.ops[i].measured_start);
    }
    for (const TraceStep::Activity& activity : step_.activities) {
      measured.runs.push_back({ids[activity.first], ids[activity.last], Micros(activity.start), Micros(activity.end)});
    }
    for (const TraceStep::Busy& busy : step_.backlog) {
      measured.backlog.push_back({busy.device, Micros(busy.start), Micros(busy.end)});
    }
    measured.peak_bytes = step_.peak_bytes;
    measured.without_call_micros = Micros(step_.activity_time - step_.launched_time);
    measured.steps = StepsOf(traces_);
    measured.step = step_.step;
    measured.gpu_of = gpu_of_;
    measured.gpus = gpus_;
    return measured;
  }

  const std::vector<KinetoTrace>& traces_;
  const TraceStep& step_;
  std::vector<std::vector<std::uint32_t>> kernels_of_;  // indexed by rank and event that is an op range
  std::vector<std::vector<bool>> tf32_;                 // likewise: whether a kernel of it is IsTf32
  std::vector<std::size_t> first_event_;                // indexed by rank: events are counted over all of them
  std::map<std::pair<std::size_t, std::uint32_t>, std::string> lists_;  // keyed by rank and text: as compact JSON
  std::vector<std::string> kinds_;                                      // indexed by device
  std::vector<std::size_t> gpu_of_;                                     // indexed by device
  std::vector<std::string> gpus_;
};

}  // namespace

std::string WithoutColons(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (c != ':') {
      name.push_back(c);
    } else if (name.empty() || name.back() != '.') {
      name.push_back('.');
    }
  }
  return name;
}

std::string_view ShortName(std::string_view name) {
  std::size_t most = 100;
  if (name.size() <= most) return name;
  while (most > 0 && (static_cast<unsigned char>(name[most]) & 0xc0) == 0x80) --most;
  return name.substr(0, most);
}

std::string KindOfGpu(std::string_view name) {
  std::string kind;
  std::vector<std::string> words;
  std::string letters;
  for (const char c : std::string(name) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    } else if (!letters.empty()) {
      words.push_back(std::move(letters));
      letters.clear();
    }
  }
  for (const std::string& candidate : words) {
    for (const std::string_view known : {"k40", "k80", "p100", "v100", "a100", "h100", "h200", "b200", "mi300x"}) {
      if (!candidate.starts_with(known)) continue;
      // The catalogue's are SXM; other cards of that name are slower.
      const bool has_others = known == "h100" || known == "h200";
      for (const std::string& word : words) {
        if (has_others && (word == "pcie" || word == "nvl")) return fmt::format("{}-{}", known, word);
      }
      return std::string(known);
    }
    // Not "A10G" or "L40", which are other cards.
    for (const std::string_view known : {"a10", "l4", "l40s"}) {
      if (candidate == known) return std::string(known);
    }
  }
  // "NVIDIA GeForce RTX 2080 Ti"; not "RTX 4090 D" or "Laptop".
  const auto rtx = std::find(words.begin(), words.end(), "rtx");
  if (rtx != words.end()) {
    std::string model;
    for (auto part = rtx; part != words.end(); ++part) model += (part == rtx ? "" : "-") + *part;
    if (model == "rtx-4090" || model == "rtx-2080-ti") return model;
  }
  for (const std::string& part : words) {
    if (part == "nvidia" || part == "tesla") continue;
    kind += (kind.empty() ? "" : "-") + part;
  }
  return kind.empty() ? "gpu" : kind;
}

bool LooksLikeKineto(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  if (head[first] == '{') return head.find("\"traceEvents\"") != std::string_view::npos;
  return head[first] == '[' && head.find("\"ph\"") != std::string_view::npos;
}

namespace {

std::string OpsOfCpu(const TraceStep& step) {
  std::int64_t between = 0;
  for (const TraceStep::Op& op : step.ops) between += op.type == TraceStep::OpType::kHost ? op.time : 0;
  return fmt::format("{} op ranges on {}: {:.3f} ms in them, {:.3f} ms between them", step.activities.size(),
                     step.devices.size() == 1 ? "1 thread" : fmt::format("{} threads", step.devices.size()),
                     static_cast<double>(step.activity_time) / 1e6, static_cast<double>(between) / 1e6);
}

std::string PeakText(const MeasuredStep& step) {
  return fmt::format("memory: {} allocated at the peak as measured, {} as simulated",
                     HumanReadable(Bytes{*step.peak_bytes}), HumanReadable(Bytes{step.simulated_peak_bytes}));
}

}  // namespace

Imported MakeTraceGraph(const std::vector<KinetoTrace>& traces, double min_attributed, std::string_view which) {
  const TraceStep step = RebuildStep(traces, which);
  if (step.devices.size() > kMaxTracks) {
    throw InputError("traceEvents", fmt::format("there are {} threads and streams in use (at most {})",
                                                step.devices.size(), kMaxTracks));
  }
  const auto percent = [&](std::int64_t time) {
    return step.activity_time == 0 ? 100.0 : 100 * static_cast<double>(time) / static_cast<double>(step.activity_time);
  };
  double attributed = percent(step.launched_time);
  // Activities launched before the window belong to another step. A window with little else contains no step.
  const auto all = static_cast<double>(step.activity_time + step.backlog_time + step.trimmed_time);
  const auto share = [&](std::int64_t time) { return all > 0 ? 100 * static_cast<double>(time) / all : 0; };
  const double before = share(step.backlog_time + step.trimmed_time);
  if (share(step.trimmed_time) > kMostTrimmed || before > kMostBefore) {
    attributed = share(step.launched_time);
    if (attributed < min_attributed) {
      throw InputError("traceEvents",
                       fmt::format("{:.1f} % of the device time was launched before the window, and only {:.1f} % "
                                   "belongs to a call in the trace (at least {} %; --min-attributed lowers that)",
                                   before, attributed, NumberText(min_attributed)));
    }
  }
  if (attributed < min_attributed) {
    throw InputError("traceEvents",
                     fmt::format("only {:.1f} % of the device time belongs to a call in the trace (at least {} %; "
                                 "--min-attributed lowers that)",
                                 attributed, NumberText(min_attributed)));
  }
  Imported imported = GraphMaker(traces, step).Make(attributed);
  imported.notes = step.notes;
  if (before > 5) {
    imported.notes.push_back(fmt::format(
        "warning: {:.1f} % of the device time was launched before the window, and is not the step's work", before));
  }
  if (HoldsOpsAlone(traces.front())) {
    imported.notes.push_back(OpsOfCpu(step));
  } else {
    imported.notes.push_back(
        fmt::format("attributed: {:.1f} % of the step's {:.3f} ms of device time to a call, {:.1f} % to an op; {} GPU "
                    "activities, {} host ops",
                    attributed, static_cast<double>(step.activity_time) / 1e6, percent(step.named_time),
                    step.activities.size(), step.ops.size() - step.activities.size()));
  }
  const double unexplained = imported.measured->UnexplainedPercent();
  imported.notes.push_back(fmt::format("{}simulated: {:.3f} ms of {:.3f} ms that were measured, {} is not explained",
                                       UnexplainedWarning(unexplained), imported.measured->simulated_time_micros / 1000,
                                       imported.measured->step_time_micros / 1000, UnexplainedShare(unexplained)));
  if (imported.measured->peak_bytes) imported.notes.push_back(PeakText(*imported.measured));
  return imported;
}

std::string_view UnexplainedWarning(double percent) { return std::abs(percent) > kWarnUnexplained ? "warning: " : ""; }

std::string UnexplainedShare(double percent) {
  return fmt::format("{:.2f} %", std::round(percent * 100) / 100 + 0.0);  // the sum turns -0 into 0
}

Imported ImportKineto(std::span<const ImportSource> sources, const ImportOptions& options) {
  std::vector<KinetoTrace> traces;
  std::vector<std::size_t> source_of;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (KinetoTrace& trace :
         WithLocation(sources[i].name(), [&] { return SplitRanks(ReadKinetoTrace(sources[i])); })) {
      trace.file = i;
      traces.push_back(std::move(trace));
      source_of.push_back(i);
    }
  }
  std::map<std::int64_t, std::size_t> ranks;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (!traces[i].rank) continue;
    const auto [other, is_new] = ranks.try_emplace(*traces[i].rank, i);
    if (!is_new) {
      throw InputError(sources[source_of[i]].name(),
                       fmt::format("is of rank {}, and so is {} (each rank once)", *traces[i].rank,
                                   sources[source_of[other->second]].name()));
    }
  }
  return WithLocation(sources.front().name(),
                      [&] { return MakeTraceGraph(traces, options.min_attributed_percent, options.step); });
}

}  // namespace emplace::datasets
