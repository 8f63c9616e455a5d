// emplace calibrate: curves of op times from measurements of the user's own.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "datasets/importers/registry.h"
#include "experiments/validation/device_fit.h"
#include "experiments/validation/llama_bench.h"
#include "experiments/validation/measured_shapes.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/cost/cost_models.h"
#include "sim/cost/curves.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/profile.h"
#include "tools/cli/commands.h"
#include "tools/cli/importing.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

struct CalibrateOptions {
  std::vector<std::string> files;
  std::vector<std::string> graphs;
  std::string output;
  std::string kind;
  std::string cluster;
  std::string like;
  double multiprocessors = 0;
  std::optional<double> l2_mib;
  std::string tf32;
  std::string step;
  bool json = false;
  double min_attributed = datasets::ImportOptions().min_attributed_percent;
};

// What a file was measured on: "" if it does not say it.
struct MeasuredFile {
  std::string kind;
  experiments::MeasuredShapes shapes;
};

bool IsCsvFile(std::string_view path) { return path.ends_with(".csv") || path.ends_with(".csv.gz"); }

// The device of a profile: the one that was asked for, else the only one.
std::string KindInProfile(const Profile& profile, const std::string& file, const std::string& wanted) {
  std::vector<std::string> kinds;
  for (const Profile::DeviceEntry& device : profile.devices) kinds.push_back(device.kind);
  if (std::find(kinds.begin(), kinds.end(), wanted) != kinds.end()) return wanted;
  if (kinds.size() == 1) return kinds[0];
  throw InputError(file, fmt::format("is of the kinds {} (--kind with one of them)", fmt::join(kinds, ", ")));
}

MeasuredFile ReadMeasuredProfile(const std::string& file, const CalibrateOptions& options,
                                 const RooflineOptions& roofline) {
  if (options.graphs.empty()) {
    throw InputError(file, "is a profile, which has no shapes of calls (--graph with the graph that was profiled)");
  }
  const Profile profile = ReadProfile(*OpenForReading(file, InputKind::kProfile), file);
  const std::unique_ptr<CostModel> model = MakeProfiledCostModel(profile);
  MeasuredFile measured = {.kind = KindInProfile(profile, file, options.kind), .shapes = {}};
  for (const std::string& path : options.graphs) {
    const Graph graph = experiments::LoadGraph({.file = path});
    experiments::MeasuredShapes shapes = experiments::ShapesOfGraph(graph, *model, measured.kind, roofline);
    measured.shapes.Add(std::move(shapes));
  }
  return measured;
}

MeasuredFile ReadMeasured(const std::string& file, const CalibrateOptions& options, const RooflineOptions& roofline) {
  if (IsCsvFile(file)) {
    return {.kind = "", .shapes = experiments::ReadKernelsCsv(*OpenForReading(file, InputKind::kProfile), file)};
  }
  if (datasets::ImportSource(file).head().find("\"emplace.profile\"") != std::string::npos) {
    return ReadMeasuredProfile(file, options, roofline);
  }
  const datasets::Imported imported =
      ImportFiles({file}, "", {.min_attributed_percent = options.min_attributed, .step = options.step}).imported;
  for (const std::string& note : imported.notes) PrintMessage(fmt::format("{}: {}", file, note));
  const auto kind = experiments::FindDominantKind(imported.graph);
  if (!kind) throw InputError(file, "has no op with a measured time on a device (a Kineto trace, a profile or a CSV)");
  return {.kind = *kind,
          .shapes = experiments::ShapesOfGraph(imported.graph, *MakeMeasuredCostModel(), *kind, roofline)};
}

// The device's rates: of the cluster file, else of the catalogue.
DeviceKind RatesOf(const CalibrateOptions& options, const std::string& kind) {
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) cluster = experiments::LoadWholeCluster({.name = options.cluster});
  const DeviceKind* const found = cluster ? cluster->FindKind(kind) : FindDeviceKind(kind);
  if (found == nullptr || found->peak.count <= 0 || found->memory_bandwidth.count <= 0) {
    throw InputError(
        "--kind", fmt::format("is {}, whose rates are not known (a name in `emplace list devices`, or --cluster with a "
                              "file whose `kinds` has it)",
                              Quoted(kind)));
  }
  return *found;
}

// What the fit begins with: the curves of the kind, or none but those of the kind that it is like. Without
// multiprocessors where nothing says how many there are.
DeviceCurves FindBase(const CalibrateOptions& options, const DeviceKind& device) {
  const DeviceCurves* const shipped = FindDeviceCurves(device.name);
  const DeviceCurves* const like = options.like.empty() ? nullptr : FindDeviceCurves(options.like);
  if (!options.like.empty() && like == nullptr) {
    throw InputError(
        "--like", fmt::format("is {}, a kind without curves (one that `--costs curves` knows)", Quoted(options.like)));
  }
  DeviceCurves base;
  if (shipped != nullptr) base = *shipped;
  base.kind = device.name;
  if (like != nullptr) {
    base.like = options.like;
    if (shipped == nullptr) {
      base.multiprocessors = like->multiprocessors;
      base.l2_mib = like->l2_mib;
      base.link_gb_per_s = like->link_gb_per_s;
    }
  }
  if (options.multiprocessors > 0) base.multiprocessors = options.multiprocessors;
  if (options.l2_mib) base.l2_mib = *options.l2_mib;
  if (base.multiprocessors <= 0 && device.is_cpu) {
    constexpr double kUsualCpuCacheMib = 32;
    base.multiprocessors = 1;
    if (!options.l2_mib) base.l2_mib = kUsualCpuCacheMib;
  }
  return base;
}

DeviceCurves BaseOf(const CalibrateOptions& options, const DeviceKind& device) {
  DeviceCurves base = FindBase(options, device);
  if (base.multiprocessors <= 0) {
    throw InputError("--multiprocessors",
                     fmt::format("is missing: nothing says how many {} has (or --like with a kind that is like it)",
                                 Quoted(device.name)));
  }
  return base;
}

std::string NameOfCurve(const experiments::FittedCurve& curve) {
  return fmt::format("{} {}", curve.form, curve.precision);
}

// Curves that have too few shapes, as "product half has 3".
std::string TooFew(const experiments::DeviceFit& fit) {
  std::vector<std::string> few;
  for (const experiments::FittedCurve& curve : fit.fitted) {
    if (curve.is_refused()) few.push_back(fmt::format("{} has {}", NameOfCurve(curve), curve.shapes));
  }
  return fmt::format("{}", fmt::join(few, ", "));
}

void PrintFit(std::ostream& out, const CalibrateOptions& options, const experiments::DeviceFit& fit,
              const experiments::MeasuredShapes& measured) {
  out << fmt::format("curves of {} from {} measured ops\n", Printable(fit.curves.kind), measured.rows.size());
  Table table({"curve", "rows", "shapes", "held out", "median |error| % before", "after", "95 % within, % before",
               "after", "fitted"});
  for (const experiments::FittedCurve& curve : fit.fitted) {
    if (curve.is_refused()) continue;
    const auto percent = [](double value) { return fmt::format("{:.1f}", value); };
    table.Add({NameOfCurve(curve), std::to_string(curve.rows), std::to_string(curve.shapes),
               std::to_string(curve.held_out), percent(curve.median_before), percent(curve.median_after),
               percent(curve.p95_before), percent(curve.p95_after),
               curve.fitted.empty() ? "nothing: the curve of " + curve.began_with + " was no worse"
                                    : fmt::format("{}, from {}", curve.fitted, curve.began_with)});
  }
  table.PrintText(out);
  for (const experiments::FittedCurve& curve : fit.fitted) {
    if (!curve.exceeds_sheet) continue;
    out << fmt::format("{}: rows are faster than the rates of {} allow, so these do not bound the curve\n",
                       NameOfCurve(curve), Printable(fit.curves.kind));
  }
  if (const std::string few = TooFew(fit); !few.empty()) {
    out << fmt::format("too few distinct shapes, at least {} are needed: {}\n", experiments::kFewestShapes, few);
  }
  if (!fit.not_seen.empty()) out << fmt::format("not seen, and left as they are: {}\n", fmt::join(fit.not_seen, ", "));
  if (measured.several > 0)
    out << fmt::format("{} calls that are several products at once: not used\n", measured.several);
  if (measured.unknown > 0)
    out << fmt::format("{} measured ops without shapes that a curve is for: not used\n", measured.unknown);
  if (fit.without_rate > 0) {
    out << fmt::format("{} rows of a type for which {} has no rate: not used\n", fit.without_rate,
                       Printable(fit.curves.kind));
  }
  if (options.output != "-") out << fmt::format("use them: --costs {}\n", Printable(options.output));
}

// `emplace.device-fit`, version 1.
void PrintFitJson(std::ostream& out, const experiments::DeviceFit& fit, const experiments::MeasuredShapes& measured) {
  auto curves = nlohmann::ordered_json::array();
  for (const experiments::FittedCurve& curve : fit.fitted) {
    nlohmann::ordered_json row = {{"curve", curve.form},    {"precision", curve.precision}, {"rows", curve.rows},
                                  {"shapes", curve.shapes}, {"fitted", curve.fitted},       {"from", curve.began_with}};
    if (!curve.is_refused()) {
      row["held_out"] = curve.held_out;
      row["before_percent"] = {{"median", curve.median_before}, {"p95", curve.p95_before}};
      row["after_percent"] = {{"median", curve.median_after}, {"p95", curve.p95_after}};
      row["exceeds_sheet"] = curve.exceeds_sheet;
    }
    curves.push_back(std::move(row));
  }
  const nlohmann::ordered_json json = {{"schema", "emplace.device-fit"},
                                       {"version", 1},
                                       {"kind", fit.curves.kind},
                                       {"curves", curves},
                                       {"not_seen", fit.not_seen},
                                       {"fewest_shapes", experiments::kFewestShapes},
                                       {"unused",
                                        {{"several_products", measured.several},
                                         {"without_shape", measured.unknown},
                                         {"without_rate", fit.without_rate}}}};
  out << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

// The counts above 0, with what they count.
std::string CountsText(const std::vector<std::pair<std::size_t, std::string_view>>& counts) {
  std::vector<std::string> parts;
  for (const auto& [count, what] : counts) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool IsLlamaBenchFile(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;  // a pipe is read once
  return experiments::IsLlamaBench(datasets::ImportSource(file).head());
}

// Files of llama-bench, whose rates become those of generating text and of the curve of products.
int RunLlamaBench(const CalibrateOptions& options) {
  if (options.kind.empty()) throw InputError("--kind", "is missing: llama-bench names no kind of device");
  experiments::BenchRows read;
  for (const std::string& file : options.files) {
    if (!IsLlamaBenchFile(file)) throw InputError(file, "is not of llama-bench, which others are (all or none)");
    read = experiments::ReadLlamaBench(*OpenForReading(file, InputKind::kProfile), file, std::move(read));
  }
  const DeviceKind device = RatesOf(options, options.kind);
  const DeviceCurves base = FindBase(options, device);
  const experiments::SustainedRates rates =
      WithLocation(options.files.front(), [&] { return experiments::FindSustainedRates(read.rows, device); });
  const std::string source = fmt::format("emplace calibrate {}", fmt::join(options.files, " "));
  DeviceCurves curves = base;
  const bool has_products = CurveKeyOf(device, Precision::kF16, base).has_value();
  if (has_products) curves = experiments::WithSustainedRates(base, device, read.rows, rates, source);
  curves.generation = experiments::GenerationRatesOf(read.rows, rates, source);
  WriteFile(options.output, [&](std::ostream& out) { WriteDeviceCurves(out, curves); });
  const double peak = RateOf(device, Precision::kF16).peak.count / 1e12;
  const double bandwidth = static_cast<double>(device.memory_bandwidth.count) / 1e9;
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"schema", "emplace.device-fit"},
        {"version", 1},
        {"kind", device.name},
        {"sustained_tflop_per_s", rates.tflop_per_s},
        {"sustained_gb_per_s", rates.gb_per_s},
        {"token_us", rates.token_micros},
        {"prompt_rows", rates.prompts},
        {"generation_rows", rates.generations},
        {"models", rates.models},
        {"median_error_percent",
         {{"prompts", rates.prompt_error_percent}, {"generation", rates.generation_error_percent}}},
        {"fewest_rows", experiments::kFewestBenchRows},
        {"unused",
         {{"slower", read.slower},
          {"deep", read.deep},
          {"prompt_and_generation", read.both},
          {"experts", read.experts},
          {"bound_by_memory", rates.bound_by_memory},
          {"beyond_rates", rates.beyond_rates}}}};
    std::cout << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    return kSuccess;
  }
  std::ostream& out = options.output == "-" ? std::cerr : std::cout;
  out << fmt::format("sustained rates of {} ({}) from {} models\n", Printable(device.name), Printable(read.device),
                     rates.models)
      << fmt::format(
             "compute  {:.4g} TFLOP/s, {:.0f} % of the peak in half precision: the fastest of {} prompts, models "
             "differ by {:.1f} %\n",
             rates.tflop_per_s, 100 * rates.tflop_per_s / peak, rates.prompts, rates.prompt_error_percent)
      << fmt::format("memory   {:.4g} GB/s, {:.0f} % of the data sheet's: {} of generation, median |error| {:.1f} %\n",
                     rates.gb_per_s, 100 * rates.gb_per_s / bandwidth, rates.generations,
                     rates.generation_error_percent);
  if (rates.token_micros > 0) {
    out << fmt::format("beside its weights, each generated token takes {:.0f} us, which no curve has\n",
                       rates.token_micros);
  } else {
    out << "models of one size do not tell what a token takes beside its weights\n";
  }
  const std::string unused = CountsText(
      {{read.slower, "of a test that another row is faster in"},
       {read.deep, "after other tokens"},
       {read.both, "of prompt and generation at once"},
       {read.experts, "of mixtures of experts that do not say which part a token uses"},
       {rates.bound_by_memory, "prompts that reading the weights takes longest of"},
       {rates.beyond_rates, "of models that are faster than the device could read or compute all of their weights"}});
  if (!unused.empty()) out << fmt::format("rows not used: {}\n", unused);
  out << (has_products ? "not seen, and left as they are: products in f32, convolution, attention, decoding, "
                         "normalisation, softmax, elementwise, collectives\n"
                       : "for GGUF models alone: other graphs would need --multiprocessors and --l2-mib\n");
  if (options.output != "-") out << fmt::format("use them: --costs {}\n", Printable(options.output));
  return kSuccess;
}

int Run(const CalibrateOptions& options) {
  std::vector<std::string> inputs = options.files;
  inputs.insert(inputs.end(), options.graphs.begin(), options.graphs.end());
  inputs.push_back(options.cluster);
  CheckFiles(inputs, {options.output});
  if (options.output != "-" && experiments::CurvesFiles(options.output).size() != 1) {
    throw InputError("-o", fmt::format("is {} (a name that ends in .yaml, so that --costs takes it for a file)",
                                       Quoted(options.output)));
  }
  if (options.json && options.output == "-") throw InputError("--json", "and -o - exclude each other");
  const BusyLine busy("calibrate");
  for (const std::string& file : options.files) {
    if (IsLlamaBenchFile(file)) return RunLlamaBench(options);
  }
  const RooflineOptions roofline = {.tf32 = Tf32FromName(options.tf32, "--tf32")};
  experiments::MeasuredShapes measured;
  std::string kind = options.kind;
  std::string first;
  for (const std::string& file : options.files) {
    MeasuredFile read = ReadMeasured(file, options, roofline);
    if (options.kind.empty() && !read.kind.empty()) {
      if (!kind.empty() && kind != read.kind) {
        throw InputError(file, fmt::format("was measured on {}, {} on {} (one device in a file of curves)",
                                           Quoted(read.kind), first, Quoted(kind)));
      }
      kind = read.kind;
      first = file;
    }
    measured.Add(std::move(read.shapes));
  }
  if (kind.empty()) throw InputError("--kind", "is missing: a table of kernels does not name its device");
  const DeviceKind device = RatesOf(options, kind);
  const DeviceCurves base = BaseOf(options, device);
  const experiments::DeviceFit fit = experiments::FitDevice(
      device, base, measured, fmt::format("emplace calibrate {}", fmt::join(options.files, " ")));
  if (fit.is_empty()) {
    const std::string few = TooFew(fit);
    throw InputError(options.files.front(),
                     few.empty() ? fmt::format("has no measured op that a curve is for, of {} ({})",
                                               measured.unknown + measured.several + fit.without_rate,
                                               "products, attention, norms, softmax and what moves bytes, with shapes")
                                 : fmt::format("has too few distinct shapes: {} (at least {} of a curve)", few,
                                               experiments::kFewestShapes));
  }
  WriteFile(options.output, [&](std::ostream& out) { WriteDeviceCurves(out, fit.curves); });
  if (options.json) {
    PrintFitJson(std::cout, fit, measured);
  } else {
    PrintFit(options.output == "-" ? std::cerr : std::cout, options, fit, measured);
  }
  return kSuccess;
}

}  // namespace

Command AddCalibrate(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "calibrate", "Fit curves of op times to measurements of your own, for --costs with the file that it writes");
  auto options = std::make_shared<CalibrateOptions>();
  command
      ->add_option(
          "measurements", options->files,
          "profile.json of emplace profile or et.profile, Kineto trace with shapes, CSV of kernels, or output of "
          "llama-bench -o jsonl or -o json (docs/curves.md)")
      ->required()
      ->type_name("FILE");
  command->add_option("--graph", options->graphs, "Graph that a profile is of; may be repeated")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("-o,--output", options->output, "device.yaml to write")->required()->type_name("FILE");
  command
      ->add_option("--kind", options->kind,
                   "Kind of device that was measured, whose rates the fit begins with (default: as the files say)")
      ->type_name("KIND");
  command
      ->add_option("--cluster", options->cluster,
                   "cluster.yaml whose `kinds` has the rates of a device that is in no catalogue")
      ->type_name("FILE");
  command
      ->add_option("--like", options->like,
                   "Kind whose curves the fit begins with, and which stay where nothing was measured (default: the "
                   "kind's own, else the median of all)")
      ->type_name("KIND");
  command
      ->add_option("--multiprocessors", options->multiprocessors,
                   "Multiprocessors of the device (default: those of the kind or of --like; 1 for a CPU)")
      ->type_name("N")
      ->transform(NumberFrom(1, 100'000));
  command->add_option("--l2-mib", options->l2_mib, "Size of its last cache in MiB (default: likewise; 32 for a CPU)")
      ->type_name("MIB")
      ->transform(NumberFrom(0, 100'000));
  command
      ->add_option("--tf32", options->tf32,
                   "f32 products that it computed in TF32: none, convolutions or all (default: as in the trace, else "
                   "convolutions)")
      ->type_name("WHICH");
  AddStepOption(*command, &options->step, /*mean=*/false);
  AddMinAttributedOption(*command, &options->min_attributed);
  command->add_flag("--json", options->json, "Print what was fitted as JSON (emplace.device-fit)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
