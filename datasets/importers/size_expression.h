#ifndef EMPLACE_DATASETS_IMPORTERS_SIZE_EXPRESSION_H_
#define EMPLACE_DATASETS_IMPORTERS_SIZE_EXPRESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace emplace::datasets {

// Values of symbols such as s0.
using SizeSymbols = std::map<std::string, std::int64_t, std::less<>>;

// The value of a size as torch.export writes it: SymPy's notation, "Mul(Integer(2), Symbol('s0', integer=True))", or
// as it is printed, "2*s0", "(s0//2) + 1", "Max(1, s0)". Functions: Add, Mul, Pow, Max, Min, Mod, floor, ceiling, and
// PyTorch's FloorDiv, CeilDiv, CleanDiv, IntTrueDiv, PythonMod, ModularIndexing, FloorToInt, CeilToInt, TruncToInt,
// Identity; exact in fractions on the way. nullopt, and *missing the first symbol without a value, if there is one.
// Throws InputError if the text is none of that, the value is not whole, or a number on the way leaves 2^62.
std::optional<std::int64_t> EvaluateSize(std::string_view expression, const SizeSymbols& symbols, std::string* missing);

// The symbols in it. Throws as EvaluateSize.
std::set<std::string> SymbolsIn(std::string_view expression);

// The value of `symbol`, which `symbols` lacks, for which the expression is `value`: found where
// it grows by the same amount with each step of the symbol, such as 2*s0 + 1. nullopt where there is none.
std::optional<std::int64_t> SolveSize(std::string_view expression, std::int64_t value, const std::string& symbol,
                                      SizeSymbols symbols);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_SIZE_EXPRESSION_H_
