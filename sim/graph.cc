#include "sim/graph.h"

#include <algorithm>
#include <array>

#include "sim/base/check.h"
#include "sim/graph_data.h"
#include "sim/op_kinds.h"

namespace emplace {
namespace {

constexpr std::array<std::string_view, 15> kDTypeNames = {
    "", "bool", "i8", "u8", "i16", "f16", "bf16", "i32", "f32", "i64", "f64", "f8e4m3", "f8e5m2", "u4", "i4"};
constexpr std::array<std::int64_t, 15> kDTypeBits = {0, 8, 8, 8, 16, 16, 16, 32, 32, 64, 64, 8, 8, 4, 4};
constexpr std::int64_t kBitsOfAByte = 8;
constexpr std::array<std::string_view, 4> kPassNames = {"", "forward", "backward", "update"};

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

std::int64_t ElementBits(DType dtype) { return kDTypeBits[static_cast<std::size_t>(dtype)]; }

std::int64_t ElementBytes(DType dtype) { return (ElementBits(dtype) + kBitsOfAByte - 1) / kBitsOfAByte; }

Bytes TensorBytes(DType dtype, std::span<const std::int64_t> shape, const std::string& place) {
  const std::int64_t bits = ElementBits(dtype);
  const bool is_packed = bits > 0 && bits < kBitsOfAByte;
  std::int64_t bytes = is_packed ? 1 : ElementBytes(dtype);  // elements, where several share a byte
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) throw InputError(place, "dimension " + std::to_string(dim) + " is negative (integers >= 0)");
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes >= kMaxGraphBytes) {
      throw InputError(place, "the tensor is larger than 2^62 bytes");
    }
  }
  if (empty) return {0};
  if (!is_packed) return {bytes};
  const std::int64_t in_a_byte = kBitsOfAByte / bits;
  return {bytes / in_a_byte + (bytes % in_a_byte != 0 ? 1 : 0)};
}

namespace {

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
void Graph::SetMetadata(std::string metadata) {
  EMPLACE_CHECK(data_.use_count() == 1);
  // The builder made it as something that is not const.
  const_cast<Data&>(*data_).metadata = std::move(metadata);
}
std::size_t Graph::num_ops() const { return data_->ops.size(); }
std::size_t Graph::num_tensors() const { return data_->tensors.size(); }
const Op& Graph::op(OpId id) const { return data_->ops[Index(id)]; }
const Tensor& Graph::tensor(TensorId id) const { return data_->tensors[Index(id)]; }
std::span<const OpId> Graph::file_order() const { return data_->file_order; }
std::span<const TensorId> Graph::inputs(OpId id) const { return RowOf(data_->input_begin, data_->inputs, Index(id)); }
std::span<const OpId> Graph::control_inputs(OpId id) const {
  return RowOf(data_->control_begin, data_->controls, Index(id));
}
TensorId Graph::first_output(OpId id) const { return MakeId<TensorId>(data_->first_output[Index(id)]); }
std::size_t Graph::num_outputs(OpId id) const {
  return data_->first_output[Index(id) + 1] - data_->first_output[Index(id)];
}
std::span<const OpId> Graph::consumers(TensorId id) const {
  return RowOf(data_->consumer_begin, data_->consumers, Index(id));
}
std::span<const OpId> Graph::control_consumers(OpId id) const {
  return RowOf(data_->control_consumer_begin, data_->control_consumers, Index(id));
}
const Graph::Adjacency& Graph::adjacency() const { return data_->adjacency; }
OpId Graph::colocation_class(OpId id) const { return data_->colocation_class[Index(id)]; }
std::span<const Collective> Graph::collectives() const { return data_->collectives; }
bool Graph::has_ranks() const {
  return !data_->collectives.empty() ||
         std::any_of(data_->ops.begin(), data_->ops.end(), [](const Op& op) { return op.kind == "recv"; });
}
std::optional<std::size_t> Graph::CollectiveOf(OpId id) const {
  if (data_->collective_of.empty()) return std::nullopt;
  const std::uint32_t collective = data_->collective_of[Index(id)];
  return collective == internal::kInvalidCollective ? std::nullopt : std::optional<std::size_t>(collective);
}

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
  if (IsSourceKind(o.kind)) return 0.0;
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
  return sizeof(Data) + d.name.capacity() + d.metadata.capacity() + d.text.MemoryUsage() + HeapBytes(d.ops) +
         HeapBytes(d.tensors) + HeapBytes(d.first_output) + HeapBytes(d.dims) + HeapBytes(d.kind_times) +
         HeapBytes(d.queue_times) + HeapBytes(d.input_begin) + HeapBytes(d.inputs) + HeapBytes(d.control_begin) +
         HeapBytes(d.controls) + HeapBytes(d.consumer_begin) + HeapBytes(d.consumers) +
         HeapBytes(d.control_consumer_begin) + HeapBytes(d.control_consumers) + HeapBytes(d.file_order) +
         HeapBytes(d.by_name) + HeapBytes(d.colocation_class) + HeapBytes(d.members) + HeapBytes(d.collectives) +
         HeapBytes(d.collective_of) + adjacency;
}

}  // namespace emplace
