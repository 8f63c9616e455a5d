// A run folder with one file replaced, which the first byte names: whatever it holds, it is read or refused in one
// line.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "experiments/plan/checked_json.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/problem.h"
#include "experiments/plan/trial_choice.h"
#include "experiments/run/plan_file.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/run_state.h"
#include "experiments/run/trial_claim.h"
#include "experiments/run/trial_crashes.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "tests/fuzz/round_trip.h"

namespace {

namespace fs = std::filesystem;
namespace experiments = emplace::experiments;

constexpr const char* kOneTrial = R"(# Is it small?
schema: emplace.experiment
version: 1
name: small
graphs: {model: rnnlm, set: {hidden: 8, steps: 2}}
cluster: {name: post-8k80, devices: ["gpu:0", "gpu:1"]}
costs: roofline
agent: {name: annealing}
budget: {evaluations: 20}
)";

// By the first byte: of the experiment, then of its trial.
constexpr std::array kFiles = {"plan.jsonl",          "experiment.json", "spec.json",     "trial.json", "timing.json",
                               "best_placement.json", "progress.jsonl",  "crashes.jsonl", "error.txt",  "lock",
                               "differences.txt"};
constexpr std::size_t kOfExperiment = 2;
constexpr std::size_t kTrial = 3;  // the file that a finished trial has; the next two are read with it

class Runs {
 public:
  Runs() {
    std::string made = (fs::temp_directory_path() / "emplace_fuzz_XXXXXX").string();
    root_ = mkdtemp(made.data());
    experiment_ = root_ / "small";
    std::istringstream in(kOneTrial);
    const experiments::ExperimentSpec read = experiments::ReadExperiment(in, "x.yaml");
    const experiments::TrialPlan plan = experiments::PlanTrials(read, /*set_up=*/false);
    experiments::WriteExperimentFile(experiment_.string(), read);
    trial_ = experiments::PrepareTrialFolder(experiment_.string(), plan.trials.at(0));
    experiments::WritePlanFile(experiment_.string(), read.name, plan,
                               experiments::ChooseTrialFolders(experiment_.string(), plan), /*hardware=*/false);
    experiments::RunTrialFolder(trial_.string());
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
      std::ifstream file(PathOf(i), std::ios::binary);
      if (file) whole_[i] = std::string((std::istreambuf_iterator<char>(file)), {});
    }
  }
  ~Runs() { fs::remove_all(root_); }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  // Reads everything with `text` in the place of the file.
  void Try(std::size_t file, const std::string& text) const {
    Write(file, text);
    // Files of unfinished trials are read in another way.
    const bool ended = file < kOfExperiment || (file >= kTrial && file <= kTrial + 2);
    if (!ended) fs::rename(trial_ / kFiles[kTrial], root_ / "kept");
    ReadAll();
    if (!ended) fs::rename(root_ / "kept", trial_ / kFiles[kTrial]);
    const auto kept = whole_.find(file);
    if (kept != whole_.end()) {
      Write(file, kept->second);
    } else {
      fs::remove(PathOf(file));
    }
  }
  const std::string& plan() const { return whole_.at(0); }

 private:
  fs::path PathOf(std::size_t file) const { return (file < kOfExperiment ? experiment_ : trial_) / kFiles[file]; }
  void Write(std::size_t file, const std::string& text) const { std::ofstream(PathOf(file), std::ios::binary) << text; }

  template <typename Function>
  static void Read(Function function) {
    try {
      function();
    } catch (const emplace::InputError& error) {
      emplace::fuzz::Expect(std::string_view(error.what()).find('\n') == std::string_view::npos,
                            "a message of several lines", error.what());
    }
  }
  void ReadAll() const {
    const std::string folder = trial_.string();
    Read([&] { experiments::ReadFinishedTrial(folder); });
    Read([&] { experiments::SummariseTrial(folder); });
    Read([&] { experiments::InspectTrial(folder); });
    Read([&] { experiments::ReadTrialError(folder); });
    Read([&] { experiments::CrashVerdict(experiments::ReadCrashes(folder)); });
    Read([&] { experiments::ReadRunState(experiment_.string()); });
    Read([&] { experiments::ReadRuns(root_.string()); });
    Read([&] {
      const experiments::PlanFile plan(experiment_.string());
      for (const auto& trial : plan.trials()) {
        experiments::DescribeSpec(emplace::ParseJson(std::string(trial.spec)));
      }
    });
  }

  fs::path root_;
  fs::path experiment_;
  fs::path trial_;
  std::map<std::size_t, std::string> whole_;
};

// The text with the checksum that belongs to it; none if it can have none.
std::optional<std::string> Resealed(std::size_t file, const std::string& text, const std::string& plan) {
  try {
    if (file == 0) {  // the trials behind a first line with their checksum
      const emplace::JsonValue first = emplace::ParseJson(plan.substr(0, plan.find('\n')));
      emplace::JsonObject header = emplace::JsonNode(first).Object();
      for (emplace::JsonMember& member : header) {
        if (member.key == "checksum") member.value = {emplace::FingerprintText(text)};
      }
      return emplace::JsonText({std::move(header)}) + "\n" + text;
    }
    const emplace::JsonValue root = emplace::ParseJson(text);
    emplace::JsonObject members = emplace::JsonNode(root).Object();
    std::erase_if(members, [](const emplace::JsonMember& m) { return m.key == experiments::kChecksumKey; });
    experiments::AddChecksum(&members);
    return emplace::JsonText({std::move(members)}) + "\n";
  } catch (const emplace::InputError&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Runs runs;
  if (size == 0) return 0;
  const std::size_t file = data[0] % kFiles.size();
  const std::string text = emplace::fuzz::Text(data + 1, size - 1);
  runs.Try(file, text);
  if (const auto sealed = Resealed(file, text, runs.plan())) runs.Try(file, *sealed);
  if (kFiles[file] == std::string_view("spec.json")) {
    try {
      experiments::ReadTrialChoice(emplace::ParseJson(text));
    } catch (const emplace::InputError& error) {
      emplace::fuzz::Expect(std::string_view(error.what()).find('\n') == std::string_view::npos,
                            "a message of several lines", error.what());
    }
  }
  return 0;
}
