#include "experiments/validation/measured_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace kernel_table {
namespace {

enum Column : std::size_t {
  kKind,
  kType,
  kTime,
  kBatch,
  kM,
  kN,
  kK,
  kBytes,
  kColumns,
  kSequence,
  kKeys,
  kHeads,
  kKeyHeads,
  kHeadDim,
  kWindow,
  kCausal,
  kBackward,
  kNumColumns
};
constexpr std::array<std::string_view, kNumColumns> kColumnNames = {
    "kind",     "type", "time_us", "batch",     "m",        "n",      "k",      "bytes",   "columns",
    "sequence", "keys", "heads",   "key_heads", "head_dim", "window", "causal", "backward"};

// What the rows of a kind need beside `kind` and `time_us`.
struct KernelKind {
  std::string_view name;
  std::vector<Column> needs;
};
const std::vector<KernelKind>& KernelKinds() {
  static const std::vector<KernelKind> kinds = {
      {"product", {kType, kM, kN, kK}},
      {"convolution", {kType, kM, kN, kK, kBytes}},
      {"attention", {kType, kSequence, kHeads, kHeadDim}},
      {"decoding", {kType, kSequence, kHeads, kHeadDim}},
      {"normalisation", {kBytes, kColumns}},
      {"softmax", {kBytes, kColumns}},
      {"elementwise", {kBytes}},
  };
  return kinds;
}

std::vector<std::string> CellsOf(std::string_view line) {
  std::vector<std::string> cells;
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
    cells.emplace_back(cell);
    begin = end + 1;
  }
  return cells;
}

class KernelReader {
 public:
  KernelReader(std::string file, const std::vector<std::string>& header) : file_(std::move(file)) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      const auto* const found = std::find(kColumnNames.begin(), kColumnNames.end(), header[i]);
      if (found == kColumnNames.end()) {
        throw InputError(file_, fmt::format("has a column {} ({})", Quoted(header[i]), fmt::join(kColumnNames, ", ")));
      }
      auto& position = positions_[static_cast<std::size_t>(found - kColumnNames.begin())];
      if (position) throw InputError(file_, fmt::format("has the column {} twice", header[i]));
      position = i;
    }
    num_cells_ = header.size();
    for (const Column column : {kKind, kTime}) {
      if (!positions_[column]) {
        throw InputError(file_, fmt::format("has no column {} (a header with {})", kColumnNames[column],
                                            fmt::join(kColumnNames, ", ")));
      }
    }
  }

  MeasuredShape Read(std::vector<std::string> cells, std::size_t line) {
    cells_ = std::move(cells);
    line_ = line;
    if (cells_.size() != num_cells_) {
      throw InputError(Place(), fmt::format("has {} cells ({} are expected)", cells_.size(), num_cells_));
    }
    const std::string kind = Text(kKind);
    const auto known = std::find_if(KernelKinds().begin(), KernelKinds().end(),
                                    [&](const KernelKind& each) { return each.name == kind; });
    if (known == KernelKinds().end()) {
      std::vector<std::string_view> names;
      for (const KernelKind& each : KernelKinds()) names.push_back(each.name);
      throw InputError(PlaceOf(kKind), fmt::format("is {} ({})", Quoted(kind), fmt::join(names, ", ")));
    }
    for (const Column column : known->needs) {
      if (Text(column).empty()) {
        throw InputError(PlaceOf(column), fmt::format("is missing (rows of {} need {})", kind, Needs(*known)));
      }
    }
    MeasuredShape row;
    row.micros = Number(kTime, 0, "a time above 0");
    if (row.micros == 0) throw InputError(PlaceOf(kTime), "is 0 (a time above 0 is expected)");
    if (!Text(kType).empty()) row.question.precision = Type();
    row.question.bytes = Size(kBytes, 0);
    row.question.shape = Shape(kind);
    return row;
  }

 private:
  std::string Place() const { return fmt::format("{}: line {}", file_, line_); }
  std::string PlaceOf(Column column) const { return fmt::format("{}: {}", Place(), kColumnNames[column]); }
  static std::string Needs(const KernelKind& kind) {
    std::vector<std::string_view> names;
    for (const Column column : kind.needs) names.push_back(kColumnNames[column]);
    return fmt::format("{}", fmt::join(names, ", "));
  }
  // "" where there is no such column, or its cell is empty.
  std::string Text(Column column) const { return positions_[column] ? cells_[*positions_[column]] : ""; }
  double Number(Column column, double least, std::string_view expected) const {
    constexpr double kMost = 1e18;
    const std::string text = Text(column);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= kMost)) {
      throw InputError(PlaceOf(column), fmt::format("is {} ({} is expected)", Quoted(text), expected));
    }
    return value;
  }
  // A size, at least 1; `otherwise` where there is none.
  double Size(Column column, double otherwise) const {
    return Text(column).empty() ? otherwise : Number(column, 1, "a number of at least 1");
  }
  bool Flag(Column column) const {
    const std::string text = Text(column);
    if (text.empty() || text == "0" || text == "false" || text == "False") return false;
    if (text != "1" && text != "true" && text != "True") {
      throw InputError(PlaceOf(column), fmt::format("is {} (true or false is expected)", Quoted(text)));
    }
    return true;
  }
  Precision Type() const {
    const std::string text = Text(kType);
    const auto precision = PrecisionFromName(text);
    if (!precision || *precision > Precision::kF16) {
      throw InputError(PlaceOf(kType), fmt::format("is {} (f32, tf32, bf16 or f16)", Quoted(text)));
    }
    return *precision;
  }
  OpShape Shape(std::string_view kind) const {
    if (kind == "product" || kind == "convolution") {
      return ProductShape{.batch = Size(kBatch, 1),
                          .m = Size(kM, 1),
                          .n = Size(kN, 1),
                          .k = Size(kK, 1),
                          .moved_bytes = kind == "convolution" ? Size(kBytes, 1) : 0};
    }
    if (kind == "attention" || kind == "decoding") {
      const bool decodes = kind == "decoding";
      const double sequence = Size(kSequence, 1);
      const double heads = Size(kHeads, 1);
      const double key_heads = Size(kKeyHeads, heads);
      if (key_heads > heads) {
        throw InputError(PlaceOf(kKeyHeads), fmt::format("is {} (at most the {} heads)", key_heads, heads));
      }
      AttentionShape shape{.batch = Size(kBatch, 1),
                           .queries = decodes ? 1 : sequence,
                           .keys = Size(kKeys, sequence),
                           .heads = heads,
                           .key_heads = key_heads,
                           .head_dim = Size(kHeadDim, 1),
                           .window = Text(kWindow).empty() ? 0 : Number(kWindow, 0, "a number of keys, 0 for all,"),
                           .causal = Flag(kCausal),
                           .backward = Flag(kBackward)};
      if (!decodes && IsDecoding(shape)) {
        throw InputError(PlaceOf(kSequence), "is 1, a row of decoding (sequence is its number of keys)");
      }
      return shape;
    }
    if (kind == "elementwise") return {};
    return RowsShape{.columns = Size(kColumns, 1), .is_softmax = kind == "softmax"};
  }

  std::string file_;
  std::array<std::optional<std::size_t>, kNumColumns> positions_;
  std::size_t num_cells_ = 0;
  std::vector<std::string> cells_;
  std::size_t line_ = 0;
};

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r,") == std::string_view::npos; }

}  // namespace
}  // namespace kernel_table

void MeasuredShapes::Add(MeasuredShapes others) {
  rows.insert(rows.end(), std::make_move_iterator(others.rows.begin()), std::make_move_iterator(others.rows.end()));
  several += others.several;
  unknown += others.unknown;
}

MeasuredShapes ReadKernelsCsv(std::istream& in, const std::string& file) {
  constexpr std::size_t kMostRows = 4'000'000;
  MeasuredShapes measured;
  std::optional<kernel_table::KernelReader> reader;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (kernel_table::IsBlank(line)) continue;
    if (!reader) {
      reader.emplace(file, kernel_table::CellsOf(line));
      continue;
    }
    if (measured.rows.size() == kMostRows) {
      throw InputError(file, fmt::format("has more than {} rows", kMostRows));
    }
    measured.rows.push_back(reader->Read(kernel_table::CellsOf(line), number));
  }
  if (!reader) throw InputError(file, "is empty (a header with kind, type, time_us, m, n, k, ..)");
  return measured;
}

bool IsOfHost(const Op& op) {
  constexpr std::string_view kHostKinds[] = {"host", "wait", "arrival", "backlog"};
  return std::find(std::begin(kHostKinds), std::end(kHostKinds), op.kind) != std::end(kHostKinds);
}

std::optional<std::string> FindDominantKind(const Graph& graph) {
  std::map<std::string_view, double> times;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (IsOfHost(op)) continue;
    for (const KindTime& time : op.kind_times) times[time.kind] += time.micros;
  }
  const auto most =
      std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == times.end()) return std::nullopt;
  return std::string(most->first);
}

std::string CallIdOf(const Op& op) {
  if (op.kind != "kernel" || op.attrs.find("\"op_call\"") == std::string_view::npos) return "";
  const auto attrs = nlohmann::json::parse(op.attrs, nullptr, /*allow_exceptions=*/false);
  return attrs.is_object() && attrs.contains("op_call") ? attrs["op_call"].dump() : "";
}

MeasuredShapes ShapesOfGraph(const Graph& graph, const CostModel& model, std::string_view measured,
                             const RooflineOptions& options) {
  // Kernels that share a call, by the call.
  struct Call {
    std::vector<CurveQuestion> questions;
    double kernels = 0;
    double found = 0;
    double micros = 0;
  };
  const Cluster cluster(std::string(measured), "",
                        {{.name = "device:0", .kind = std::string(measured), .memory = std::nullopt}},
                        std::vector<Link>(1), Channels::kPerDevice);
  std::map<std::string, Call> calls;
  MeasuredShapes shapes;
  const auto add = [&](const std::vector<CurveQuestion>& questions, double micros) {
    // Bytes do not say the time of what computes indices.
    if (questions.empty() || std::holds_alternative<IndexedShape>(questions[0].shape)) {
      ++shapes.unknown;
    } else if (questions.size() > 1) {
      ++shapes.several;
    } else {
      shapes.rows.push_back({questions[0], micros});
    }
  };
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    if (IsOfHost(graph.op(op)) || graph.op(op).kind == "collective") continue;
    const auto device = model.TwoQueues(graph, op, measured).device;
    const double micros = device ? *device : model.OpMicros(graph, op, cluster, measured).value_or(0);
    if (micros <= 0) continue;
    double kernels = 1;
    const std::vector<CurveQuestion> questions = CurveQuestions(graph, op, options, &kernels);
    const std::string id = CallIdOf(graph.op(op));
    if (id.empty()) {
      add(questions, micros);
      continue;
    }
    Call& call = calls[id];
    call.questions = questions;
    call.kernels = kernels;
    call.found += 1;
    call.micros += micros;
  }
  for (const auto& [id, call] : calls) {
    add(call.found == call.kernels ? call.questions : std::vector<CurveQuestion>(), call.micros);
  }
  return shapes;
}

}  // namespace emplace::experiments
