#include "tools/cli/examples.h"

#include <array>

namespace emplace::tools {
namespace {

struct Examples {
  std::string_view command;
  std::array<std::string_view, 3> lines;  // without "emplace "
};

constexpr Examples kExamples[] = {
    {"generate",
     {"generate gpt -o gpt.json", "generate nmt --set layers=2 -o nmt.json",
      "generate rnnlm --set hidden=64 --set steps=4 -o rnnlm.json.gz"}},
    {"import",
     {"import trace.json -o graph.json --cluster-out cluster.yaml",
      "import model.onnx --input x=8x3x224x224 -o graph.json",
      "import topology.xml --nvlink h100 --nodes 2 -o cluster.yaml"}},
    {"transform",
     {"transform gpt.json --recompute full -o recomputed.json",
      "transform gpt.json --tensor-parallel 2 -o gpt-tp2.json",
      "transform gpt.json --data-parallel 4 --shard-optimizer -o gpt-dp4.json"}},
    {"dataset", {"dataset ptb -o ptb", "dataset nmt --seed 7 -o nmt-family", "dataset cifar10 --seed 7 -o cifar10"}},
    {"inspect", {"inspect nmt.json", "inspect nmt.json --cluster p2.8xlarge", "inspect rnnlm.json.gz --dot rnnlm.dot"}},
    {"place",
     {"place nmt.json --cluster p2.8xlarge -o placement.json",
      "place nmt.json --cluster p2.8xlarge --gpus 2 --agent annealing --evaluations 500 --seed 3 -o two.json",
      "place gpt.json --cluster dgx-h100 --schedule 1f1b --micro-batches 8 --seconds 10 -o stages.json"}},
    {"simulate",
     {"simulate nmt.json --cluster p2.8xlarge --placement placement.json",
      "simulate nmt.json --cluster p2.8xlarge --placement placement.json --timeline step.svg",
      "simulate gpt.json --cluster dgx-h100 --placement stages.json --schedule 1f1b --micro-batches 8 --json"}},
    {"memory",
     {"memory llama-3-8b --plan dp=2,tp=4,zero=1 --cluster dgx-h100",
      "memory mixtral-8x7b --plan dp=8,ep=8,zero=1,recompute=full --sequence 8192 --json",
      "memory nmt.json --cluster p2.8xlarge --placement placement.json"}},
    {"plan",
     {"plan llama-3-8b --cluster dgx-h100 --nodes 8 --global-batch 256 --sequence 4096",
      "plan llama-3-70b --cluster dgx-h100 --nodes 8 --global-batch 128 --only tp=8,zero=1 --explain 2",
      "plan mixtral-8x7b --cluster dgx-h100 --nodes 2 --global-batch 64 --to megatron -o flags.txt"}},
    {"bound",
     {"bound nmt.json --cluster p2.8xlarge --seconds 5",
      "bound nmt.json --cluster p2.8xlarge --gpus 2 --placement two.json --seconds 5",
      "bound rnnlm.json.gz --cluster post-8k80 --gpus 2 --seconds 5 --json"}},
    {"explain",
     {"explain nmt.json --cluster p2.8xlarge --placement placement.json",
      "explain nmt.json --cluster p2.8xlarge --placement placement.json --moves 100 --json",
      "explain nmt.json --cluster p2.8xlarge --placement placement.json --output explained.html"}},
    {"diff",
     {"diff nmt.json two.json placement.json --cluster p2.8xlarge",
      "diff nmt.json two.json placement.json --cluster p2.8xlarge --by layers",
      "diff --graph nmt.json --cluster p2.8xlarge two.json placement.json --json"}},
    {"what-if",
     {"what-if nmt.json --cluster p2.8xlarge --placement placement.json --bandwidth 2",
      "what-if nmt.json --cluster p2.8xlarge --placement placement.json --kind k80=v100 --search --evaluations 100",
      "what-if nmt.json --cluster p2.8xlarge --placement placement.json --memory 0.5 --latency 0.5 --json"}},
    {"compare",
     {"compare nmt.json --cluster p2.8xlarge --agents single_device,heft,local_search --evaluations 300",
      "compare nmt.json --cluster p2.8xlarge --gpus 1,2,4 --agents heft,m_etf --output speed-up.csv",
      "compare gpt.json --cluster dgx-h100 --objective throughput --agents dp_contiguous,pipedream"}},
    {"export",
     {"export nmt.json --cluster p2.8xlarge --placement placement.json --to chakra --out step",
      "export nmt.json --cluster p2.8xlarge --gpus 2 --placement two.json --to chakra --out two",
      "export gpt.json --cluster dgx-h100 --placement stages.json --to chakra --out gpt"}},
    {"profile",
     {"profile --graph rnnlm.json.gz --devices cpu:0 -o profile.json",
      "profile --graph nmt.json --devices cuda:0,cuda:1 -o gpus.json",
      "profile --torchscript model.pt --input 32x3x224x224 --backward --graph-out model.json -o profile.json"}},
    {"calibrate",
     {"calibrate kernels.csv --kind rtx-4090 -o mine.yaml", "calibrate trace.json -o h100.yaml",
      "calibrate profile.json --graph rnnlm.json.gz --kind cpu-core -o cpu.yaml"}},
    {"measure",
     {"measure --bandwidth -o machine.yaml", "measure --bandwidth --disk . -o machine.yaml --json",
      "measure --bandwidth --threads 8 --cache-mib 32 --host attic -o attic.yaml"}},
    {"validate",
     {"validate --graph rnnlm.json.gz --profile profile.json --random 5",
      "validate --graph rnnlm.json.gz --profile profile.json --devices cpu:0,cpu:1 --agent annealing --samples 10",
      "validate --graph nmt.json --profile gpus.json --devices cuda:0,cuda:1 --placement placement.json --max-error "
      "10"}},
    {"sweep",
     {"sweep experiment.yaml --dry-run", "sweep experiment.yaml -o runs --jobs 2",
      "sweep experiment.yaml -o later --plan"}},
    {"worker", {"worker later", "worker later --jobs 2", "worker /shared/runs --jobs 8 --lease 600"}},
    {"submit",
     {"submit experiment.yaml -o later --print", "submit experiment.yaml --workers 4 --jobs 8 -o /shared/runs --print",
      "submit experiment.yaml --slurm --workers 16 --partition=cpu --time=4:00:00 -o /shared/runs"}},
    {"status", {"status runs", "status runs --json", "status later"}},
    {"dashboard", {"dashboard runs", "dashboard runs --port 8080", "dashboard /shared/runs/thesis"}},
    {"report",
     {"report runs", "report runs -o results.html", "report runs --where agent.name=annealing -o annealing.html"}},
    {"reproduce", {"reproduce models", "reproduce thesis --list", "reproduce thesis -o thesis.md"}},
    {"replay",
     {"replay trace.json", "replay rank0.json rank1.json --max-error 5 --json", "replay trace.json --costs curves"}},
    {"library",
     {"library list", "library show chain-8-equal-2 --graph-out g.json --cluster-out c.yaml",
      "library score local_search --tier tiny --budgets 10,100 -o scores"}},
    {"library list", {"library list", "library list --tier large --json", "library list --tier plans --data tables"}},
    {"library show",
     {"library show chain-8-equal-2", "library show chain-8-equal-2 --graph-out g.json --cluster-out c.yaml",
      "library show nanotron-8b-64 --data tables"}},
    {"library check",
     {"library check placement.json", "library check placement.json --instance chain-8-equal-2",
      "library check placement.json --instance chain-8-equal-2 --json"}},
    {"library score",
     {"library score annealing --set final_ratio=0.01 --tier tiny --budgets 10,100 -o scores",
      "library score my_agents:Climber --tier tiny --label mine -o scores",
      "library score --tier plans my_planners:narrow emplace random --data tables"}},
    {"list", {"list agents", "list models", "list clusters --json"}},
    {"config", {"config", "config --json", "config | head -1"}},
    {"completion", {"completion bash >> ~/.bashrc", "completion zsh >> ~/.zshrc", "completion fish | source"}},
};

}  // namespace

std::string ExamplesOf(std::string_view command) {
  std::string text;
  for (const Examples& examples : kExamples) {
    if (examples.command != command) continue;
    text = "Examples:\n";
    for (const std::string_view line : examples.lines) text += "  emplace " + std::string(line) + "\n";
  }
  return text;
}

}  // namespace emplace::tools
