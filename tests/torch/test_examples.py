# environment: torch
"""The examples of docs/pytorch.md run, and their plans are read by the program."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["EMPLACE_ROOT"]


class ExamplesTest(unittest.TestCase):
    def test_a_model_becomes_a_plan_that_runs_and_that_export_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.json")
            ran = subprocess.run([sys.executable, f"{ROOT}/python/examples/place_pytorch_model.py", plan], check=True,
                                 capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
            self.assertEqual(ran.stdout.count("stage:"), 2)
            losses = [float(each) for each in re.search("losses: (.*)", ran.stdout)[1].split()]
            self.assertEqual(len(losses), 4)
            self.assertLess(losses[-1], losses[0])
            with open(plan, encoding="utf-8") as file:
                layers = [sum(path.startswith("layers.") for path in stage) for stage in json.load(file)["stages"]]
            self.assertEqual(sum(layers), 8)
            out = subprocess.run([os.environ["EMPLACE_PROGRAM"], "export", "--plan", plan, "--to", "vllm", "-o", "-"],
                                 check=True, capture_output=True, text=True).stdout
            self.assertIn(f"VLLM_PP_LAYER_PARTITION={layers[0]},{layers[1]}\n", out)


if __name__ == "__main__":
    unittest.main()
