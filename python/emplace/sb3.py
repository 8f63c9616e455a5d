"""The environments as Stable-Baselines3 steps them: all in C++, instead of one after the other in Python.

    from emplace.env import VectorEnv
    from emplace.sb3 import Environments
    model = stable_baselines3.PPO("MlpPolicy", Environments(simulator, grouping, num_envs=16), gamma=0.5)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from emplace.env import AutoresetMode, VectorEnv
from emplace.graph import Grouping
from emplace.simulator import Simulator


class Environments(VecEnv):
    """A VectorEnv with the interface of Stable-Baselines3, also for MaskablePPO of sb3-contrib.

    All environments share the best placement. `vector` is the VectorEnv.
    """

    def __init__(self, simulator: Simulator, grouping: Grouping | None = None, *, num_envs: int, **options: Any) -> None:
        """Options as for VectorEnv, but autoreset_mode, which Stable-Baselines3 prescribes."""
        self.vector = VectorEnv(simulator, grouping, num_envs=num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **options)
        super().__init__(num_envs, self.vector.single_observation_space, self.vector.single_action_space)

    def reset(self) -> Any:
        seeded = any(seed is not None for seed in self._seeds)
        observations, _ = self.vector.reset(seed=list(self._seeds) if seeded else None)
        self._reset_seeds()
        return observations

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        observations, rewards, ended, _, info = self.vector.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended):
            final = info["final_obs"]
            infos[i] = {"step_ns": int(info["step_ns"][i]), "fits": bool(info["fits"][i]), "TimeLimit.truncated": False,
                        "terminal_observation": ({key: array[i] for key, array in final.items()}
                                                 if isinstance(final, dict) else final[i])}
        return observations, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        self.vector.close()

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        results = getattr(self.vector, method_name)(*arguments, **named)
        return [results[i] for i in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.vector, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"{attr_name}: environments of emplace have no attributes to set")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))
