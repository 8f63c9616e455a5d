#include "sim/schedule/schedule_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/table.h"

namespace emplace {
namespace {

constexpr std::uint32_t kMaxNumber = 10'000'000;
constexpr std::string_view kOldWhole = "BW";
constexpr std::string_view kSpaces = " \t\r";
constexpr std::array<std::string_view, 7> kLeftOut = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                                      "UNSHARD", "RESHARD", "REDUCE_GRAD"};

std::string_view WithoutSpaces(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// The digits that `text` starts with are taken off it; nullopt if there are none, or if the number is too large.
std::optional<std::uint32_t> TakeNumber(std::string_view* text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number > kMaxNumber) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return number;
}

std::optional<ActionKind> KindFromWord(std::string_view word) {
  if (word == kOldWhole) return ActionKind::kBackward;
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kBackward, ActionKind::kBackwardInput, ActionKind::kBackwardWeight}) {
    if (word.size() == 1 && word[0] == Letter(kind)) return kind;
  }
  return std::nullopt;
}

// nullopt: the cell is left out.
std::optional<PipelineAction> ReadCell(std::string_view cell, const std::string& place) {
  const auto refuse = [&](const std::string& what) { throw InputError(place, Quoted(cell) + what); };
  std::string_view text = cell;
  if (text.empty()) return std::nullopt;
  if (text.front() == '(') refuse(" runs actions at once (one action in a cell)");
  constexpr const char* kAllowed = " is not an action (stage, F, B, I or W, and micro-batch, as in 0F3)";
  const std::optional<std::uint32_t> stage = TakeNumber(&text);
  if (!stage) refuse(kAllowed);
  const std::string_view word = text.substr(0, std::min(text.find_first_of("0123456789"), text.size()));
  text.remove_prefix(word.size());
  const bool left_out = std::find(kLeftOut.begin(), kLeftOut.end(), word) != kLeftOut.end();
  const std::optional<ActionKind> kind = KindFromWord(word);
  if (left_out && text.empty()) return std::nullopt;
  const std::optional<std::uint32_t> micro_batch = TakeNumber(&text);
  if (!micro_batch || !text.empty() || (!kind && !left_out)) refuse(kAllowed);
  if (left_out) return std::nullopt;
  return PipelineAction{*stage, *kind, *micro_batch};
}

struct CsvLines {
  PipelineSchedule schedule;
  std::vector<std::vector<std::size_t>> cells;  // cells of the actions
  std::vector<std::vector<bool>> is_old_whole;  // whether an action is BW
  bool has_input = false;
  bool has_weight = false;
};

// Before PyTorch 2.6, B was the backward pass of the input, and BW the whole backward pass. A file is of that kind if
// it has BW or W, but no I.
void RenameOld(CsvLines* lines) {
  if (lines->has_input || !lines->has_weight) return;
  for (std::size_t rank = 0; rank < lines->cells.size(); ++rank) {
    std::vector<PipelineAction>& actions = lines->schedule.ranks[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind != ActionKind::kBackward || lines->is_old_whole[rank][i]) continue;
      actions[i].kind = ActionKind::kBackwardInput;
    }
  }
}

void ReadLine(std::string_view line, CsvLines* lines, std::size_t* num_actions) {
  const std::size_t rank = lines->schedule.ranks.size();
  std::vector<PipelineAction>& actions = lines->schedule.ranks.emplace_back();
  std::vector<std::size_t>& cells = lines->cells.emplace_back();
  std::vector<bool>& is_old_whole = lines->is_old_whole.emplace_back();
  std::size_t cell = 0;
  for (std::size_t begin = 0; begin <= line.size(); ++cell) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view text = WithoutSpaces(line.substr(begin, end - begin));
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
    const std::string place = fmt::format("line {}, cell {}", rank + 1, cell + 1);
    if (const std::optional<PipelineAction> action = ReadCell(text, place)) {
      if (++*num_actions > kMaxActions)
        throw InputError(place, fmt::format("is one action too many ({})", kMaxActions));
      actions.push_back(*action);
      cells.push_back(cell);
      is_old_whole.push_back(text.find(kOldWhole) != std::string_view::npos);
      lines->has_input = lines->has_input || action->kind == ActionKind::kBackwardInput;
      lines->has_weight = lines->has_weight || is_old_whole.back() || action->kind == ActionKind::kBackwardWeight;
      lines->schedule.num_stages = std::max<std::size_t>(lines->schedule.num_stages, action->stage + 1);
      lines->schedule.micro_batches = std::max<std::size_t>(lines->schedule.micro_batches, action->micro_batch + 1);
    }
    begin = end + 1;
  }
  if (actions.empty()) throw InputError(fmt::format("line {}", rank + 1), "has no actions (a line for each rank)");
}

PipelineSchedule Read(std::istream& in) {
  CsvLines lines;
  std::size_t num_actions = 0;
  std::size_t empty_lines = 0;
  for (std::string line; std::getline(in, line);) {
    if (WithoutSpaces(line).empty()) {
      ++empty_lines;
      continue;
    }
    if (empty_lines > 0) {
      throw InputError(fmt::format("line {}", lines.schedule.ranks.size() + 1), "is empty (a line for each rank)");
    }
    if (lines.schedule.ranks.size() == kMaxRanks) {
      throw InputError(fmt::format("line {}", kMaxRanks + 1), fmt::format("is one rank too many ({})", kMaxRanks));
    }
    ReadLine(line, &lines, &num_actions);
  }
  const PipelineSchedule& schedule = lines.schedule;
  if (schedule.ranks.empty()) throw InputError("", "has no lines (a line for each rank, as in 0F0,0B0)");
  if (schedule.num_stages * schedule.micro_batches > num_actions) {
    throw InputError("", fmt::format("has {} actions (F, and B or I and W, of {} micro-batches in {} stages)",
                                     num_actions, schedule.micro_batches, schedule.num_stages));
  }
  RenameOld(&lines);
  CheckSchedule(schedule, lines.cells);
  return std::move(lines.schedule);
}

// Runs a schedule action by action, and gathers the cells of each rank with what it sends and receives.
class CommunicationWriter {
 public:
  explicit CommunicationWriter(const PipelineSchedule& schedule)
      : schedule_(schedule),
        rank_of_stage_(RankOfStage(schedule)),
        cells_(schedule.ranks.size()),
        done_(2 * schedule.num_stages * schedule.micro_batches),
        backward_left_(schedule.num_stages, schedule.micro_batches) {}

  std::vector<std::vector<std::string>> Cells() {
    std::vector<std::size_t> next(schedule_.ranks.size(), 0);
    std::vector<std::optional<std::uint32_t>> reduced(schedule_.ranks.size());  // the stage, which takes a turn too
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
        if (reduced[rank]) {
          cells_[rank].push_back(fmt::format("{}REDUCE_GRAD", *std::exchange(reduced[rank], std::nullopt)));
          moved = true;
        } else if (next[rank] < schedule_.ranks[rank].size() && IsReady(schedule_.ranks[rank][next[rank]])) {
          const PipelineAction& action = schedule_.ranks[rank][next[rank]++];
          Run(rank, action);
          if (EndsBackward(action) && --backward_left_[action.stage] == 0) reduced[rank] = action.stage;
          moved = true;
        }
      }
    }
    return std::move(cells_);
  }

 private:
  static bool EndsBackward(const PipelineAction& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
  }
  std::vector<bool>::reference Done(bool forward, std::size_t stage, std::size_t micro_batch) {
    return done_[((forward ? 0 : schedule_.num_stages) + stage) * schedule_.micro_batches + micro_batch];
  }

  bool IsReady(const PipelineAction& action) {
    if (action.kind == ActionKind::kBackwardWeight) return true;
    if (action.kind == ActionKind::kForward) {
      return action.stage == 0 || Done(true, action.stage - 1, action.micro_batch);
    }
    return action.stage + 1 == schedule_.num_stages || Done(false, action.stage + 1, action.micro_batch);
  }

  void Run(std::size_t rank, const PipelineAction& action) {
    cells_[rank].push_back(Text(action));
    if (action.kind == ActionKind::kBackwardWeight) return;
    const bool forward = action.kind == ActionKind::kForward;
    Done(forward, action.stage, action.micro_batch) = true;
    if (action.stage == (forward ? schedule_.num_stages - 1 : 0)) return;
    const std::uint32_t receiver = forward ? action.stage + 1 : action.stage - 1;
    if (rank_of_stage_[receiver] == rank) return;
    const char letter = forward ? 'F' : 'B';
    cells_[rank].push_back(fmt::format("{}SEND_{}{}", action.stage, letter, action.micro_batch));
    cells_[rank_of_stage_[receiver]].push_back(fmt::format("{}RECV_{}{}", receiver, letter, action.micro_batch));
  }

  const PipelineSchedule& schedule_;
  std::vector<std::size_t> rank_of_stage_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<bool> done_;  // forward and backward of each stage and micro-batch
  std::vector<std::size_t> backward_left_;
};

}  // namespace

PipelineSchedule ReadScheduleCsv(std::istream& in, const std::string& file) {
  return WithLocation(file, [&] { return Read(in); });
}

void WriteScheduleCsv(std::ostream& out, const PipelineSchedule& schedule) {
  for (const std::vector<PipelineAction>& actions : schedule.ranks) {
    std::vector<std::string> cells;
    cells.reserve(actions.size());
    for (const PipelineAction& action : actions) cells.push_back(Text(action));
    WriteCsvLine(out, cells);
  }
}

void WriteScheduleWithCommunication(std::ostream& out, const PipelineSchedule& schedule) {
  for (const std::vector<std::string>& cells : CommunicationWriter(schedule).Cells()) WriteCsvLine(out, cells);
}

}  // namespace emplace
