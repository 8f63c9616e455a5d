"""Tests of experiments/pages/shared/packed.py and of tools/archive_runs, which writes and unpacks archives."""
import copy
import json
import lzma
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from scratch_folder import ScratchFolderTest  # noqa: E402
from shared.archive import BadInput, Trial, read_trials  # noqa: E402
from shared.packed import compact, fingerprint, read_packed, unpack, write_packed  # noqa: E402


# The spec of a trial whose folder emplace sweep named 001d1955f05762fe.
SPEC = json.loads(
    '{"schema":"emplace.trial_spec","version":1,"experiment":"placeto","graph":{"model":"inception_v3","set":{"batch":64'
    '}},"grouping":{"name":"merge_and_colocate","groups":64},"cluster":{"name":"p2.8xlarge","devices":["cpu:0","gpu:0",'
    '"gpu:1","gpu:2","gpu:3"]},"engine":"placeto-reference","costs":"roofline","agent":{"label":"single device","name":'
    '"single_device","set":{}},"budget":{"episodes":2000},"reward":"memory_penalty","incumbent":"single_device","draws":'
    '"per_graph","seed":1}'
)


def episode(number, **values):
    return {"episode": number, "evaluations": 4 * number + 5, "argmax": False, "mean_step_time_us": None, **values}


def trial(seed, **graph):
    spec = {"agent": {"name": "post"}, "seed": seed, "cluster": {"devices": ["cpu:0"]}, "rate": 0.0003}
    record = {"schema": "emplace.trial", "spec": spec, "graphs": [{"best_step_time_us": 2000, **graph}]}
    record["trial"] = fingerprint(spec)
    return {**record, "checksum": fingerprint(record)}


def timing(**values):
    content = {"schema": "emplace.timing", "wall_seconds": 3.5, **values}
    return {**content, "checksum": fingerprint(content)}


class FingerprintTest(unittest.TestCase):
    def test_numbers_are_as_short_as_emplace_writes_them(self):
        for value, text in (
            (0.0003, "3e-04"), (0.00025, "0.00025"), (1e-7, "1e-07"), (12.5, "12.5"), (1e22, "1e+22"), (-0.5, "-0.5"),
            (123456.0, "123456"), (1.5e-300, "1.5e-300"), (7, "7"),
        ):  # fmt: skip
            self.assertEqual(compact(value), text)

    def test_other_values_are_json_without_blanks(self):
        self.assertEqual(compact({"a": [True, None, "é\"", {}], "b": 1}), '{"a":[true,null,"é\\"",{}],"b":1}')

    def test_it_is_that_of_emplace(self):
        self.assertEqual((fingerprint(SPEC), fingerprint({})), ("001d1955f05762fe", "c735a31983dc6cdf"))


class PackedTest(ScratchFolderTest):
    def test_what_was_packed_comes_back(self):
        episodes = [
            episode(0, mean_step_time_us=7.5, gradient_norm=1e-7),
            episode(1),
            {**episode(2), "argmax": True, "tied": 3, "left_out": {"episodes": 2, "entropy": 0.5}},
        ]
        checks = [{"evaluation": 1, "simulated_us": 2, "measured_us": None}]
        trials = [(trial(1, episodes=episodes), timing(hardware={"checks": checks}, episodes=3)), (trial(2), timing())]
        path = self.folder / "a.trials.json.xz"
        write_packed(path, {"name": "a"}, copy.deepcopy(trials))
        experiment, found = read_packed(path)
        self.assertEqual(experiment, {"name": "a"})
        expected = sorted(trials, key=lambda one: one[0]["trial"])
        for (record, times), (record_again, times_again) in zip(expected, found, strict=True):
            self.assertEqual({**record_again, "checksum": record["checksum"]}, record)
            self.assertEqual({**times_again, "checksum": times["checksum"]}, times)

    def test_figures_that_follow_from_the_rest_are_not_stored(self):
        path = self.folder / "a.trials.json.xz"
        for start, best, improvement in ((3, 2, (3 - 2) / 3 * 100), (3, None, None), (3, 2, 33.3)):
            one = trial(1, start_step_time_us=start, best_step_time_us=best, improvement_percent=improvement)
            times = timing(policy_seconds=1.5, policy_seconds_per_episode=0.5, episodes=3)
            write_packed(path, {}, [({**one, "best_placement_fingerprint": "ab"}, times)])
            [(found, found_times)] = read_packed(path)[1]
            self.assertEqual({**found, "checksum": one["checksum"]}, one)
            self.assertEqual({**found_times, "checksum": times["checksum"]}, times)
            stored = json.loads(lzma.decompress(path.read_bytes()))["trials"][0]
            self.assertEqual(stored["trial"]["graphs"][0]["improvement_percent"], improvement if improvement == 33.3 else "")
            self.assertEqual(stored["timing"]["policy_seconds_per_episode"], "")

    def test_unpacked_files_have_their_names_and_checksums(self):
        write_packed(self.folder / "a.trials.json.xz", {"name": "a"}, [(trial(1, episodes=[episode(0)]), timing())])
        folder = unpack(self.folder / "a.trials.json.xz", self.folder / "runs") / trial(1)["trial"]
        files = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
        self.assertEqual(files["spec.json"], trial(1)["spec"])
        self.assertEqual(files["timing.json"], timing())
        self.assertEqual({**files["trial.json"], "checksum": ""}, {**trial(1, episodes=[episode(0)]), "checksum": ""})
        content = files["trial.json"]
        self.assertEqual(content.pop("checksum"), fingerprint(content))

    def test_the_order_of_trials_does_not_change_the_bytes(self):
        trials = [(trial(seed), timing()) for seed in (1, 2, 3)]
        for name, order in (("one", trials), ("two", trials[::-1])):
            write_packed(self.folder / name, {}, order)
        self.assertEqual((self.folder / "one").read_bytes(), (self.folder / "two").read_bytes())

    def test_what_is_no_archive_is_refused(self):
        path = self.folder / "a.trials.json.xz"
        for content, reason in (
            (b"no xz", "LZMAError"),
            (lzma.compress(b"{}"), "KeyError"),
            (lzma.compress(b"[]"), "TypeError"),
            (lzma.compress(b'{"schema": "emplace.packed_trials", "version": 2}'), "is not emplace.packed_trials of"),
            (lzma.compress(b'{"schema": "emplace.packed_trials", "version": 3, "trials": [{}]}'), "KeyError"),
        ):
            path.write_bytes(content)
            with self.assertRaisesRegex(BadInput, "a.trials.json.xz: is not an archive of runs .*" + reason):
                read_trials(path)
        write_packed(path, {}, [])
        with self.assertRaisesRegex(BadInput, "a.trials.json.xz: holds no trial"):
            read_trials(path)


class EpisodesTest(unittest.TestCase):
    def test_episodes_that_were_left_out_have_their_mean(self):
        last = {**episode(4), "argmax": True, "left_out": {"episodes": 3, "entropy": 0.5, "mean_step_time_us": 8000}}
        found = Trial(trial(1, episodes=[episode(0, mean_step_time_us=4000, entropy=1), last]), timing())
        self.assertEqual([each["evaluations"] for each in found.episodes], [5, 9, 13, 17])
        self.assertEqual([each["entropy"] for each in found.episodes], [1, 0.5, 0.5, 0.5])
        self.assertEqual((found.drawn(0), found.drawn(-1)), (4, 8))
        self.assertEqual([each["step_time_us"] for each in found.episodes[1:]], [None] * 3)


class ArchiveRunsTest(ScratchFolderTest):
    def run_tool(self, *arguments):
        tool = Path(os.environ["EMPLACE_ROOT"], "tools", "archive_runs")
        return subprocess.run(
            [sys.executable, tool, "--archives", ".", *arguments],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def write_runs(self, name, trials):
        folder = self.folder / "runs" / name
        folder.mkdir(parents=True)
        for place, record, times in trials:
            (folder / place).mkdir(parents=True)
            (folder / place / "spec.json").write_text(compact(record["spec"]) + "\n")
            (folder / place / "timing.json").write_text(compact(times) + "\n")
            (folder / place / "trial.json").write_text(compact(record) + "\n")
        (folder / "experiment.json").write_text('{"schema":"emplace.experiment"}\n')
        return folder

    def test_runs_come_back(self):
        one, two = trial(1, trace=[[1, 2.5]]), trial(2)
        folder = self.write_runs("e", [(one["trial"], one, timing()), ("in_between/" + two["trial"], two, timing())])
        (folder / "unfinished").mkdir()
        (folder / "unfinished" / "spec.json").write_text("{}")
        done = self.run_tool("runs/e")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "e.trials.json.xz: 2 trials; 1 are not finished\n")
        done = self.run_tool("--unpack", "again", "e")
        self.assertEqual((done.returncode, done.stdout), (0, "again/e\n"))
        for name in ("spec.json", "timing.json", "trial.json"):
            again = self.folder / "again" / "e" / one["trial"] / name
            self.assertEqual(again.read_text(), (folder / one["trial"] / name).read_text())

    def test_of_a_large_archive_what_no_page_reads_is_left_out(self):
        values = {"entropy": 1, "best_step_time_us": 3}
        gap = {"episodes": 2, "entropy": 1, "mean_step_time_us": 7}
        episodes = [episode(0, **values), episode(1, **values, left_out=gap), episode(4, **values, left_out=gap)]
        record = trial(1, episodes=episodes, trace=[[1, 2.5]])
        self.write_runs("post", [(record["trial"], record, timing())])
        self.assertEqual(self.run_tool("runs/post").returncode, 0)
        graph = read_trials(self.folder / "post.trials.json.xz")[0].graph
        self.assertNotIn("trace", graph)
        read = {"episodes": 2, "mean_step_time_us": 7}
        self.assertEqual(graph["episodes"], [episode(0), episode(1, left_out=read), episodes[2]])

    def test_of_traces_that_pages_read_at_ends_of_episodes_the_rest_is_left_out(self):
        trace = [[1, 90], [2, 80], [3, 70], [7, 60], [8, 50], [9, 40], [14, 30], [15, 20]]
        record = trial(1, trace=trace, num_groups=3)
        record["spec"] |= {"budget": {"episodes": 3}, "agent": {"name": "annealing"}}
        record["spec"]["cluster"]["devices"] = ["gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:4"]
        self.write_runs("thesis_full", [(record["trial"], record, timing())])
        self.assertEqual(self.run_tool("runs/thesis_full").returncode, 0)
        kept = read_trials(self.folder / "thesis_full.trials.json.xz")[0]
        self.assertEqual(kept.graph["trace"], [[1, 90], [3, 70], [7, 60], [9, 40], [15, 20]])
        for end in (1, 4, 7, 10):
            self.assertEqual(kept.best_after(end), [best for count, best in trace if count <= end][-1] / 1000)

    def test_paths_become_names(self):
        record = trial(1)
        record["spec"] |= {"graph": {"file": "/home/me/graph.json"}, "costs": "profile: /home/me/profile.json"}
        self.write_runs("e", [("a", record, timing())])
        self.assertEqual(self.run_tool("runs/e").returncode, 0)
        found = read_trials(self.folder / "e.trials.json.xz")[0]
        self.assertEqual((found.get("graph.file"), found.get("costs")), ("graph.json", "profile: profile.json"))

    def test_bad_input_is_one_line(self):
        self.write_runs("empty", [])
        damaged = self.write_runs("damaged", [("a", trial(1), timing())])
        (damaged / "a" / "timing.json").write_text("[]")
        for arguments, reason in (
            (("none",), "none/experiment.json: there is no such file (a folder that emplace sweep wrote is expected)"),
            (("runs/empty",), "runs/empty: no trial is finished"),
            (("runs/damaged",), "runs/damaged/a/timing.json: is nothing that emplace wrote"),
            (("--unpack", "again", "none"), "none.trials.json.xz: "),
        ):
            done = self.run_tool(*arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(reason, done.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["runs"])


if __name__ == "__main__":
    unittest.main()
