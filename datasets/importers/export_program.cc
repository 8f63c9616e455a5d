#include "datasets/importers/export_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "datasets/importers/input_shape.h"
#include "datasets/importers/zip_archive.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// Programs are small beside their weights: that of a network with ten thousand operators takes 30 MB.
constexpr std::size_t kMaxProgramBytes = std::size_t{1} << 28;
constexpr std::size_t kMaxRank = 64;
// Major versions of the schema whose fields are those that are read here.
constexpr std::int64_t kOldestMajor = 5;
constexpr std::int64_t kNewestMajor = 8;
constexpr std::string_view kOldEntry = "serialized_exported_program.json";

// The only member of an object such as {"as_tensor": {"name": "x"}}.
const JsonMember& OnlyMember(const JsonNode& node) {
  const JsonObject& members = node.Object("an object with one member, such as as_tensor");
  if (members.size() != 1) node.Refuse("an object with one member, such as as_tensor");
  return members.front();
}

ExportArgument ReadArgument(const JsonNode& node, std::string_view name) {
  const JsonMember& member = OnlyMember(node);
  return {.name = name, .tag = member.key, .value = &member.value};
}

// The name in {"name": "x"}.
std::string_view NameIn(const JsonNode& node) {
  const JsonNode name = NeedMember(node, "name", "a name");
  return name.Text("a name");
}

// Numbers of schema class ScalarType. Complex ones are pairs.
struct ScalarType {
  std::int64_t number;
  DType dtype;
  bool is_pair = false;
};
constexpr ScalarType kScalarTypes[] = {
    {1, DType::kU8},         {2, DType::kI8},      {3, DType::kI16},    {4, DType::kI32},       {5, DType::kI64},
    {6, DType::kF16},        {7, DType::kF32},     {8, DType::kF64},    {9, DType::kF16, true}, {10, DType::kF32, true},
    {11, DType::kF64, true}, {12, DType::kBool},   {13, DType::kBf16},  {28, DType::kI16},      {29, DType::kF8E4M3},
    {30, DType::kF8E5M2},    {31, DType::kF8E4M3}, {32, DType::kF8E5M2}};

// A size in the file before symbols have values.
struct RawSize {
  std::string_view expression;         // "" of a number
  std::optional<std::int64_t> number;  // or the hint of an expression, if it has one
};

RawSize ReadRawSize(const JsonNode& node) {
  const JsonMember& member = OnlyMember(node);
  const JsonNode value(node, member.key, member.value);
  if (member.key == "as_int") return {.expression = {}, .number = value.Integer(-kMaxJsonInteger, kMaxJsonInteger)};
  if (member.key != "as_expr") node.Refuse("as_int or as_expr");
  RawSize size;
  const JsonNode expression = NeedMember(value, "expr_str", "an expression");
  size.expression = expression.Text("an expression");
  if (size.expression.empty()) expression.Refuse("an expression");
  if (const JsonValue* const hint = FindMember(value.value(), "hint"); hint != nullptr) {
    if (const JsonValue* const number = FindMember(*hint, "as_int"); number != nullptr) {
      if (const auto* const integer = number->As<std::int64_t>()) size.number = *integer;
    }
  }
  return size;
}

class Sizes {
 public:
  // Takes the hints in the values of a graph.
  void AddHint(const RawSize& size) {
    if (size.expression.empty() || !size.number) return;
    hints_.emplace(size.expression, *size.number);
  }

  void Bind(const std::string& input, std::size_t axis, const RawSize& size, std::int64_t value) {
    const std::string place = "--input " + input;
    if (size.expression.empty()) {
      if (size.number == value) return;
      throw InputError(place,
                       fmt::format("dimension {} is {} (it is always {} in this program)", axis, value, *size.number));
    }
    const std::string printed = Printed(size.expression);
    std::string missing;
    const auto known = EvaluateSize(size.expression, symbols_, &missing);
    if (known == value) return;
    if (known) {
      throw InputError(
          place, fmt::format("dimension {} is {}, but {} is {} by the other sizes", axis, value, printed, *known));
    }
    const std::set<std::string> all = SymbolsIn(size.expression);
    std::vector<std::string> open;
    for (const std::string& symbol : all) {
      if (!symbols_.contains(symbol)) open.push_back(symbol);
    }
    if (open.size() > 1) {
      pending_.push_back({input, axis, size, value});
      return;
    }
    const auto solved = SolveSize(size.expression, value, open.front(), symbols_);
    if (!solved) throw InputError(place, fmt::format("dimension {} is {}, which {} cannot be", axis, value, printed));
    symbols_[open.front()] = *solved;
  }

  // Symbols bound by sizes with several symbols, if the others are known; then hints for the rest.
  void Finish() {
    for (auto pending = std::exchange(pending_, {}); !pending.empty(); pending = std::exchange(pending_, {})) {
      const std::size_t before = symbols_.size();
      for (const Pending& given : pending) Bind(given.input, given.axis, given.size, given.value);
      if (pending_.size() == pending.size() && symbols_.size() == before) {
        // The example's value of all but one.
        const std::set<std::string> all = SymbolsIn(pending_.front().size.expression);
        for (const std::string& symbol : all) {
          if (symbols_.contains(symbol)) continue;
          const auto hint = HintOf(symbol);
          if (!hint) {
            throw InputError("--input " + pending_.front().input, fmt::format("does not say what {} is", symbol));
          }
          TakeHint(symbol, *hint);
          break;
        }
      }
    }
    for (bool more = true; more;) {
      more = false;
      for (const auto& [expression, value] : hints_) {
        std::vector<std::string> open;
        for (const std::string& symbol : Symbols(expression)) {
          if (!symbols_.contains(symbol)) open.push_back(symbol);
        }
        if (open.size() != 1) continue;
        auto hint = HintOf(open.front());
        // A compound size may be changed already by what was given, so its hint says nothing.
        if (!hint && !given_) hint = SolveSize(expression, value, open.front(), symbols_);
        if (!hint) continue;
        TakeHint(open.front(), *hint);
        more = true;
      }
    }
  }
  // Whether the user gave any size.
  void SetGiven(bool any) { given_ = any; }

  // Throws InputError where a symbol has no value, or the size is negative.
  std::int64_t Value(const JsonNode& node) {
    const RawSize size = ReadRawSize(node);
    if (size.expression.empty()) return *size.number;
    const auto [known, is_new] = values_.try_emplace(size.expression, 0);
    if (!is_new) return known->second;
    std::string missing;
    std::optional<std::int64_t> value;
    try {
      value = EvaluateSize(size.expression, symbols_, &missing);
    } catch (const InputError& error) {
      // What sizes cannot express is taken from the example, as long as that is what the graph is of.
      if (given_ || !size.number) throw InputError(node.Place(), error.what());
      value = size.number;
    }
    if (!value) {
      throw InputError(node.Place(), fmt::format("size {} depends on data, or nothing says what {} is",
                                                 Printed(size.expression), missing));
    }
    return known->second = *value;
  }

  // A size that depends on data, such as the number of elements that are not zero: its bound.
  void TakeBound(const std::string& symbol, std::int64_t most) {
    if (symbols_.try_emplace(symbol, most).second) bounded_.push_back(symbol);
  }

  const SizeSymbols& symbols() const { return symbols_; }
  void SetSymbols(const SizeSymbols& symbols) { symbols_ = symbols; }
  const std::vector<std::string>& hinted() const { return hinted_; }
  const std::vector<std::string>& bounded() const { return bounded_; }

  // Short: "4*s0" for "Mul(Integer(4), Symbol('s0', positive=True))".
  static std::string Printed(std::string_view expression) {
    const std::set<std::string> all = Symbols(expression);
    if (all.size() == 1 && (expression == *all.begin() || expression.starts_with("Symbol("))) return *all.begin();
    std::string text(expression);
    for (const char* const option : {", positive=True", ", integer=True", ", nonnegative=True"}) {
      const std::string_view word = option;
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word)) text.erase(at, word.size());
    }
    return text;
  }

 private:
  struct Pending {
    std::string input;
    std::size_t axis;
    RawSize size;
    std::int64_t value;
  };

  static std::set<std::string> Symbols(std::string_view expression) {
    try {
      return SymbolsIn(expression);
    } catch (const InputError&) {
      return {};
    }
  }

  // From a size that is nothing but the symbol.
  std::optional<std::int64_t> HintOf(const std::string& symbol) const {
    for (const auto& [expression, value] : hints_) {
      if (expression == symbol || expression.starts_with("Symbol('" + symbol + "'")) return value;
    }
    return std::nullopt;
  }
  void TakeHint(const std::string& symbol, std::int64_t value) {
    symbols_[symbol] = value;
    hinted_.push_back(symbol);
  }

  bool given_ = false;
  SizeSymbols symbols_;
  std::vector<std::string> hinted_;
  std::vector<std::string> bounded_;
  std::map<std::string_view, std::int64_t> hints_;  // values of the example, by expression
  std::unordered_map<std::string_view, std::int64_t> values_;
  std::vector<Pending> pending_;
};

// "L__self___layer1_0,layer1.0,torchvision.models.resnet.Bottleneck;...": the path in the last of the frames.
std::string LayerOf(std::string_view stack) {
  const std::size_t frame = stack.rfind(';');
  if (frame != std::string_view::npos) stack.remove_prefix(frame + 1);
  const std::size_t first = stack.find(',');
  const std::size_t last = stack.rfind(',');
  if (first == std::string_view::npos || last == first) return "";
  std::string path(stack.substr(first + 1, last - first - 1));
  // "getattr(L['fn'], '0').conv" is "L['fn'].0.conv".
  constexpr std::string_view kGet = "getattr(";
  constexpr std::string_view kName = ", '";
  constexpr std::string_view kEnd = "')";
  while (path.starts_with(kGet)) {
    const std::size_t end = path.find(kEnd);
    const std::size_t name = end == std::string::npos ? end : path.rfind(kName, end);
    if (name == std::string::npos) break;
    path.replace(end, kEnd.size(), "");
    path.replace(name, kName.size(), ".");
    path.erase(0, kGet.size());
  }
  if (path.starts_with("L['")) {  // the module itself
    const std::size_t end = path.find("']");
    if (end != std::string::npos) path.erase(0, end + 2 + (path.size() > end + 2 ? 1 : 0));
  }
  const std::size_t call = path.find('@');  // a module that is called again
  if (call != std::string::npos) path.resize(call);
  return path;
}

ExportTensor ReadTensor(const JsonNode& node, Sizes& sizes) {
  ExportTensor tensor;
  const JsonNode dtype = NeedMember(node, "dtype", "a number of a scalar type");
  const std::int64_t number = dtype.Integer(0, kMaxJsonInteger);
  const auto type = std::find_if(std::begin(kScalarTypes), std::end(kScalarTypes),
                                 [&](const ScalarType& row) { return row.number == number; });
  if (type == std::end(kScalarTypes)) dtype.Refuse("the number of a scalar type, 1 to 13 or 28 to 32");
  tensor.dtype = type->dtype;
  const JsonNode dims = NeedMember(node, "sizes", "a list of sizes");
  if (dims.List().size() > kMaxRank) dims.Refuse("at most 64 dimensions");
  for (std::size_t i = 0; i < dims.List().size(); ++i) {
    const JsonNode dim(dims, i, dims.List()[i]);
    tensor.shape.push_back(sizes.Value(dim));
    if (tensor.shape.back() < 0) throw InputError(dim.Place(), fmt::format("is {} (0 or more)", tensor.shape.back()));
  }
  if (const JsonValue* const strides = FindMember(node.value(), "strides"); strides != nullptr) {
    const JsonNode list(node, "strides", *strides);
    if (list.List().size() == tensor.shape.size()) {
      for (std::size_t i = 0; i < list.List().size(); ++i) {
        tensor.strides.push_back(sizes.Value(JsonNode(list, i, list.List()[i])));
      }
    }
  }
  if (type->is_pair) {
    tensor.shape.push_back(2);
    for (std::int64_t& stride : tensor.strides) stride = stride > std::int64_t{1} << 60 ? stride : 2 * stride;
    if (!tensor.strides.empty() || tensor.shape.size() == 1) tensor.strides.push_back(1);
  }
  static_cast<void>(TensorBytes(tensor.dtype, tensor.shape, node.Place()));
  if (const JsonValue* const grad = FindMember(node.value(), "requires_grad"); grad != nullptr) {
    tensor.requires_grad = JsonNode(node, "requires_grad", *grad).Flag();
  }
  return tensor;
}

std::vector<ExportArgument> ReadArguments(const JsonNode& list) {
  std::vector<ExportArgument> arguments;
  for (std::size_t i = 0; i < list.List().size(); ++i) {
    arguments.push_back(ReadArgument(JsonNode(list, i, list.List()[i]), {}));
  }
  return arguments;
}

ExportNode ReadNode(const JsonNode& node) {
  ExportNode read;
  const JsonNode target = NeedMember(node, "target", "an operator's name");
  read.target = target.Text("an operator's name");
  const JsonNode inputs = NeedMember(node, "inputs", "a list of arguments");
  for (std::size_t i = 0; i < inputs.List().size(); ++i) {
    const JsonNode input(inputs, i, inputs.List()[i]);
    const std::string_view name = NameIn(input);
    const JsonNode argument = NeedMember(input, "arg", "an argument");
    read.inputs.push_back(ReadArgument(argument, name));
  }
  const JsonNode outputs = NeedMember(node, "outputs", "a list of results");
  read.outputs = ReadArguments(outputs);
  if (const JsonValue* const metadata = FindMember(node.value(), "metadata"); metadata != nullptr) {
    if (const JsonValue* const stack = FindMember(*metadata, "nn_module_stack"); stack != nullptr) {
      if (const auto* const text = stack->As<std::string>()) read.layer = LayerOf(*text);
    }
  }
  return read;
}

ExportGraph ReadGraphOf(const JsonNode& node, Sizes& sizes) {
  ExportGraph graph;
  const JsonNode tensors = NeedMember(node, "tensor_values", "an object of tensors");
  for (const JsonMember& member : tensors.Object()) {
    const JsonNode tensor(tensors, member.key, member.value);
    graph.tensors.emplace(member.key, ReadTensor(tensor, sizes));
  }
  if (const JsonValue* const values = FindMember(node.value(), "sym_int_values"); values != nullptr) {
    const JsonNode integers(node, "sym_int_values", *values);
    for (const JsonMember& member : integers.Object()) {
      const JsonNode value(integers, member.key, member.value);
      try {
        graph.integers.emplace(member.key, sizes.Value(value));
      } catch (const InputError&) {  // a number that depends on data; it counts only if an op needs it
      }
    }
  }
  const JsonNode inputs = NeedMember(node, "inputs", "a list of arguments");
  graph.inputs = ReadArguments(inputs);
  const JsonNode outputs = NeedMember(node, "outputs", "a list of results");
  graph.outputs = ReadArguments(outputs);
  const JsonNode nodes = NeedMember(node, "nodes", "a list of nodes");
  for (std::size_t i = 0; i < nodes.List().size(); ++i)
    graph.nodes.push_back(ReadNode(JsonNode(nodes, i, nodes.List()[i])));
  return graph;
}

std::vector<ExportInput> ReadInputs(const JsonNode& signature) {
  std::vector<ExportInput> inputs;
  const JsonNode specs = NeedMember(signature, "input_specs", "a list of inputs");
  for (std::size_t i = 0; i < specs.List().size(); ++i) {
    const JsonNode spec(specs, i, specs.List()[i]);
    const JsonMember& member = OnlyMember(spec);
    const JsonNode value(spec, member.key, member.value);
    using Role = ExportInput::Role;
    const auto add = [&](Role role, std::string_view key) {
      const JsonNode argument = NeedMember(value, "arg", "a tensor");
      const std::string_view name = NameIn(argument);
      const JsonNode path = NeedMember(value, key, "a path in the module");
      inputs.push_back({.role = role, .name = name, .path = path.Text()});
    };
    if (member.key == "parameter") {
      add(Role::kParameter, "parameter_name");
    } else if (member.key == "buffer") {
      add(Role::kBuffer, "buffer_name");
    } else if (member.key == "tensor_constant") {
      add(Role::kConstant, "tensor_constant_name");
    } else if (member.key == "user_input") {
      const JsonNode argument = NeedMember(value, "arg", "an argument");
      const JsonMember& given = OnlyMember(argument);
      if (given.key != "as_tensor") continue;
      inputs.push_back({.role = Role::kUser, .name = NameIn(JsonNode(argument, given.key, given.value)), .path = {}});
    }
  }
  return inputs;
}

void ReadOutputs(const JsonNode& signature, ExportProgram* program) {
  const JsonNode specs = NeedMember(signature, "output_specs", "a list of outputs");
  for (std::size_t i = 0; i < specs.List().size(); ++i) {
    const JsonNode spec(specs, i, specs.List()[i]);
    const JsonMember& member = OnlyMember(spec);
    const JsonNode value(spec, member.key, member.value);
    const auto name = [&] {
      const JsonNode argument = NeedMember(value, "arg", "a tensor");
      return NameIn(argument);
    };
    if (member.key == "user_output") {
      const JsonNode argument = NeedMember(value, "arg", "an argument");
      const JsonMember& given = OnlyMember(argument);
      if (given.key == "as_tensor") program->outputs.push_back(NameIn(JsonNode(argument, given.key, given.value)));
    } else if (member.key == "loss_output") {
      program->outputs.push_back(name());
    } else if (member.key == "gradient_to_parameter") {
      const JsonNode path = NeedMember(value, "parameter_name", "a path in the module");
      program->gradients.push_back({.name = name(), .path = path.Text()});
    } else if (member.key == "gradient_to_user_input") {
      program->gradients.push_back({.name = name(), .path = {}});
    } else if (member.key.ends_with("_mutation")) {
      program->mutated.push_back(name());
    }
  }
}

void CheckVersion(const JsonNode& root) {
  const JsonNode version = NeedMember(root, "schema_version", "the schema's version");
  const JsonNode major = NeedMember(version, "major", "a number");
  const std::int64_t number = major.Integer(0, kMaxJsonInteger);
  if (number < kOldestMajor || number > kNewestMajor) {
    const JsonValue* const torch = FindMember(root.value(), "torch_version");
    const std::string* const by = torch == nullptr ? nullptr : torch->As<std::string>();
    throw InputError(major.Place(),
                     fmt::format("is {}{} (schemas {} to {} of torch.export are read)", number,
                                 by == nullptr ? "" : ", by PyTorch " + *by, kOldestMajor, kNewestMajor));
  }
}

// Sets symbols from what the user gave and from hints.
void SetSizes(const JsonNode& graph, const std::vector<ExportInput>& inputs, std::span<const std::string> texts,
              Sizes& sizes) {
  const JsonNode tensors = NeedMember(graph, "tensor_values", "an object of tensors");
  for (const JsonMember& member : tensors.Object()) {
    const JsonNode tensor(tensors, member.key, member.value);
    const JsonNode dims = NeedMember(tensor, "sizes", "a list of sizes");
    for (std::size_t i = 0; i < dims.List().size(); ++i) sizes.AddHint(ReadRawSize(JsonNode(dims, i, dims.List()[i])));
  }
  if (const JsonValue* const values = FindMember(graph.value(), "sym_int_values"); values != nullptr) {
    const JsonNode integers(graph, "sym_int_values", *values);
    for (const JsonMember& member : integers.Object()) {
      sizes.AddHint(ReadRawSize(JsonNode(integers, member.key, member.value)));
    }
  }
  sizes.SetGiven(!texts.empty());
  for (const InputShape& given : ReadInputShapes({texts.begin(), texts.end()})) {
    std::string names;
    bool is_known = false;
    for (const ExportInput& input : inputs) {
      if (input.role != ExportInput::Role::kUser) continue;
      names += (names.empty() ? "" : ", ") + std::string(input.name);
      is_known = is_known || input.name == given.name;
    }
    if (!is_known) throw InputError("--input " + given.name, "is not an input of this program (" + names + ")");
    const JsonNode tensor = NeedMember(tensors, given.name, "a tensor");
    const JsonNode dims = NeedMember(tensor, "sizes", "a list of sizes");
    if (dims.List().size() != given.dims.size()) {
      throw InputError("--input " + given.name,
                       fmt::format("has {} dimensions (this input has {})", given.dims.size(), dims.List().size()));
    }
    for (std::size_t i = 0; i < given.dims.size(); ++i) {
      sizes.Bind(given.name, i, ReadRawSize(JsonNode(dims, i, dims.List()[i])), given.dims[i]);
    }
  }
  sizes.Finish();
}

// The ranges for which the program was exported. Only what the user gave is checked: the example is the file's own.
void CheckRanges(const JsonNode& root, const Sizes& sizes) {
  const JsonValue* const found = FindMember(root.value(), "range_constraints");
  if (found == nullptr) return;
  const JsonNode ranges(root, "range_constraints", *found);
  for (const JsonMember& member : ranges.Object()) {
    std::string missing;
    std::optional<std::int64_t> value;
    try {
      value = EvaluateSize(member.key, sizes.symbols(), &missing);
    } catch (const InputError&) {
      continue;
    }
    const JsonNode range(ranges, member.key, member.value);
    const auto bound = [&](std::string_view key) -> std::optional<std::int64_t> {
      const JsonValue* const limit = FindMember(range.value(), key);
      const auto* const integer = limit == nullptr ? nullptr : limit->As<std::int64_t>();
      return integer == nullptr ? std::nullopt : std::optional(*integer);
    };
    const auto least = bound("min_val");
    const auto most = bound("max_val");
    if (!value || ((!least || *value >= *least) && (!most || *value <= *most))) continue;
    throw InputError("--input",
                     fmt::format("makes {} = {} (the program was exported for {} to {})", Sizes::Printed(member.key),
                                 *value, least ? std::to_string(*least) : "any", most ? std::to_string(*most) : "any"));
  }
}

// Sizes that depend on data, u0 and so on, take their bounds where the program has some.
void TakeBounds(const JsonNode& root, Sizes& sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const JsonValue* const found = FindMember(root.value(), "range_constraints");
  if (found == nullptr) return;
  const JsonNode ranges(root, "range_constraints", *found);
  for (const JsonMember& member : ranges.Object()) {
    const std::string_view symbol = member.key;
    const bool is_data = symbol.size() > 1 && symbol[0] == 'u' &&
                         std::all_of(symbol.begin() + 1, symbol.end(), [](char c) { return c >= '0' && c <= '9'; });
    const JsonValue* const limit = is_data ? FindMember(member.value, "max_val") : nullptr;
    const auto* const most = limit == nullptr ? nullptr : limit->As<std::int64_t>();
    if (most != nullptr && *most >= 0 && *most <= kMost) sizes.TakeBound(std::string(symbol), *most);
  }
}

// Python writes numbers that JSON has not, outside of texts: they become texts.
std::string WithoutBareNumbers(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text && c == '\\' && i + 1 < json.size()) {
      text += c;
      text += json[++i];
      continue;
    }
    if (c == '"') in_text = !in_text;
    bool is_replaced = false;
    if (!in_text && (c == '-' || c == 'I' || c == 'N')) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (std::string_view(json).substr(i, word.size()) != word) continue;
        text += '"';
        text += word;
        text += '"';
        i += word.size() - 1;
        is_replaced = true;
        break;
      }
    }
    if (!is_replaced) text += c;
  }
  return text;
}

// The entry with the program. Newer archives hold everything in one folder.
std::size_t FindProgram(const ZipArchive& archive) {
  const std::vector<std::string>& names = archive.names();
  std::vector<std::size_t> found;
  bool is_compiled = false;
  bool is_script = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    const std::size_t slash = name.find('/');
    const std::string_view inner = slash == std::string_view::npos ? std::string_view() : name.substr(slash + 1);
    if (name == kOldEntry) return i;
    for (const std::string_view path : {name, inner}) {
      if (path.starts_with("models/") && path.ends_with(".json") && path.find('/', 7) == std::string_view::npos) {
        found.push_back(i);
        break;
      }
      is_compiled = is_compiled || path.starts_with("data/aotinductor/");
      is_script = is_script || path == "constants.pkl" || path == "data.pkl";
    }
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    const auto model = std::find_if(found.begin(), found.end(),
                                    [&](std::size_t i) { return names[i].ends_with("models/model.json"); });
    if (model != found.end()) return *model;
    throw InputError("", fmt::format("holds {} programs, none of them models/model.json", found.size()));
  }
  if (is_compiled) {
    throw InputError("", "is a package of AOTInductor, compiled code without a graph (a file of torch.export.save)");
  }
  if (is_script) {
    throw InputError("",
                     "is a file of torch.save or torch.jit.save (a file of torch.export.save; emplace profile "
                     "--torchscript records a TorchScript module)");
  }
  throw InputError("", fmt::format("holds no {} and no models/NAME.json (a file of torch.export.save)", kOldEntry));
}

}  // namespace

ExportProgram ReadExportProgram(const ImportSource& source, std::span<const std::string> inputs) {
  const ZipArchive archive(source);
  const std::size_t entry = FindProgram(archive);
  ExportProgram program;
  program.entry = archive.names()[entry];
  const std::string text = WithoutBareNumbers(archive.Read(entry, kMaxProgramBytes));
  try {
    program.document = std::make_unique<JsonValue>(ParseJson(text, JsonLimitsOf(InputKind::kExportedProgram)));
    const JsonNode root(*program.document);
    root.Object();
    CheckVersion(root);
    const JsonNode module = NeedMember(root, "graph_module", "a module");
    const JsonNode graph = NeedMember(module, "graph", "a graph");
    const JsonNode signature = NeedMember(module, "signature", "the graph's signature");
    program.inputs = ReadInputs(signature);
    ReadOutputs(signature, &program);
    Sizes sizes;
    SetSizes(graph, program.inputs, inputs, sizes);
    if (!inputs.empty()) CheckRanges(root, sizes);
    TakeBounds(root, sizes);
    program.graph = ReadGraphOf(graph, sizes);
    program.symbols = sizes.symbols();
    program.hinted = sizes.hinted();
    program.bounded = sizes.bounded();
  } catch (const InputError& error) {
    const std::string_view what = error.what();
    if (what.starts_with("--input")) throw;
    throw error.In(program.entry);
  }
  return program;
}

ExportGraph ReadExportSubgraph(const ExportProgram& program, const JsonValue& graph, const std::string& place) {
  Sizes sizes;
  sizes.SetSymbols(program.symbols);
  try {
    return ReadGraphOf(JsonNode(graph), sizes);
  } catch (const InputError& error) {
    throw error.In(place);
  }
}

}  // namespace emplace::datasets
