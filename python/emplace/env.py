"""Environments for reinforcement learning, with the interface of Gymnasium, which is used if it is installed.

By default an observation is a vector, float32 (features,), which describes the group that is placed next, its
neighbours and the loads of the devices; all entries are from 0 to 1. docs/python.md lists them. With
observation="graph", it is a dictionary of arrays:

nodes: float32 (groups, features): time on the fastest device, bytes of outputs and bytes that last, each as a part of
    the largest group's; whether the group is placed next; whether it has been placed; then 1 for its device.
edge_index: int64 (2, edges), producer and consumer.
action_mask: int8 (devices,), where the next group may go; of whole placements (groups, devices).

The cost of a placement is its step time divided by that of the single device, plus `memory_penalty` times what it is
over in memory, as a part of a device's memory. The reward of a step is by how much it lowers the cost, times the number
of groups unless whole=True; or with reward="final" minus the cost at the end of an episode, and 0 before.

With Gymnasium, `import emplace` registers PlacementEnv as emplace/Placement-v0.
"""

from __future__ import annotations

import copy as _copy
import enum
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from emplace import _check, _core
from emplace.graph import Grouping
from emplace.simulator import Simulator

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import VectorEnv as _VectorBase
    from gymnasium.vector.utils import batch_space
    _EnvBase = gymnasium.Env
except ImportError:
    from emplace import _spaces as spaces
    from emplace._spaces import batch_space
    gymnasium = None
    _EnvBase = object
    _VectorBase = object

try:
    from gymnasium.vector import AutoresetMode
except ImportError:

    class AutoresetMode(enum.Enum):  # type: ignore[no-redef]
        """The treatment of an environment whose episode has ended, with the names of Gymnasium 1.1."""
        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"
        DISABLED = "Disabled"


_CoreEnvironments = _core.VectorEnv
_MODES = {AutoresetMode.NEXT_STEP: "next_step", AutoresetMode.SAME_STEP: "same_step", AutoresetMode.DISABLED: "disabled"}


def _make_core(simulator: Simulator, grouping: Grouping | None, whole: bool, observation: str | None, start: str | None,
               reward: str, memory_penalty: float, num_envs: int, mode: AutoresetMode, threads: int) -> _core.VectorEnv:
    _check.instance("simulator", simulator, Simulator)
    grouping = (Grouping(simulator.graph, "merge_and_colocate") if grouping is None
                else _check.instance("grouping", grouping, Grouping))
    if mode not in list(_MODES):
        _check.refuse("autoreset_mode", mode, "an AutoresetMode")
    return _core.VectorEnv(simulator._simulator, grouping._grouping,
                           num_envs=_check.integer("num_envs", num_envs, 1, 2**20),
                           whole=_check.flag("whole", whole),
                           observation=_check.text("observation", observation or ("graph" if whole else "group")),
                           start=_check.text("start", start or ("single_device" if whole else "best")),
                           reward=_check.text("reward", reward),
                           memory_penalty=_check.number("memory_penalty", memory_penalty, 0),
                           autoreset_mode=_MODES[mode], threads=_check.integer("threads", threads, 0, 1024))


def _seed(name: str, value: Any) -> int:
    return _check.integer(name, value, 0, 2**62)


def _snapshot(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        _check.refuse("snapshot", value, "what snapshot() returned")
    return bytes(value)


def _observation_space(core: _core.VectorEnv, whole: bool) -> Any:
    if "group" in core.observation():
        return spaces.Box(0.0, 1.0, (core.num_group_features,), np.float32)
    groups, devices = core.num_groups, core.num_devices
    mask_shape = (groups, devices) if whole else (devices,)
    return spaces.Dict({
        "nodes": spaces.Box(0.0, 1.0, (groups, core.num_features), np.float32),
        "edge_index": spaces.Box(0, max(groups - 1, 1), (2, core.num_edges), np.int64),
        "action_mask": spaces.Box(0, 1, mask_shape, np.int8),
    })


class _Environments:
    """What one environment and many of the same problem have in common."""
    _core: _CoreEnvironments

    @property
    def num_groups(self) -> int:
        return self._core.num_groups

    @property
    def best(self) -> npt.NDArray[np.int16]:
        """(groups,): the devices of the best placement since the last reset with a seed."""
        return self._core.best.copy()

    @property
    def simulations(self) -> int:
        """The number of steps simulated so far."""
        return self._core.simulations


class PlacementEnv(_Environments, _EnvBase):  # type: ignore[misc, valid-type]
    """One placement problem.

    An action is the device of the next group, in topological order; with whole=True the devices of all groups, and an
    episode has one step. observation: group or graph, see above. start: where an episode begins: single_device
    (everything on the first accelerator), random, or best (the best placement since the last reset with a seed, at first
    everything on the first accelerator). Whole placements have observation="graph" and by default start="single_device".
    Episodes are not truncated. `info` has step_ns and fits of the present placement.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}

    def __init__(self, simulator: Simulator, grouping: Grouping | None = None, *, whole: bool = False,
                 observation: str | None = None, start: str | None = None, reward: str = "improvement",
                 memory_penalty: float = 10.0, render_mode: str | None = None) -> None:
        """grouping: merge_and_colocate to 256 groups if None."""
        if render_mode not in (None, "ansi", "rgb_array"):
            _check.refuse("render_mode", render_mode, "ansi, rgb_array or None")
        self.render_mode = render_mode
        self.simulator = simulator
        self.whole = whole
        self._core = _make_core(simulator, grouping, whole, observation, start, reward, memory_penalty, 1,
                                AutoresetMode.DISABLED, 1)
        self.observation_space = _observation_space(self._core, whole)
        devices = self._core.num_devices
        self.action_space = (spaces.MultiDiscrete(np.full(self._core.num_groups, devices)) if whole
                             else spaces.Discrete(devices))
        self._seeds = np.random.SeedSequence()
        self._seeded = False

    @property
    def placement(self) -> npt.NDArray[np.int16]:
        """(groups,): the current devices."""
        placement: npt.NDArray[np.int16] = self._core.placements[0].copy()
        return placement

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are allowed: (devices,), or for whole placements (groups * devices,). MaskablePPO of
        sb3-contrib calls it."""
        masks: npt.NDArray[np.bool_] = self._core.observation()["action_mask"][0].astype(np.bool_).reshape(-1)
        return masks

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. Without a seed, the random number generator continues, and start="best" keeps what has been
        found."""
        if seed is not None:
            seed = _seed("seed", seed)
        if not (options is None or isinstance(options, dict)):
            _check.refuse("options", options, "a dictionary, or None")
        if gymnasium is not None:
            super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self._seeds.generate_state(1)[0])
        self._seeded = True
        self._core.reset([] if seed is None else [seed], [])
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated (never) and info. Raises InputError on a device that is not
        allowed, and after the end of an episode."""
        actions = _check.integers("action", action)
        wanted = self._core.num_groups if self.whole else 1
        if actions.size != wanted:
            _check.refuse("action", actions, "a device for each group" if self.whole else "one device")
        self._core.step(actions.reshape((1, -1) if self.whole else (1,)))
        return self._observe(), float(self._core.rewards[0]), bool(self._core.ended[0]), False, self._info()

    def snapshot(self) -> bytes:
        """The complete state, including the random number generator.

        It can be restored here, or in another environment of the same problem.
        """
        return self._core.snapshot(0)

    def restore(self, snapshot: bytes) -> Any:
        """Restores a snapshot and returns its observation."""
        self._core.restore(0, _snapshot(snapshot))
        self._seeded = True
        return self._observe()

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """None, a line of text, or with rgb_array a picture: a row for each device, and a column for each group, which is
        dark in the row of its device."""
        if self.render_mode is None:
            return None
        if self.render_mode == "rgb_array":
            devices = np.arange(self._core.num_devices)[:, None]
            grey = np.where(self._core.placements[0] == devices, 0, 255).astype(np.uint8)
            return np.repeat(grey.repeat(8, axis=0)[:, :, None], 3, axis=2)
        names = self.simulator.cluster.device_names
        counts = np.bincount(self.placement, minlength=len(names))
        return f"step {self._core.step_ns[0] / 1000:.1f} us; groups: " + ", ".join(
            f"{name} {count}" for name, count in zip(names, counts))

    def close(self) -> None:
        pass

    def _observe(self) -> Any:
        observation = self._core.observation()
        if "group" in observation:
            return observation["group"][0].copy()
        return {key: array[0].copy() for key, array in observation.items()}

    def _info(self) -> dict[str, Any]:
        return {"step_ns": int(self._core.step_ns[0]), "fits": bool(self._core.fits[0])}


class VectorEnv(_Environments, _VectorBase):  # type: ignore[misc]
    """Many environments of one problem, which step together in C++, on several threads.

    Options as for PlacementEnv; the best placement is that of all environments. autoreset_mode: an AutoresetMode. With SAME_STEP the observation that ended an episode
    is in info["final_obs"], for the environments where info["_final_obs"] is true; with NEXT_STEP it is what step()
    returned, and the next step ignores the action. copy=False returns views of arrays that the next step changes.
    """

    def __init__(self, simulator: Simulator, grouping: Grouping | None = None, *, num_envs: int, whole: bool = False,
                 observation: str | None = None, start: str | None = None, reward: str = "improvement",
                 memory_penalty: float = 10.0, autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP, threads: int = 0,
                 copy: bool = True) -> None:
        self.simulator = simulator
        self.whole = whole
        self.num_envs = num_envs
        self.copy = _check.flag("copy", copy)
        self.metadata = {"autoreset_mode": autoreset_mode, "render_modes": []}
        self.render_mode = None
        self._mode = autoreset_mode
        self._core = _make_core(simulator, grouping, whole, observation, start, reward, memory_penalty, num_envs,
                                autoreset_mode, threads)
        self.single_observation_space = _observation_space(self._core, whole)
        groups, devices = self._core.num_groups, self._core.num_devices
        self.single_action_space = (spaces.MultiDiscrete(np.full(groups, devices)) if whole
                                    else spaces.Discrete(devices))
        self.action_space = spaces.MultiDiscrete(np.full((num_envs, groups) if whole else (num_envs,), devices))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._seeded = False

    @property
    def placements(self) -> npt.NDArray[np.int16]:
        """(num_envs, groups): the current devices."""
        return self._core.placements.copy()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are allowed: (num_envs, devices), or for whole placements (num_envs, groups * devices)."""
        return self._core.observation()["action_mask"].astype(np.bool_).reshape(self.num_envs, -1)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
              ) -> tuple[Any, dict[str, Any]]:
        """Begins episodes: in all environments, or in those of options["reset_mask"], bool (num_envs,).

        seed: of the first environment, the next one has the next number; or one for each.
        """
        if not (options is None or isinstance(options, dict)):
            _check.refuse("options", options, "a dictionary, or None")
        mask = (options or {}).get("reset_mask")
        if mask is not None and not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_
                                     and mask.shape == (self.num_envs,)):
            _check.refuse("reset_mask", mask, f"an array of bool, shape ({self.num_envs},)")
        if seed is None:
            seeds = [] if self._seeded else [int(s) for s in np.random.SeedSequence().generate_state(self.num_envs)]
        elif isinstance(seed, (list, tuple, np.ndarray)):
            seeds = [-1 if one is None else _seed(f"seed[{i}]", one) for i, one in enumerate(seed)]
        else:
            first = _seed("seed", seed)
            seeds = [first + i for i in range(self.num_envs)]
        self._seeded = True
        self._core.reset(seeds, [] if mask is None else [int(one) for one in mask])
        return self._observe(), self._info()

    def step(self, actions: npt.ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """actions: integers (num_envs,), or (num_envs, groups) with whole=True.

        Returns observations, rewards float64 (num_envs,), terminations and truncations bool (num_envs,), and info.
        """
        self._core.step(_check.integers("actions", actions))
        ended = self._core.ended.astype(np.bool_)
        info = self._info()
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            final = {key: array.copy() for key, array in self._core.observation(True).items()}
            info["final_obs"] = final.get("group", final)
            info["_final_obs"] = ended.copy()
            info["final_info"] = {key: value for key, value in info.items() if key in ("step_ns", "fits")}
            info["_final_info"] = ended.copy()
        return (self._observe(), self._core.rewards.copy(), ended, np.zeros(self.num_envs, np.bool_), info)

    def snapshot(self, env: int) -> bytes:
        """The complete state of one environment, including its random number generator."""
        return self._core.snapshot(_check.integer("env", env, 0, self.num_envs - 1))

    def restore(self, env: int, snapshot: bytes) -> None:
        """Restores a snapshot, which may be of another environment, in one environment. See observe()."""
        self._core.restore(_check.integer("env", env, 0, self.num_envs - 1), _snapshot(snapshot))
        self._seeded = True

    def observe(self) -> Any:
        """The current observations."""
        return self._observe()

    def close(self, **kwargs: Any) -> None:
        pass

    def _observe(self) -> Any:
        observation = self._core.observation()
        if "group" in observation:
            return observation["group"].copy() if self.copy else observation["group"]
        if not self.copy:
            return observation
        # What never changes is shared: edges, and the mask of whole placements.
        constant = ("edge_index", "action_mask") if self.whole else ("edge_index",)
        return {key: array if key in constant else array.copy() for key, array in observation.items()}

    def _info(self) -> dict[str, Any]:
        every = np.ones(self.num_envs, np.bool_)
        return {"step_ns": self._core.step_ns.copy(), "_step_ns": every, "fits": self._core.fits.astype(np.bool_),
                "_fits": every}


if gymnasium is not None and "emplace/Placement-v0" not in gymnasium.registry:
    gymnasium.register("emplace/Placement-v0", entry_point="emplace.env:PlacementEnv")
