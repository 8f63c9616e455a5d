"""Predictions of `emplace plan`."""
import concurrent.futures
import json
import re
import subprocess


def command_of(network, cluster, framework, batch, sequence, only, changes=None, nodes=1, gpus=None):
    """The arguments of `emplace plan`, which name a prediction."""
    arguments = ["plan", network, "--cluster", cluster, "--nodes", str(nodes), "--framework", framework, "--global-batch",
                 str(batch), "--sequence", str(sequence), "--all", "--json", "--threads", "1"]
    if gpus:
        arguments += ["--gpus", str(gpus)]
    if framework.startswith("megatron"):
        only = {"stages": "even", "rank_order": "tp-cp-dp-pp", **only}  # as it runs without further arguments
    if only:
        arguments += ["--only", ",".join(f"{key}={value}" for key, value in only.items())]
    for key, value in (changes or {}).items():
        arguments += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return tuple(arguments)


class Program:
    """Runs `emplace plan`, each command once."""

    def __init__(self, path):
        self.path = path
        self.answers = {}

    def run(self, arguments):
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, check=False)
        if done.stdout.strip():
            return json.loads(done.stdout)["plans"]
        refused = re.search(r"no plan is legal on \d+ accelerators: (.*)", done.stderr)
        if not refused:
            raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
        return refused[1]

    def ask(self, commands):
        new = sorted(set(commands) - set(self.answers))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            self.answers.update(zip(new, pool.map(self.run, new)))

    def plans(self, command):
        answer = self.answers[command]
        return [] if isinstance(answer, str) else answer

    def refusal(self, command):
        """Why there is no plan, or None if there is one."""
        answer = self.answers[command]
        return answer if isinstance(answer, str) else None


def add_error(row, micros, scale=1.0):
    row["predicted"] = micros / 1e6 * scale
    row["error"] = row["predicted"] / row["measured"] - 1


def add_errors_of_single_plans(program, rows):
    """Adds the prediction to rows whose command leaves one plan."""
    program.ask(row["command"] for row in rows)
    for row in rows:
        plans = program.plans(row["command"])
        if len(plans) != 1:
            raise SystemExit(f"{' '.join(row['command'])}: {len(plans)} plans (one)")
        add_error(row, plans[0]["step_time_us"], row.get("scale", 1.0))
        row["peak"] = plans[0]["peak_bytes"]
        row["parts"] = plans[0]["time_us"]
