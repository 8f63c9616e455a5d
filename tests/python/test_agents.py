"""Agents in Python, in place, compare and sweep."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import emplace
from testing import CLUSTER, PROGRAM, Case, fork, run_program, small_cluster

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.environ["EMPLACE_ROOT"], "python", "examples")
ATTACKS = os.path.join(os.environ["EMPLACE_ROOT"], "tests", "cases", "attack")


class AgentCase(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        fork().save(f"{self.folder}/g.json")
        with open(f"{self.folder}/c.yaml", "w", encoding="utf-8") as file:
            file.write(CLUSTER)

    def run_in_folder(self, *arguments, **environment):
        path = os.pathsep.join([HERE, EXAMPLES, os.environ.get("PYTHONPATH", "")])
        return run_program(*arguments, cwd=self.folder,
                           environment={"PYTHONPATH": path, "EMPLACE_PYTHON": sys.executable, **environment})

    def place(self, agent, *more, output="p.json", **environment):
        return self.run_in_folder("place", "--graph", "g.json", "--cluster", "c.yaml", "--agent", agent, "-o", output,
                                  *more, **environment)

    def read(self, name):
        with open(f"{self.folder}/{name}", "rb") as file:
            return file.read()


class PlaceTest(AgentCase):
    def test_an_agent_that_finishes(self):
        status, out, err = self.place("sample_agents:Once")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("agent sample_agents:Once, seed 1: 8 groups, 1 evaluation, 1 of them fit", out)
        self.assertIn("one placement was enough", out)
        self.assertEqual(set(json.loads(self.read("p.json"))["devices"].values()), {"gpu:1"})

    def test_the_same_seed_gives_the_same_bytes(self):
        for output, seed in (("a.json", "7"), ("b.json", "7")):
            status, out, err = self.place("sample_agents:Walk", "--seed", seed, "--evaluations", "100", output=output)
            self.assertEqual(status, 0)
            self.assertIn("this goes to standard error", err)
            self.assertNotIn("this goes", out)
        self.assertEqual(self.read("a.json"), self.read("b.json"))

    def test_settings_have_types(self):
        status, out, _ = self.place("sample_agents:Once", "--set", "device=0")
        self.assertEqual(status, 0)
        self.assertEqual(set(json.loads(self.read("p.json"))["devices"].values()), {"gpu:0"})

    def test_a_failed_search_resumes_from_its_checkpoint(self):
        whole = ("--evaluations", "2000", "--checkpoint")
        self.assertEqual(self.place("sample_agents:Walk", *whole, "a.bin", output="a.json")[0], 0)
        status, _, err = self.place("sample_agents:Walk", *whole, "b.bin", output="b.json", FAIL_AT="80")
        self.assertEqual(status, 2)
        self.assertRegex(err, r"sample_agents\.py:\d+: RuntimeError: asked to fail\n")
        self.assertFalse(os.path.exists(f"{self.folder}/b.json"))
        self.assertTrue(os.path.exists(f"{self.folder}/b.bin"))
        status, _, err = self.place("sample_agents:Walk", *whole, "b.bin", output="b.json")
        self.assertEqual(status, 0)
        self.assertLess(err.count("standard error"), 80)  # the rest of 100 proposals
        self.assertEqual(self.read("a.json"), self.read("b.json"))

    def test_errors_are_one_line(self):
        def refused(agent, pattern, *more):
            status, out, err = self.place(agent, *more)
            self.assertEqual((status, out), (2, ""))
            self.assertRegex(err, pattern)
            self.assertEqual(err.count("\n"), 1)
            self.assertFalse(os.path.exists(f"{self.folder}/p.json"))
        refused("no_such_module:Agent", "no_such_module:Agent: ModuleNotFoundError: No module named 'no_such_module'")
        refused("sample_agents:Missing", "AttributeError: .*'Missing'")
        refused("sample_agents:NoObserve", "has no function observe")
        refused("sample_agents:Once", r"TypeError: .*unexpected keyword argument 'colour'", "--set", "colour=1")
        refused("sample_agents:Nothing", r"sample_agents:Nothing: propose: placements: has 0 placements")
        refused("sample_agents:TooShort", r"propose: placements\[0\]: has 1 devices \(one for each of 8 groups\)")
        refused("sample_agents:Once", r"propose: placements\[0\]\[0\]: is the number 5 \(an integer from 0 to 1\)", "--set", "device=5")
        refused("sample_agents:Flat", "TypeError: propose returned a list that is not a list of placements")
        refused("sample_agents:Exits", "its process ended with status 3")
        refused("sample_agents:Dies", "its process was ended by signal 9")
        refused("a b:C", r'--agent: agent "a b:C" is not a Python class')
        with open(f"{self.folder}/broken.py", "w", encoding="utf-8") as file:
            file.write("x = 1\nclass A(:\n")
        refused("broken:A", r"broken\.py:2: SyntaxError: invalid syntax")
        status, _, err = self.place("sample_agents:Once", EMPLACE_PYTHON="/no/python")
        self.assertEqual(status, 2)
        self.assertIn("/no/python cannot be started", err)

    def test_state_that_cannot_be_saved(self):
        status, _, err = self.place("sample_agents:NotSaved", "--evaluations", "40", "--checkpoint", "c.bin")
        self.assertEqual(status, 2)
        self.assertRegex(err, "sample_agents:NotSaved: .*pickle")

    def test_in_the_package(self):
        sys.path.insert(0, HERE)
        os.environ["PYTHONPATH"] = HERE + os.pathsep + os.environ["PYTHONPATH"]
        os.environ["EMPLACE_PYTHON"] = sys.executable
        import sample_agents
        simulator = emplace.Simulator(fork(), small_cluster())
        found = emplace.place(simulator, sample_agents.Once)
        self.assertEqual(found.placement.tolist(), [1] * 8)
        self.assertEqual(found.note, "one placement was enough")
        self.assert_refused("No module named 'nowhere'", emplace.place, simulator, "nowhere:Agent")
        results = emplace.compare(simulator, ["metis", sample_agents.Walk], evaluations=40)
        self.assertEqual([result.evaluations for result in results], [1, 40])


def processes_of(agent):
    """The processes that run the agent, by number."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                command = file.read().split(b"\0")
            with open(f"/proc/{number}/stat", "rb") as file:
                ended = b") Z " in file.read()
        except OSError:
            continue
        if b"-c" in command and agent.encode() in command and not ended:
            found.append(int(number))
    return found


class HostileTest(AgentCase):
    """What agents do that mean ill, or have a bug (tests/cases/attack/hostile_agents.py)."""

    def attack(self, name, *more, **environment):
        path = os.pathsep.join([ATTACKS, os.environ.get("PYTHONPATH", "")])
        started = time.monotonic()
        done = self.place(f"hostile_agents:{name}", "--evaluations", "20", *more, output=f"{name}.json",
                          PYTHONPATH=path, **environment)
        return (*done, time.monotonic() - started)

    def assert_one_line(self, name, pattern, *more):
        status, out, err, _ = self.attack(name, *more)
        self.assertEqual((status, out), (2, ""), f"{name}: {err}")
        self.assertRegex(err, pattern, name)
        self.assertEqual(err.count("\n"), 1, f"{name}: {err}")
        self.assertLess(len(err), 1000, name)
        self.assertTrue(err[:-1].isprintable(), name)
        self.assertFalse(os.path.exists(f"{self.folder}/{name}.json"), name)
        self.assertEqual(processes_of(f"hostile_agents:{name}"), [], name)

    def test_every_error_is_one_line(self):
        for name, pattern in (
                ("Exit", "ended with status 0"), ("Exit3", "SystemExit: 3"), ("Kill", "signal 9"), ("Segv", "signal 11"),
                ("CloseFds", "its process"), ("GarbageFds", "hostile_agents:GarbageFds: "), ("Empty", "0 placements"),
                ("NoneP", "TypeError"), ("Short", "has 1 device"), ("Neg", "is the number -1"),
                ("Big", "hostile_agents:Big: "), ("NaN", "ValueError|TypeError"), ("Str", "TypeError"),
                ("Exc", r"RuntimeError: multi line\\u001b\[31m\\u202e error x+\.\."), ("ExcObs", "ValueError"),
                ("BadInit", "has no function propose"), ("NoMethods", "has no function propose"), ("ExcStr", "BadStr: its text"),
                ("FinObj", "KeyboardInterrupt"), ("Rec", "RecursionError")):
            with self.subTest(name):
                self.assert_one_line(name, pattern)
        for name, pattern in (("State", "pickle"), ("StateExc", "MemoryError")):
            with self.subTest(name):
                self.assert_one_line(name, pattern, "--checkpoint", "c.bin")

    def test_what_ends_python_on_import_is_one_line(self):
        for name, text, pattern in (("exits", "import sys\nsys.exit(3)", r"exits\.py:2: SystemExit: 3"),
                                    ("stops", "raise KeyboardInterrupt", r"stops\.py:1: KeyboardInterrupt"),
                                    ("own", "class E(BaseException): pass\nraise E('x')", r"own\.py:2: E: x"),
                                    ("quits", "quit()", "SystemExit")):
            with open(f"{self.folder}/{name}.py", "w", encoding="utf-8") as file:
                file.write(text)
            status, out, err = self.place(f"{name}:A")
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), err)
            self.assertRegex(err, pattern)

    def test_what_goes_on(self):
        for name in ("Many", "Inf", "Mutate", "Thread", "Print", "ForkChild"):
            with self.subTest(name):
                status, _, err, _ = self.attack(name)
                self.assertEqual(status, 0, err)
                self.assertEqual(processes_of(f"hostile_agents:{name}"), [])

    def test_notes_are_a_short_line(self):
        status, out, _, _ = self.attack("Note")
        self.assertEqual(status, 0)
        note = next(line for line in out.split("\n") if "xxx" in line)
        self.assertTrue(note.isprintable())
        self.assertTrue(note.startswith("a\\nb\\u001b[2J\\u202exxx"), note)
        self.assertLess(len(note), 250)
        status, out, _, _ = self.attack("NoteObj")
        self.assertEqual(status, 0)
        self.assertIn("<object object at", out)

    def test_agents_that_hang_end_with_the_seconds(self):
        def run(name):
            status, _, err, seconds = self.attack(name, "--seconds", "1")
            self.results[name] = (status, err, seconds)
        self.results = {}
        threads = [threading.Thread(target=run, args=(name,)) for name in ("Hang", "StopSelf")]
        with open(f"{self.folder}/later.py", "w", encoding="utf-8") as file:
            file.write("import time\nclass A:\n def propose(self, p, rng):\n  if hasattr(self, 'seen'): time.sleep(1000)\n"
                       "  return [[0] * p.num_groups]\n def observe(self, p, placements, results): self.seen = True\n")
        threads.append(threading.Thread(target=lambda: self.results.update(
            later=self.place("later:A", "--evaluations", "20", "--seconds", "1"))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in ("Hang", "StopSelf"):
            status, err, seconds = self.results[name]
            self.assertEqual((status, err.count("\n")), (2, 1), err)
            self.assertRegex(err, f"hostile_agents:{name}: did not respond for 5 s after the end of the search")
            self.assertLess(seconds, 30)
            self.assertEqual(processes_of(f"hostile_agents:{name}"), [])
        status, out, err = self.results["later"]  # what it had found is kept
        self.assertEqual(status, 0, err)
        self.assertIn("later:A: did not respond for 5 s", out)
        self.assertTrue(os.path.exists(f"{self.folder}/p.json"))

    def test_agents_end_with_the_program(self):
        environment = {**os.environ, "PYTHONPATH": ATTACKS, "EMPLACE_PYTHON": sys.executable}
        for name, ending in (("Hang", signal.SIGKILL), ("StopSelf", signal.SIGTERM)):
            agent = f"hostile_agents:{name}"
            with subprocess.Popen([PROGRAM, "place", "--graph", "g.json", "--cluster", "c.yaml", "--agent", agent, "-o",
                                   "p.json"], cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as program:
                deadline = time.monotonic() + 20
                while not processes_of(agent) and time.monotonic() < deadline:
                    time.sleep(0.05)
                time.sleep(1)  # until it hangs
                self.assertEqual(len(processes_of(agent)), 1)
                program.send_signal(ending)
                program.wait()
            while processes_of(agent) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(processes_of(agent), [], name)


class CompareTest(AgentCase):
    def test_beside_others(self):
        status, out, _ = self.run_in_folder("compare", "--graph", "g.json", "--cluster", "c.yaml", "--evaluations", "60",
                                            "--agents", "sample_agents:Walk,annealing", "--json")
        self.assertEqual(status, 0)
        rows = json.loads(out)
        rows = rows["rows"] if isinstance(rows, dict) and "rows" in rows else rows
        self.assertIn("sample_agents:Walk", json.dumps(rows))


class SweepTest(AgentCase):
    EXPERIMENT = """# Does a walk in Python find what annealing finds?
schema: emplace.experiment
version: 1
name: walk
graphs: {files: [g.json]}
cluster: {file: c.yaml}
costs: measured
agent: {name: "sample_agents:Walk", set: {batch: 20}}
budget: {evaluations: 1200}
seeds: [1, 2]
"""

    def sweep(self, runs, **environment):
        return self.run_in_folder("sweep", "walk.yaml", "-o", runs, "--jobs", "1", **environment)

    def trials(self, runs):
        found = {}
        for folder, _, files in os.walk(f"{self.folder}/{runs}"):
            if "trial.json" in files:
                with open(f"{folder}/trial.json", "rb") as file:
                    found[os.path.basename(folder)] = file.read()
        return found

    def test_trials_and_their_resumption(self):
        with open(f"{self.folder}/walk.yaml", "w", encoding="utf-8") as file:
            file.write(self.EXPERIMENT)
        status, _, err = self.sweep("runs")
        self.assertEqual(status, 0, err)
        whole = self.trials("runs")
        self.assertEqual(len(whole), 2)
        self.assertNotEqual(self.sweep("other", FAIL_AT="50")[0], 0)
        self.assertEqual(self.trials("other"), {})
        status, _, err = self.sweep("other")
        self.assertEqual(status, 0, err)
        self.assertEqual(self.trials("other"), whole)


class PolicyTest(AgentCase):
    """Agents that learn on several graphs and are applied to others."""

    EXPERIMENT = """# Does what a class in Python learns on two graphs help on a third?
schema: emplace.experiment
version: 1
name: learner
graphs: {files: [g.json, h.json], together: true}
transfer: {files: [i.json]}
cluster: {file: c.yaml}
costs: measured
agent: {name: "sample_agents:AGENT"}
budget: {evaluations: 4}
seeds: [1]
"""

    def setUp(self):
        super().setUp()
        for name, ops in (("g", 3), ("h", 4), ("i", 5)):
            times = ", ".join(f'{{"name": "{name}{i}", "kind": "op", "time_us": {{"a": {10 + i}.0, "b": {5 + i}.0}}}}'
                              for i in range(ops))
            with open(f"{self.folder}/{name}.json", "w", encoding="utf-8") as file:
                file.write(f'{{"schema": "emplace.graph", "version": 1, "name": "{name}", "ops": [{times}]}}')

    def sweep(self, agent):
        with open(f"{self.folder}/learner.yaml", "w", encoding="utf-8") as file:
            file.write(self.EXPERIMENT.replace("AGENT", agent))
        return self.run_in_folder("sweep", "learner.yaml", "-o", "runs", "--jobs", "1")

    def trial(self, name):
        for folder, _, files in os.walk(f"{self.folder}/runs"):
            if name in files:
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    return json.load(file)
        raise AssertionError(name)

    def test_together_and_transfer(self):
        status, _, err = self.sweep("Learner")
        self.assertEqual(status, 0, err)
        trial = self.trial("trial.json")
        rows = {row["graph"]: row for row in trial["graphs"]}
        self.assertEqual([rows["g"]["evaluations"], rows["h"]["evaluations"]], [4, 4])
        applied = {row["graph"]: row for row in trial["transfer"]}
        self.assertEqual(applied["i"]["evaluations"], 1)
        self.assertEqual(applied["i"]["best_step_time_us"], 5 + 6 + 7 + 8 + 9)

    def test_an_agent_without_a_policy(self):
        status, _, err = self.sweep("Walk")
        self.assertEqual(status, 2)
        self.assertRegex(err, "agent sample_agents:Walk has no policy to transfer|takes one graph at a time")

    def test_a_saved_policy_is_applied(self):
        status, out, err = self.place("sample_agents:Learner", "--evaluations", "4", "--policy-out", "policy.bin")
        self.assertEqual(status, 0, err)
        self.assertIn("graphs [0], device 1", out)
        status, out, err = self.run_in_folder("place", "--graph", "i.json", "--cluster", "c.yaml", "--agent",
                                              "sample_agents:Learner", "--policy", "policy.bin", "-o", "q.json")
        self.assertEqual(status, 0, err)
        self.assertIn("1 evaluation", out)
        self.assertEqual(set(json.loads(self.read("q.json"))["devices"].values()), {"gpu:1"})
        status, _, err = self.place("sample_agents:Once", "--policy", "policy.bin")
        self.assertEqual(status, 2)
        self.assertIn("agent sample_agents:Once has no policy", err)

    def test_cpu_time_counts(self):
        with open(f"{self.folder}/busy.py", "w", encoding="utf-8") as file:
            file.write("import sample_agents, time\nclass Busy(sample_agents.Learner):\n def propose(self, problem, rng):\n"
                       "  end = time.process_time() + 0.2\n  while time.process_time() < end: pass\n"
                       "  return super().propose(problem, rng)\n")
        with open(f"{self.folder}/learner.yaml", "w", encoding="utf-8") as file:
            file.write(self.EXPERIMENT.replace("sample_agents:AGENT", "busy:Busy"))
        status, _, err = self.run_in_folder("sweep", "learner.yaml", "-o", "runs", "--jobs", "1")
        self.assertEqual(status, 0, err)
        self.assertGreater(self.trial("timing.json")["policy_seconds"], 9 * 0.2)  # 4 + 4 proposals, and one on `i`


class LearningTest(AgentCase):
    def learn(self, agent, *more):
        status, out, err = self.place(agent, "--evaluations", "2000", "--grouping", "identity", *more)
        self.assertEqual(status, 0, err)
        first, last = (float(text) for text in
                       re.search(r"mean step time ([\d.]+) us in the first batch, ([\d.]+) us in the last", out).groups())
        simulator = emplace.Simulator(fork(), small_cluster())
        best = simulator.evaluate(simulator.load_placement(f"{self.folder}/p.json"))[0][0] / 1000
        # The best are 3 + 3 of the 6 ops in the middle: 2 + 3 ops of 50 us, and transfers.
        self.assertLess(best, 260)
        self.assertLess(last, 0.92 * first)

    def test_reinforce_in_numpy(self):
        self.learn("reinforce_numpy:Reinforce")

    def test_reinforce_in_pytorch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("PyTorch is not installed")
        self.learn("reinforce_torch:Reinforce", "--checkpoint", "c.bin")
        first = self.read("p.json")
        status, _, err = self.place("reinforce_torch:Reinforce", "--evaluations", "2000", "--grouping", "identity",
                                    "--checkpoint", "c.bin")
        self.assertEqual(status, 0, err)  # restores the state of the end
        self.assertEqual(self.read("p.json"), first)
