"""Agents for test_agents.py."""

import os
import signal

LIMIT = int(os.environ.get("FAIL_AT", 10**9))


class Walk:
    """Changes one device of the best placement; raises at proposal FAIL_AT."""

    def __init__(self, batch=20):
        self.batch = batch
        self.best = None
        self.best_us = float("inf")
        self.proposals = 0

    def propose(self, problem, rng):
        print("this goes to standard error")
        self.proposals += 1
        if self.proposals > LIMIT:
            raise RuntimeError("asked to\nfail")
        if self.best is None:
            self.best = [0] * problem.num_groups
        proposals = []
        for _ in range(self.batch):
            placement = list(self.best)
            placement[rng.integers(problem.num_groups)] = rng.integers(problem.num_devices)
            proposals.append(placement)
        return proposals

    def observe(self, problem, placements, results):
        for placement, step_us in zip(placements, results.step_us):
            if step_us < self.best_us:
                self.best, self.best_us = [int(device) for device in placement], float(step_us)


class Once:
    """One placement: everything on the last device."""

    def __init__(self, device=None):
        self.device = device
        self.done = False

    def propose(self, problem, rng):
        assert problem.time_us.shape == (problem.num_groups, problem.num_devices)
        assert problem.edges.shape[0] == 2 and problem.edges.max() < problem.num_groups
        assert problem.allowed.dtype == bool and len(problem.group_names) == problem.num_groups
        device = problem.num_devices - 1 if self.device is None else self.device
        return [[device] * problem.num_groups]

    def observe(self, problem, placements, results):
        assert len(placements) == len(results) == 1
        assert results.fits[0] and results.step_us[0] > 0
        self.done = True

    def finished(self):
        return self.done

    def note(self):
        return "one placement was enough"


class NoObserve:
    def propose(self, problem, rng):
        return []


class Nothing(Once):
    def propose(self, problem, rng):
        return []


class TooShort(Once):
    def propose(self, problem, rng):
        return [[0]]


class Flat(Once):
    def propose(self, problem, rng):
        return [0] * problem.num_groups


class Exits(Once):
    def propose(self, problem, rng):
        os._exit(3)


class Dies(Once):
    def propose(self, problem, rng):
        os.kill(os.getpid(), signal.SIGKILL)


class NotSaved(Walk):
    def state(self):
        return lambda: 0


class Learner:
    """Tries each device for all groups, on every graph. Its policy is the device that was best on average."""

    def __init__(self):
        self.sums, self.next, self.applies, self.done = {}, {}, None, False

    def propose(self, problem, rng):
        assert problem.num_graphs >= 1
        if self.applies is not None:
            return [[self.applies] * problem.num_groups]
        device = self.next.get(problem.index, 0)
        self.next[problem.index] = (device + 1) % problem.num_devices
        return [[device] * problem.num_groups]

    def observe(self, problem, placements, results):
        device = int(placements[0][0])
        total, count = self.sums.get(device, (0.0, 0))
        self.sums[device] = total + float(results.step_us[0]), count + 1
        self.done = self.applies is not None

    def finished(self):
        return self.done

    def policy(self):
        return min(self.sums, key=lambda device: self.sums[device][0] / self.sums[device][1])

    def load_policy(self, policy):
        self.applies = policy

    def note(self):
        return f"graphs {sorted(self.next)}, device {self.policy()}"
