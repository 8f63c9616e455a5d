"""Tests of experiments/pages/shared/hardware.py: files of emplace validate and of tools/pack_trials."""
import gzip
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from scratch_folder import ScratchFolderTest  # noqa: E402
from shared.archive import BadInput  # noqa: E402
from shared.hardware import read_trials, read_validation  # noqa: E402


class ReadValidationTest(ScratchFolderTest):
    def write(self, content):
        (self.folder / "nmt.validation.json.gz").write_bytes(content)

    def refuses(self, reason):
        with self.assertRaisesRegex(BadInput, "nmt.validation.json.gz: is no emplace.validation .*" + reason):
            read_validation(self.folder, "nmt")

    def test_a_file_is_read(self):
        record = {"schema": "emplace.validation", "cases": []}
        self.write(gzip.compress(json.dumps(record).encode()))
        self.assertEqual(read_validation(self.folder, "nmt"), record)

    def test_what_validate_did_not_write_is_refused(self):
        self.refuses("FileNotFoundError")
        self.write(b"no gzip")
        self.refuses("BadGzipFile")
        good = gzip.compress(json.dumps({"schema": "emplace.validation"}).encode())
        self.write(good[: len(good) // 2])
        self.refuses("EOFError")
        self.write(gzip.compress(b"[]"))
        self.refuses("TypeError")
        self.write(gzip.compress(b'{"schema": "emplace.result"}'))
        self.refuses("schema is emplace.result")


class PackedTrialsTest(ScratchFolderTest):
    def pack(self, *arguments):
        tool = Path(os.environ["EMPLACE_ROOT"], "tools", "pack_trials")
        return subprocess.run(
            [sys.executable, tool, *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )

    def write_trial(self, name, seed):
        trial = self.folder / "runs" / name
        trial.mkdir(parents=True)
        spec = {
            "agent": {"name": "random_walk"},
            "seed": seed,
            "graph": {"file": "/home/me/graph.json"},
            "costs": "profile: /home/me/profile.json",
            "cluster": {"devices": ["cpu:0"]},
        }
        record = {"spec": spec, "graphs": [{"best_step_time_us": 2000}], "checksum": "1"}
        (trial / "spec.json").write_text("{}")
        (trial / "trial.json").write_text(json.dumps(record))
        (trial / "timing.json").write_text(json.dumps({"wall_seconds": 3, "checksum": "2"}))

    def test_trials_come_back_without_folders(self):
        for name, seed in (("b", 2), ("in_between/a", 1)):
            self.write_trial(name, seed)
        (self.folder / "runs" / "unfinished").mkdir()
        (self.folder / "runs" / "unfinished" / "spec.json").write_text("{}")
        done = self.pack("runs", "packed.trials.json.gz")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "packed.trials.json.gz: 2 trials; 1 are not finished\n")
        runs = read_trials(self.folder, "packed")
        self.assertEqual([trial.seed for trial in runs.trials], [1, 2])
        first = runs.trials[0]
        self.assertEqual((first.best, first.timing), (2, {"wall_seconds": 3}))
        self.assertEqual((first.get("graph.file"), first.get("costs")), ("graph.json", "profile: profile.json"))

    def test_the_same_trials_give_the_same_bytes(self):
        self.write_trial("a", 1)
        names = ["one.trials.json.gz", "two.trials.json.gz"]
        one, two = ((self.pack("runs", name), (self.folder / name).read_bytes())[1] for name in names)
        self.assertEqual(one, two)

    def test_what_holds_no_trial_is_refused(self):
        (self.folder / "empty").mkdir()
        for arguments, reason in (
            ((), "expected RUNS/NAME OUT"),
            (("none", "out.trials.json.gz"), "none: No such file"),
            (("empty", "out.trials.json.gz"), "empty: no trial is finished"),
            (("empty", "out.json"), "out.json: its name does not end in .trials.json.gz"),
        ):
            done = self.pack(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(reason, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["empty"])

    def test_a_file_that_emplace_did_not_write_is_refused(self):
        self.write_trial("a", 1)
        for content in ("[]", "{}", "no JSON"):
            (self.folder / "runs" / "a" / "timing.json").write_text(content)
            done = self.pack("runs", "out.trials.json.gz")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertFalse((self.folder / "out.trials.json.gz").exists())
        path = self.folder / "bad.trials.json.gz"
        path.write_bytes(gzip.compress(b'{"schema": "emplace.packed_trials", "trials": [{}]}'))
        with self.assertRaisesRegex(BadInput, "bad.trials.json.gz: holds what is no trial"):
            read_trials(self.folder, "bad")
        path.write_bytes(gzip.compress(b'{"schema": "emplace.packed_trials", "trials": []}'))
        with self.assertRaisesRegex(BadInput, "bad.trials.json.gz: holds no trial"):
            read_trials(self.folder, "bad")


if __name__ == "__main__":
    unittest.main()
