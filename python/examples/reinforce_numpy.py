"""REINFORCE in numpy: a table of preferences, one row for each group of ops; the baseline is the batch's mean.

    PYTHONPATH=python/examples emplace place --agent reinforce_numpy:Reinforce --set learning_rate=0.3 ...

Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning".
"""

import numpy as np


class Reinforce:
    """Draws placements from a softmax of the table, and moves the table towards those with a high reward."""

    def __init__(self, batch=20, learning_rate=1.0):
        self.batch = batch
        self.learning_rate = learning_rate
        self.preferences = None  # (groups, devices)
        self.means = []  # of the step times of each batch, in us

    def policy(self, problem):
        """The probability of each device for each group."""
        masked = np.where(problem.allowed, self.preferences, -np.inf)
        weights = np.exp(masked - masked.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def propose(self, problem, rng):
        if self.preferences is None:
            self.preferences = np.zeros((problem.num_groups, problem.num_devices))
        thresholds = rng.random((self.batch, problem.num_groups, 1))
        below = np.cumsum(self.policy(problem), axis=1)[None] < thresholds
        drawn = np.minimum(below.sum(axis=2), problem.num_devices - 1)
        # Rounding may leave the last device of a row, where the group may not be allowed.
        rows = np.arange(problem.num_groups)
        first = problem.allowed.argmax(axis=1)
        return np.where(problem.allowed[rows, drawn], drawn, first)

    def observe(self, problem, placements, results):
        self.means.append(float(results.step_us.mean()))
        mean = results.reward.mean()
        scale = max(results.reward.std(), 0.01 * abs(mean), 1e-12)
        policy = self.policy(problem)
        gradient = np.zeros_like(policy)
        for placement, reward in zip(placements, results.reward):
            advantage = (reward - mean) / scale
            chosen = np.zeros_like(policy)
            chosen[np.arange(problem.num_groups), placement] = 1
            gradient += advantage * (chosen - policy)
        self.preferences += self.learning_rate * gradient / len(placements)

    def note(self):
        return f"mean step time {self.means[0]:.3f} us in the first batch, {self.means[-1]:.3f} us in the last"
