# environment: pyg
"""The example of an agent whose policy is a graph network of PyTorch Geometric."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import emplace

EXAMPLES = os.path.join(os.environ["EMPLACE_ROOT"], "python", "examples")


class ReinforceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["PYTHONPATH"] = os.pathsep.join([EXAMPLES, os.environ["PYTHONPATH"]])
        os.environ["EMPLACE_PYTHON"] = sys.executable

    def test_both_networks_learn(self):
        simulator = emplace.Simulator(emplace.generate("rnnlm", layers=1, steps=4), emplace.Cluster("p2.8xlarge", gpus=2),
                                      "roofline")
        for network in ("sage", "gatv2"):
            with self.subTest(network):
                found = emplace.place(simulator, "reinforce_pyg:Reinforce", settings={"network": network}, evaluations=1500,
                                      grouping="merge_and_colocate", groups=32, seed=1)
                first, last = map(float, re.findall(r"([\d.]+) us", found.note))
                self.assertLess(last, 0.5 * first)
                self.assertLess(found.step_ns / 1000, found.single_device_us)
                self.assertTrue(found.policy)

    def test_a_policy_of_two_graphs_is_applied_to_a_third(self):
        experiment = """
schema: emplace.experiment
version: 1
name: learner
graphs: {models: [{model: rnnlm, set: {layers: 1, steps: 2}}, {model: rnnlm, set: {layers: 1, steps: 4}}], together: true,
         grouping: {name: merge_and_colocate, groups: 16}}
transfer: {models: [{model: rnnlm, set: {layers: 1, steps: 3}}]}
cluster: {name: p2.8xlarge, gpus: 2}
costs: roofline
agent: {name: "reinforce_pyg:Reinforce"}
budget: {evaluations: 400}
seeds: [1]
"""
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/learner.yaml", "w", encoding="utf-8") as file:
                file.write(experiment)
            done = subprocess.run([os.environ["EMPLACE_PROGRAM"], "sweep", "learner.yaml", "-o", "runs", "--jobs", "1"],
                                  cwd=folder, check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            header, rows = emplace.improvement_table(f"{folder}/runs/learner")
            self.assertEqual(rows[0][0], "reinforce_pyg:Reinforce", header)
