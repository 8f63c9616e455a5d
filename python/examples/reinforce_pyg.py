"""REINFORCE with a graph network of PyTorch Geometric, whose policy can learn on several graphs and be applied to others.

    PYTHONPATH=python/examples emplace place --agent reinforce_pyg:Reinforce --set network=gatv2 ...

Needs torch_geometric in the Python that runs agents (EMPLACE_PYTHON). The weights depend on the number of devices alone:
--policy-out saves them, --policy applies them, and experiments may use `together` and `transfer`.
Sources: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning";
Hamilton et al. 2017, "Inductive representation learning on large graphs" (sage); Brody et al. 2022, "How attentive are
graph attention networks?" (gatv2).
"""

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, SAGEConv
from torch_geometric.utils import to_undirected

WAVES = 8  # of the position of a group, so that groups that are equal otherwise can go to different devices


def graph_of(problem):
    """The problem as a graph of PyTorch Geometric: a node for each group, edges in both directions."""
    times = np.where(problem.allowed, problem.time_us, np.inf)
    fastest = times.min(axis=1)
    amounts = [fastest, problem.output_bytes, problem.persistent_bytes]
    columns = [np.log1p(one / max(float(np.mean(one)), 1e-9)) for one in amounts]
    position = (np.arange(problem.num_groups) + 0.5) / problem.num_groups
    columns += [np.cos(np.pi * wave * position) for wave in range(1, WAVES + 1)]
    slower = np.where(problem.allowed, np.log(times / np.maximum(fastest, 1e-9)[:, None] + 1e-9), 0)
    nodes = np.concatenate([np.stack(columns, 1), np.clip(slower, 0, 5), problem.allowed], axis=1)
    edges = to_undirected(torch.tensor(np.asarray(problem.edges), dtype=torch.int64), num_nodes=problem.num_groups)
    return Data(x=torch.tensor(nodes, dtype=torch.float32), edge_index=edges, allowed=torch.tensor(problem.allowed))


class Policy(torch.nn.Module):
    """The logarithms of the probabilities of each group's devices."""

    def __init__(self, network, devices, hidden, layers):
        super().__init__()
        self.embed = torch.nn.Linear(3 + WAVES + 2 * devices, hidden)
        conv = {"sage": SAGEConv, "gatv2": GATv2Conv}[network]
        self.convs = torch.nn.ModuleList(conv(hidden, hidden) for _ in range(layers))
        self.choose = torch.nn.Linear(hidden, devices)

    def forward(self, graph):
        hidden = torch.relu(self.embed(graph.x))
        for conv in self.convs:
            hidden = hidden + torch.relu(conv(hidden, graph.edge_index))
        return torch.log_softmax(self.choose(hidden).masked_fill(~graph.allowed, -1e9), dim=1)


class Reinforce:
    def __init__(self, network="sage", batch=20, learning_rate=0.01, hidden=64, layers=2, entropy=0.003, fine_tune=False):
        torch.set_num_threads(1)  # the same sums on every machine
        self.settings = {"network": network, "hidden": hidden, "layers": layers}
        self.batch, self.learning_rate, self.entropy, self.fine_tune = batch, learning_rate, entropy, fine_tune
        self.model = self.optimizer = self.loaded = None
        self.graphs = {}
        self.means = []
        self.applied = False

    def build(self, devices, seed):
        torch.manual_seed(seed)
        self.devices = devices
        self.model = Policy(devices=devices, **self.settings)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)

    def only_applies(self):
        return self.loaded is not None and not self.fine_tune

    def propose(self, problem, rng):
        seed = int(rng.integers(2**31))
        if self.model is None:
            self.build(problem.num_devices, seed)
        if self.devices != problem.num_devices:
            raise ValueError(f"the policy is for {self.devices} devices, the problem has {problem.num_devices}")
        if problem.index not in self.graphs:
            self.graphs[problem.index] = graph_of(problem)
        with torch.no_grad():
            log_policy = self.model(self.graphs[problem.index])
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.multinomial(log_policy.exp(), self.batch, replacement=True, generator=generator).T
        if self.only_applies():  # the likeliest placement too
            drawn = torch.cat([log_policy.argmax(dim=1)[None], drawn])
        return drawn.numpy()

    def observe(self, problem, placements, results):
        self.means.append(float(results.step_us.mean()))
        self.applied = self.only_applies()
        if self.applied:
            return
        mean = results.reward.mean()
        scale = max(results.reward.std(), 0.01 * abs(mean), 1e-12)
        advantages = torch.tensor((results.reward - mean) / scale, dtype=torch.float32)
        chosen = torch.tensor(np.asarray(placements), dtype=torch.int64)
        log_policy = self.model(self.graphs[problem.index])
        taken = log_policy.expand(len(chosen), -1, -1).gather(2, chosen[:, :, None]).sum(dim=(1, 2))
        undecided = -(log_policy.exp() * log_policy).sum(dim=1).mean()
        loss = -(advantages * taken).mean() - self.entropy * problem.num_groups * undecided
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
        self.optimizer.step()

    def finished(self):
        return self.applied

    def policy(self):
        """What is applied to other graphs."""
        if self.model is None:
            raise ValueError("the policy has not been drawn yet")
        return {"settings": self.settings, "devices": self.devices, "weights": self.model.state_dict()}

    def load_policy(self, policy):
        if policy["settings"] != self.settings:
            raise ValueError(f"the policy was trained with {policy['settings']}, not {self.settings}")
        self.loaded = policy
        self.build(policy["devices"], 0)
        self.model.load_state_dict(policy["weights"])

    def state(self):
        """What a checkpoint holds; without it, all attributes are pickled."""
        kept = {key: value for key, value in self.__dict__.items() if key not in ("model", "optimizer")}
        if self.model is not None:
            kept["weights"], kept["moments"] = self.model.state_dict(), self.optimizer.state_dict()
        return kept

    def restore(self, state):
        weights, moments = state.pop("weights", None), state.pop("moments", None)
        self.__dict__.update(state)
        if weights is not None:
            self.build(self.devices, 0)
            self.model.load_state_dict(weights)
            self.optimizer.load_state_dict(moments)

    def note(self):
        return f"mean step time {self.means[0]:.3f} us in the first batch, {self.means[-1]:.3f} us in the last"
