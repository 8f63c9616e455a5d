# environment: jax
"""Programs of JAX become graphs with the FLOP and the parameters that XLA counts."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jax
import jax.numpy as jnp
from jax import lax

EMPLACE = os.environ["EMPLACE_PROGRAM"]
sys.path.insert(0, str(pathlib.Path(os.environ["EMPLACE_ROOT"]) / "tests" / "testing"))

import make_hlo  # noqa: E402

FORMS = ("mlir", "lowered.hlo", "hlo", "pb")


def imported(content):
    """The graph of a program, and what the import printed."""
    with tempfile.TemporaryDirectory() as folder:
        source, graph = os.path.join(folder, "program"), os.path.join(folder, "graph.json")
        pathlib.Path(source).write_bytes(content)
        ran = subprocess.run([EMPLACE, "import", source, "-o", graph], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise AssertionError(ran.stderr)
        with open(graph, encoding="utf-8") as file:
            return json.load(file), ran.stderr


def flop(graph):
    return sum(op.get("flop", 0) for op in graph["ops"])


def numbers(graph):
    """Numbers in the arguments of a program."""
    return sum(math.prod(output["shape"]) for op in graph["ops"] if op["kind"] in ("input", "variable")
               for output in op["outputs"])


class CountsTest(unittest.TestCase):
    def test_networks_have_the_flop_and_numbers_of_xla(self):
        for name, make in make_hlo.NETWORKS.items():
            function, arguments = make()
            programs = make_hlo.texts(function, arguments)
            if "lstm" in name:
                # XLA counts a loop once: the same network without a loop.
                unrolled, _ = make(unroll=12)
                whole = make_hlo.counted(unrolled.lower(*arguments).cost_analysis())
                programs = {form: (content, whole) for form, (content, _) in programs.items()}
            for form in FORMS:
                content, expected = programs[form]
                with self.subTest(network=name, form=form):
                    graph, _ = imported(content)
                    # Compiled loops also have what XLA computes again in several fusions.
                    share = 0.06 if "lstm" in name and form in ("hlo", "pb") else 0.02 if "lstm" in name else 0.001
                    self.assertLess(abs(flop(graph) - expected), share * expected)
                    self.assertEqual(numbers(graph), sum(array.size for array in jax.tree.leaves(arguments)))

    def test_operations_of_many_kinds_are_read_in_every_form(self):
        x = jnp.ones((16, 32))
        functions = {
            "fori_loop": (lambda x: lax.fori_loop(0, 7, lambda i, y: jnp.sin(y) * i, x), x),
            "while_loop": (lambda x: lax.while_loop(lambda y: jnp.sum(y) < 100, lambda y: y * 1.5, x), x),
            "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda x: x @ x.T @ x, lambda x: x + 1, x), x),
            "sort": (lambda x: (jnp.sort(x), lax.top_k(x, 3), jnp.argmax(x, -1), jnp.cumsum(x, 0)), x),
            "gather": (lambda x: jnp.zeros((9, 32)).at[jnp.arange(16) % 9].add(x)[jnp.array([3, 1])], x),
            "random": (lambda x: x * jax.random.bernoulli(jax.random.PRNGKey(0), 0.5, x.shape), x),
            "linear algebra": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(16)), x),
            "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), x),
            "bf16": (lambda x: (x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16)).astype(jnp.float32), x),
            "rematerialised": (jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x @ x.T)))(x))), x),
        }
        for name, (function, argument) in functions.items():
            programs = make_hlo.texts(jax.jit(function), (argument,))
            for form in FORMS:
                with self.subTest(function=name, form=form):
                    graph, notes = imported(programs[form][0])
                    self.assertEqual(numbers(graph), argument.size)
                    if name == "fori_loop":
                        self.assertIn("(7 times)", notes)
                    if name == "while_loop":
                        self.assertIn("an unknown number of times", notes)

    def test_names_of_debug_information_are_layers(self):
        def loss(params, x):
            with jax.named_scope("dense"):
                return jnp.sum(jnp.tanh(x @ params["w"]))

        lowered = jax.jit(jax.grad(loss)).lower({"w": jnp.ones((4, 4))}, jnp.ones((2, 4)))
        graph, _ = imported(lowered.as_text(debug_info=True).encode())
        kinds = {op["name"]: op["kind"] for op in graph["ops"]}
        self.assertEqual(kinds["params['w']"], "variable")
        layers = {op.get("layer") for op in graph["ops"] if op["kind"] == "matmul"}
        self.assertEqual(layers, {"dense"})


if __name__ == "__main__":
    unittest.main()
