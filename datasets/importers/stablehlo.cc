#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "datasets/importers/hlo_reading.h"
#include "datasets/importers/mlir_lexer.h"
#include "datasets/importers/mlir_operation.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

// The text of StableHLO, MHLO and CHLO as MLIR prints it: operations in their own syntax, which end with their line,
// and in the generic one. Syntax: the specification in github.com/openxla/stablehlo, and that of MLIR.
namespace emplace::datasets {
namespace {

using TokenKind = MlirToken::Kind;

constexpr int kMostRegions = 100;

class StableHloReader {
 public:
  explicit StableHloReader(std::string_view text) : text_(text), lexer_(text) { module_.form = "stablehlo"; }

  HloModule Read() {
    ReadLocations();
    while (lexer_.Peek().kind != TokenKind::kEnd) {
      const MlirToken token = lexer_.Next();
      if (token.IsWord("module") && lexer_.Peek().kind == TokenKind::kSymbol)
        module_.name = lexer_.Next().text.substr(1);
      if (token.IsWord("func.func") || token.IsWord("func")) ReadFunction();
    }
    if (functions_.empty()) throw InputError("", "has no function (func.func)");
    const auto main = functions_.find("main");
    module_.entry = main == functions_.end() ? first_public_ : main->second;
    for (const auto& [id, name, line] : called_) {
      const auto found = functions_.find(name);
      if (found == functions_.end()) {
        throw InputError(fmt::format("line {}", line),
                         fmt::format("calls {}, which the file does not have", Quoted("@" + name)));
      }
      module_.instructions[id].called.push_back(found->second);
    }
    return std::move(module_);
  }

 private:
  struct Called {
    std::size_t instruction;
    std::string name;
    std::size_t line;
  };

  [[noreturn]] void Refuse(const MlirToken& token, std::string_view wanted) const {
    const std::string found =
        token.kind == TokenKind::kEnd ? "the file ends" : "is " + Quoted(token.text.substr(0, 40));
    throw InputError(fmt::format("line {}", token.line), fmt::format("{} ({} expected)", found, wanted));
  }
  MlirToken Expect(char sign) {
    MlirToken token = lexer_.Next();
    if (!token.Is(sign)) Refuse(token, std::string(1, sign));
    return token;
  }
  bool Take(char sign) {
    if (!lexer_.Peek().Is(sign)) return false;
    lexer_.Next();
    return true;
  }

  // #loc3 = loc("jit(f)/add"(#loc1)): names of operations.
  void ReadLocations() {
    for (std::size_t at = text_.find("#loc"); at != std::string_view::npos; at = text_.find("#loc", at + 1)) {
      if (at > 0 && text_[at - 1] != '\n') continue;
      const std::string_view line = text_.substr(at, text_.find('\n', at) - at);
      const std::size_t open = line.find(" = loc(\"");
      if (open == std::string_view::npos) continue;
      const std::string_view rest = line.substr(open + 8);
      const std::size_t close = rest.find('"');
      if (close == std::string_view::npos || rest.substr(close + 1).starts_with(":")) continue;
      locations_[line.substr(0, open)] = rest.substr(0, close);
    }
  }

  // Skips what is in brackets, up to the one that closes that just read.
  void SkipBrackets() {
    for (int depth = 1; depth > 0;) {
      const MlirToken token = lexer_.Next();
      if (token.kind == TokenKind::kEnd) Refuse(token, "a closing bracket");
      if (token.Is('(') || token.Is('{') || token.Is('[')) ++depth;
      if (token.Is(')') || token.Is('}') || token.Is(']')) --depth;
    }
  }

  // The name in loc(..), whose bracket was read.
  std::string TakeLocation() {
    std::string scope;
    const MlirToken token = lexer_.Peek();
    if (token.kind == TokenKind::kHash) {
      const auto found = locations_.find(token.text);
      if (found != locations_.end()) scope = found->second;
    } else if (token.kind == TokenKind::kText) {
      lexer_.Next();
      if (!lexer_.Peek().Is(':')) scope = UnquotedMlir(token.text);
    }
    SkipBrackets();
    return scope;
  }

  HloShape ShapeIn(const MlirToken& token) const {
    if (token.kind != TokenKind::kWord) Refuse(token, "a type");
    return WithLocation(fmt::format("line {}", token.line), [&] { return MlirType(token.text); });
  }

  // func.func public @main(%arg0: TYPE {ATTRIBUTES} loc(..), ..) -> (TYPE, ..) attributes {..} {BODY}
  void ReadFunction() {
    bool is_public = true;
    while (lexer_.Peek().kind == TokenKind::kWord) is_public = lexer_.Next().text != "private" && is_public;
    const MlirToken symbol = lexer_.Next();
    if (symbol.kind != TokenKind::kSymbol) Refuse(symbol, "the name of a function, such as @main");
    const std::string name = MlirSymbolName(symbol.text);
    const std::size_t id = NewComputation(name);
    scopes_.assign(1, {});
    Expect('(');
    const bool is_main = name == "main";
    TakeParameters(id, is_main);
    if (lexer_.Peek().kind == TokenKind::kArrow) {
      lexer_.Next();
      if (Take('('))
        SkipBrackets();
      else
        lexer_.Next();
    }
    if (lexer_.Peek().IsWord("attributes")) {
      lexer_.Next();
      Expect('{');
      SkipBrackets();
    }
    if (!lexer_.Peek().Is('{')) return;  // a declaration
    lexer_.Next();
    ReadBody(id, 0);
    if (!functions_.emplace(name, id).second) {
      throw InputError(fmt::format("line {}", symbol.line), fmt::format("{} is there already", Quoted(symbol.text)));
    }
    if (functions_.size() == 1 || (is_public && !has_public_)) first_public_ = id;
    has_public_ = has_public_ || is_public;
  }

  std::size_t NewComputation(const std::string& name) {
    module_.computations.push_back({.name = name, .parameters = {}, .instructions = {}, .results = {}});
    return module_.computations.size() - 1;
  }

  // %name: TYPE {ATTRIBUTES} loc(..), .. up to the closing bracket.
  void TakeParameters(std::size_t computation, bool is_main) {
    while (!Take(')')) {
      const MlirToken value = lexer_.Next();
      if (value.kind != TokenKind::kValue) Refuse(value, "a parameter, such as %arg0");
      Expect(':');
      const HloShape shape = ShapeIn(lexer_.Next());
      const std::size_t number = module_.computations[computation].parameters.size();
      if (Take('{')) {
        for (int depth = 1; depth > 0;) {
          const MlirToken token = lexer_.Next();
          if (token.kind == TokenKind::kEnd) Refuse(token, "}");
          if (token.Is('{')) ++depth;
          if (token.Is('}')) --depth;
          const bool is_donated = token.IsWord("tf.aliasing_output") || token.IsWord("jax.buffer_donor");
          if (is_donated && is_main) module_.donated.push_back(number);
        }
      }
      const std::size_t id = AddParameter(computation, value.text, shape);
      if (lexer_.Peek().IsWord("loc")) {
        lexer_.Next();
        Expect('(');
        module_.instructions[id].scope = TakeLocation();
      }
      if (!Take(',') && !lexer_.Peek().Is(')')) Refuse(lexer_.Peek(), ")");
    }
  }

  std::size_t AddParameter(std::size_t computation, std::string_view name, const HloShape& shape) {
    HloComputation& owner = module_.computations[computation];
    HloInstruction parameter;
    parameter.name = name.substr(1);
    parameter.opcode = "parameter";
    parameter.shape = shape;
    parameter.number = static_cast<std::int64_t>(owner.parameters.size());
    const std::size_t id = module_.instructions.size();
    owner.parameters.push_back(id);
    owner.instructions.push_back(id);
    scopes_.back()[name] = {id};
    module_.instructions.push_back(std::move(parameter));
    return id;
  }

  // Operations up to the bracket that closes the region.
  void ReadBody(std::size_t computation, int level) {
    if (level > kMostRegions) throw InputError("", "has regions within more than 100 regions");
    while (!Take('}')) {
      const MlirToken token = lexer_.Peek();
      if (token.kind == TokenKind::kEnd) Refuse(token, "}");
      if (Take('^')) {
        lexer_.Next();
        if (Take('(')) TakeParameters(computation, false);
        Expect(':');
        continue;
      }
      ReadOperation(computation, level);
    }
  }

  std::size_t ReadRegion(const std::string& name, int level, const std::vector<std::string_view>& parameters = {},
                         const std::vector<HloShape>& shapes = {}) {
    const std::size_t id = NewComputation(name);
    scopes_.emplace_back();
    for (std::size_t i = 0; i < parameters.size() && i < shapes.size(); ++i) {
      AddParameter(id, parameters[i], shapes[i]);
    }
    Expect('{');
    ReadBody(id, level + 1);
    scopes_.pop_back();
    return id;
  }

  HloOperand Find(const MlirToken& token) const {
    const std::size_t hash = token.text.find('#');
    const std::string_view name = token.text.substr(0, hash);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found == scope->end()) continue;
      HloOperand operand = found->second;
      if (hash != std::string_view::npos) {
        const HloDims number = HloIntegers(token.text.substr(hash));
        operand.result = number.empty() ? 0 : static_cast<std::size_t>(number[0]);
      }
      WithLocation(fmt::format("line {}", token.line), [&] { return &ShapeOf(module_, operand); });
      return operand;
    }
    throw InputError(fmt::format("line {}", token.line),
                     fmt::format("reads {}, which no operation above gives", Quoted(token.text)));
  }

  void ReadOperation(std::size_t computation, int level) {
    MlirOperation operation;
    operation.line = lexer_.Peek().line;
    while (lexer_.Peek().kind == TokenKind::kValue) {
      const std::string_view name = lexer_.Next().text;
      std::size_t count = 1;
      if (Take(':')) {
        const MlirToken number = lexer_.Next();
        const HloDims values = number.kind == TokenKind::kNumber ? HloIntegers(number.text) : HloDims();
        constexpr std::int64_t kMostResults = 1 << 20;
        if (values.size() != 1 || values[0] < 1 || values[0] > kMostResults) Refuse(number, "a number of results");
        count = static_cast<std::size_t>(values[0]);
      }
      operation.results.emplace_back(name, count);
      if (!Take(',')) break;
    }
    if (!operation.results.empty()) Expect('=');
    const MlirToken name = lexer_.Next();
    if (name.kind == TokenKind::kText) {
      operation.name = name.text.substr(1, name.text.size() - 2);
      ReadGeneric(&operation, level);
    } else if (name.kind == TokenKind::kWord) {
      operation.name = name.text;
      if (operation.name.ends_with(".while"))
        ReadWhile(&operation, level);
      else
        ReadPretty(&operation, level);
    } else {
      Refuse(name, "an operation");
    }
    WithLocation(fmt::format("line {}", operation.line), [&] { AddOperation(operation, computation); });
  }

  // "NAME"(%a, %b) <{PROPERTIES}> ({REGION}, ..) {ATTRIBUTES} : (TYPES) -> TYPES
  void ReadGeneric(MlirOperation* operation, int level) {
    Expect('(');
    while (!Take(')')) {
      const MlirToken token = lexer_.Next();
      if (token.kind != TokenKind::kValue) Refuse(token, "an operand");
      operation->operands.push_back(Find(token));
      Take(',');
    }
    if (Take('<')) {
      ReadAttributes(operation);
      Expect('>');
    }
    if (Take('(')) {
      while (!Take(')')) {
        operation->regions.push_back(ReadRegion(RegionName(*operation), level));
        Take(',');
      }
    }
    if (lexer_.Peek().Is('{')) ReadAttributes(operation);
    Expect(':');
    ReadTypes(operation);
  }

  static std::string RegionName(const MlirOperation& operation) {
    return fmt::format("line {} {}", operation.line, operation.name);
  }

  // {NAME = VALUE, ..}
  void ReadAttributes(MlirOperation* operation) {
    std::vector<MlirToken> tokens = {Expect('{')};
    for (int depth = 1; depth > 0;) {
      tokens.push_back(lexer_.Next());
      if (tokens.back().kind == TokenKind::kEnd) Refuse(tokens.back(), "}");
      if (tokens.back().Is('{') || tokens.back().Is('[') || tokens.back().Is('(')) ++depth;
      if (tokens.back().Is('}') || tokens.back().Is(']') || tokens.back().Is(')')) --depth;
    }
    TakeAttributes(tokens, operation);
  }

  // NAME = VALUE at any depth; a value ends with a comma, a colon or the bracket around it.
  static void TakeAttributes(const std::vector<MlirToken>& tokens, MlirOperation* operation) {
    for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (tokens[i].kind != TokenKind::kWord || !tokens[i + 1].Is('=')) continue;
      int depth = 0;
      std::size_t end = i + 2;
      for (; end < tokens.size(); ++end) {
        const MlirToken& token = tokens[end];
        if (depth == 0 && (token.Is(',') || token.Is(':') || token.Is('}') || token.Is(']') || token.Is(')'))) break;
        if (token.Is('{') || token.Is('[') || token.Is('(')) ++depth;
        if (token.Is('}') || token.Is(']') || token.Is(')')) --depth;
      }
      if (end == i + 2) continue;
      const char* const begin = tokens[i + 2].text.data();
      const std::string_view last = tokens[end - 1].text;
      const std::string_view value(begin, static_cast<std::size_t>(last.data() + last.size() - begin));
      operation->attributes.emplace(tokens[i].text, value);
      const MlirToken& first = tokens[i + 2];
      if (first.kind == TokenKind::kSymbol && tokens[i].text == "decomposition") operation->symbol = first.text;
      if (tokens[i].text == "callee" && first.kind == TokenKind::kSymbol) operation->symbol = first.text;
      if (tokens[i].text == "value") operation->constant = first.text;
    }
  }

  // TYPE, TYPE or (TYPES) -> TYPE or TYPE -> (TYPES), and a location.
  void ReadTypes(MlirOperation* operation) {
    bool has_arrow = false;
    std::size_t line = lexer_.Peek().line;
    for (int depth = 0;;) {
      const MlirToken token = lexer_.Peek();
      const bool is_next_line = depth == 0 && token.line > line;
      if (token.kind == TokenKind::kEnd || is_next_line || token.IsWord("loc")) break;
      if (depth == 0 && (token.Is('}') || token.Is('{'))) break;
      lexer_.Next();
      line = token.line;
      if (token.Is('(')) ++depth;
      if (token.Is(')')) --depth;
      if (depth < 0) Refuse(token, "a type");
      if (token.kind == TokenKind::kArrow && !has_arrow) {
        has_arrow = true;
        operation->types.clear();
      } else if (token.kind == TokenKind::kWord) {
        operation->types.push_back(ShapeIn(token));
      }
    }
    ReadLocationOf(operation);
    if (has_arrow) return;
    std::size_t count = 0;
    for (const auto& [name, values] : operation->results) count += values;
    if (count == 1 && operation->types.size() > 1) operation->types = {operation->types.back()};
    if (operation->results.empty() && !operation->name.ends_with("return")) operation->types.clear();
  }

  void ReadLocationOf(MlirOperation* operation) {
    if (!lexer_.Peek().IsWord("loc")) return;
    lexer_.Next();
    Expect('(');
    operation->scope = TakeLocation();
  }

  // An operation in its own syntax, which ends with its line.
  void ReadPretty(MlirOperation* operation, int level) {
    std::vector<MlirToken> tokens;
    std::size_t line = operation->line;
    int depth = 0;
    std::string_view reducer;
    std::vector<HloOperand> initial;
    bool is_initial = false;
    for (;;) {
      const MlirToken token = lexer_.Peek();
      if (token.kind == TokenKind::kEnd && depth > 0) Refuse(token, "a closing bracket");
      if (token.kind == TokenKind::kEnd || (depth == 0 && (token.line > line || token.Is('}') || token.IsWord("loc"))))
        break;
      lexer_.Next();
      line = token.line;
      if (depth == 0 && token.Is(':')) {
        TakeAttributes(tokens, operation);
        ReadTypes(operation);
        tokens.clear();
        break;
      }
      if (token.Is('(') || token.Is('[') || token.Is('{')) ++depth;
      if (token.Is(')') || token.Is(']') || token.Is('}')) --depth;
      if (depth < 0) Refuse(token, "an operation");
      if (token.kind == TokenKind::kValue) {
        (is_initial ? initial : operation->operands).push_back(Find(token));
        is_initial = false;
      }
      if (token.IsWord("init")) is_initial = true;
      if (token.kind == TokenKind::kNumber && !tokens.empty() && tokens.back().Is('[')) {
        operation->number = HloScalar(token.text).value_or(0);
      }
      if (token.kind == TokenKind::kSymbol && operation->symbol.empty()) operation->symbol = token.text;
      if (token.kind == TokenKind::kWord && operation->first_word.empty()) operation->first_word = token.text;
      if (token.kind == TokenKind::kWord && token.text.starts_with("dense")) operation->constant = token.text;
      if (!tokens.empty() && tokens.back().IsWord("applies")) reducer = token.text;
      tokens.push_back(token);
    }
    if (!tokens.empty()) TakeAttributes(tokens, operation);
    ReadLocationOf(operation);
    operation->operands.insert(operation->operands.end(), initial.begin(), initial.end());
    if (!reducer.empty()) operation->regions.push_back(ReducerOf(reducer, *operation));
    if (operation->name.ends_with(".reduce") && lexer_.Peek().IsWord("reducer")) ReadReducer(operation, level);
  }

  // The region of "applies stablehlo.add": one operation of two scalars.
  std::size_t ReducerOf(std::string_view name, const MlirOperation& operation) {
    const std::size_t id = NewComputation(RegionName(operation));
    scopes_.emplace_back();
    HloShape scalar = operation.types.empty() ? HloShape() : operation.types.front();
    scalar.dims.clear();
    AddParameter(id, "%a", scalar);
    AddParameter(id, "%b", scalar);
    scopes_.pop_back();
    const std::vector<std::size_t> parameters = module_.computations[id].parameters;
    HloInstruction applied;
    applied.opcode = MlirOpcode(name);
    applied.name = applied.opcode;
    applied.shape = scalar;
    for (const std::size_t parameter : parameters) applied.operands.push_back({parameter});
    module_.computations[id].instructions.push_back(module_.instructions.size());
    module_.computations[id].results = {{module_.instructions.size()}};
    module_.instructions.push_back(std::move(applied));
    return id;
  }

  //  reducer(%a: TYPE, %b: TYPE) (%c: TYPE, %d: TYPE) {REGION}
  void ReadReducer(MlirOperation* operation, int level) {
    lexer_.Next();
    const std::size_t id = NewComputation(RegionName(*operation));
    scopes_.emplace_back();
    while (Take('(')) TakeParameters(id, false);
    Expect('{');
    ReadBody(id, level + 1);
    scopes_.pop_back();
    operation->regions.push_back(id);
  }

  // stablehlo.while(%iterArg = %0, ..) : TYPES attributes {..} cond {REGION} do {REGION}
  void ReadWhile(MlirOperation* operation, int level) {
    std::vector<std::string_view> parameters;
    Expect('(');
    while (!Take(')')) {
      const MlirToken parameter = lexer_.Next();
      if (parameter.kind != TokenKind::kValue) Refuse(parameter, "a value of the loop");
      parameters.push_back(parameter.text);
      Expect('=');
      const MlirToken value = lexer_.Next();
      if (value.kind != TokenKind::kValue) Refuse(value, "a value before the loop");
      operation->operands.push_back(Find(value));
      Take(',');
    }
    std::vector<HloShape> shapes;
    if (Take(':')) {
      while (lexer_.Peek().kind == TokenKind::kWord && !lexer_.Peek().IsWord("cond") &&
             !lexer_.Peek().IsWord("attributes")) {
        shapes.push_back(ShapeIn(lexer_.Next()));
        Take(',');
      }
    }
    if (shapes.size() != parameters.size()) Refuse(lexer_.Peek(), "a type for each value of the loop");
    if (lexer_.Peek().IsWord("attributes")) {
      lexer_.Next();
      ReadAttributes(operation);
    }
    for (const std::string_view word : {"cond", "do"}) {
      const MlirToken token = lexer_.Next();
      if (!token.IsWord(word)) Refuse(token, word);
      operation->regions.push_back(ReadRegion(RegionName(*operation), level, parameters, shapes));
    }
    operation->types = std::move(shapes);
    ReadLocationOf(operation);
  }

  void AddOperation(const MlirOperation& operation, std::size_t computation) {
    HloInstruction instruction;
    instruction.opcode = MlirOpcode(operation.name);
    if (instruction.opcode == "return") {
      module_.computations[computation].results = operation.operands;
      return;
    }
    std::size_t count = 0;
    for (const auto& [name, values] : operation.results) count += values;
    if (operation.types.size() != count) {
      throw InputError(
          "", fmt::format("{} has {} results, and {} types of results", operation.name, count, operation.types.size()));
    }
    if (count == 1) {
      instruction.shape = operation.types.front();
    } else {
      instruction.shape.form = HloShape::Form::kTuple;
      instruction.shape.elements = operation.types;
    }
    instruction.name = NameOf(operation, instruction.opcode);
    instruction.scope = operation.scope;
    instruction.operands = operation.operands;
    instruction.called = operation.regions;
    TakeMlirDetails(operation, module_, &instruction);
    const std::size_t id = module_.instructions.size();
    if (!operation.symbol.empty() && (instruction.opcode == "call" || instruction.opcode == "composite")) {
      called_.push_back({id, MlirSymbolName(operation.symbol), operation.line});
    }
    module_.computations[computation].instructions.push_back(id);
    module_.instructions.push_back(std::move(instruction));
    std::size_t result = 0;
    for (const auto& [name, values] : operation.results) {
      const bool is_whole = values == count;
      scopes_.back()[name] = is_whole ? HloOperand{id} : HloOperand{id, result};
      result += values;
    }
  }

  // "add.3" of %3, "dot_general.cst" of %cst.
  static std::string NameOf(const MlirOperation& operation, const std::string& opcode) {
    if (operation.results.empty()) return fmt::format("{}.line{}", opcode, operation.line);
    if (opcode == "call" && !operation.symbol.empty()) {
      return fmt::format("{}.{}", MlirSymbolName(operation.symbol), operation.results.front().first.substr(1));
    }
    return fmt::format("{}.{}", opcode, operation.results.front().first.substr(1));
  }

  std::string_view text_;
  MlirLexer lexer_;
  HloModule module_;
  std::map<std::string_view, std::string_view> locations_;
  std::unordered_map<std::string, std::size_t> functions_;
  std::size_t first_public_ = 0;
  bool has_public_ = false;
  std::vector<std::unordered_map<std::string_view, HloOperand>> scopes_;
  std::vector<Called> called_;
};

}  // namespace

HloModule ReadStableHlo(std::string_view text) { return StableHloReader(text).Read(); }

}  // namespace emplace::datasets
