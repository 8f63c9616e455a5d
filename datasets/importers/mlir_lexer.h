#ifndef EMPLACE_DATASETS_IMPORTERS_MLIR_LEXER_H_
#define EMPLACE_DATASETS_IMPORTERS_MLIR_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emplace::datasets {

struct MlirToken {
  enum class Kind : std::uint8_t {
    kEnd,
    kValue,   // %name, or %name#1
    kSymbol,  // @name
    kText,    // "text", with its quotes
    kWord,    // stablehlo.add; also what is within angle brackets at its end, as in tensor<2xf32>
    kHash,    // #loc1, #stablehlo<precision DEFAULT>
    kNumber,
    kArrow,  // ->
    kSign,   // one other character
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  std::size_t line = 0;

  bool Is(char sign) const { return kind == Kind::kSign && text[0] == sign; }
  bool IsWord(std::string_view word) const { return kind == Kind::kWord && text == word; }
};

// The tokens of a text in MLIR's syntax, one after another. Throws InputError, its place the line, where a text between
// quotes or angle brackets does not end.
class MlirLexer {
 public:
  explicit MlirLexer(std::string_view text) : text_(text) { Advance(); }

  const MlirToken& Peek() const { return next_; }
  MlirToken Next() {
    const MlirToken token = next_;
    Advance();
    return token;
  }

 private:
  void Advance();
  void SkipBlanks();
  std::size_t EndOfText(std::size_t begin) const;
  std::size_t EndOfAngles(std::size_t begin) const;

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  MlirToken next_;
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_MLIR_LEXER_H_
