"""The part of Gymnasium's spaces that the environments use, for machines without Gymnasium."""

from __future__ import annotations

from typing import Any

import numpy as np


class Space:
    """Shape and type of observations or actions."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._rng = np.random.default_rng()

    def seed(self, seed: int | None = None) -> None:
        self._rng = np.random.default_rng(seed)

    def contains(self, value: Any) -> bool:
        raise NotImplementedError

    def sample(self) -> Any:
        raise NotImplementedError


class Box(Space):
    """Arrays of numbers from low to high, both included."""

    def __init__(self, low: float, high: float, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(tuple(int(extent) for extent in shape), dtype)
        self.bounds = (low, high)
        self.low = np.full(self.shape, low, self.dtype)
        self.high = np.full(self.shape, high, self.dtype)

    def contains(self, value: Any) -> bool:
        return (isinstance(value, np.ndarray) and value.dtype == self.dtype and value.shape == self.shape
                and bool(np.all(value >= self.low)) and bool(np.all(value <= self.high)))

    def sample(self) -> np.ndarray:
        if self.dtype.kind == "f":
            return self._rng.uniform(self.low, self.high).astype(self.dtype)
        return self._rng.integers(self.low, self.high, endpoint=True).astype(self.dtype)


class Discrete(Space):
    """An integer from 0 to n - 1."""

    def __init__(self, n: int) -> None:
        super().__init__((), np.int64)
        self.n = np.int64(n)

    def contains(self, value: Any) -> bool:
        return isinstance(value, (int, np.integer)) and bool(0 <= value < self.n)

    def sample(self, mask: np.ndarray | None = None) -> np.int64:
        allowed = np.arange(self.n) if mask is None else np.flatnonzero(mask)
        return np.int64(self._rng.choice(allowed))


class MultiDiscrete(Space):
    """Integers, each from 0 to its own n - 1."""

    def __init__(self, nvec: np.ndarray) -> None:
        self.nvec = np.asarray(nvec, np.int64)
        super().__init__(self.nvec.shape, np.int64)

    def contains(self, value: Any) -> bool:
        return (isinstance(value, np.ndarray) and value.shape == self.shape and value.dtype.kind == "i"
                and bool(np.all(value >= 0)) and bool(np.all(value < self.nvec)))

    def sample(self) -> np.ndarray:
        return self._rng.integers(0, self.nvec)


class Dict(Space):
    """Several spaces by name."""

    def __init__(self, spaces: dict[str, Space]) -> None:
        super().__init__((), np.object_)
        self.spaces = dict(sorted(spaces.items()))

    def __getitem__(self, key: str) -> Space:
        return self.spaces[key]

    def contains(self, value: Any) -> bool:
        return (isinstance(value, dict) and set(value) == set(self.spaces)
                and all(space.contains(value[key]) for key, space in self.spaces.items()))

    def sample(self) -> dict[str, Any]:
        return {key: space.sample() for key, space in self.spaces.items()}


def batch_space(space: Box | Dict, count: int) -> Box | Dict:
    """The space of `count` observations of boxes, stacked along the first axis."""
    if isinstance(space, Dict):
        return Dict({key: batch_space(box, count) for key, box in space.spaces.items() if isinstance(box, (Box, Dict))})
    return Box(space.bounds[0], space.bounds[1], (count, *space.shape), space.dtype)
