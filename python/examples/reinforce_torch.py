"""REINFORCE in PyTorch: a graph network that sees each group and its neighbours.

    PYTHONPATH=python/examples emplace place --agent reinforce_torch:Reinforce --set hidden=32 ...

Needs PyTorch 1.13 or newer in the Python that runs agents (EMPLACE_PYTHON).
Source: Williams 1992, as reinforce_numpy.py.
"""

import numpy as np
import torch


def features(problem):
    """(groups, 4): time, bytes and position of each group, as parts of the largest."""
    with np.errstate(all="ignore"):
        fastest = np.nanmin(problem.time_us, axis=1)
    columns = [fastest, problem.output_bytes, problem.persistent_bytes, np.arange(problem.num_groups)]
    scaled = [np.asarray(column, float) / max(float(np.max(column)), 1e-9) for column in columns]
    return torch.tensor(np.stack(scaled, 1), dtype=torch.float32)


def neighbours(problem):
    """(groups, groups): the mean over producers and consumers."""
    matrix = np.zeros((problem.num_groups, problem.num_groups))
    matrix[problem.edges[0], problem.edges[1]] = 1
    matrix += matrix.T
    matrix /= np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    return torch.tensor(matrix, dtype=torch.float32)


class Policy(torch.nn.Module):
    """Scores of devices from what groups look like, and a score of its own for each, which tells equal ones apart."""

    def __init__(self, groups, inputs, hidden, devices):
        super().__init__()
        self.own = torch.nn.Parameter(torch.zeros(groups, devices))
        self.embed = torch.nn.Linear(inputs, hidden)
        self.mix = torch.nn.Linear(2 * hidden, hidden)
        self.choose = torch.nn.Linear(hidden, devices)

    def forward(self, nodes, adjacency):
        own = torch.relu(self.embed(nodes))
        mixed = torch.relu(self.mix(torch.cat([own, adjacency @ own], 1)))
        return self.choose(mixed) + self.own


class Reinforce:
    def __init__(self, batch=20, learning_rate=0.1, hidden=32, entropy=0.01):
        torch.set_num_threads(1)  # the same sums on every machine
        self.batch = batch
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.entropy = entropy  # weight of the bonus that keeps the policy undecided at first
        self.model = None
        self.means = []

    def build(self, problem, seed):
        torch.manual_seed(seed)
        self.nodes, self.adjacency = features(problem), neighbours(problem)
        self.allowed = torch.tensor(problem.allowed)
        self.model = Policy(*self.nodes.shape, self.hidden, problem.num_devices)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)

    def log_policy(self):
        scores = self.model(self.nodes, self.adjacency).masked_fill(~self.allowed, -1e9)
        return torch.log_softmax(scores, 1)

    def propose(self, problem, rng):
        seed = int(rng.integers(2**31))
        if self.model is None:
            self.build(problem, seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            probabilities = self.log_policy().exp()
        drawn = torch.multinomial(probabilities, self.batch, replacement=True, generator=generator)
        return drawn.T.numpy()

    def observe(self, problem, placements, results):
        self.means.append(float(results.step_us.mean()))
        mean = results.reward.mean()
        scale = max(results.reward.std(), 0.01 * abs(mean), 1e-12)
        advantages = torch.tensor((results.reward - mean) / scale, dtype=torch.float32)
        chosen = torch.tensor(np.asarray(placements), dtype=torch.int64)
        log_policy = self.log_policy().expand(len(chosen), -1, -1)
        taken = log_policy.gather(2, chosen[:, :, None]).sum(dim=(1, 2))
        policy_entropy = -(log_policy[0].exp() * log_policy[0]).sum(1).mean()
        loss = -(advantages * taken).mean() - self.entropy * policy_entropy
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def state(self):
        """What a checkpoint holds; without it, all attributes are pickled."""
        kept = {key: value for key, value in self.__dict__.items() if key not in ("model", "optimizer")}
        if self.model is not None:
            kept["weights"] = self.model.state_dict()
            kept["moments"] = self.optimizer.state_dict()
        return kept

    def restore(self, state):
        weights, moments = state.pop("weights", None), state.pop("moments", None)
        self.__dict__.update(state)
        if weights is not None:
            self.model = Policy(*self.nodes.shape, self.hidden, self.allowed.shape[1])
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)
            self.model.load_state_dict(weights)
            self.optimizer.load_state_dict(moments)

    def note(self):
        return f"mean step time {self.means[0]:.3f} us in the first batch, {self.means[-1]:.3f} us in the last"
