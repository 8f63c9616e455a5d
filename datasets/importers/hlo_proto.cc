#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "datasets/importers/hlo_reading.h"
#include "datasets/importers/protobuf_fields.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

// Messages HloProto, HloModuleProto, HloComputationProto and HloInstructionProto of github.com/openxla/xla, and those
// of its data types within: the fields that are needed, by their numbers.
namespace emplace::datasets {
namespace {

using protobuf::AddIntegers;
using protobuf::Fields;
using protobuf::kBytes;
using protobuf::kVarint;

constexpr int kMostShapeLevels = 32;

[[noreturn]] void RefuseHloMessage(std::string_view what) {
  throw InputError("", fmt::format("{} is cut off or is no protobuf message", what));
}

// Calls `take` with each field.
template <typename Take>
void ForEachHloField(std::string_view message, std::string_view what, Take take) {
  Fields field(message);
  while (field.Next()) take(field);
  if (!field.ok()) RefuseHloMessage(what);
}

void TakeHloIntegers(const Fields& field, HloDims* values) {
  std::vector<std::uint64_t> integers;
  if ((field.type() != kVarint && field.type() != kBytes) || !AddIntegers(field, field.number(), &integers)) {
    RefuseHloMessage("a list of numbers");
  }
  for (const std::uint64_t integer : integers) values->push_back(static_cast<std::int64_t>(integer));
}

// The type of PrimitiveType, as HLO's text has it.
std::string_view HloTypeOfNumber(std::uint64_t number) {
  constexpr std::string_view kNames[] = {
      "",     "pred",   "s8",       "s16", "s32", "s64",           "u8",         "u16",        "u32",
      "u64",  "f16",    "f32",      "f64", "",    "opaque",        "c64",        "bf16",       "token",
      "c128", "f8e5m2", "f8e4m3fn", "s4",  "u4",  "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s2",
      "u2",   "f8e4m3", "f8e3m4",   "s1",  "u1",  "f4e2m1fn",      "f8e8m0fnu"};
  return number < std::size(kNames) ? kNames[number] : std::string_view();
}

HloShape HloShapeFrom(std::string_view message, int level) {
  constexpr std::uint64_t kTuple = 13;
  if (level > kMostShapeLevels) throw InputError("", "has tuples within more than 32 tuples");
  std::uint64_t type = 0;
  HloDims dims;
  std::vector<HloShape> elements;
  ForEachHloField(message, "a shape", [&](const Fields& field) {
    if (field.Is(2, kVarint)) type = field.integer();
    if (field.number() == 3) TakeHloIntegers(field, &dims);
    if (field.Is(4, kBytes)) elements.push_back(HloShapeFrom(field.bytes(), level + 1));
  });
  HloShape shape;
  if (type == kTuple) {
    shape.form = HloShape::Form::kTuple;
    shape.elements = std::move(elements);
    return shape;
  }
  const std::optional<HloShape> known = HloShapeOfType(HloTypeOfNumber(type));
  if (!known) throw InputError("", fmt::format("has elements of type {} (of PrimitiveType, 1 to 33)", type));
  return HloShapeWith(*known, std::move(dims));
}

HloWindowDim HloWindowDimFrom(std::string_view message) {
  HloWindowDim dim;
  ForEachHloField(message, "a window", [&](const Fields& field) {
    const auto value = static_cast<std::int64_t>(field.integer());
    if (field.Is(1, kVarint)) dim.size = value;
    if (field.Is(2, kVarint)) dim.stride = value;
    if (field.Is(3, kVarint)) dim.low = value;
    if (field.Is(4, kVarint)) dim.high = value;
    if (field.Is(5, kVarint)) dim.window_dilation = value;
    if (field.Is(6, kVarint)) dim.base_dilation = value;
  });
  return dim;
}

HloConvolutionDims HloConvolutionFromMessage(std::string_view message) {
  HloConvolutionDims dims{
      .input_feature = 0, .output_feature = 0, .input_spatial = {}, .kernel_spatial = {}, .output_spatial = {}};
  ForEachHloField(message, "the dimensions of a convolution", [&](const Fields& field) {
    const auto value = static_cast<std::int64_t>(field.integer());
    if (field.Is(7, kVarint)) dims.input_batch = value;
    if (field.Is(8, kVarint)) dims.input_feature = value;
    if (field.Is(10, kVarint)) dims.output_feature = value;
    if (field.number() == 6) TakeHloIntegers(field, &dims.kernel_spatial);
    if (field.number() == 11) TakeHloIntegers(field, &dims.input_spatial);
    if (field.number() == 12) TakeHloIntegers(field, &dims.output_spatial);
  });
  return dims;
}

HloDotDims HloDotFrom(std::string_view message) {
  HloDotDims dims;
  ForEachHloField(message, "the dimensions of a product", [&](const Fields& field) {
    if (field.number() == 1) TakeHloIntegers(field, &dims.left_contracting);
    if (field.number() == 2) TakeHloIntegers(field, &dims.right_contracting);
    if (field.number() == 3) TakeHloIntegers(field, &dims.left_batch);
    if (field.number() == 4) TakeHloIntegers(field, &dims.right_batch);
  });
  return dims;
}

// The integer of a literal with one; truth values and integers of 32 and 64 bits.
std::optional<std::int64_t> HloLiteralFrom(std::string_view message) {
  HloDims values;
  ForEachHloField(message, "a literal", [&](const Fields& field) {
    const std::uint32_t number = field.number();
    if (number == 2 || (number >= 4 && number <= 7)) TakeHloIntegers(field, &values);
  });
  return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
}

struct HloReferences {
  std::size_t instruction = 0;
  HloDims operands;
  HloDims controls;
  HloDims called;
};

class HloProtoReader {
 public:
  HloModule Read(std::string_view message) {
    module_.form = "hlo";
    std::int64_t entry = 0;
    ForEachHloField(message, "the module", [&](const Fields& field) {
      if (field.Is(1, kBytes)) module_.name = field.bytes();
      if (field.Is(3, kBytes)) {
        WithLocation(fmt::format("computations[{}]", module_.computations.size()),
                     [&] { TakeComputation(field.bytes()); });
      }
      if (field.Is(6, kVarint)) entry = static_cast<std::int64_t>(field.integer());
      if (field.Is(8, kBytes)) TakeAliases(field.bytes());
    });
    const auto found = computations_.find(entry);
    if (found == computations_.end()) {
      throw InputError("entry_computation_id", fmt::format("is {}, which no computation has", entry));
    }
    module_.entry = found->second;
    Resolve();
    return std::move(module_);
  }

 private:
  void TakeComputation(std::string_view message) {
    HloComputation computation;
    std::int64_t id = 0;
    std::int64_t root = -1;
    ForEachHloField(message, "a computation", [&](const Fields& field) {
      if (field.Is(1, kBytes)) computation.name = field.bytes();
      if (field.Is(2, kBytes)) {
        WithLocation(fmt::format("instructions[{}]", computation.instructions.size()),
                     [&] { TakeInstruction(field.bytes(), &computation); });
      }
      if (field.Is(5, kVarint)) id = static_cast<std::int64_t>(field.integer());
      if (field.Is(6, kVarint)) root = static_cast<std::int64_t>(field.integer());
    });
    if (computation.instructions.empty()) throw InputError("", "has no instructions");
    if (!computations_.emplace(id, module_.computations.size()).second) {
      throw InputError("id", fmt::format("is {}, as that of another computation", id));
    }
    ResolveLocal(root, &computation);
    OrderHloParameters(module_, &computation);
    module_.computations.push_back(std::move(computation));
  }

  // Older files count instructions anew in each computation; newer ones have the computation in the upper half of ids.
  void ResolveLocal(std::int64_t root, HloComputation* computation) {
    const auto find = [&](std::int64_t id) {
      const auto found = local_.find(id);
      if (found == local_.end()) throw InputError("", fmt::format("reads {}, which no instruction above gives", id));
      return found->second;
    };
    for (const HloReferences& row : references_) {
      HloInstruction& instruction = module_.instructions[row.instruction];
      const auto above = [&](std::int64_t id) {
        const std::size_t at = find(id);
        if (at < row.instruction) return at;
        throw InputError(instruction.name,
                         fmt::format("reads {}, which comes later", Quoted(module_.instructions[at].name)));
      };
      WithLocation(instruction.name, [&] {
        for (const std::int64_t operand : row.operands) instruction.operands.push_back({above(operand)});
        for (const std::int64_t control : row.controls) instruction.controls.push_back(above(control));
      });
      if (!row.called.empty()) called_.push_back(row);
    }
    WithLocation("root_id", [&] { computation->results = {{find(root)}}; });
    references_.clear();
    local_.clear();
  }

  void TakeInstruction(std::string_view message, HloComputation* computation) {
    HloInstruction instruction;
    HloReferences references;
    references.instruction = module_.instructions.size();
    std::int64_t id = -1;
    std::int64_t tuple_index = 0;
    std::string direction;
    ForEachHloField(message, "an instruction", [&](const Fields& field) {
      const auto integer = static_cast<std::int64_t>(field.integer());
      if (field.type() == kVarint) {
        if (field.number() == 9) instruction.number = integer;
        if (field.number() == 13) tuple_index = integer;
        if (field.number() == 35) id = integer;
        if (field.number() == 50) instruction.feature_groups = std::max<std::int64_t>(integer, 1);
        if (field.number() == 58) instruction.batch_groups = std::max<std::int64_t>(integer, 1);
      }
      switch (field.number()) {
        case 14:
        case 32:
          TakeHloIntegers(field, &instruction.dims);
          break;
        case 36:
          TakeHloIntegers(field, &references.operands);
          break;
        case 37:
          TakeHloIntegers(field, &references.controls);
          break;
        case 38:
          TakeHloIntegers(field, &references.called);
          break;
        default:
          if (field.type() == kBytes) TakePart(field, &instruction, &direction);
      }
    });
    if (instruction.opcode.empty()) throw InputError("opcode", "is missing");
    instruction.opcode = HloOpcode(instruction.opcode);
    if (instruction.opcode == "get_tuple_element") instruction.number = tuple_index;
    if (!direction.empty()) instruction.text = direction;
    instruction.is_splat = HloElements(instruction.shape) <= 1;
    // Files keep the body of a loop before its condition, unlike its text.
    if (instruction.opcode == "while" && references.called.size() == 2) {
      std::swap(references.called[0], references.called[1]);
    }
    if (!local_.emplace(id, module_.instructions.size()).second) {
      throw InputError("id", fmt::format("is {}, as that of another instruction", id));
    }
    if (instruction.opcode == "parameter") computation->parameters.push_back(module_.instructions.size());
    computation->instructions.push_back(module_.instructions.size());
    module_.instructions.push_back(std::move(instruction));
    references_.push_back(std::move(references));
  }

  static void TakePart(const Fields& field, HloInstruction* instruction, std::string* direction) {
    switch (field.number()) {
      case 1:
        instruction->name = field.bytes();
        break;
      case 2:
        instruction->opcode = field.bytes();
        break;
      case 3:
        instruction->shape = HloShapeFrom(field.bytes(), 0);
        break;
      case 7:
        ForEachHloField(field.bytes(), "metadata", [&](const Fields& part) {
          if (part.Is(2, kBytes)) instruction->scope = part.bytes();
        });
        break;
      case 8:
        instruction->value = HloLiteralFrom(field.bytes());
        break;
      case 15:
        ForEachHloField(field.bytes(), "a window", [&](const Fields& part) {
          if (part.Is(1, kBytes)) instruction->window.push_back(HloWindowDimFrom(part.bytes()));
        });
        break;
      case 16:
        instruction->convolution = HloConvolutionFromMessage(field.bytes());
        break;
      case 28:
        instruction->text = field.bytes();
        break;
      case 30:
        instruction->dot = HloDotFrom(field.bytes());
        break;
      case 43:
        instruction->trips = HloTripCount(field.bytes());
        break;
      case 63:
        *direction = field.bytes();
        break;
      default:
        break;
    }
  }

  void TakeAliases(std::string_view message) {
    ForEachHloField(message, "input_output_alias", [&](const Fields& field) {
      if (!field.Is(1, kBytes)) return;
      std::size_t parameter = 0;
      ForEachHloField(field.bytes(), "input_output_alias", [&](const Fields& part) {
        if (part.Is(2, kVarint)) parameter = static_cast<std::size_t>(part.integer());
      });
      module_.donated.push_back(parameter);
    });
  }

  void Resolve() {
    for (const HloReferences& row : called_) {
      for (const std::int64_t id : row.called) {
        const auto found = computations_.find(id);
        if (found == computations_.end()) {
          throw InputError(module_.instructions[row.instruction].name,
                           fmt::format("runs computation {}, which the file does not have", id));
        }
        module_.instructions[row.instruction].called.push_back(found->second);
      }
    }
  }

  HloModule module_;
  std::unordered_map<std::int64_t, std::size_t> computations_;
  std::unordered_map<std::int64_t, std::size_t> local_;  // instructions of the computation at hand
  std::vector<HloReferences> references_;
  std::vector<HloReferences> called_;
};

}  // namespace

HloModule ReadHloProto(std::string_view bytes) {
  // An HloProto has the module in field 1, where the module itself has its name.
  Fields first(bytes);
  if (first.Next() && first.Is(1, kBytes) && !first.bytes().empty() && first.bytes().front() == '\x0a') {
    Fields inner(first.bytes());
    if (inner.Next() && inner.Is(1, kBytes)) return HloProtoReader().Read(first.bytes());
  }
  return HloProtoReader().Read(bytes);
}

}  // namespace emplace::datasets
