#include "sim/graph.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

// Sizes, and their sums over a whole graph, stay below this: no sum of the simulator's can overflow.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;
// An op's time in µs, about 11 days. (What all times add up to is checked where the costs are known.)
constexpr std::array<std::string_view, 11> kDTypeNames = {"",     "bool", "i8",  "u8",  "i16", "f16",
                                                          "bf16", "i32",  "f32", "i64", "f64"};
constexpr std::array<std::int64_t, 11> kDTypeBytes = {0, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8};
constexpr std::array<std::string_view, 4> kPassNames = {"", "forward", "backward", "update"};

std::string Place(std::size_t position, std::string_view field = {}) {
  std::string place = "ops[" + std::to_string(position) + "]";
  if (!field.empty()) place.append(".").append(field);
  return place;
}

}  // namespace

std::string_view Name(DType dtype) { return kDTypeNames[static_cast<std::size_t>(dtype)]; }
std::string_view Name(Pass pass) { return kPassNames[static_cast<std::size_t>(pass)]; }

std::optional<DType> DTypeFromName(std::string_view name) {
  const auto found = std::find(kDTypeNames.begin() + 1, kDTypeNames.end(), name);
  if (found == kDTypeNames.end()) return std::nullopt;
  return static_cast<DType>(found - kDTypeNames.begin());
}

std::optional<Pass> PassFromName(std::string_view name) {
  const auto found = std::find(kPassNames.begin() + 1, kPassNames.end(), name);
  if (found == kPassNames.end()) return std::nullopt;
  return static_cast<Pass>(found - kPassNames.begin());
}

std::int64_t ElementBytes(DType dtype) { return kDTypeBytes[static_cast<std::size_t>(dtype)]; }

Bytes TensorBytes(DType dtype, std::span<const std::int64_t> shape, const std::string& place) {
  std::int64_t bytes = ElementBytes(dtype);
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) throw InputError(place, "dimension " + std::to_string(dim) + " is negative (integers >= 0)");
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes >= kMaxBytes) {
      throw InputError(place, "the tensor is larger than 2^62 bytes");
    }
  }
  return {empty ? 0 : bytes};
}

// All arrays are filled by GraphBuilder::Build and never move afterwards: the views of Op and Tensor point into them.
struct Graph::Data {
  std::string name;
  std::string metadata;
  std::string text;  // the characters of all names, kinds, layers and attrs
  std::vector<Op> ops;
  std::vector<Tensor> tensors;
  std::vector<std::uint32_t> first_output;  // [num_ops + 1]
  std::vector<std::int64_t> dims;
  std::vector<KindTime> kind_times;  // of time_us and device_us
  std::vector<QueueTimes> queue_times;
  std::vector<std::uint32_t> input_begin;  // [num_ops + 1] into inputs, and so on below
  std::vector<TensorId> inputs;
  std::vector<std::uint32_t> control_begin;
  std::vector<OpId> controls;
  std::vector<std::uint32_t> consumer_begin;  // [num_tensors + 1]
  std::vector<OpId> consumers;
  std::vector<std::uint32_t> control_consumer_begin;
  std::vector<OpId> control_consumers;
  std::vector<OpId> file_order;
  std::vector<OpId> by_name;  // ids sorted by name
  std::vector<OpId> colocation_class;
  Adjacency adjacency;
};

namespace {

template <typename T>
std::span<const T> Row(const std::vector<std::uint32_t>& begin, const std::vector<T>& values, std::size_t row) {
  return {values.data() + begin[row], values.data() + begin[row + 1]};
}

// Turns (key, value) pairs into rows: values by key, ascending, each once.
template <typename T>
void FillRows(std::size_t num_keys, std::vector<std::pair<std::uint32_t, T>>& pairs, std::vector<std::uint32_t>* begin,
              std::vector<T>* values) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  begin->assign(num_keys + 1, 0);
  values->reserve(pairs.size());
  for (const auto& [key, value] : pairs) {
    ++(*begin)[key + 1];
    values->push_back(value);
  }
  std::partial_sum(begin->begin(), begin->end(), begin->begin());
}

template <typename T>
std::size_t HeapBytes(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

}  // namespace

Graph::Graph() {
  static const Graph empty = GraphBuilder("").Build();
  data_ = empty.data_;
}

Graph::Graph(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

const std::string& Graph::name() const { return data_->name; }
const std::string& Graph::metadata() const { return data_->metadata; }
std::size_t Graph::num_ops() const { return data_->ops.size(); }
std::size_t Graph::num_tensors() const { return data_->tensors.size(); }
const Op& Graph::op(OpId id) const { return data_->ops[Index(id)]; }
const Tensor& Graph::tensor(TensorId id) const { return data_->tensors[Index(id)]; }
std::span<const OpId> Graph::file_order() const { return data_->file_order; }
std::span<const TensorId> Graph::inputs(OpId id) const { return Row(data_->input_begin, data_->inputs, Index(id)); }
std::span<const OpId> Graph::control_inputs(OpId id) const {
  return Row(data_->control_begin, data_->controls, Index(id));
}
TensorId Graph::first_output(OpId id) const { return MakeId<TensorId>(data_->first_output[Index(id)]); }
std::size_t Graph::num_outputs(OpId id) const {
  return data_->first_output[Index(id) + 1] - data_->first_output[Index(id)];
}
std::span<const OpId> Graph::consumers(TensorId id) const {
  return Row(data_->consumer_begin, data_->consumers, Index(id));
}
std::span<const OpId> Graph::control_consumers(OpId id) const {
  return Row(data_->control_consumer_begin, data_->control_consumers, Index(id));
}
const Graph::Adjacency& Graph::adjacency() const { return data_->adjacency; }
OpId Graph::colocation_class(OpId id) const { return data_->colocation_class[Index(id)]; }

std::optional<OpId> Graph::FindOp(std::string_view name) const {
  const auto found = std::lower_bound(data_->by_name.begin(), data_->by_name.end(), name,
                                      [this](OpId id, std::string_view wanted) { return op(id).name < wanted; });
  if (found == data_->by_name.end() || op(*found).name != name) return std::nullopt;
  return *found;
}

std::optional<double> Graph::MeasuredMicros(OpId id, std::string_view device_kind) const {
  const Op& o = op(id);
  if (o.time_micros) return o.time_micros;
  for (const KindTime& time : o.kind_times) {
    if (time.kind == device_kind) return time.micros;
  }
  if (const auto device = DeviceMicros(id, device_kind)) return std::max(*device, HostMicros(id).value_or(0));
  if (o.kind == "input" || o.kind == "variable") return 0.0;
  return std::nullopt;
}

std::optional<double> Graph::DeviceMicros(OpId id, std::string_view device_kind) const {
  const QueueTimes* const times = op(id).queue_times;
  if (times == nullptr || times->device_micros) return times == nullptr ? std::nullopt : times->device_micros;
  for (const KindTime& time : times->device_kind_times) {
    if (time.kind == device_kind) return time.micros;
  }
  return std::nullopt;
}

std::optional<double> Graph::HostMicros(OpId id) const {
  const QueueTimes* const times = op(id).queue_times;
  return times == nullptr ? std::nullopt : times->host_micros;
}

std::size_t Graph::MemoryUsage() const {
  const Data& d = *data_;
  const std::size_t edges = boost::num_edges(d.adjacency);
  // compressed_sparse_row_graph, both directions: row starts and columns, forward and backward, and for the backward
  // ones the forward edge's index.
  const std::size_t adjacency = (2 * (num_ops() + 1) + 3 * edges) * sizeof(std::uint32_t);
  return sizeof(Data) + d.name.capacity() + d.metadata.capacity() + d.text.capacity() + HeapBytes(d.ops) +
         HeapBytes(d.tensors) + HeapBytes(d.first_output) + HeapBytes(d.dims) + HeapBytes(d.kind_times) +
         HeapBytes(d.queue_times) + HeapBytes(d.input_begin) + HeapBytes(d.inputs) + HeapBytes(d.control_begin) +
         HeapBytes(d.controls) + HeapBytes(d.consumer_begin) + HeapBytes(d.consumers) +
         HeapBytes(d.control_consumer_begin) + HeapBytes(d.control_consumers) + HeapBytes(d.file_order) +
         HeapBytes(d.by_name) + HeapBytes(d.colocation_class) + adjacency;
}

void GraphBuilder::Add(OpSpec spec) { specs_.push_back(std::move(spec)); }

namespace {

using Positions = std::unordered_map<std::string_view, std::uint32_t>;

// An input as positions in the file: (producer, output index).
using Reference = std::pair<std::uint32_t, std::uint32_t>;

void CheckMicros(double micros, const std::string& place) {
  if (!(micros >= 0) || micros > kMaxMicros) {
    throw InputError(place, "time " + std::to_string(micros) + " is out of range (0 to 1e12 us)");
  }
}

void CheckSize(Bytes size, const std::string& place, std::int64_t* total) {
  if (size.count < 0) throw InputError(place, "size " + std::to_string(size.count) + " is negative (integers >= 0)");
  if (size.count >= kMaxBytes || __builtin_add_overflow(*total, size.count, total) || *total >= kMaxBytes) {
    throw InputError(place, "the sizes of the graph add up to more than 2^62 bytes");
  }
}

void CheckName(const OpSpec& spec, std::size_t position) {
  const std::string place = Place(position, "name");
  if (spec.name.empty()) throw InputError(place, "the name is empty");
  if (spec.name.find(':') != std::string::npos || spec.name.front() == '^') {
    throw InputError(place, Quoted(spec.name) + " is not an op name (it holds no ':' and does not start with '^')");
  }
  if (spec.kind.empty()) throw InputError(Place(position, "kind"), "the kind is empty");
}

// Fills in the sizes that follow from dtype and shape.
void CheckNumbers(std::vector<OpSpec>& specs) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    OpSpec& spec = specs[i];
    CheckName(spec, i);
    if (!(spec.flop >= 0) || spec.flop > kMaxFlop) {
      throw InputError(Place(i, "flop"), std::to_string(spec.flop) + " is out of range (0 to 1e24)");
    }
    CheckSize(spec.temp, Place(i, "temp_bytes"), &total);
    CheckSize(spec.persistent, Place(i, "persistent_bytes"), &total);
    for (std::size_t k = 0; k < spec.outputs.size(); ++k) {
      OutputSpec& output = spec.outputs[k];
      const std::string place = Place(i, "outputs[" + std::to_string(k) + "]");
      const Bytes from_shape = TensorBytes(output.dtype, output.shape, place + ".shape");
      if (!output.size) {
        if (output.dtype == DType::kNone) throw InputError(place, "no size (bytes, or dtype and shape)");
        output.size = from_shape;
      }
      CheckSize(*output.size, place + ".bytes", &total);
    }
    if (spec.time_micros) CheckMicros(*spec.time_micros, Place(i, "time_us"));
    for (const auto& [kind, micros] : spec.kind_times) CheckMicros(micros, Place(i, "time_us." + kind));
    if (spec.host_micros) CheckMicros(*spec.host_micros, Place(i, "host_us"));
    if (spec.device_micros) CheckMicros(*spec.device_micros, Place(i, "device_us"));
    for (const auto& [kind, micros] : spec.device_kind_times) CheckMicros(micros, Place(i, "device_us." + kind));
  }
}

Positions IndexNames(const std::vector<OpSpec>& specs) {
  Positions positions;
  positions.reserve(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto [found, added] = positions.emplace(specs[i].name, static_cast<std::uint32_t>(i));
    if (!added) {
      throw InputError(Place(i, "name"),
                       "duplicate op name " + Quoted(specs[i].name) + " (also " + Place(found->second) + ")");
    }
  }
  return positions;
}

std::uint32_t FindProducer(const Positions& positions, std::string_view name, const std::string& place) {
  const auto found = positions.find(name);
  if (found == positions.end()) throw InputError(place, "unknown producer " + Quoted(name) + " (the name of an op)");
  return found->second;
}

Reference ResolveInput(const Positions& positions, const std::vector<OpSpec>& specs, const std::string& input,
                       const std::string& place) {
  const std::size_t colon = input.find(':');
  const std::string_view name = std::string_view(input).substr(0, colon);
  std::uint32_t index = 0;
  if (colon != std::string::npos) {
    const char* const end = input.data() + input.size();
    const auto [rest, error] = std::from_chars(input.data() + colon + 1, end, index);
    if (error != std::errc() || rest != end || colon + 1 == input.size()) {
      throw InputError(place, Quoted(input) + " is not an input (PRODUCER or PRODUCER:OUTPUT_INDEX)");
    }
  }
  const std::uint32_t producer = FindProducer(positions, name, place);
  const std::size_t outputs = specs[producer].outputs.size();
  if (index >= outputs) {
    throw InputError(place, Quoted(input) + ": output index " + std::to_string(index) + " is out of range (" +
                                Quoted(name) + " has " + std::to_string(outputs) + " outputs)");
  }
  return {producer, index};
}

// The edges of a graph under construction, all by file position.
struct Edges {
  std::vector<std::vector<Reference>> inputs;
  std::vector<std::vector<std::uint32_t>> controls;
  std::vector<std::uint32_t> colocate;  // own position if none

  // Distinct producers of an op.
  std::vector<std::uint32_t> Producers(std::size_t position) const {
    std::vector<std::uint32_t> producers = controls[position];
    for (const Reference& input : inputs[position]) producers.push_back(input.first);
    std::sort(producers.begin(), producers.end());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
    return producers;
  }
};

Edges ResolveEdges(const std::vector<OpSpec>& specs, const Positions& positions) {
  Edges edges;
  edges.inputs.resize(specs.size());
  edges.controls.resize(specs.size());
  edges.colocate.resize(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const OpSpec& spec = specs[i];
    for (std::size_t k = 0; k < spec.inputs.size(); ++k) {
      edges.inputs[i].push_back(
          ResolveInput(positions, specs, spec.inputs[k], Place(i, "inputs[" + std::to_string(k) + "]")));
    }
    for (std::size_t k = 0; k < spec.control_inputs.size(); ++k) {
      edges.controls[i].push_back(
          FindProducer(positions, spec.control_inputs[k], Place(i, "control_inputs[" + std::to_string(k) + "]")));
    }
    edges.colocate[i] = static_cast<std::uint32_t>(i);
    if (!spec.colocate_with.empty()) {
      const auto found = positions.find(spec.colocate_with);
      if (found == positions.end()) {
        throw InputError(Place(i, "colocate_with"),
                         "unknown op " + Quoted(spec.colocate_with) + " (the name of an op)");
      }
      edges.colocate[i] = found->second;
    }
  }
  return edges;
}

// Throws: `taken` marks what a topological order reached, so every other op waits for one that is not taken either.
[[noreturn]] void ReportCycle(const std::vector<OpSpec>& specs, const Edges& edges, const std::vector<char>& taken) {
  std::vector<std::uint32_t> step(specs.size(), 0);
  std::uint32_t at = static_cast<std::uint32_t>(std::find(taken.begin(), taken.end(), 0) - taken.begin());
  std::vector<std::uint32_t> path;
  while (step[at] == 0) {
    path.push_back(at);
    step[at] = static_cast<std::uint32_t>(path.size());
    const auto producers = edges.Producers(at);
    at = *std::find_if(producers.begin(), producers.end(), [&](std::uint32_t p) { return taken[p] == 0; });
  }
  path.erase(path.begin(), path.begin() + (step[at] - 1));
  std::reverse(path.begin(), path.end());  // from producer to consumer
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  constexpr std::size_t kAtEachEnd = 5;
  std::string names;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i == kAtEachEnd && path.size() > 2 * kAtEachEnd) {
      i = path.size() - kAtEachEnd;
      names += "... -> ";
    }
    names += specs[path[i]].name + " -> ";
  }
  const std::string size = path.size() > 2 * kAtEachEnd ? " of " + std::to_string(path.size()) + " ops" : "";
  throw InputError(Place(path.front()), "the graph has a cycle" + size + ": " + names + specs[path.front()].name);
}

// File positions in canonical order (docs/model.md, G3).
std::vector<std::uint32_t> CanonicalOrder(const std::vector<OpSpec>& specs, const Edges& edges,
                                          const std::vector<std::uint32_t>& by_name) {
  const std::size_t n = specs.size();
  std::vector<std::uint32_t> rank(n);
  for (std::size_t r = 0; r < n; ++r) rank[by_name[r]] = static_cast<std::uint32_t>(r);

  std::vector<std::uint32_t> waiting(n, 0);
  std::vector<std::uint32_t> begin;
  std::vector<std::uint32_t> consumers;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::size_t i = 0; i < n; ++i) {
    const auto producers = edges.Producers(i);
    waiting[i] = static_cast<std::uint32_t>(producers.size());
    for (const std::uint32_t producer : producers) pairs.emplace_back(producer, static_cast<std::uint32_t>(i));
  }
  FillRows(n, pairs, &begin, &consumers);

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) ready.push(rank[i]);
  }
  std::vector<std::uint32_t> order;
  order.reserve(n);
  std::vector<char> taken(n, 0);
  while (!ready.empty()) {
    const std::uint32_t position = by_name[ready.top()];
    ready.pop();
    order.push_back(position);
    taken[position] = 1;
    for (const std::uint32_t consumer : Row(begin, consumers, position)) {
      if (--waiting[consumer] == 0) ready.push(rank[consumer]);
    }
  }
  if (order.size() != n) ReportCycle(specs, edges, taken);
  return order;
}

// Copies text into one buffer, equal words of `Intern` once.
class TextPool {
 public:
  explicit TextPool(std::string* text) : text_(text) {}
  std::size_t Size(const std::vector<OpSpec>& specs, std::string_view graph_name) {
    std::size_t size = graph_name.size();
    for (const OpSpec& spec : specs) {
      size += spec.name.size();
      for (const std::string_view word :
           {std::string_view(spec.kind), std::string_view(spec.layer), std::string_view(spec.attrs)}) {
        size += Count(word);
      }
      for (const auto& time : spec.kind_times) size += Count(time.first);
      for (const auto& time : spec.device_kind_times) size += Count(time.first);
    }
    return size;
  }
  std::string_view Add(std::string_view word) {
    const std::size_t begin = text_->size();
    text_->append(word);
    return {text_->data() + begin, word.size()};
  }
  std::string_view Intern(std::string_view word) {
    if (word.empty()) return {};
    std::string_view& stored = words_.find(word)->second;
    if (stored.empty()) stored = Add(word);
    return stored;
  }

 private:
  std::size_t Count(std::string_view word) { return words_.emplace(word, std::string_view()).second ? word.size() : 0; }
  std::string* text_;
  std::unordered_map<std::string_view, std::string_view> words_;  // keys live in the specs
};

std::vector<OpId> ColocationClasses(const Edges& edges, const std::vector<OpId>& id_of) {
  const std::size_t n = id_of.size();
  std::vector<std::uint32_t> parent(n);  // by id; roots are the smallest of their class
  std::iota(parent.begin(), parent.end(), 0U);
  const auto root = [&parent](std::uint32_t id) {
    while (parent[id] != id) id = parent[id] = parent[parent[id]];
    return id;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t a = root(static_cast<std::uint32_t>(id_of[i]));
    const std::uint32_t b = root(static_cast<std::uint32_t>(id_of[edges.colocate[i]]));
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::vector<OpId> classes(n);
  for (std::size_t id = 0; id < n; ++id) classes[id] = MakeId<OpId>(root(static_cast<std::uint32_t>(id)));
  return classes;
}

}  // namespace

namespace internal {

// Fills Graph::Data from checked specs. `order` holds file positions in canonical order.
class GraphAssembler {
 public:
  GraphAssembler(const std::vector<OpSpec>& specs, const Edges& edges, const std::vector<std::uint32_t>& order)
      : specs_(specs), edges_(edges), order_(order), id_of_(specs.size()) {
    for (std::size_t id = 0; id < order.size(); ++id) id_of_[order[id]] = MakeId<OpId>(id);
  }

  template <typename Data>
  void Fill(Data* data) const {
    FillOps(data);
    FillTensors(data);
    FillEdges(data);
    data->file_order = id_of_;
    data->colocation_class = ColocationClasses(edges_, id_of_);
  }

 private:
  template <typename Data>
  void FillOps(Data* data) const {
    TextPool pool(&data->text);
    data->text.reserve(pool.Size(specs_, data->name));
    std::size_t num_kind_times = 0;
    std::size_t num_queue_times = 0;
    const auto has_queue_times = [](const OpSpec& spec) {
      return spec.host_micros || spec.device_micros || !spec.device_kind_times.empty();
    };
    for (const OpSpec& spec : specs_) {
      num_kind_times += spec.kind_times.size() + spec.device_kind_times.size();
      num_queue_times += has_queue_times(spec) ? 1 : 0;
    }
    data->kind_times.reserve(num_kind_times);
    data->queue_times.reserve(num_queue_times);
    data->ops.reserve(specs_.size());
    for (const std::uint32_t position : order_) {
      const OpSpec& spec = specs_[position];
      const auto add_times = [&](const std::vector<std::pair<std::string, double>>& times) {
        const std::size_t first_time = data->kind_times.size();
        for (const auto& [kind, micros] : times) data->kind_times.push_back({pool.Intern(kind), micros});
        return std::span<const KindTime>(data->kind_times).subspan(first_time);
      };
      const QueueTimes* queue_times = nullptr;
      if (has_queue_times(spec)) {
        data->queue_times.push_back({spec.host_micros, spec.device_micros, add_times(spec.device_kind_times)});
        queue_times = &data->queue_times.back();
      }
      Op op{.name = pool.Add(spec.name),
            .kind = pool.Intern(spec.kind),
            .layer = pool.Intern(spec.layer),
            .attrs = pool.Intern(spec.attrs),
            .pass = spec.pass,
            .flop = spec.flop,
            .temp = spec.temp,
            .persistent = spec.persistent,
            .time_micros = spec.time_micros,
            .kind_times = add_times(spec.kind_times),
            .queue_times = queue_times,
            .colocate_with = std::nullopt,
            .file_position = position};
      if (!spec.colocate_with.empty()) op.colocate_with = id_of_[edges_.colocate[position]];
      data->ops.push_back(op);
    }
  }

  template <typename Data>
  void FillTensors(Data* data) const {
    std::size_t num_tensors = 0;
    std::size_t num_dims = 0;
    for (const OpSpec& spec : specs_) {
      num_tensors += spec.outputs.size();
      for (const OutputSpec& output : spec.outputs) num_dims += output.shape.size();
    }
    data->tensors.reserve(num_tensors);
    data->dims.reserve(num_dims);
    data->first_output.reserve(specs_.size() + 1);
    for (const std::uint32_t position : order_) {
      data->first_output.push_back(static_cast<std::uint32_t>(data->tensors.size()));
      for (const OutputSpec& output : specs_[position].outputs) {
        const std::size_t first_dim = data->dims.size();
        data->dims.insert(data->dims.end(), output.shape.begin(), output.shape.end());
        const std::size_t index = data->tensors.size() - data->first_output.back();
        data->tensors.push_back({.producer = id_of_[position],
                                 .output_index = static_cast<std::uint32_t>(index),
                                 .size = *output.size,
                                 .dtype = output.dtype,
                                 .shape = std::span(data->dims).subspan(first_dim)});
      }
    }
    data->first_output.push_back(static_cast<std::uint32_t>(data->tensors.size()));
  }

  template <typename Data>
  void FillEdges(Data* data) const {
    std::vector<std::pair<std::uint32_t, OpId>> reads;
    std::vector<std::pair<std::uint32_t, OpId>> waits;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> joined;
    data->input_begin.assign(1, 0);
    data->control_begin.assign(1, 0);
    for (std::size_t id = 0; id < order_.size(); ++id) {
      const auto consumer = static_cast<std::uint32_t>(id);
      for (const auto& [producer, index] : edges_.inputs[order_[id]]) {
        const auto from = static_cast<std::uint32_t>(id_of_[producer]);
        const std::uint32_t tensor = data->first_output[from] + index;
        data->inputs.push_back(MakeId<TensorId>(tensor));
        reads.emplace_back(tensor, MakeId<OpId>(id));
        joined.emplace_back(from, consumer);
      }
      for (const std::uint32_t producer : edges_.controls[order_[id]]) {
        const auto from = static_cast<std::uint32_t>(id_of_[producer]);
        data->controls.push_back(MakeId<OpId>(from));
        waits.emplace_back(from, MakeId<OpId>(id));
        joined.emplace_back(from, consumer);
      }
      data->input_begin.push_back(static_cast<std::uint32_t>(data->inputs.size()));
      data->control_begin.push_back(static_cast<std::uint32_t>(data->controls.size()));
    }
    FillRows(data->tensors.size(), reads, &data->consumer_begin, &data->consumers);
    FillRows(specs_.size(), waits, &data->control_consumer_begin, &data->control_consumers);
    std::sort(joined.begin(), joined.end());
    joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
    data->adjacency = Graph::Adjacency(boost::edges_are_unsorted_multi_pass, joined.begin(), joined.end(),
                                       static_cast<std::uint32_t>(specs_.size()));
  }

  const std::vector<OpSpec>& specs_;
  const Edges& edges_;
  const std::vector<std::uint32_t>& order_;
  std::vector<OpId> id_of_;
};

}  // namespace internal

Graph GraphBuilder::Build() {
  std::vector<OpSpec> specs = std::move(specs_);
  specs_.clear();
  EMPLACE_CHECK_LT(specs.size(), std::size_t{std::numeric_limits<std::uint32_t>::max()});
  CheckNumbers(specs);
  const Edges edges = ResolveEdges(specs, IndexNames(specs));
  for (OpSpec& spec : specs) {  // of graphs with millions of ops a large part
    spec.inputs = {};
    spec.control_inputs = {};
  }

  std::vector<std::uint32_t> by_name(specs.size());
  std::iota(by_name.begin(), by_name.end(), 0U);
  std::sort(by_name.begin(), by_name.end(),
            [&specs](std::uint32_t a, std::uint32_t b) { return specs[a].name < specs[b].name; });
  const std::vector<std::uint32_t> order = CanonicalOrder(specs, edges, by_name);

  auto data = std::make_shared<Graph::Data>();
  data->name = std::move(name_);
  data->metadata = std::move(metadata_);
  internal::GraphAssembler(specs, edges, order).Fill(data.get());
  data->by_name.reserve(specs.size());
  for (const std::uint32_t position : by_name) data->by_name.push_back(data->file_order[position]);
  return Graph(std::move(data));
}

}  // namespace emplace
