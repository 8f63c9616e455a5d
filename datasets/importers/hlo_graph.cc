#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "datasets/importers/hlo.h"
#include "datasets/importers/hlo_expander.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/ops/op_catalog.h"

namespace emplace::datasets {
namespace {

Graph BuildHloGraph(const HloModule& module, const std::vector<OpSpec>& specs) {
  GraphBuilder builder(module.name.empty() ? module.form : module.name);
  builder.Reserve(specs.size());
  for (const OpSpec& spec : specs) builder.Add(spec);
  JsonObject metadata;
  AddMember(&metadata, "source", "hlo");
  AddMember(&metadata, "form", module.form);
  builder.SetMetadata(JsonText(ToJson(std::move(metadata))));
  return builder.Build();
}

// The kind that an op keeps where the catalogue's does not fit it.
std::string OwnHloKind(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"sub", "subtract"},       {"mul", "multiply"},       {"div", "divide"},
      {"concat", "concatenate"}, {"matmul", "dot_general"}, {"batch_matmul", "dot_general"},
      {"reduce_sum", "reduce"},  {"reduce_max", "reduce"},
  };
  for (const auto& [name, own] : kNames) {
    if (name == kind) return fmt::format("hlo::{}", own);
  }
  return fmt::format("hlo::{}", kind);
}

// Whether the catalogue counts the FLOP of an op of its kinds as XLA does.
bool FitsCatalogue(const Graph& graph, OpId id) {
  const OpKind* const kind = FindOpKind(graph.op(id).kind);
  if (kind == nullptr) return false;
  try {
    return kind->work(graph, id).flop == graph.op(id).flop;
  } catch (const InputError&) {
    return false;
  }
}

// Gives ops that do not fit their kind in the catalogue one of their own. False: all fit.
bool ReplaceMisfits(const Graph& graph, std::vector<OpSpec>* specs) {
  bool any = false;
  for (std::size_t position = 0; position < graph.num_ops(); ++position) {
    OpSpec& spec = (*specs)[position];
    if (spec.kind.starts_with("hlo::") || FitsCatalogue(graph, graph.file_order()[position])) continue;
    spec.kind = OwnHloKind(spec.kind);
    spec.attrs.clear();
    any = true;
  }
  return any;
}

std::string ShownNames(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(kShown, names.size());
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(shown);
  const std::size_t more = names.size() - shown;
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string> HloNotes(const Graph& graph, const HloCounts& counts) {
  std::vector<std::string> notes;
  if (!counts.unrolled.empty()) {
    std::vector<std::string> loops;
    for (const auto& [name, trips] : counts.unrolled) loops.push_back(fmt::format("{} ({} times)", name, trips));
    notes.push_back(fmt::format("loops in place: {}", ShownNames(loops)));
  }
  if (!counts.kept_loops.empty()) {
    notes.push_back(
        fmt::format("loops that run an unknown number of times, or as more than 200,000 instructions, are "
                    "one op each, with the FLOP of one iteration where the number is unknown: {}",
                    ShownNames(counts.kept_loops)));
  }
  if (!counts.guessed.empty()) {
    notes.push_back(fmt::format("conditions that depend on data take the branch with the most FLOP: {}",
                                ShownNames(counts.guessed)));
  }
  if (!counts.unknown.empty()) {
    std::vector<std::string> kinds;
    for (const auto& [kind, count] : counts.unknown) {
      kinds.push_back(count == 1 ? kind : fmt::format("{} ({})", kind, count));
    }
    notes.push_back(fmt::format("the FLOP of {} are unknown, and count as 0", ShownNames(kinds)));
  }
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) flop += graph.op(MakeId<OpId>(i)).flop;
  notes.push_back(
      fmt::format("weights: {} variables, {:.0f} numbers, {:.3f} MB; {} inputs, {:.0f} numbers; {:.6g} GFLOP a run",
                  counts.variables, counts.variable_numbers, counts.variable_bytes / 1e6, counts.inputs,
                  counts.input_numbers, flop / 1e9));
  const double known =
      counts.ops == 0 ? 100
                      : 100 * static_cast<double>(counts.ops - counts.unknown_ops) / static_cast<double>(counts.ops);
  notes.push_back(fmt::format("attributed: {} of {} ops have FLOP that are known ({:.1f} %); the file has no times",
                              counts.ops - counts.unknown_ops, counts.ops, known));
  return notes;
}

}  // namespace

Imported MakeHloGraph(const HloModule& module) {
  CheckHlo(module);
  HloExpander expander(module);
  std::vector<OpSpec> specs = expander.Expand();
  Graph graph = BuildHloGraph(module, specs);
  if (ReplaceMisfits(graph, &specs)) graph = BuildHloGraph(module, specs);
  std::vector<std::string> notes = HloNotes(graph, expander.counts());
  return {.graph = std::move(graph), .cluster = std::nullopt, .notes = std::move(notes)};
}

}  // namespace emplace::datasets
