#include "experiments/report/plan_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "datasets/planner/plan_json.h"
#include "experiments/inputs/choices.h"
#include "experiments/inputs/load.h"
#include "experiments/plan/checked_json.h"
#include "experiments/plan/experiment.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifest = "plans.json";
constexpr std::string_view kPlans = "plans";

std::string CellFile(const std::string& folder, const std::string& id) {
  return (fs::path(folder) / fmt::format("plan_{}.json", id)).string();
}

bool IsClusterFile(const std::string& name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }
bool IsNetworkFile(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".pt2");
}

// The fields of a cell, and what is in the files that it names.
std::string IdOf(const PlanSweepCell& cell) {
  std::string text = JsonText({FieldsToJson(cell)});
  for (const std::string& path : {cell.network, cell.cluster}) {
    if (IsNetworkFile(path)) text += FingerprintText(ReadWholeFile(path, InputKind::kGraph));
    if (IsClusterFile(path)) text += FingerprintText(ReadWholeFile(path, InputKind::kCluster));
  }
  return FingerprintText(text);
}

// All combinations of the values of an object's lists.
std::vector<JsonObject> Combinations(const JsonObject& fields, std::vector<std::string>* swept) {
  std::vector<JsonObject> all = {{}};
  for (const JsonMember& member : fields) {
    const auto* const values = member.value.As<JsonList>();
    if (values == nullptr) {
      for (JsonObject& one : all) one.push_back(member);
      continue;
    }
    if (values->empty())
      throw InputError(fmt::format("plans.{}", member.key), "is an empty list (one value or several)");
    swept->push_back(member.key);
    std::vector<JsonObject> more;
    for (const JsonObject& one : all) {
      for (const JsonValue& value : *values) {
        more.push_back(one);
        more.back().push_back({member.key, value});
      }
    }
    all = std::move(more);
  }
  return all;
}

// Throws InputError.
void CheckCounts(const PlanSweepCell& cell) {
  const std::pair<std::string_view, std::int64_t> counts[] = {{"nodes", cell.nodes},
                                                              {"gpus", cell.gpus.value_or(1)},
                                                              {"global_batch", cell.global_batch},
                                                              {"sequence", cell.sequence.value_or(1)},
                                                              {"lora", cell.lora.value_or(1)}};
  for (const auto& [name, count] : counts) {
    if (count < 1) throw InputError(fmt::format("plans.{}", name), fmt::format("is {} (an integer from 1)", count));
  }
}

datasets::PlanQuestion QuestionOf(const PlanSweepCell& cell) {
  datasets::PlanQuestion question;
  datasets::SetNetwork(cell.network, cell.set, cell.sequence.value_or(0), &question);
  const Cluster cluster = LoadWholeCluster(IsClusterFile(cell.cluster) ? ClusterChoice{.file = cell.cluster}
                                                                       : ClusterChoice{.name = cell.cluster});
  question.machine = datasets::MakePlanMachine(cluster, cell.nodes, cell.gpus);
  const bool has_modules = question.graph && question.graph->modules;
  question.framework =
      &datasets::NamedFramework(cell.framework.value_or(has_modules ? "pytorch" : "megatron"), "framework");
  datasets::SetLora(cell.lora, cell.lora_targets.value_or(""), &question);
  question.global_batch = cell.global_batch;
  question.only = cell.only;
  question.objective = datasets::NamedObjective(cell.objective, "objective");
  question.within = cell.within;
  question.price = cell.price;
  return question;
}

PlanSweepResult Answered(const PlanSweepCell& cell, std::size_t threads, const std::function<bool()>& is_stopped) {
  PlanSweepResult result{.cell = cell, .answer = {}, .error = ""};
  try {
    datasets::PlanQuestion question = QuestionOf(cell);
    question.is_stopped = is_stopped;
    question.threads = threads;
    std::ostringstream text;
    datasets::WritePlans(text, question, datasets::SearchPlans(question));
    result.answer = ParseJson(std::move(text).str());
  } catch (const InputError& error) {
    result.error = error.what();
  }
  return result;
}

// The value of a field as the file says it.
std::string FieldText(const PlanSweepCell& cell, const std::string& field) {
  const JsonObject fields = FieldsToJson(cell);
  const JsonValue* const value = FindMember(fields, field);
  if (value == nullptr) return "-";
  const auto* const text = value->As<std::string>();
  if (text == nullptr) return JsonText(*value);
  return IsNetworkFile(*text) || IsClusterFile(*text) ? fs::path(*text).filename().string() : *text;
}

double NumberAt(const JsonValue& root, std::string_view path) {
  const JsonValue* const value = FindPath(root, path);
  if (value == nullptr) return 0;
  if (const auto* const whole = value->As<std::int64_t>()) return static_cast<double>(*whole);
  const auto* const number = value->As<double>();
  return number == nullptr ? 0 : *number;
}

std::string TextAt(const JsonValue& root, std::string_view path) {
  const JsonValue* const value = FindPath(root, path);
  if (value == nullptr) return "";
  const auto* const text = value->As<std::string>();
  return text == nullptr ? JsonText(*value) : *text;
}

}  // namespace

bool IsPlanSweep(const std::string& file) {
  if (file == "-") return false;
  const std::string text = ReadWholeFile(file, InputKind::kExperiment);
  const JsonValue root = WithLocation(file, [&] { return ParseYaml(text, InputKind::kExperiment); });
  return FindMember(root, kPlans) != nullptr;
}

SweepOfPlans ReadPlanSweep(const std::string& file) {
  return WithLocation(file, [&] {
    const std::string text = ReadWholeFile(file, InputKind::kExperiment);
    const JsonValue root = ParseYaml(text, InputKind::kExperiment);
    const JsonNode node(root);
    CheckSchema(node, "emplace.experiment");
    const JsonFields fields(node, {"schema", "version", "name", "question", "plans"});
    SweepOfPlans sweep;
    sweep.path = file;
    sweep.name = ReadExperimentName(fields.Get("name", "a name for its folder of runs"));
    sweep.question = FirstComment(text);
    if (const auto question = fields.Find("question")) sweep.question = question->Text();
    const JsonNode plans = fields.Get(kPlans, "the fields of `emplace plan`");
    for (JsonObject& combination : Combinations(plans.Object("the fields of `emplace plan`"), &sweep.swept)) {
      const JsonValue value{std::move(combination)};
      PlanSweepCell cell = ReadFields<PlanSweepCell>(JsonNode(node, kPlans, value));
      CheckCounts(cell);
      if (IsNetworkFile(cell.network)) cell.network = ResolvePath(cell.network, file);
      if (IsClusterFile(cell.cluster)) cell.cluster = ResolvePath(cell.cluster, file);
      std::string id = IdOf(cell);
      if (std::ranges::find(sweep.ids, id) != sweep.ids.end()) {
        throw InputError("plans", fmt::format("ask {} twice (each value once)", JsonText({FieldsToJson(cell)})));
      }
      sweep.ids.push_back(std::move(id));
      sweep.cells.push_back(std::move(cell));
    }
    return sweep;
  });
}

void RunPlanSweep(const SweepOfPlans& sweep, const std::string& folder, std::size_t threads,
                  const std::function<void(std::size_t)>& on_cell, const std::function<bool()>& is_stopped) {
  fs::create_directories(folder);
  JsonObject manifest = FieldsToJson(sweep);
  AddChecksum(&manifest);
  WriteJsonFile((fs::path(folder) / kManifest).string(), {std::move(manifest)});
  for (std::size_t i = 0; i < sweep.cells.size(); ++i) {
    const std::string file = CellFile(folder, sweep.ids[i]);
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
      const PlanSweepResult result = Answered(sweep.cells[i], threads, is_stopped);
      if (is_stopped()) return;
      JsonObject members = {
          {"cell", {FieldsToJson(result.cell)}}, {"answer", result.answer}, {"error", {result.error}}};
      AddChecksum(&members);
      WriteJsonFile(file, {std::move(members)});
    }
    on_cell(i + 1);
  }
}

std::vector<PlanSweepResult> ReadPlanResults(const SweepOfPlans& sweep, const std::string& folder) {
  std::vector<PlanSweepResult> results;
  for (std::size_t i = 0; i < sweep.cells.size(); ++i) {
    const std::string file = CellFile(folder, sweep.ids[i]);
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const JsonValue root = ReadJsonFile(file);
    WithLocation(file, [&] { CheckChecksum(JsonNode(root), /*required=*/true, "remove the file and sweep again"); });
    const JsonValue* const answer = FindMember(root, "answer");
    results.push_back(
        {.cell = sweep.cells[i], .answer = answer == nullptr ? JsonValue() : *answer, .error = TextAt(root, "error")});
  }
  return results;
}

std::optional<SweepOfPlans> FindPlanSweep(const std::string& folder) {
  const std::string file = (fs::path(folder) / kManifest).string();
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  JsonValue root = ReadJsonFile(file);
  return WithLocation(file, [&] {
    CheckChecksum(JsonNode(root), /*required=*/true, "sweep again");
    std::erase_if(std::get<JsonObject>(root.data), [](const JsonMember& member) { return member.key == kChecksumKey; });
    return ReadFields<SweepOfPlans>(JsonNode(root));
  });
}

TableBlock PlanSweepTable(const SweepOfPlans& sweep, const std::vector<PlanSweepResult>& results) {
  TableBlock table;
  table.header = sweep.swept;
  if (table.header.empty()) table.header.emplace_back("network");
  table.text_columns = table.header.size();
  const std::vector<std::string> fields = table.header;
  constexpr std::string_view kDegrees[] = {"dp", "tp", "pp", "vpp", "cp", "ep", "zero", "micro_batch", "recompute"};
  for (const std::string_view degree : kDegrees) table.header.emplace_back(degree);
  for (const char* const name : {"step ms", "tokens/s/GPU", "MFU %", "peak GiB", "fits"})
    table.header.emplace_back(name);
  for (const PlanSweepResult& result : results) {
    std::vector<TextCell> row;
    row.reserve(table.header.size());
    for (const std::string& field : fields) row.push_back({.text = FieldText(result.cell, field)});
    const JsonValue* plan = FindPath(result.answer, "plans[0]");
    if (plan == nullptr) plan = FindPath(result.answer, "nearest");
    if (plan == nullptr) {
      row.resize(table.header.size() - 1, {.text = "-"});
      row.push_back({.text = result.error.empty() ? "no" : result.error});
      table.rows.push_back(std::move(row));
      continue;
    }
    for (const std::string_view degree : kDegrees) row.push_back({.text = TextAt(*plan, degree)});
    constexpr double kGib = 1 << 30;
    const double gpus = NumberAt(*plan, "gpus") > 0 ? NumberAt(*plan, "gpus") : NumberAt(result.answer, "gpus");
    row.push_back({.text = fmt::format("{:.1f}", NumberAt(*plan, "step_time_us") / 1000)});
    row.push_back({.text = fmt::format("{:.1f}", NumberAt(*plan, "tokens_per_s") / gpus)});
    row.push_back({.text = fmt::format("{:.1f}", NumberAt(*plan, "mfu_percent"))});
    row.push_back({.text = fmt::format("{:.1f}", NumberAt(*plan, "peak_bytes") / kGib)});
    row.push_back({.text = TextAt(*plan, "fits") == "true" ? "yes" : "no"});
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportDocument PlanSweepReport(const SweepOfPlans& sweep, const std::vector<PlanSweepResult>& results) {
  ReportDocument document{.title = sweep.name, .blocks = {}};
  if (!sweep.question.empty()) document.blocks.emplace_back(ParagraphBlock{sweep.question});
  TableBlock table = PlanSweepTable(sweep, results);
  table.caption = "The best plan of each cell, or the smallest if none fits";
  document.blocks.emplace_back(std::move(table));
  if (results.size() < sweep.cells.size()) {
    document.blocks.emplace_back(ParagraphBlock{
        fmt::format("{} of {} cells are not answered yet.", sweep.cells.size() - results.size(), sweep.cells.size())});
  }
  return document;
}

}  // namespace emplace::experiments
