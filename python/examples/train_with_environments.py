"""Trains a policy on a VectorEnv with numpy alone, and draws its learning curve.

The policy has a table of preferences for each group. Rewards from a step on, less their mean over the environments,
move the table: REINFORCE with a baseline.

    python3 python/examples/train_with_environments.py [PICTURE.png]      needs matplotlib
"""

import sys

import matplotlib
import numpy as np

import emplace
from emplace.env import VectorEnv

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def train(simulator, grouping, episodes=100, num_envs=64, learning_rate=2.0, seed=1):
    """Step times in ns of the placements that ended each episode, (episodes, num_envs), and the policy."""
    env = VectorEnv(simulator, grouping, num_envs=num_envs)
    groups, devices = env.num_groups, simulator.cluster.num_devices
    rng = np.random.default_rng(seed)
    preferences = np.zeros((groups, devices))
    steps = np.zeros((episodes, num_envs), np.int64)
    for episode in range(episodes):
        env.reset(seed=seed)
        actions = np.zeros((groups, num_envs), int)
        rewards = np.zeros((groups, num_envs))
        policy = np.exp(preferences - preferences.max(axis=1, keepdims=True))
        policy /= policy.sum(axis=1, keepdims=True)
        for group in range(groups):
            actions[group] = rng.choice(devices, num_envs, p=policy[group])
            _, rewards[group], _, _, info = env.step(actions[group])
        steps[episode] = info["step_ns"]
        returns = rewards.sum(axis=0)
        advantages = (returns - returns.mean()) / max(returns.std(), 1e-3)
        for group in range(groups):
            chosen = np.eye(devices)[actions[group]]
            preferences[group] += learning_rate * (advantages[:, None] * (chosen - policy[group])).mean(axis=0)
    return steps, policy


def main(picture="training.png"):
    graph = emplace.generate("rnnlm", layers=2, steps=8)
    cluster = emplace.Cluster("p2.8xlarge", devices=["gpu:0", "gpu:1"])
    simulator = emplace.Simulator(graph, cluster, "roofline")
    grouping = emplace.Grouping(graph, "merge_and_colocate", groups=24)
    steps, policy = train(simulator, grouping)
    search = emplace.place(simulator, "local_search", grouping=grouping, evaluations=steps.size)

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    episodes = np.arange(len(steps))
    left.plot(episodes, steps.mean(axis=1) / 1e6, label="mean of 64 environments")
    left.fill_between(episodes, steps.min(axis=1) / 1e6, steps.max(axis=1) / 1e6, alpha=0.2)
    left.axhline(search.single_device_us / 1e3, color="black", linestyle=":", label="single device")
    left.axhline(search.step_ns / 1e6, color="tab:red", linestyle="--", label="local_search, as many evaluations")
    left.set(xlabel="episode", ylabel="step time, ms", title=f"{graph.name}, {grouping.num_groups} groups")
    left.legend(fontsize=8)
    picture_of_policy = right.imshow(policy.T, aspect="auto", vmin=0, vmax=1)
    right.set(xlabel="group", ylabel="device", yticks=range(cluster.num_devices), title="probabilities at the end")
    right.set_yticklabels(cluster.device_names)
    figure.colorbar(picture_of_policy)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    print(f"mean of the first episode {steps[0].mean() / 1e6:.3f} ms, of the last {steps[-1].mean() / 1e6:.3f} ms, "
          f"best {steps.min() / 1e6:.3f} ms; local_search {search.step_ns / 1e6:.3f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:2])
