#include "datasets/importers/size_expression.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kMostSize = std::int64_t{1} << 62;

// A fraction in lowest terms, its denominator above 0.
struct SizeFraction {
  std::int64_t top = 0;
  std::int64_t bottom = 1;
};

SizeFraction SizeReduced(Wide top, Wide bottom) {
  if (bottom == 0) throw InputError("", "divides by 0");
  Wide a = top < 0 ? -top : top;
  Wide b = bottom < 0 ? -bottom : bottom;
  while (b != 0) a = std::exchange(b, a % b);
  if (a == 0) return {};
  if (bottom < 0) a = -a;
  top /= a;
  bottom /= a;
  if (top > kMostSize || top < -kMostSize || bottom > kMostSize) throw InputError("", "is too large");
  return {static_cast<std::int64_t>(top), static_cast<std::int64_t>(bottom)};
}

SizeFraction SizeSum(SizeFraction a, SizeFraction b) {
  return SizeReduced(Wide{a.top} * b.bottom + Wide{b.top} * a.bottom, Wide{a.bottom} * b.bottom);
}
SizeFraction SizeProduct(SizeFraction a, SizeFraction b) {
  return SizeReduced(Wide{a.top} * b.top, Wide{a.bottom} * b.bottom);
}
SizeFraction SizeQuotient(SizeFraction a, SizeFraction b) {
  return SizeReduced(Wide{a.top} * b.bottom, Wide{a.bottom} * b.top);
}
SizeFraction SizeNegative(SizeFraction a) { return {-a.top, a.bottom}; }
SizeFraction SizeFloor(SizeFraction a) {
  const std::int64_t whole = a.top / a.bottom;
  return {a.top % a.bottom < 0 ? whole - 1 : whole, 1};
}
SizeFraction SizeCeiling(SizeFraction a) { return SizeNegative(SizeFloor(SizeNegative(a))); }
SizeFraction SizeRemainder(SizeFraction a, SizeFraction b) {
  return SizeSum(a, SizeNegative(SizeProduct(b, SizeFloor(SizeQuotient(a, b)))));
}
bool SizeLess(SizeFraction a, SizeFraction b) { return Wide{a.top} * b.bottom < Wide{b.top} * a.bottom; }

SizeFraction SizePower(SizeFraction base, SizeFraction exponent) {
  if (exponent.bottom != 1 || exponent.top > 64 || exponent.top < -64) {
    throw InputError("", "has an exponent other than a small whole number");
  }
  SizeFraction power = {1, 1};
  for (std::int64_t i = 0; i < std::abs(exponent.top); ++i) power = SizeProduct(power, base);
  return exponent.top < 0 ? SizeQuotient({1, 1}, power) : power;
}

using SizeArguments = std::vector<SizeFraction>;

struct SizeFunction {
  std::string_view name;
  std::size_t least;
  std::size_t most;
  SizeFraction (*apply)(const SizeArguments& x);
};

constexpr std::size_t kAnyArguments = 1000;

SizeFraction SizeSame(const SizeArguments& x) { return x[0]; }
SizeFraction SizeFloorDiv(const SizeArguments& x) { return SizeFloor(SizeQuotient(x[0], x[1])); }
SizeFraction SizeCeilDiv(const SizeArguments& x) { return SizeCeiling(SizeQuotient(x[0], x[1])); }
SizeFraction SizeDivide(const SizeArguments& x) { return SizeQuotient(x[0], x[1]); }
SizeFraction SizeModulo(const SizeArguments& x) { return SizeRemainder(x[0], x[1]); }

constexpr SizeFunction kSizeFunctions[] = {
    {"Add", 1, kAnyArguments,
     [](const SizeArguments& x) { return std::accumulate(x.begin() + 1, x.end(), x[0], SizeSum); }},
    {"Mul", 1, kAnyArguments,
     [](const SizeArguments& x) { return std::accumulate(x.begin() + 1, x.end(), x[0], SizeProduct); }},
    {"Pow", 2, 2, [](const SizeArguments& x) { return SizePower(x[0], x[1]); }},
    {"PowByNatural", 2, 2, [](const SizeArguments& x) { return SizePower(x[0], x[1]); }},
    {"Max", 1, kAnyArguments, [](const SizeArguments& x) { return *std::max_element(x.begin(), x.end(), SizeLess); }},
    {"Min", 1, kAnyArguments, [](const SizeArguments& x) { return *std::min_element(x.begin(), x.end(), SizeLess); }},
    {"Integer", 1, 1, SizeSame},
    {"Rational", 2, 2, SizeDivide},
    {"Identity", 1, 1, SizeSame},
    {"FloorDiv", 2, 2, SizeFloorDiv},
    {"CeilDiv", 2, 2, SizeCeilDiv},
    {"CleanDiv", 2, 2, SizeDivide},
    {"IntTrueDiv", 2, 2, SizeDivide},
    {"Mod", 2, 2, SizeModulo},
    {"PythonMod", 2, 2, SizeModulo},
    {"ModularIndexing", 3, 3,
     [](const SizeArguments& x) { return SizeRemainder(SizeFloor(SizeQuotient(x[0], x[1])), x[2]); }},
    {"floor", 1, 1, [](const SizeArguments& x) { return SizeFloor(x[0]); }},
    {"FloorToInt", 1, 1, [](const SizeArguments& x) { return SizeFloor(x[0]); }},
    {"ceiling", 1, 1, [](const SizeArguments& x) { return SizeCeiling(x[0]); }},
    {"CeilToInt", 1, 1, [](const SizeArguments& x) { return SizeCeiling(x[0]); }},
    {"TruncToInt", 1, 1, [](const SizeArguments& x) { return x[0].top < 0 ? SizeCeiling(x[0]) : SizeFloor(x[0]); }},
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Evaluates while it reads.
class SizeReader {
 public:
  SizeReader(std::string_view text, std::function<SizeFraction(const std::string& symbol)> value)
      : text_(text), value_(std::move(value)) {}

  SizeFraction All() {
    const SizeFraction all = Terms();
    if (Peek() != 0) Fail();
    return all;
  }

 private:
  static constexpr int kMaxDepth = 100;

  [[noreturn]] static void Fail() { throw InputError("", "is not a size (numbers, symbols, + - * / // % **)"); }

  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(std::string_view token) {
    Peek();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void Want(std::string_view token) {
    if (!Take(token)) Fail();
  }
  std::string_view Word() {
    Peek();
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  SizeFraction Terms() {
    if (++depth_ > kMaxDepth) throw InputError("", "is nested too deeply");
    SizeFraction sum = Factors();
    for (;;) {
      if (Take("+")) {
        sum = SizeSum(sum, Factors());
      } else if (Take("-")) {
        sum = SizeSum(sum, SizeNegative(Factors()));
      } else {
        break;
      }
    }
    --depth_;
    return sum;
  }

  SizeFraction Factors() {
    SizeFraction product = Signed();
    for (;;) {
      if (Take("//")) {
        product = SizeFloor(SizeQuotient(product, Signed()));
      } else if (Take("/")) {
        product = SizeQuotient(product, Signed());
      } else if (Take("%")) {
        product = SizeRemainder(product, Signed());
      } else if (Take("*")) {  // not of **, which Signed() takes
        product = SizeProduct(product, Signed());
      } else {
        return product;
      }
    }
  }

  SizeFraction Signed() {
    if (Take("-")) {
      if (++depth_ > kMaxDepth) throw InputError("", "is nested too deeply");
      const SizeFraction negative = SizeNegative(Signed());
      --depth_;
      return negative;
    }
    const SizeFraction base = Atom();
    if (!Take("**")) return base;
    if (++depth_ > kMaxDepth) throw InputError("", "is nested too deeply");
    const SizeFraction power = SizePower(base, Signed());
    --depth_;
    return power;
  }

  SizeFraction Atom() {
    if (Take("(")) {
      const SizeFraction inner = Terms();
      Want(")");
      return inner;
    }
    const std::string_view word = Word();
    if (word.empty()) Fail();
    if (IsDigit(word[0])) {
      std::int64_t number = 0;
      for (const char c : word) {
        if (!IsDigit(c)) Fail();
        number = number * 10 + (c - '0');
        if (number > kMostSize / 10) throw InputError("", "is too large");
      }
      return {number, 1};
    }
    if (!Take("(")) return value_(std::string(word));
    if (word == "Symbol" || word == "Dummy") return Symbol();
    const auto function = std::find_if(std::begin(kSizeFunctions), std::end(kSizeFunctions),
                                       [&](const SizeFunction& row) { return row.name == word; });
    if (function == std::end(kSizeFunctions))
      throw InputError("", "calls " + Quoted(word) + " (not a function of sizes)");
    SizeArguments arguments;
    if (!Take(")")) {
      do {
        if (!SkipOption()) arguments.push_back(Terms());
      } while (Take(","));
      Want(")");
    }
    if (arguments.size() < function->least || arguments.size() > function->most) Fail();
    return function->apply(arguments);
  }

  // 's0', positive=True, integer=True)
  SizeFraction Symbol() {
    Want("'");
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) Fail();
    const std::string name(text_.substr(at_, end - at_));
    at_ = end + 1;
    while (Take(",")) {
      if (!SkipOption()) Fail();
    }
    Want(")");
    return value_(name);
  }

  // "integer=True": no argument.
  bool SkipOption() {
    const std::size_t before = at_;
    if (!Word().empty() && Take("=") && !Word().empty()) return true;
    at_ = before;
    return false;
  }

  std::string_view text_;
  std::function<SizeFraction(const std::string& symbol)> value_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> EvaluateSize(std::string_view expression, const SizeSymbols& symbols,
                                         std::string* missing) {
  missing->clear();
  const auto value = [&](const std::string& symbol) -> SizeFraction {
    const auto known = symbols.find(symbol);
    if (known != symbols.end()) return {known->second, 1};
    if (missing->empty()) *missing = symbol;
    return {1, 1};
  };
  SizeFraction result;
  try {
    result = SizeReader(expression, value).All();
    if (missing->empty() && result.bottom != 1) throw InputError("", "is not a whole number");
  } catch (const InputError& error) {
    // The substitute of a missing symbol may not allow the computation.
    if (missing->empty()) throw InputError("", "size " + Quoted(expression) + " " + error.what());
  }
  if (!missing->empty()) return std::nullopt;
  return result.top;
}

std::set<std::string> SymbolsIn(std::string_view expression) {
  std::set<std::string> symbols;
  try {
    SizeReader(expression, [&](const std::string& symbol) {
      symbols.insert(symbol);
      return SizeFraction{1, 1};
    }).All();
  } catch (const InputError& error) {
    throw InputError("", "size " + Quoted(expression) + " " + error.what());
  }
  return symbols;
}

std::optional<std::int64_t> SolveSize(std::string_view expression, std::int64_t value, const std::string& symbol,
                                      SizeSymbols symbols) {
  const auto at = [&](std::int64_t x) -> std::optional<SizeFraction> {
    symbols[symbol] = x;
    try {
      return SizeReader(expression,
                        [&](const std::string& name) {
                          const auto known = symbols.find(name);
                          if (known == symbols.end()) throw InputError("", "has another symbol");
                          return SizeFraction{known->second, 1};
                        })
          .All();
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  const auto one = at(1);
  const auto two = at(2);
  if (!one || !two || (one->top == two->top && one->bottom == two->bottom)) return std::nullopt;
  try {
    const SizeFraction step = SizeSum(*two, SizeNegative(*one));
    const SizeFraction x = SizeSum({1, 1}, SizeQuotient(SizeSum({value, 1}, SizeNegative(*one)), step));
    if (x.bottom != 1) return std::nullopt;
    const auto check = at(x.top);
    if (!check || check->bottom != 1 || check->top != value) return std::nullopt;
    return x.top;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace emplace::datasets
