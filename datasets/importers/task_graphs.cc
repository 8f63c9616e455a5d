// Task graphs of the scheduling literature: the Standard Task Graph Set, and workflows of WfCommons.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/graph.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kMostTasks = 1'000'000;
constexpr double kMostTaskMicros = 1e12;
constexpr std::string_view kTaskKind = "task";

// Whole numbers of a text, one after the other, by line; a line may end in a comment behind #.
class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : text_(text) {}

  // False at the end of the text.
  bool SkipToNumber() {
    while (next_ < text_.size()) {
      const char c = text_[next_];
      if (c == '#') {
        next_ = std::min(text_.find('\n', next_), text_.size());
      } else if (c == '\n') {
        ++line_;
        ++next_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++next_;
      } else {
        return true;
      }
    }
    return false;
  }

  std::int64_t Next(const std::string& what, std::int64_t low, std::int64_t high) {
    if (!SkipToNumber()) Refuse("the file ends where " + what + " was expected");
    const std::size_t end = std::min(text_.find_first_of(" \t\r\n#", next_), text_.size());
    const std::string_view word = text_.substr(next_, end - next_);
    std::int64_t value = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || last != word.data() + word.size() || value < low || value > high) {
      Refuse(fmt::format("{}: expected {}, an integer from {} to {}", Quoted(std::string(word)), what, low, high));
    }
    next_ = end;
    return value;
  }

  [[noreturn]] void Refuse(const std::string& problem) const {
    throw InputError(fmt::format("line {}", line_), problem);
  }

 private:
  std::string_view text_;
  std::size_t next_ = 0;
  int line_ = 1;
};

// A name that an op may have.
std::string OpName(std::string name) {
  std::replace(name.begin(), name.end(), ':', '_');
  if (!name.empty() && name.front() == '^') name.front() = '_';
  return name;
}

}  // namespace

bool LooksLikeStg(std::string_view content) {
  // The number of tasks, then the first dummy task: number 0, which takes no time and waits for none.
  try {
    NumberReader reader(content);
    reader.Next("tasks", 1, kMostTasks);
    for (int i = 0; i < 3; ++i) reader.Next("a zero", 0, 0);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

Imported ImportStg(const std::string& content, const std::string& file) {
  return WithLocation(file, [&] {
    NumberReader reader(content);
    const std::int64_t tasks = reader.Next("the number of tasks", 1, kMostTasks) + 2;  // with both dummies
    std::vector<OpSpec> ops(static_cast<std::size_t>(tasks));
    std::vector<bool> is_read(ops.size(), false);
    for (std::int64_t i = 0; i < tasks; ++i) {
      const std::int64_t number = reader.Next("a task's number", i, i);
      OpSpec& op = ops[static_cast<std::size_t>(number)];
      op.name = "task" + std::to_string(number);
      op.kind = kTaskKind;
      op.time_micros = static_cast<double>(reader.Next("a processing time", 0, std::int64_t{1} << 40));
      const std::int64_t predecessors = reader.Next("the number of predecessors", 0, i);
      std::set<std::int64_t> seen;
      for (std::int64_t p = 0; p < predecessors; ++p) {
        const std::int64_t before = reader.Next("a predecessor with a smaller number", 0, i - 1);
        if (!seen.insert(before).second) reader.Refuse(fmt::format("predecessor {} twice", before));
        op.inputs.push_back("task" + std::to_string(before));
        is_read[static_cast<std::size_t>(before)] = true;
      }
    }
    if (reader.SkipToNumber()) reader.Refuse(fmt::format("there is more behind {} tasks and 2 dummies", tasks - 2));
    GraphBuilder builder("stg");
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (is_read[i]) ops[i].outputs = {OutputSpec{.size = Bytes{0}, .shape = {}}};
      builder.Add(ops[i]);
    }
    return Imported{.graph = builder.Build(), .cluster = std::nullopt, .notes = {}};
  });
}

bool LooksLikeWfCommons(std::string_view head) {
  return StartsAnObject(head) && head.find("\"schemaVersion\"") != std::string_view::npos &&
         head.find("\"workflow\"") != std::string_view::npos;
}

Imported ImportWfCommons(const std::string& content, const std::string& file) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseJson(content);
    const auto member = [](const JsonNode& node, std::string_view key) -> const JsonValue* {
      for (const JsonMember& each : node.Object("an object of WfCommons")) {
        if (each.key == key) return &each.value;
      }
      return nullptr;
    };
    const JsonNode top(root);
    const auto need = [&](const JsonNode& node, std::string_view key) {
      const JsonValue* const found = member(node, key);
      if (found == nullptr)
        throw InputError(node.Place().empty() ? std::string(key) : node.Place() + "." + std::string(key),
                         "is missing (schema 1.5 of WfCommons)");
      return JsonNode(node, key, *found);
    };
    const JsonNode workflow = need(top, "workflow");
    const JsonNode specification = need(workflow, "specification");
    const JsonNode tasks = need(specification, "tasks");
    std::map<std::string, double> micros;
    if (const JsonValue* const execution = member(workflow, "execution")) {
      const JsonNode run(workflow, "execution", *execution);
      const JsonNode ran = need(run, "tasks");
      for (std::size_t i = 0; i < ran.List().size(); ++i) {
        const JsonNode task(ran, i, ran.List()[i]);
        const JsonNode id = need(task, "id");
        if (const JsonValue* const seconds = member(task, "runtimeInSeconds")) {
          micros[id.Text()] = 1e6 * JsonNode(task, "runtimeInSeconds", *seconds).Number(0, kMostTaskMicros / 1e6);
        }
      }
    }
    std::map<std::string, std::int64_t> sizes;
    if (const JsonValue* const listed = member(specification, "files")) {
      const JsonNode files(specification, "files", *listed);
      for (std::size_t i = 0; i < files.List().size(); ++i) {
        const JsonNode entry(files, i, files.List()[i]);
        const JsonNode id = need(entry, "id");
        const JsonNode size = need(entry, "sizeInBytes");
        sizes[id.Text()] = size.Integer(0, std::int64_t{1} << 50);
      }
    }
    // A file is an output of the task that writes it.
    std::vector<OpSpec> ops;
    std::map<std::string, std::string> output_of;  // file -> OP:INDEX
    std::map<std::string, std::string> op_of;      // task -> op
    std::int64_t without_time = 0;
    const auto names_of = [&](const JsonNode& task, std::string_view key) {
      std::vector<std::string> names;
      if (const JsonValue* const found = member(task, key)) {
        const JsonNode list(task, key, *found);
        for (std::size_t i = 0; i < list.List().size(); ++i) names.push_back(JsonNode(list, i, list.List()[i]).Text());
      }
      return names;
    };
    for (std::size_t i = 0; i < tasks.List().size(); ++i) {
      const JsonNode task(tasks, i, tasks.List()[i]);
      const JsonNode id_node = need(task, "id");
      const std::string id = id_node.NonEmptyText();
      OpSpec op;
      op.name = OpName(id);
      op.kind = kTaskKind;
      if (!op_of.emplace(id, op.name).second) throw InputError(id_node.Place(), Quoted(id) + " is there twice");
      const auto found = micros.find(id);
      op.time_micros = found == micros.end() ? 0 : found->second;
      if (found == micros.end()) ++without_time;
      for (const std::string& name : names_of(task, "outputFiles")) {
        const auto size = sizes.find(name);
        if (!output_of.emplace(name, fmt::format("{}:{}", op.name, op.outputs.size())).second) continue;
        op.outputs.push_back(OutputSpec{.size = Bytes{size == sizes.end() ? 0 : size->second}, .shape = {}});
      }
      ops.push_back(std::move(op));
    }
    std::int64_t outside = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const JsonNode task(tasks, i, tasks.List()[i]);
      std::set<std::string> producers;
      for (const std::string& name : names_of(task, "inputFiles")) {
        const auto found = output_of.find(name);
        if (found == output_of.end()) {
          ++outside;
          continue;
        }
        const std::string producer = found->second.substr(0, found->second.rfind(':'));
        if (producer == ops[i].name) continue;  // a file that a task changes
        ops[i].inputs.push_back(found->second);
        producers.insert(producer);
      }
      for (const std::string& parent : names_of(task, "parents")) {
        const auto found = op_of.find(parent);
        if (found == op_of.end()) throw InputError(task.Place() + ".parents", Quoted(parent) + " is no task");
        if (!producers.contains(found->second)) ops[i].control_inputs.push_back(found->second);
      }
    }
    const JsonValue* const name = member(top, "name");
    GraphBuilder builder(name == nullptr ? "workflow" : JsonNode(top, "name", *name).Text());
    for (const OpSpec& op : ops) builder.Add(op);
    Imported imported{.graph = builder.Build(), .cluster = std::nullopt, .notes = {}};
    if (outside > 0)
      imported.notes.push_back(fmt::format("{} inputs come from outside: they are there at the start", outside));
    if (without_time > 0)
      imported.notes.push_back(fmt::format("{} tasks without a runtime take no time", without_time));
    return imported;
  });
}

}  // namespace emplace::datasets
