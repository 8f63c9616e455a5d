// Graphs are built of columns: with an object for each op, graphs of a million ops took several times the memory.
#include <algorithm>
#include <boost/iterator/iterator_facade.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/free_memory.h"
#include "sim/base/json_text.h"
#include "sim/base/whole_number.h"
#include "sim/graph.h"
#include "sim/graph_data.h"

namespace emplace {
namespace {

std::string Place(std::size_t position, std::string_view field = {}) {
  std::string place = "ops[" + std::to_string(position) + "]";
  if (!field.empty()) place.append(".").append(field);
  return place;
}

std::string Place(std::size_t position, std::string_view list, std::size_t index) {
  return Place(position, std::string(list) + "[" + std::to_string(index) + "]");
}

// Rows of values by key, ascending, each once. `visit` calls its argument with each (key, value), the values of one key
// in ascending order; it is called twice.
template <typename T, typename Visit>
void FillRows(std::size_t num_keys, const Visit& visit, std::vector<std::uint32_t>* begin, std::vector<T>* values) {
  begin->assign(num_keys + 1, 0);
  visit([&](std::uint32_t key, T) { ++(*begin)[key + 1]; });
  std::partial_sum(begin->begin(), begin->end(), begin->begin());
  std::vector<T> all(begin->back());
  std::vector<std::uint32_t> next(begin->begin(), begin->end() - 1);
  visit([&](std::uint32_t key, T value) { all[next[key]++] = value; });
  std::uint32_t kept = 0;
  std::uint32_t row = 0;
  for (std::size_t key = 0; key < num_keys; ++key) {
    const std::uint32_t row_end = (*begin)[key + 1];
    const std::uint32_t first = kept;
    for (; row < row_end; ++row) {
      if (kept == first || all[kept - 1] != all[row]) all[kept++] = all[row];
    }
    (*begin)[key] = first;
  }
  (*begin)[num_keys] = kept;
  if (kept == all.size()) {
    *values = std::move(all);
  } else {
    values->assign(all.begin(), all.begin() + kept);
  }
}

// Goes over rows of targets as pairs (row, target).
class EdgeIterator
    : public boost::iterator_facade<EdgeIterator, std::pair<std::uint32_t, std::uint32_t>, boost::forward_traversal_tag,
                                    std::pair<std::uint32_t, std::uint32_t>> {
 public:
  EdgeIterator() = default;
  EdgeIterator(const std::vector<std::uint32_t>& begin, const std::vector<std::uint32_t>& targets, std::size_t edge)
      : begin_(begin.data()), targets_(targets.data()), edge_(edge), num_edges_(targets.size()) {
    FindRow();
  }

 private:
  friend class boost::iterator_core_access;

  std::pair<std::uint32_t, std::uint32_t> dereference() const { return {row_, targets_[edge_]}; }
  bool equal(const EdgeIterator& other) const { return edge_ == other.edge_; }
  void increment() {
    ++edge_;
    FindRow();
  }
  // Requires: the row does not begin behind the edge. At the end, the row does not matter.
  void FindRow() {
    if (edge_ == num_edges_) return;
    while (begin_[row_ + 1] <= edge_) ++row_;
  }

  const std::uint32_t* begin_ = nullptr;
  const std::uint32_t* targets_ = nullptr;
  std::size_t edge_ = 0;
  std::size_t num_edges_ = 0;
  std::uint32_t row_ = 0;
};

// Places of errors are functions: texts for each op would take longer than the checks.
template <typename PlaceOf>
void CheckMicros(double micros, const PlaceOf& place) {
  if (!(micros >= 0) || micros > kMaxMicros) {
    throw InputError(place(), "time " + std::to_string(micros) + " is out of range (0 to 1e12 us)");
  }
}

// Adds sizes up.
class SizeChecker {
 public:
  template <typename PlaceOf>
  void Check(Bytes size, const PlaceOf& place) {
    if (size.count < 0) {
      throw InputError(place(), "size " + std::to_string(size.count) + " is negative (integers >= 0)");
    }
    if (size.count >= kMaxGraphBytes || __builtin_add_overflow(total_, size.count, &total_) ||
        total_ >= kMaxGraphBytes) {
      throw InputError(place(), "the sizes of the graph add up to more than 2^62 bytes");
    }
  }

 private:
  std::int64_t total_ = 0;
};

void CheckName(std::string_view name, std::size_t position) {
  if (name.empty()) throw InputError(Place(position, "name"), "the name is empty");
  if (name.find(':') != std::string_view::npos || name.front() == '^') {
    throw InputError(Place(position, "name"),
                     Quoted(name) + " is not an op name (it holds no ':' and does not start with '^')");
  }
}

}  // namespace

std::string_view TextArena::Add(std::string_view text) {
  if (text.empty()) return {};
  if (text.size() > left_) {
    constexpr std::size_t kSmallest = 256;
    constexpr std::size_t kLargest = std::size_t{1} << 20;
    left_ = std::max(text.size(), std::clamp(capacity_ / 4, kSmallest, kLargest));
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    next_ = chunks_.back().get();
    capacity_ += left_;
  }
  char* const begin = next_;
  std::memcpy(begin, text.data(), text.size());
  next_ += text.size();
  left_ -= text.size();
  return {begin, text.size()};
}

// The added ops, in the order of Add, to which positions refer too.
struct GraphBuilder::Parts {
  static constexpr std::uint32_t kNamed = std::numeric_limits<std::uint32_t>::max();

  // An input: the producer's position and output, or else the text that names them.
  struct Input {
    const char* text = nullptr;
    std::uint32_t number = 0;    // the output, or the size of the text
    std::uint32_t position = 0;  // kNamed: by the text

    std::string_view name() const { return {text, number}; }
  };
  struct Output {
    std::int64_t bytes = 0;
    std::uint32_t first_dim = 0;  // its dimensions end where those of the next one begin
    DType dtype = DType::kNone;
    bool has_bytes = false;
  };
  struct Queue {
    std::uint32_t op = 0;
    std::optional<double> host_micros;
    std::optional<double> device_micros;
    std::uint32_t first_time = 0;
    std::uint32_t end_time = 0;
  };

  std::shared_ptr<Data> data = std::make_shared<Data>();  // text, ops, dims and kind_times are filled as ops come
  TextArena names;                                        // names in references
  std::vector<Output> outputs;
  std::vector<Input> inputs;
  std::vector<std::uint32_t> controls;  // positions; kNamed: by the next of control_names
  std::vector<std::string_view> control_names;
  std::vector<Queue> queues;
  std::vector<std::pair<std::uint32_t, std::string>> colocate;
  // Where each op's part of the lists begins.
  std::vector<std::uint32_t> output_begin, input_begin, control_begin, time_begin;
  // Texts that ops share.
  struct Words {
    std::unordered_set<std::string_view> known;
    std::size_t sought = 0;
    std::size_t found = 0;
  };
  Words words;
  Words attrs;

  // Equal texts once; beyond this many of them, each new one for itself.
  std::string_view Intern(std::string_view word, Words* in) {
    constexpr std::size_t kMostWords = std::size_t{1} << 16;
    constexpr std::size_t kEnough = 4096;
    if (word.empty()) return {};
    // Where hardly any is found, texts are measurements of one op, and looking for them takes longest.
    if (in->sought >= kEnough && in->found * 4 < in->sought) return data->text.Add(word);
    ++in->sought;
    const auto found = in->known.find(word);
    if (found != in->known.end()) {
      ++in->found;
      return *found;
    }
    const std::string_view stored = data->text.Add(word);
    if (in->known.size() < kMostWords) in->known.insert(stored);
    return stored;
  }

  std::uint32_t AddTimes(const std::vector<std::pair<std::string, double>>& times) {
    const auto first = static_cast<std::uint32_t>(data->kind_times.size());
    for (const auto& [kind, micros] : times) data->kind_times.push_back({Intern(kind, &words), micros});
    return first;
  }

  // The first row past the last op.
  void Close() {
    output_begin.push_back(static_cast<std::uint32_t>(outputs.size()));
    input_begin.push_back(static_cast<std::uint32_t>(inputs.size()));
    control_begin.push_back(static_cast<std::uint32_t>(controls.size()));
    time_begin.push_back(static_cast<std::uint32_t>(data->kind_times.size()));
    outputs.push_back({.first_dim = static_cast<std::uint32_t>(data->dims.size())});
    FreeMemory(&words);
    FreeMemory(&attrs);
  }
};

GraphBuilder::GraphBuilder(std::string name) : parts_(std::make_unique<Parts>()) { SetName(std::move(name)); }
GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;

void GraphBuilder::Reserve(std::size_t num_ops) {
  parts_->data->ops.reserve(num_ops);
  for (auto* begin : {&parts_->output_begin, &parts_->input_begin, &parts_->control_begin, &parts_->time_begin}) {
    begin->reserve(num_ops + 1);
  }
}

void GraphBuilder::SetName(std::string name) { parts_->data->name = std::move(name); }
void GraphBuilder::SetMetadata(std::string metadata) { parts_->data->metadata = std::move(metadata); }

void GraphBuilder::Add(const OpSpec& spec) {
  Parts& parts = *parts_;
  Data& data = *parts.data;
  const auto position = static_cast<std::uint32_t>(data.ops.size());
  EMPLACE_CHECK_LT(data.ops.size(), std::size_t{Parts::kNamed});
  parts.output_begin.push_back(static_cast<std::uint32_t>(parts.outputs.size()));
  parts.input_begin.push_back(static_cast<std::uint32_t>(parts.inputs.size()));
  parts.control_begin.push_back(static_cast<std::uint32_t>(parts.controls.size()));
  for (const std::string& name : spec.inputs) {
    const std::string_view text = parts.names.Add(name);
    parts.inputs.push_back({text.data(), static_cast<std::uint32_t>(text.size()), Parts::kNamed});
  }
  for (const OutputPosition& input : spec.input_positions) {
    parts.inputs.push_back({.number = input.output, .position = input.op});
  }
  for (const std::string& name : spec.control_inputs) {
    parts.controls.push_back(Parts::kNamed);
    parts.control_names.push_back(parts.names.Add(name));
  }
  parts.controls.insert(parts.controls.end(), spec.control_positions.begin(), spec.control_positions.end());
  for (const OutputSpec& output : spec.outputs) {
    parts.outputs.push_back({.bytes = output.size ? output.size->count : 0,
                             .first_dim = static_cast<std::uint32_t>(data.dims.size()),
                             .dtype = output.dtype,
                             .has_bytes = output.size.has_value()});
    data.dims.insert(data.dims.end(), output.shape.begin(), output.shape.end());
  }
  if (spec.host_micros || spec.device_micros || !spec.device_kind_times.empty()) {
    const std::uint32_t first = parts.AddTimes(spec.device_kind_times);
    parts.queues.push_back({.op = position,
                            .host_micros = spec.host_micros,
                            .device_micros = spec.device_micros,
                            .first_time = first,
                            .end_time = static_cast<std::uint32_t>(data.kind_times.size())});
  }
  parts.time_begin.push_back(parts.AddTimes(spec.kind_times));
  if (!spec.colocate_with.empty()) parts.colocate.emplace_back(position, spec.colocate_with);
  data.ops.push_back({.name = data.text.Add(spec.name),
                      .kind = parts.Intern(spec.kind, &parts.words),
                      .layer = parts.Intern(spec.layer, &parts.words),
                      .attrs = parts.Intern(spec.attrs, &parts.attrs),
                      .pass = spec.pass,
                      .flop = spec.flop,
                      .temp = spec.temp,
                      .persistent = spec.persistent,
                      .time_micros = spec.time_micros,
                      .kind_times = {},
                      .colocate_with = std::nullopt,
                      .file_position = position});
}

namespace internal {

// Turns the parts into a graph.
class GraphAssembler {
 public:
  using Parts = GraphBuilder::Parts;
  using Data = Graph::Data;

  static void Assemble(Parts* parts);
};

namespace {

using BuilderParts = GraphAssembler::Parts;
using GraphData = GraphAssembler::Data;

std::span<const KindTime> Times(const GraphData& data, std::uint32_t first, std::uint32_t end) {
  return std::span<const KindTime>(data.kind_times).subspan(first, end - first);
}

std::uint32_t EndOfTimes(const BuilderParts& parts, std::size_t position) {
  const auto next = std::lower_bound(parts.queues.begin(), parts.queues.end(), position + 1,
                                     [](const BuilderParts::Queue& queue, std::size_t op) { return queue.op < op; });
  const bool has_queue = next != parts.queues.end() && next->op == position + 1;
  return has_queue ? next->first_time : parts.time_begin[position + 1];
}

// The times of time_us, which are behind those of device_us.
std::span<const KindTime> TimesOf(const BuilderParts& parts, std::size_t position) {
  return Times(*parts.data, parts.time_begin[position], EndOfTimes(parts, position));
}

std::span<const std::int64_t> ShapeOf(const BuilderParts& parts, std::size_t output) {
  const std::size_t first = parts.outputs[output].first_dim;
  return std::span<const std::int64_t>(parts.data->dims).subspan(first, parts.outputs[output + 1].first_dim - first);
}

void CheckTimes(std::span<const KindTime> times, std::size_t position, std::string_view field) {
  for (const KindTime& time : times) {
    CheckMicros(time.micros, [&] { return Place(position, std::string(field).append(time.kind)); });
  }
}

// Fills in the sizes that follow from dtype and shape.
void CheckOutputs(BuilderParts* parts, std::size_t position, SizeChecker* sizes) {
  for (std::uint32_t k = parts->output_begin[position]; k < parts->output_begin[position + 1]; ++k) {
    BuilderParts::Output& output = parts->outputs[k];
    const std::size_t number = k - parts->output_begin[position];
    const auto place = [position, number] { return Place(position, "outputs", number); };
    const auto shape = ShapeOf(*parts, k);
    const std::int64_t from_shape =
        shape.empty() ? ElementBytes(output.dtype) : TensorBytes(output.dtype, shape, place() + ".shape").count;
    if (!output.has_bytes) {
      if (output.dtype == DType::kNone) throw InputError(place(), "no size (bytes, or dtype and shape)");
      output.bytes = from_shape;
    }
    sizes->Check(Bytes{output.bytes}, [&place] { return place() + ".bytes"; });
  }
}

// Fills in the sizes that follow from dtype and shape.
void CheckNumbers(BuilderParts* parts) {
  const std::size_t num_ops = parts->data->ops.size();
  SizeChecker sizes;
  auto queue = parts->queues.begin();
  for (std::size_t i = 0; i < num_ops; ++i) {
    const Op& op = parts->data->ops[i];
    CheckName(op.name, i);
    if (op.kind.empty()) throw InputError(Place(i, "kind"), "the kind is empty");
    if (!(op.flop >= 0) || op.flop > kMaxFlop) {
      throw InputError(Place(i, "flop"), std::to_string(op.flop) + " is out of range (0 to 1e24)");
    }
    sizes.Check(op.temp, [i] { return Place(i, "temp_bytes"); });
    sizes.Check(op.persistent, [i] { return Place(i, "persistent_bytes"); });
    CheckOutputs(parts, i, &sizes);
    if (op.time_micros) CheckMicros(*op.time_micros, [i] { return Place(i, "time_us"); });
    CheckTimes(TimesOf(*parts, i), i, "time_us.");
    if (queue == parts->queues.end() || queue->op != i) continue;
    if (queue->host_micros) CheckMicros(*queue->host_micros, [i] { return Place(i, "host_us"); });
    if (queue->device_micros) CheckMicros(*queue->device_micros, [i] { return Place(i, "device_us"); });
    CheckTimes(Times(*parts->data, queue->first_time, queue->end_time), i, "device_us.");
    ++queue;
  }
}

// The positions of ops in the order of their names. Throws InputError on a name that two ops have.
std::vector<std::uint32_t> SortByName(const std::vector<Op>& ops) {
  const std::size_t num_ops = ops.size();
  std::vector<std::uint32_t> by_name(num_ops);
  std::iota(by_name.begin(), by_name.end(), 0U);
  const auto is_less = [&ops](std::uint32_t a, std::uint32_t b) {
    const int order = ops[a].name.compare(ops[b].name);
    return order != 0 ? order < 0 : a < b;
  };
  if (!std::is_sorted(by_name.begin(), by_name.end(), is_less)) {
    std::sort(by_name.begin(), by_name.end(), is_less);
  }
  std::uint32_t first = BuilderParts::kNamed;
  std::uint32_t repeated = BuilderParts::kNamed;
  for (std::size_t r = 1; r < num_ops; ++r) {
    if (ops[by_name[r]].name != ops[by_name[r - 1]].name || by_name[r] >= repeated) continue;
    repeated = by_name[r];
    first = by_name[r - 1];
  }
  if (repeated == BuilderParts::kNamed) return by_name;
  throw InputError(Place(repeated, "name"),
                   "duplicate op name " + Quoted(ops[repeated].name) + " (also " + Place(first) + ")");
}

using PositionsByName = std::unordered_map<std::string_view, std::uint32_t>;

PositionsByName IndexNames(const std::vector<Op>& ops) {
  const std::size_t num_ops = ops.size();
  PositionsByName positions;
  positions.reserve(num_ops);
  for (std::size_t i = 0; i < num_ops; ++i) {
    positions.emplace(ops[i].name, static_cast<std::uint32_t>(i));
  }
  return positions;
}

template <typename PlaceOf>
std::uint32_t FindProducer(const PositionsByName& positions, std::string_view name, const PlaceOf& place) {
  const auto found = positions.find(name);
  if (found == positions.end()) {
    throw InputError(place(), "unknown producer " + Quoted(name) + " (the name of an op)");
  }
  return found->second;
}

std::size_t OutputsOf(const BuilderParts& parts, std::size_t position) {
  return parts.output_begin[position + 1] - parts.output_begin[position];
}

// Puts position and output in the place of the text.
template <typename PlaceOf>
void ResolveInput(const BuilderParts& parts, const PositionsByName& positions, BuilderParts::Input* input,
                  const PlaceOf& place) {
  if (input->position != BuilderParts::kNamed) {
    EMPLACE_CHECK_LT(input->position, parts.data->ops.size());
    EMPLACE_CHECK_LT(input->number, OutputsOf(parts, input->position));
    return;
  }
  const std::string_view text = input->name();
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::uint32_t index = 0;
  if (colon != std::string_view::npos) {
    const auto number = WholeNumber<std::uint32_t>(text.substr(colon + 1));
    if (!number) {
      throw InputError(place(), Quoted(text) + " is not an input (PRODUCER or PRODUCER:OUTPUT_INDEX)");
    }
    index = *number;
  }
  input->position = FindProducer(positions, name, place);
  const std::size_t outputs = OutputsOf(parts, input->position);
  if (index >= outputs) {
    throw InputError(place(), Quoted(text) + ": output index " + std::to_string(index) + " is out of range (" +
                                  Quoted(name) + " has " + std::to_string(outputs) + " outputs)");
  }
  input->number = index;
}

bool HasNames(const BuilderParts& parts) {
  return !parts.colocate.empty() || !parts.control_names.empty() ||
         std::ranges::any_of(parts.inputs,
                             [](const BuilderParts::Input& input) { return input.position == BuilderParts::kNamed; });
}

// Puts positions in the place of names. Returns with which op each one is placed; itself if with none.
std::vector<std::uint32_t> ResolveNames(const PositionsByName& positions, BuilderParts* parts) {
  const std::size_t num_ops = parts->data->ops.size();
  std::vector<std::uint32_t> colocated(num_ops);
  auto control_name = parts->control_names.begin();
  auto colocate = parts->colocate.begin();
  for (std::size_t i = 0; i < num_ops; ++i) {
    const std::uint32_t first_input = parts->input_begin[i];
    for (std::uint32_t k = first_input; k < parts->input_begin[i + 1]; ++k) {
      ResolveInput(*parts, positions, &parts->inputs[k], [&] { return Place(i, "inputs", k - first_input); });
    }
    const std::uint32_t first_control = parts->control_begin[i];
    for (std::uint32_t k = first_control; k < parts->control_begin[i + 1]; ++k) {
      std::uint32_t& control = parts->controls[k];
      if (control == BuilderParts::kNamed) {
        control =
            FindProducer(positions, *control_name++, [&] { return Place(i, "control_inputs", k - first_control); });
      }
      EMPLACE_CHECK_LT(control, num_ops);
    }
    colocated[i] = static_cast<std::uint32_t>(i);
    if (colocate == parts->colocate.end() || colocate->first != i) continue;
    const auto found = positions.find(colocate->second);
    if (found == positions.end()) {
      throw InputError(Place(i, "colocate_with"), "unknown op " + Quoted(colocate->second) + " (the name of an op)");
    }
    colocated[i] = found->second;
    ++colocate;
  }
  return colocated;
}

// Distinct producers of an op, ascending.
void FindProducers(const BuilderParts& parts, std::size_t position, std::vector<std::uint32_t>* producers) {
  const auto controls = RowOf(parts.control_begin, parts.controls, position);
  producers->assign(controls.begin(), controls.end());
  for (const BuilderParts::Input& input : RowOf(parts.input_begin, parts.inputs, position)) {
    producers->push_back(input.position);
  }
  std::sort(producers->begin(), producers->end());
  producers->erase(std::unique(producers->begin(), producers->end()), producers->end());
}

// Throws: `taken` marks what a topological order reached, so every other op waits for one that is not taken either.
[[noreturn]] void ReportCycle(const BuilderParts& parts, const std::vector<char>& taken) {
  std::vector<std::uint32_t> step(taken.size(), 0);
  std::uint32_t at = static_cast<std::uint32_t>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
  std::vector<std::uint32_t> path;
  std::vector<std::uint32_t> producers;
  while (step[at] == 0) {
    path.push_back(at);
    step[at] = static_cast<std::uint32_t>(path.size());
    FindProducers(parts, at, &producers);
    at = *std::find_if(producers.begin(), producers.end(), [&](std::uint32_t p) { return taken[p] == 0; });
  }
  path.erase(path.begin(), path.begin() + (step[at] - 1));
  std::reverse(path.begin(), path.end());  // reorders the path from producer to consumer
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  constexpr std::size_t kAtEachEnd = 5;
  std::string names;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i == kAtEachEnd && path.size() > 2 * kAtEachEnd) {
      i = path.size() - kAtEachEnd;
      names += "... -> ";
    }
    names.append(parts.data->ops[path[i]].name).append(" -> ");
  }
  names.append(parts.data->ops[path.front()].name);
  const std::string size = path.size() > 2 * kAtEachEnd ? " of " + std::to_string(path.size()) + " ops" : "";
  throw InputError(Place(path.front()), "the graph has a cycle" + size + ": " + names);
}

// File positions in canonical order (docs/model.md, G3).
std::vector<std::uint32_t> FindOrder(const BuilderParts& parts, const std::vector<std::uint32_t>& by_name) {
  const std::size_t num_ops = by_name.size();
  std::vector<std::uint32_t> rank(num_ops);
  for (std::size_t r = 0; r < num_ops; ++r) rank[by_name[r]] = static_cast<std::uint32_t>(r);
  std::vector<std::uint32_t> waiting(num_ops, 0);
  std::vector<std::uint32_t> producers;
  std::vector<std::uint32_t> begin;
  std::vector<std::uint32_t> consumers;
  FillRows<std::uint32_t>(
      num_ops,
      [&](const auto& take) {
        for (std::size_t i = 0; i < num_ops; ++i) {
          FindProducers(parts, i, &producers);
          waiting[i] = static_cast<std::uint32_t>(producers.size());
          for (const std::uint32_t producer : producers) take(producer, static_cast<std::uint32_t>(i));
        }
      },
      &begin, &consumers);

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < num_ops; ++i) {
    if (waiting[i] == 0) ready.push(rank[i]);
  }
  std::vector<std::uint32_t> order;
  order.reserve(num_ops);
  std::vector<char> taken(num_ops, 0);
  while (!ready.empty()) {
    const std::uint32_t position = by_name[ready.top()];
    ready.pop();
    order.push_back(position);
    taken[position] = 1;
    for (const std::uint32_t consumer : RowOf(begin, consumers, position)) {
      if (--waiting[consumer] == 0) ready.push(rank[consumer]);
    }
  }
  if (order.size() != num_ops) ReportCycle(parts, taken);
  return order;
}

void FillColocation(const BuilderParts& parts, const std::vector<std::uint32_t>& colocated, GraphData* data) {
  const std::size_t num_ops = data->ops.size();
  std::vector<std::uint32_t> parent(num_ops);  // indexed by id; roots are the smallest of their class
  std::iota(parent.begin(), parent.end(), 0U);
  const auto root = [&parent](std::uint32_t id) {
    while (parent[id] != id) id = parent[id] = parent[parent[id]];
    return id;
  };
  for (std::size_t i = 0; i < num_ops; ++i) {
    const std::uint32_t a = root(static_cast<std::uint32_t>(data->file_order[i]));
    const std::uint32_t b = root(static_cast<std::uint32_t>(data->file_order[colocated[i]]));
    parent[std::max(a, b)] = std::min(a, b);
  }
  data->colocation_class.resize(num_ops);
  for (std::size_t id = 0; id < num_ops; ++id) {
    data->colocation_class[id] = MakeId<OpId>(root(static_cast<std::uint32_t>(id)));
  }
  for (const auto& [position, name] : parts.colocate) {
    data->ops[position].colocate_with = data->file_order[colocated[position]];
  }
}

void FillTensors(const std::vector<std::uint32_t>& order, const BuilderParts& parts, GraphData* data) {
  const std::size_t num_ops = order.size();
  data->tensors.reserve(parts.outputs.size() - 1);
  data->first_output.reserve(num_ops + 1);
  for (std::size_t id = 0; id < num_ops; ++id) {
    const auto first = static_cast<std::uint32_t>(data->tensors.size());
    data->first_output.push_back(first);
    for (std::uint32_t k = parts.output_begin[order[id]]; k < parts.output_begin[order[id] + 1]; ++k) {
      data->tensors.push_back({.producer = MakeId<OpId>(id),
                               .output_index = static_cast<std::uint32_t>(data->tensors.size() - first),
                               .size = Bytes{parts.outputs[k].bytes},
                               .dtype = parts.outputs[k].dtype,
                               .shape = ShapeOf(parts, k)});
    }
  }
  data->first_output.push_back(static_cast<std::uint32_t>(data->tensors.size()));
}

void FillInputs(const std::vector<std::uint32_t>& order, const BuilderParts& parts, GraphData* data) {
  const std::size_t num_ops = order.size();
  data->inputs.reserve(parts.inputs.size());
  data->controls.reserve(parts.controls.size());
  data->input_begin.reserve(num_ops + 1);
  data->control_begin.reserve(num_ops + 1);
  data->input_begin.assign(1, 0);
  data->control_begin.assign(1, 0);
  for (const std::uint32_t position : order) {
    for (std::uint32_t k = parts.input_begin[position]; k < parts.input_begin[position + 1]; ++k) {
      const OpId from = data->file_order[parts.inputs[k].position];
      data->inputs.push_back(MakeId<TensorId>(data->first_output[Index(from)] + parts.inputs[k].number));
    }
    for (const std::uint32_t control : RowOf(parts.control_begin, parts.controls, position)) {
      data->controls.push_back(data->file_order[control]);
    }
    data->input_begin.push_back(static_cast<std::uint32_t>(data->inputs.size()));
    data->control_begin.push_back(static_cast<std::uint32_t>(data->controls.size()));
  }
}

// Fills in who reads what is read.
void FillConsumers(GraphData* data) {
  const std::size_t num_ops = data->ops.size();
  const auto visit_inputs = [&](const auto& take) {
    for (std::size_t id = 0; id < num_ops; ++id) {
      for (const TensorId tensor : RowOf(data->input_begin, data->inputs, id)) {
        take(static_cast<std::uint32_t>(Index(tensor)), MakeId<OpId>(id));
      }
    }
  };
  const auto visit_controls = [&](const auto& take) {
    for (std::size_t id = 0; id < num_ops; ++id) {
      for (const OpId from : RowOf(data->control_begin, data->controls, id)) {
        take(static_cast<std::uint32_t>(Index(from)), MakeId<OpId>(id));
      }
    }
  };
  FillRows(data->tensors.size(), visit_inputs, &data->consumer_begin, &data->consumers);
  FillRows(num_ops, visit_controls, &data->control_consumer_begin, &data->control_consumers);
}

void FillAdjacency(GraphData* data) {
  const std::size_t num_ops = data->ops.size();
  std::vector<std::uint32_t> begin = {0};
  std::vector<std::uint32_t> targets;
  begin.reserve(num_ops + 1);
  targets.reserve(data->consumers.size() + data->control_consumers.size());
  for (std::uint32_t id = 0; id < num_ops; ++id) {
    const auto add = [&](std::span<const OpId> consumers) {
      for (const OpId consumer : consumers) targets.push_back(static_cast<std::uint32_t>(Index(consumer)));
    };
    for (std::uint32_t tensor = data->first_output[id]; tensor < data->first_output[id + 1]; ++tensor) {
      add(RowOf(data->consumer_begin, data->consumers, tensor));
    }
    add(RowOf(data->control_consumer_begin, data->control_consumers, id));
    const auto first = targets.begin() + begin.back();
    std::sort(first, targets.end());
    targets.erase(std::unique(first, targets.end()), targets.end());
    begin.push_back(static_cast<std::uint32_t>(targets.size()));
  }
  data->adjacency = Graph::Adjacency(boost::edges_are_unsorted_multi_pass, EdgeIterator(begin, targets, 0),
                                     EdgeIterator(begin, targets, targets.size()), static_cast<std::uint32_t>(num_ops));
}

void FillTimes(const BuilderParts& parts, GraphData* data) {
  const std::size_t num_ops = data->ops.size();
  for (std::size_t i = 0; i < num_ops; ++i) data->ops[i].kind_times = TimesOf(parts, i);
  data->queue_times.reserve(parts.queues.size());
  for (const BuilderParts::Queue& queue : parts.queues) {
    data->queue_times.push_back(
        {queue.host_micros, queue.device_micros, Times(*data, queue.first_time, queue.end_time)});
    data->ops[queue.op].queue_times = &data->queue_times.back();
  }
}

// Ops were in the order of the file.
void SortNodes(const std::vector<std::uint32_t>& order, std::vector<Op>* ops) {
  const std::size_t num_ops = order.size();
  std::vector<char> is_done(num_ops, 0);
  for (std::size_t begin = 0; begin < num_ops; ++begin) {
    if (is_done[begin] != 0) continue;
    const Op first = (*ops)[begin];
    std::size_t id = begin;
    while (order[id] != begin) {
      (*ops)[id] = (*ops)[order[id]];
      is_done[id] = 1;
      id = order[id];
    }
    (*ops)[id] = first;
    is_done[id] = 1;
  }
}

}  // namespace

void GraphAssembler::Assemble(Parts* parts) {
  Data* const data = parts->data.get();
  parts->Close();
  CheckNumbers(parts);
  const std::vector<std::uint32_t> by_name = SortByName(data->ops);
  PositionsByName positions = HasNames(*parts) ? IndexNames(data->ops) : PositionsByName();
  const std::vector<std::uint32_t> colocated = ResolveNames(positions, parts);
  FreeMemory(&positions);
  FreeMemory(&parts->names);
  FreeMemory(&parts->control_names);
  const std::vector<std::uint32_t> order = FindOrder(*parts, by_name);
  data->file_order.resize(order.size());
  for (std::size_t id = 0; id < order.size(); ++id) data->file_order[order[id]] = MakeId<OpId>(id);
  FillColocation(*parts, colocated, data);
  FillTensors(order, *parts, data);
  FreeMemory(&parts->outputs);
  FillInputs(order, *parts, data);
  FreeMemory(&parts->inputs);
  FreeMemory(&parts->controls);
  FillConsumers(data);
  FillAdjacency(data);
  FillTimes(*parts, data);
  SortNodes(order, &data->ops);
  data->by_name.reserve(by_name.size());
  for (const std::uint32_t position : by_name) data->by_name.push_back(data->file_order[position]);
  CollectiveFinder(data).Find();
}

}  // namespace internal

Graph GraphBuilder::Build() {
  const std::unique_ptr<Parts> parts = std::exchange(parts_, std::make_unique<Parts>());
  parts_->data->name = parts->data->name;
  internal::GraphAssembler::Assemble(parts.get());
  return Graph(std::move(parts->data));
}

}  // namespace emplace
