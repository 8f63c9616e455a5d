"""Draws how random placements of a network compare with what agents find.

    python3 python/examples/explore_placements.py [PICTURE.png]      needs matplotlib
"""

import sys

import matplotlib
import numpy as np

import emplace

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

AGENTS = ("single_device", "expert", "metis", "annealing", "multilevel_search")


def main(picture="placements.png", count=10_000):
    graph = emplace.generate("rnnlm", layers=2, steps=8)
    simulator = emplace.Simulator(graph, emplace.Cluster("p2.8xlarge", gpus=4), "roofline")
    grouping = emplace.Grouping(graph, "merge_and_colocate", groups=64)
    rng = np.random.default_rng(1)
    gpus = np.flatnonzero(~simulator.cluster.is_cpu)
    # Between one device and all of them: each placement draws from a number of GPUs of its own.
    wide = rng.integers(1, len(gpus) + 1, count)
    placements = gpus[(rng.random((count, grouping.num_groups)) * wide[:, None]).astype(int)]
    step_ns, peak_bytes = simulator.evaluate(placements, grouping=grouping)
    found = emplace.compare(simulator, AGENTS, evaluations=1000)
    bound_us = simulator.report(found[-1].placement)["lower_bound_us"]

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for devices in range(2, len(gpus) + 1):
        left.hist(step_ns[wide == devices] / 1e6, bins=60, alpha=0.6, label=f"random, {devices} GPUs")
    for result, colour in zip(found, pyplot.cm.tab10.colors):
        left.axvline(result.step_ns / 1e6, color=colour, linestyle="--", label=result.agent)
    left.axvline(bound_us / 1e3, color="black", label="lower bound")
    left.set(xlabel="step time, ms", ylabel="placements", yscale="log", title=graph.name)
    left.legend(fontsize=7)
    largest = peak_bytes.max(axis=1) / 2**20
    dots = right.scatter(largest, step_ns / 1e6, c=wide, s=2)
    right.set(xlabel="largest peak memory of a device, MiB", ylabel="step time, ms")
    figure.colorbar(dots, label="GPUs to draw from")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    for result in found:
        print(f"{result.agent:18} {result.step_ns / 1e6:8.3f} ms")
    print(f"{'random, the best':18} {step_ns.min() / 1e6:8.3f} ms of {count}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
