#include "sim/timeline.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/base/json_text.h"

namespace emplace {
namespace {

std::string JsonString(std::string_view text) {
  std::string quoted;
  AppendQuoted(&quoted, text);
  return quoted;
}

// end - start without the noise of subtracting doubles that mean whole nanoseconds.
double SpanMicros(double start, double end) {
  const double span = end - start;
  const double whole_nanos = std::round(span * 1000.0) / 1000.0;
  return start + whole_nanos == end ? whole_nanos : span;
}

std::string TensorName(const Graph& graph, const Tensor& tensor) {
  const std::string_view producer = graph.op(tensor.producer).name;
  return graph.num_outputs(tensor.producer) > 1 ? fmt::format("{}:{}", producer, tensor.output_index)
                                                : std::string(producer);
}

class TraceWriter {
 public:
  TraceWriter(std::ostream& out, const Graph& graph, const Cluster& cluster)
      : out_(out), graph_(graph), cluster_(cluster) {}

  void Write(const Timeline& timeline) {
    out_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
    NameTracks(timeline);
    for (const Timeline::OpRun& run : timeline.ops) {
      WriteOp(run);
      if (cluster_.device(run.device).issue) WriteIssue(run);
    }
    WriteTransfers(timeline);
    for (const Timeline::MemorySample& sample : timeline.memory) {
      Begin();
      fmt::print(out_, R"({{"ph": "C", "name": "memory", "pid": {}, "ts": {}, "args": {{"bytes": {}}}}})",
                 Index(sample.device), sample.micros, sample.in_use.count);
    }
    out_ << "\n]}\n";
  }

 private:
  static constexpr std::size_t kOpThread = 0;
  std::size_t IssueThread() const { return 1 + cluster_.num_devices(); }  // after the threads of the channels

  void Begin() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
  }

  // Transfers of one channel never overlap: a thread for each channel.
  std::size_t ChannelThread(const Timeline::Transfer& transfer) const {
    return 1 + (cluster_.channels() == Channels::kPerPair ? Index(transfer.to) : 0);
  }

  void NameTrack(std::string_view what, std::size_t pid, std::size_t tid, std::string_view key,
                 const std::string& value) {
    Begin();
    fmt::print(out_, R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"{}": {}}}}})", what, pid, tid, key,
               value);
  }

  void NameTracks(const Timeline& timeline) {
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      NameTrack("process_name", d, kOpThread, "name", JsonString(cluster_.devices()[d].name));
      NameTrack("process_sort_index", d, kOpThread, "sort_index", std::to_string(d));
      NameTrack("thread_name", d, kOpThread, "name", "\"ops\"");
      if (const auto& issue = cluster_.devices()[d].issue) {
        NameTrack("thread_name", d, IssueThread(), "name",
                  JsonString(issue->lane.empty() ? "issue" : "issue by " + issue->lane));
      }
      if (cluster_.channels() == Channels::kPerDevice) NameTrack("thread_name", d, 1, "name", "\"outgoing transfers\"");
    }
    if (cluster_.channels() == Channels::kPerDevice) return;
    std::map<std::pair<std::size_t, std::size_t>, DeviceId> channels;
    for (const Timeline::Transfer& transfer : timeline.transfers) {
      channels.emplace(std::pair(Index(transfer.from), ChannelThread(transfer)), transfer.to);
    }
    for (const auto& [channel, to] : channels) {
      NameTrack("thread_name", channel.first, channel.second, "name",
                JsonString("outgoing transfers to " + cluster_.device(to).name));
    }
  }

  void WriteOp(const Timeline::OpRun& run) {
    const Op& op = graph_.op(run.op);
    Begin();
    fmt::print(out_, R"({{"ph": "X", "name": {}, "cat": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{)",
               JsonString(op.name), JsonString(op.kind), Index(run.device), kOpThread, run.start_micros,
               SpanMicros(run.start_micros, run.end_micros));
    fmt::print(out_, R"("kind": {})", JsonString(op.kind));
    if (op.pass != Pass::kNone) fmt::print(out_, R"(, "pass": {})", JsonString(Name(op.pass)));
    if (!op.layer.empty()) fmt::print(out_, R"(, "layer": {})", JsonString(op.layer));
    out_ << "}}";
  }

  // The issue of an op on its lane.
  void WriteIssue(const Timeline::OpRun& run) {
    Begin();
    fmt::print(out_, R"({{"ph": "X", "name": {}, "cat": "issue", "pid": {}, "tid": {}, "ts": {}, "dur": {}}})",
               JsonString(graph_.op(run.op).name), Index(run.device), IssueThread(), run.issue_start_micros,
               SpanMicros(run.issue_start_micros, run.issue_end_micros));
  }

  // placeto-reference sends a tensor once to all its destinations: one event, which names them all.
  void WriteTransfers(const Timeline& timeline) {
    using Key = std::tuple<double, std::size_t, std::size_t, std::size_t>;  // start, from, thread, tensor
    std::map<Key, std::pair<const Timeline::Transfer*, std::string>> shared;
    for (const Timeline::Transfer& transfer : timeline.transfers) {
      const Key key{transfer.start_micros, Index(transfer.from), ChannelThread(transfer), Index(transfer.tensor)};
      auto& [first, names] = shared[key];
      if (first == nullptr) first = &transfer;
      names += (names.empty() ? "" : ", ") + cluster_.device(transfer.to).name;
    }
    for (const auto& [key, value] : shared) {
      const Timeline::Transfer& transfer = *value.first;
      const Tensor& tensor = graph_.tensor(transfer.tensor);
      Begin();
      fmt::print(out_,
                 R"({{"ph": "X", "name": {}, "cat": "transfer", "pid": {}, "tid": {}, "ts": {}, "dur": {}, )"
                 R"("args": {{"to": {}, "bytes": {}}}}})",
                 JsonString(TensorName(graph_, tensor)), Index(transfer.from), std::get<2>(key), transfer.start_micros,
                 SpanMicros(transfer.start_micros, transfer.arrival_micros), JsonString(value.second),
                 tensor.size.count);
    }
  }

  std::ostream& out_;
  const Graph& graph_;
  const Cluster& cluster_;
  bool first_ = true;
};

}  // namespace

void WriteChromeTrace(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster) {
  TraceWriter(out, graph, cluster).Write(timeline);
}

}  // namespace emplace
