#include "datasets/importers/tensorflow_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "datasets/importers/importers.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using google::protobuf::Message;
using google::protobuf::TextFormat;

// libprotobuf writes what it refuses to standard error; the importer has a line of its own.
class QuietProtobuf {
 public:
  QuietProtobuf() : before_(google::protobuf::SetLogHandler(nullptr)) {}
  ~QuietProtobuf() { google::protobuf::SetLogHandler(before_); }
  QuietProtobuf(const QuietProtobuf&) = delete;
  QuietProtobuf& operator=(const QuietProtobuf&) = delete;

 private:
  google::protobuf::LogHandler* before_;
};

// The first fault of a text.
class FirstTextFault : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!fault_) fault_ = {fmt::format("line {}, column {}", line + 1, column + 1), message};
  }
  [[noreturn]] void Throw() const {
    throw fault_ ? InputError(fault_->first, fault_->second) : InputError("", "cannot be read as text");
  }

 private:
  std::optional<std::pair<std::string, std::string>> fault_;
};

void ParseTensorFlowText(const std::string& text, Message* message) {
  FirstTextFault fault;
  TextFormat::Parser parser;
  parser.AllowUnknownField(true);
  parser.RecordErrorsTo(&fault);
  if (!parser.ParseFromString(text, message)) fault.Throw();
}

// The name of the first field of a text; "" where it does not start with one.
std::string_view FirstFieldOfText(std::string_view text) {
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::size_t begin = 0;
  while (begin < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[begin])) != 0) {
      ++begin;
    } else if (text[begin] == '#') {
      begin = std::min(text.find('\n', begin), text.size());
    } else {
      break;
    }
  }
  std::size_t end = begin;
  while (end < text.size() && is_of_name(text[end])) ++end;
  std::size_t next = end;
  while (next < text.size() && text[next] == ' ') ++next;
  const bool is_field = next < text.size() && (text[next] == '{' || text[next] == ':');
  return is_field ? text.substr(begin, end - begin) : std::string_view();
}

bool IsOneOfFields(std::string_view field, std::initializer_list<std::string_view> fields) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}
bool IsGraphText(std::string_view field) { return IsOneOfFields(field, {"node", "versions", "library"}); }
bool IsMetaGraphText(std::string_view field) {
  return IsOneOfFields(field, {"meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def"});
}
bool IsSavedModelText(std::string_view field) {
  return IsOneOfFields(field, {"saved_model_schema_version", "meta_graphs"});
}

// Names of operators, also of functions.
bool IsTensorFlowOperator(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string_view("_>./-").find(c) != std::string_view::npos;
         });
}

bool IsPlausibleGraph(const tensorflow::GraphDef& graph) {
  return graph.node_size() > 0 && std::all_of(graph.node().begin(), graph.node().end(), [](const auto& node) {
           return !node.name().empty() && IsTensorFlowOperator(node.op());
         });
}

void TakeMetaGraph(tensorflow::MetaGraphDef* meta, TensorFlowFile* file) {
  file->version = meta->meta_info_def().tensorflow_version();
  for (const tensorflow::OpDef& op : meta->meta_info_def().stripped_op_list().op()) file->ops[op.name()] = op;
  // Maps have no order of their own.
  std::set<std::string> results;
  for (const auto& [name, signature] : meta->signature_def()) {
    if (name == "__saved_model_init_op") continue;
    for (const auto& output : signature.outputs()) results.insert(output.second.name());
  }
  file->results = {results.begin(), results.end()};
  file->graph = std::move(*meta->mutable_graph_def());
}

void TakeSavedModel(tensorflow::SavedModel* saved, TensorFlowFile* file) {
  if (saved->meta_graphs_size() == 0) throw InputError("meta_graphs", "is missing (a SavedModel has at least one)");
  TakeMetaGraph(saved->mutable_meta_graphs(0), file);
}

TensorFlowFile ReadTextOfGraph(const std::string& content, std::string_view field) {
  TensorFlowFile file;
  if (IsSavedModelText(field)) {
    file.form = "SavedModel";
    tensorflow::SavedModel saved;
    ParseTensorFlowText(content, &saved);
    TakeSavedModel(&saved, &file);
  } else if (IsMetaGraphText(field)) {
    file.form = "MetaGraphDef";
    tensorflow::MetaGraphDef meta;
    ParseTensorFlowText(content, &meta);
    TakeMetaGraph(&meta, &file);
  } else {
    file.form = "GraphDef";
    ParseTensorFlowText(content, &file.graph);
  }
  return file;
}

TensorFlowFile ReadBinaryOfGraph(const std::string& content) {
  TensorFlowFile file;
  const QuietProtobuf quiet;
  file.form = "GraphDef";
  if (file.graph.ParseFromString(content) && IsPlausibleGraph(file.graph)) return file;
  tensorflow::MetaGraphDef meta;
  if (meta.ParseFromString(content) && IsPlausibleGraph(meta.graph_def())) {
    file.form = "MetaGraphDef";
    TakeMetaGraph(&meta, &file);
    return file;
  }
  tensorflow::SavedModel saved;
  if (saved.ParseFromString(content) && saved.meta_graphs_size() > 0 &&
      IsPlausibleGraph(saved.meta_graphs(0).graph_def())) {
    file.form = "SavedModel";
    TakeSavedModel(&saved, &file);
    return file;
  }
  throw InputError("", "is not a GraphDef, MetaGraphDef or SavedModel with nodes, or is cut");
}

// One field of a message in protobuf's wire format, whose length is a varint.
std::string_view FirstBytesField(std::string_view message, char tag) {
  if (message.empty() || message[0] != tag) return {};
  std::size_t length = 0;
  std::size_t at = 1;
  constexpr std::size_t kMostVarint = 5;
  for (int shift = 0; at < message.size() && at <= kMostVarint; shift += 7) {
    const auto byte = static_cast<unsigned char>(message[at++]);
    length |= static_cast<std::size_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return message.substr(at, length);
  }
  return {};
}

constexpr char kFirstField = 0x0A;   // number 1, bytes
constexpr char kSecondField = 0x12;  // number 2, bytes

// A NodeDef starts with its name and its operator.
bool StartsLikeGraph(std::string_view head) {
  const std::string_view node = FirstBytesField(head, kFirstField);
  const std::string_view name = FirstBytesField(node, kFirstField);
  if (name.empty()) return false;
  const std::string_view rest = node.substr(static_cast<std::size_t>(name.data() + name.size() - node.data()));
  return IsTensorFlowOperator(FirstBytesField(rest, kSecondField)) &&
         std::all_of(name.begin(), name.end(), [](char c) { return std::isprint(static_cast<unsigned char>(c)) != 0; });
}

// A MetaInfoDef has a version, or starts with its list of operators: their first is an OpDef with a name.
bool StartsLikeMetaGraph(std::string_view head) {
  std::string_view info = FirstBytesField(head, kFirstField);
  if (const std::string_view version = FirstBytesField(info, kFirstField); !version.empty()) {
    info.remove_prefix(static_cast<std::size_t>(version.data() + version.size() - info.data()));
  }
  const std::string_view list = FirstBytesField(info, kSecondField);
  return IsTensorFlowOperator(FirstBytesField(FirstBytesField(list, kFirstField), kFirstField));
}

bool StartsLikeSavedModel(std::string_view head) {
  constexpr std::size_t kVersion = 2;  // field 1 is an integer, mostly 1
  return head.size() > kVersion && head[0] == 0x08 &&
         StartsLikeMetaGraph(FirstBytesField(head.substr(kVersion), kSecondField));
}

}  // namespace

bool LooksLikeTensorFlow(std::string_view head) {
  const std::string_view field = FirstFieldOfText(head);
  if (IsSavedModelText(field) || IsMetaGraphText(field)) return true;
  // Other formats have a field "node" too.
  if (field == "node" || field == "library")
    return head.find("op:") != std::string_view::npos && head.find("op_type") == std::string_view::npos;
  return StartsLikeGraph(head) || StartsLikeMetaGraph(head) || StartsLikeSavedModel(head);
}

TensorFlowFile ReadTensorFlowFile(const std::string& content) {
  if (content.empty()) throw InputError("", "is empty (a GraphDef, MetaGraphDef or SavedModel)");
  const std::string_view field = FirstFieldOfText(content);
  const bool is_text = IsGraphText(field) || IsMetaGraphText(field) || IsSavedModelText(field);
  TensorFlowFile file = is_text ? ReadTextOfGraph(content, field) : ReadBinaryOfGraph(content);
  if (file.graph.node_size() == 0) throw InputError("node", "is missing (a graph has at least one)");
  return file;
}

tensorflow::RunMetadata ReadRunMetadata(const std::string& content) {
  tensorflow::RunMetadata run;
  if (IsOneOfFields(FirstFieldOfText(content), {"step_stats", "cost_graph", "partition_graphs"})) {
    ParseTensorFlowText(content, &run);
  } else {
    const QuietProtobuf quiet;
    if (!run.ParseFromString(content)) throw InputError("", "is not a RunMetadata, or is cut");
  }
  if (run.step_stats().dev_stats_size() == 0 && run.cost_graph().node_size() == 0) {
    throw InputError("", "has no times (a RunMetadata with step_stats or cost_graph)");
  }
  return run;
}

}  // namespace emplace::datasets
