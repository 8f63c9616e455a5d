"""What the tests of the Python package share."""

import os
import subprocess
import unittest

import numpy as np

import emplace

PROGRAM = os.environ["EMPLACE_PROGRAM"]

CLUSTER = """
schema: emplace.cluster
version: 1
name: pair
devices:
  - {name: "gpu:0", kind: a, memory_gib: 1}
  - {name: "gpu:1", kind: b}
link: {bandwidth_gb_per_s: 1, latency_us: 0}
"""


def small_cluster():
    return emplace.Cluster.from_yaml(CLUSTER, "pair.yaml")


def chain(ops=4, micros=10.0):
    """Ops one behind the other, which pass 1000 bytes on: 1 us on the link."""
    edges = np.stack([np.arange(ops - 1), np.arange(1, ops)])
    return emplace.Graph.from_arrays(edges, np.full(ops, 1000), np.full(ops, micros), name="chain")


def fork(width=6, micros=50.0):
    """An op whose result `width` ops read, and one that reads theirs."""
    middle = np.arange(1, width + 1)
    edges = np.concatenate([np.stack([np.zeros(width, int), middle]), np.stack([middle, np.full(width, width + 1)])], 1)
    return emplace.Graph.from_arrays(edges, np.full(width + 2, 1000), np.full(width + 2, micros), name="fork")


def random_graph(ops, seed=1):
    """A graph of `ops` ops, each of which reads the results of one to three earlier ones."""
    rng = np.random.default_rng(seed)
    sources, targets = [], []
    for op in range(1, ops):
        for source in set(rng.integers(max(0, op - 50), op, rng.integers(1, 4))):
            sources.append(source)
            targets.append(op)
    return emplace.Graph.from_arrays(np.array([sources, targets]), rng.integers(1, 10**6, ops),
                                     rng.uniform(1, 100, ops), name="random")


def run_program(*arguments, cwd=None, environment=None):
    """Exit status, standard output and standard error of the program."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, errors="backslashreplace",
                          cwd=cwd, check=False, env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


class Case(unittest.TestCase):
    def assert_refused(self, text, function, *arguments, **keywords):
        """The call raises an InputError with that text."""
        with self.assertRaises(emplace.InputError) as caught:
            function(*arguments, **keywords)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
