"""Trains PPO of Stable-Baselines3, or MaskablePPO of sb3-contrib, to place a network on GPUs, and compares what it finds.

    python3 python/examples/learn_placement.py [INSTANCE [METHOD [SEED [SECONDS [SHARE]]]]]

INSTANCE is one of `emplace library`, METHOD PPO or MaskablePPO. Training ends after SECONDS of CPU time, or as soon as the
best placement takes at most SHARE of the time of the best single device.
"""

import sys
import time

import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback

import emplace
from emplace.sb3 import Environments


class Until(BaseCallback):
    """Ends training at some CPU time, or when `reached` says so. Until then it keeps a policy from settling on leaving
    everything where it is, and from moving at random: of the actions of a rollout, 30 to 50 % should move a group."""

    def __init__(self, deadline, reached, vector):
        super().__init__()
        self.deadline = deadline
        self.reached = reached
        self.vector = vector
        self.known = (0, 0)
        self.over = False

    def _on_step(self):
        return not self.over and time.process_time() < self.deadline

    def _on_rollout_end(self):
        self.over = self.reached()
        simulations, actions = self.vector.simulations - self.known[0], self.num_timesteps - self.known[1]
        self.known = self.vector.simulations, self.num_timesteps
        if not 0.3 <= simulations / actions <= 0.5:  # a placement that an action leaves as it is needs no simulation
            wanted = self.model.ent_coef * (1.2 if simulations < 0.3 * actions else 1 / 1.2)
            self.model.ent_coef = min(max(wanted, 1e-3), 2e-2)


def learn(simulator, grouping, method="PPO", seed=1, seconds=55.0, target_ns=0, num_envs=16, **settings):
    """The environments after training, whose vector.best is the placement, and the model.

    A move is judged by what it changes at once, so rewards far in the future count little (gamma).
    """
    def reached():
        return simulator.evaluate(envs.vector.best, grouping=grouping, peak_memory=False)[0][0] <= target_ns
    torch.set_num_threads(1)
    deadline = time.process_time() + seconds
    envs = Environments(simulator, grouping, num_envs=num_envs, threads=1)
    kind = stable_baselines3.PPO if method == "PPO" else sb3_contrib.MaskablePPO
    chosen = {"gamma": 0.5, "gae_lambda": 0.9, "n_steps": 2048 // num_envs, "batch_size": 512, "n_epochs": 5,
              "learning_rate": 1e-3, "ent_coef": 5e-3, **settings}
    model = kind("MlpPolicy", envs, seed=seed, device="cpu", **chosen)
    model.learn(10**9, callback=Until(deadline, reached, envs.vector))
    return envs, model


def random_search(simulator, grouping, evaluations, seed=1, batch=1000):
    """The shortest step time in ns of random placements on the accelerators, which include each of them alone."""
    rng = np.random.default_rng(seed)
    gpus = np.flatnonzero(~simulator.cluster.is_cpu).astype(np.int16)
    best = np.iinfo(np.int64).max
    for begin in range(0, evaluations, batch):
        placements = rng.choice(gpus, (min(batch, evaluations - begin), grouping.num_groups))
        best = min(best, simulator.evaluate(placements, grouping=grouping, peak_memory=False, threads=1)[0].min())
    return int(best)


def single_device(simulator):
    """The step time in ns of the best accelerator alone."""
    gpus = np.flatnonzero(~simulator.cluster.is_cpu)
    return int(simulator.evaluate(np.repeat(gpus[:, None], simulator.graph.num_ops, 1))[0].min())


def main(instance="cifar10-4-p2-4", method="PPO", seed="1", seconds="55", share="0"):
    simulator = emplace.library(instance).load()
    grouping = emplace.Grouping(simulator.graph, "identity")
    single = single_device(simulator)
    begun = time.process_time()
    envs, model = learn(simulator, grouping, method, int(seed), float(seconds), float(share) * single)
    trained = time.process_time() - begun
    step_ns = simulator.evaluate(envs.vector.best, grouping=grouping)[0][0]
    evaluations = envs.vector.simulations
    local = emplace.place(simulator, "local_search", grouping=grouping, evaluations=evaluations, seed=int(seed)).step_ns
    random = random_search(simulator, grouping, evaluations, int(seed))
    print(f"{instance}, seed {seed}: single device {single / 1e6:.1f} ms, random {random / 1e6:.1f} ms, {method} "
          f"{step_ns / 1e6:.1f} ms ({step_ns / single:.3f} of the single device, {model.num_timesteps} actions, {evaluations} "
          f"evaluations, {trained:.1f} CPU s), local_search {local / 1e6:.1f} ms", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
