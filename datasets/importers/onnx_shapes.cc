// The libonnx part of onnx_model.h, in a separate library: parses the message and infers shapes.

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include "datasets/importers/onnx_content.h"
#include "datasets/importers/onnx_inference.h"

namespace emplace::datasets {
namespace {

using onnx::GraphProto;
using onnx::TensorProto;
using onnx::TypeProto;

std::int64_t NewestOpset() { return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second; }

// Shapes from --input, by the name of the input.
using GivenShapes = std::unordered_map<std::string, const InputShape*>;

// The inputs of the model that are not initializers. Their names are added to `names`.
std::vector<const onnx::ValueInfoProto*> FindInputs(const GraphProto& graph, OnnxValueNames* names) {
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& value : graph.input()) {
    if (value.name().empty()) RefuseOnnx("has an input without a name");
    if (names->initializers.contains(value.name())) continue;
    if (!names->inputs.insert(value.name()).second) {
      RefuseOnnx(fmt::format("input \"{}\": there is another of that name", value.name()));
    }
    inputs.push_back(&value);
  }
  return inputs;
}

GivenShapes FindGivenShapes(const std::vector<InputShape>& shapes, const std::unordered_set<std::string>& inputs) {
  GivenShapes given;
  for (const InputShape& shape : shapes) {
    if (!inputs.contains(shape.name)) {
      std::vector<std::string> known(inputs.begin(), inputs.end());
      std::sort(known.begin(), known.end());
      RefuseOnnx(fmt::format("has no input \"{}\" for --input ({})", shape.name, fmt::join(known, ", ")));
    }
    given[shape.name] = &shape;
  }
  return given;
}

// Checks the shape that the user gives an input, and binds the symbols in it.
void Bind(const onnx::ValueInfoProto& value, const InputShape& shape,
          std::unordered_map<std::string, std::int64_t>* symbols) {
  const auto place = [&] { return fmt::format("input \"{}\"", value.name()); };
  if (value.type().value_case() != TypeProto::kTensorType) {
    RefuseOnnx(place() + ": is not a tensor, so --input cannot set its shape");
  }
  if (!value.type().tensor_type().has_shape()) return;
  const auto& dims = value.type().tensor_type().shape().dim();
  if (dims.size() != static_cast<int>(shape.dims.size())) {
    RefuseOnnx(fmt::format("{}: has {} dimensions, and {} from --input", place(), dims.size(), shape.dims.size()));
  }
  for (int i = 0; i < dims.size(); ++i) {
    const std::int64_t given = shape.dims[static_cast<std::size_t>(i)];
    if (dims[i].has_dim_value() && dims[i].dim_value() >= 0 && dims[i].dim_value() != given) {
      RefuseOnnx(fmt::format("{}: its dimension {} is {} in the file, and {} in --input (only free ones can be set)",
                             place(), i, dims[i].dim_value(), given));
    }
    if (!dims[i].has_dim_param() || dims[i].dim_param().empty()) continue;
    const auto [bound, is_new] = symbols->try_emplace(dims[i].dim_param(), given);
    if (!is_new && bound->second != given) {
      RefuseOnnx(fmt::format("{}: its dimension {} (\"{}\") is {} in --input, and {} elsewhere", place(), i,
                             dims[i].dim_param(), given, bound->second));
    }
  }
}

// The type of an input with the dimensions that the user set. `given`: null if none are.
TypeProto TypeOfInput(const onnx::ValueInfoProto& value, const InputShape* given, const StatedOnnxTypes& stated,
                      std::vector<std::string>* symbols) {
  TypeProto type = value.type();
  if (type.value_case() != TypeProto::kTensorType) return type;
  auto* const tensor = type.mutable_tensor_type();
  if (!tensor->has_shape() && given != nullptr) {
    for (const std::int64_t dim : given->dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  for (int i = 0; tensor->has_shape() && i < tensor->shape().dim_size(); ++i) {
    auto* const dim = tensor->mutable_shape()->mutable_dim(i);
    symbols->push_back(dim->has_dim_param() ? dim->dim_param() : "");
    if (given != nullptr) dim->set_dim_value(given->dims[static_cast<std::size_t>(i)]);
  }
  stated.Substitute(&type);
  return type;
}

// The dimensions that the user set are those of the inputs named, and of all others with the same symbol.
std::vector<OnnxModel::Input> AddInputs(const GraphProto& graph, const std::vector<InputShape>& shapes,
                                        OnnxInference* inference) {
  const auto inputs = FindInputs(graph, &inference->names);
  const GivenShapes given = FindGivenShapes(shapes, inference->names.inputs);
  const auto shape_of = [&](const onnx::ValueInfoProto& value) {
    const auto found = given.find(value.name());
    return found == given.end() ? nullptr : found->second;
  };
  inference->stated.is_resized = !shapes.empty();
  for (const auto* const value : inputs) {
    if (const InputShape* const shape = shape_of(*value)) Bind(*value, *shape, &inference->stated.symbols);
  }
  std::vector<OnnxModel::Input> plain;
  for (const auto* const value : inputs) {
    OnnxModel::Input input{.name = value->name(), .type = {}, .symbols = {}};
    TypeProto type = TypeOfInput(*value, shape_of(*value), inference->stated, &input.symbols);
    input.type = TypeOf(type);
    inference->values.SetType(value->name(), std::move(type));
    plain.push_back(std::move(input));
  }
  return plain;
}

// Adds an initializer. `renamed`: the names in a subgraph that is inlined.
void AddInitializer(const TensorProto& tensor, OnnxTensor plain, const OnnxNames* renamed, OnnxInference* inference) {
  for (const std::int64_t dim : plain.dims) {
    if (dim < 0) RefuseOnnx(fmt::format("initializer \"{}\": its dimension is {}", plain.name, dim));
  }
  if (plain.name.empty()) RefuseOnnx("has an initializer without a name");
  if (renamed != nullptr) plain.name = renamed->at(plain.name);
  if (!inference->names.initializers.insert(plain.name).second) {
    // The iterations of a loop share what its body stores.
    if (renamed != nullptr) return;
    RefuseOnnx(fmt::format("initializer \"{}\": there is another of that name", plain.name));
  }
  inference->values.SetType(plain.name, ProtoOf(plain.element, plain.dims));
  if (!plain.bytes) {
    if (auto content = OnnxContentOf(tensor)) inference->values.SetContent(plain.name, std::move(*content));
  }
  inference->initializers.push_back(std::move(plain));
}

std::string NodePlace(const OnnxNode& node, std::size_t position) {
  return fmt::format("node {} ({} \"{}\")", position, node.op, node.name);
}

// Outputs that nobody reads, such as the mask of a dropout that does not train, are left out.
void DropUnreadOutputs(const std::unordered_set<std::string>& read, OnnxNode* node) {
  std::vector<std::string>& outputs = node->outputs;
  for (std::size_t k = 1; k < outputs.size(); ++k) {
    if (!read.contains(outputs[k])) outputs[k].clear();
  }
  while (outputs.size() > 1 && outputs.back().empty()) outputs.pop_back();
}

// Adds the nodes of the expander that are not there yet.
void AddNodes(const OnnxExpander& expander, OnnxValueNames* names, OnnxNodes* nodes) {
  const std::size_t first = nodes->nodes.size();
  for (std::size_t i = first; i < expander.steps().size(); ++i) {
    const OnnxStep& step = expander.steps()[i];
    const OnnxNode& plain = nodes->nodes.emplace_back(PlainNode(step.node, *step.opsets));
    names->read.insert(plain.inputs.begin(), plain.inputs.end());
    names->read.insert(plain.captured.begin(), plain.captured.end());
  }
  for (std::size_t i = first; i < nodes->nodes.size(); ++i) {
    OnnxNode& plain = nodes->nodes[i];
    DropUnreadOutputs(names->read, &plain);
    for (const std::string& output : plain.outputs) {
      if (output.empty()) continue;
      if (names->initializers.contains(output) || names->inputs.contains(output) ||
          !names->writers.emplace(output, i).second) {
        RefuseOnnx(fmt::format("{}: its output \"{}\" is written elsewhere too (each name once)", NodePlace(plain, i),
                               output));
      }
    }
  }
  if (first == 0) nodes->num_own = nodes->nodes.size();
  nodes->parts.resize(nodes->nodes.size());
}

// The readers of the outputs of the nodes from a first one on, and how many of their own inputs such nodes write.
struct Readers {
  std::vector<std::vector<std::size_t>> readers;
  std::vector<std::size_t> waits;
};

Readers FindReaders(std::size_t first, const std::deque<OnnxNode>& nodes, const OnnxValueNames& names,
                    const KnownOnnxValues& values) {
  Readers found{.readers = std::vector<std::vector<std::size_t>>(nodes.size() - first),
                .waits = std::vector<std::size_t>(nodes.size() - first)};
  for (std::size_t i = first; i < nodes.size(); ++i) {
    for (const auto* const inputs : {&nodes[i].inputs, &nodes[i].captured}) {
      for (const std::string& name : *inputs) {
        if (name.empty()) continue;
        const auto writer = names.writers.find(name);
        if (writer == names.writers.end()) {
          if (values.FindType(name) != nullptr) continue;
          RefuseOnnx(
              fmt::format("{}: its input \"{}\" is nowhere (no node writes it, and it is not an input or initializer)",
                          NodePlace(nodes[i], i), name));
        }
        if (writer->second < first) continue;
        found.readers[writer->second - first].push_back(i);
        ++found.waits[i - first];
      }
    }
  }
  return found;
}

// The nodes from `first` on, every one after those whose outputs it reads. Nodes on cycles are left out.
std::vector<std::size_t> Order(std::size_t first, Readers found) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < found.waits.size(); ++i) {
    if (found.waits[i] == 0) order.push_back(i + first);
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const std::size_t reader : found.readers[order[next] - first]) {
      if (--found.waits[reader - first] == 0) order.push_back(reader);
    }
  }
  return order;
}

// A reader of a list reads its tensors.
void ReplaceLists(const std::unordered_map<std::string, std::vector<std::string>>& sequences,
                  std::vector<std::string>* names) {
  std::vector<std::string> tensors;
  for (std::string& name : *names) {
    const auto list = sequences.find(name);
    if (list == sequences.end()) {
      tensors.push_back(std::move(name));
    } else {
      tensors.insert(tensors.end(), list->second.begin(), list->second.end());
    }
  }
  *names = std::move(tensors);
}

// Moves node i, or what takes its place, to `nodes`, in the order of the file.
void Emit(std::size_t i, bool is_guess, OnnxInference* inference, std::vector<OnnxNode>* nodes) {
  const OnnxNodes& all = inference->nodes;
  if (all.replaced.contains(i)) {
    for (const std::size_t part : all.parts[i]) Emit(part, is_guess || all.guessed.contains(i), inference, nodes);
    return;
  }
  OnnxNode& node = inference->nodes.nodes[i];
  node.is_guess = is_guess;
  ReplaceLists(inference->sequences, &node.inputs);
  ReplaceLists(inference->sequences, &node.captured);
  nodes->push_back(std::move(node));
}

// Adds what the model says of itself.
void AddHead(const onnx::ModelProto& proto, const OnnxOpsets& opsets, OnnxModel* model) {
  model->producer = proto.producer_name();
  model->ir_version = proto.ir_version();
  model->graph_name = proto.graph().name();
  const auto own = opsets.find("");
  model->opset = own == opsets.end() ? 0 : own->second;
  for (const auto& value : proto.graph().output()) model->outputs.push_back(value.name());
}

// Adds what the inference found.
void AddInferred(OnnxInference* inference, OnnxModel* model) {
  for (std::size_t i = 0; i < inference->nodes.num_own; ++i) Emit(i, false, inference, &model->nodes);
  for (const auto& [name, type] : inference->values.types) {
    if (inference->names.writers.contains(name)) model->types[name] = TypeOf(*type);
  }
  for (const auto& [name, content] : inference->values.contents) {
    model->known.insert(name);
    if (!content->is_number()) model->constants[name] = content->integers;
  }
  model->initializers = std::move(inference->initializers);
  model->guesses = std::move(inference->guesses);
  model->contradictions = inference->contradictions.count;
  model->first_contradiction = std::move(inference->contradictions.first);
}

OnnxModel InferModel(const onnx::ModelProto& proto, const std::vector<InputShape>& shapes) {
  const GraphProto& graph = proto.graph();
  OnnxModel model;
  OnnxInference inference(proto);
  AddHead(proto, inference.expander.opsets(), &model);
  AddInitializers(graph, nullptr, &inference);
  model.inputs = AddInputs(graph, shapes, &inference);
  for (const auto* const values : {&graph.output(), &graph.value_info()}) {
    for (const auto& value : *values) inference.stated.Add(value, value.name());
  }
  inference.names.read.insert(model.outputs.begin(), model.outputs.end());
  AddAndInferNodes(&inference);
  AddInferred(&inference, &model);
  return model;
}

// A message of protobuf's text format.
class TextErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (first_.empty()) first_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

// The messages of onnx.proto with the default attributes of functions, which libonnx 1.12 does not have.
const google::protobuf::FileDescriptor* NewerMessages(google::protobuf::DescriptorPool* pool) {
  constexpr int kAttributeProtos = 11;
  google::protobuf::FileDescriptorProto file;
  onnx::ModelProto::descriptor()->file()->CopyTo(&file);
  const std::string name = onnx::FunctionProto::descriptor()->name();
  for (auto& message : *file.mutable_message_type()) {
    if (message.name() != name || onnx::FunctionProto::descriptor()->FindFieldByNumber(kAttributeProtos) != nullptr) {
      continue;
    }
    auto* const field = message.add_field();
    field->set_name("attribute_proto");
    field->set_number(kAttributeProtos);
    field->set_label(google::protobuf::FieldDescriptorProto::LABEL_REPEATED);
    field->set_type(google::protobuf::FieldDescriptorProto::TYPE_MESSAGE);
    field->set_type_name("." + onnx::AttributeProto::descriptor()->full_name());
  }
  return pool->BuildFile(file);
}

void ParseText(const std::string& text, onnx::ModelProto* proto) {
  google::protobuf::DescriptorPool pool;
  const auto* const file = NewerMessages(&pool);
  if (file == nullptr) throw std::runtime_error("its messages do not fit those that are expected");
  google::protobuf::DynamicMessageFactory messages;
  const auto* const model = file->FindMessageTypeByName(onnx::ModelProto::descriptor()->name());
  const std::unique_ptr<google::protobuf::Message> read(messages.GetPrototype(model)->New());
  TextErrors errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.AllowUnknownField(true);
  constexpr int kDeepestText = 100;
  parser.SetRecursionLimit(kDeepestText);
  if (!parser.ParseFromString(text, read.get())) {
    RefuseOnnx(fmt::format("is not an ONNX model in protobuf's text format ({})", errors.first()));
  }
  if (!proto->ParseFromString(read->SerializeAsString())) throw std::runtime_error("its messages are too long");
}

OnnxParsed ParseOnnx(const std::string& bytes, bool is_text, const std::vector<InputShape>& inputs,
                     const std::string& folder) {
  OnnxParsed parsed;
  try {
    onnx::ModelProto proto;
    if (is_text) {
      ParseText(bytes, &proto);
    } else if (!proto.ParseFromString(bytes)) {
      RefuseOnnx("is damaged or no ONNX model (a ModelProto expected)");
    }
    if (!proto.has_graph() || proto.graph().node_size() == 0) RefuseOnnx("holds no graph with nodes");
    UnreadOnnxFiles unread = ReadSmallOnnxFiles(folder, &proto);
    parsed.model = InferModel(proto, inputs);
    parsed.model.unread = unread.tensors;
    parsed.model.unread_file = std::move(unread.file);
  } catch (const OnnxRefusal& refused) {
    parsed.problem = refused.problem;
  } catch (const std::exception& error) {
    parsed.problem = fmt::format("cannot be read (libonnx: {})", error.what());
  }
  return parsed;
}

}  // namespace

void AddInitializers(const GraphProto& graph, const OnnxNames* renamed, OnnxInference* inference) {
  for (const TensorProto& tensor : graph.initializer()) {
    const OnnxTensor plain{.name = tensor.name(),
                           .element = tensor.data_type(),
                           .dims = {tensor.dims().begin(), tensor.dims().end()},
                           .bytes = std::nullopt};
    AddInitializer(tensor, plain, renamed, inference);
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    const OnnxTensor plain{.name = tensor.values().name(),
                           .element = tensor.values().data_type(),
                           .dims = {tensor.dims().begin(), tensor.dims().end()},
                           .bytes = BytesOf(tensor.values()) + BytesOf(tensor.indices())};
    AddInitializer(tensor.values(), plain, renamed, inference);
  }
}

void AddAndInferNodes(OnnxInference* inference) {
  const std::size_t first = inference->nodes.nodes.size();
  AddNodes(inference->expander, &inference->names, &inference->nodes);
  const Readers readers = FindReaders(first, inference->nodes.nodes, inference->names, inference->values);
  for (const std::size_t i : Order(first, readers)) {
    if (InlineNode(i, inference)) continue;
    InferOutputs(inference->expander.steps()[i], inference->stated, &inference->nodes.nodes[i], &inference->values,
                 &inference->contradictions);
  }
}

}  // namespace emplace::datasets

extern "C" __attribute__((visibility("default"))) const emplace::datasets::OnnxExports emplace_onnx_part;
const emplace::datasets::OnnxExports emplace_onnx_part = {emplace::datasets::ParseOnnx, emplace::datasets::NewestOpset};
