"""Checks of arguments. Each returns the value as the core takes it, or raises InputError that begins with the name."""

from __future__ import annotations

import math
import os
from typing import Any, Mapping, NoReturn, TypeVar

import numpy as np

from emplace import _core

_MOST_SHOWN = 60  # characters of a value in a message
SEED = 2**64 - 1
_T = TypeVar("_T")


def refuse(name: str, value: Any, allowed: str) -> NoReturn:
    if isinstance(value, np.ndarray):
        shown = f"an array of {value.dtype}, shape {value.shape}"
    else:
        try:
            shown = repr(value)
        except Exception:  # pylint: disable=broad-except
            shown = f"a {type(value).__name__}"
        if len(shown) > _MOST_SHOWN:
            shown = shown[:_MOST_SHOWN] + ".."
    raise _core.InputError(f"{name}: is {_printable(shown)} ({allowed})")


def instance(name: str, value: Any, kind: type[_T]) -> _T:
    """An object of one of the package's own classes."""
    if isinstance(value, kind):
        return value
    refuse(name, value, f"of the class {kind.__name__}")


def integer(name: str, value: Any, low: int, high: int = 2**62, allowed: str = "") -> int:
    """An integer from low to high; neither a bool nor a float, not even 2.0."""
    words = allowed or f"an integer from {low}" + (f" to {high}" if high < 2**62 else "")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        refuse(name, value, words)
    if not low <= int(value) <= high:
        refuse(name, value, words)
    return int(value)


def number(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """A finite number from low to high."""
    words = f"a finite number from {low}" + (f" to {high}" if high < math.inf else "")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        refuse(name, value, words)
    try:
        real = float(value)
    except OverflowError:
        refuse(name, value, words)
    if not math.isfinite(real) or not low <= real <= high:
        refuse(name, value, words)
    return real


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        refuse(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A string of Unicode characters without NUL."""
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        refuse(name, value, "a text without NUL")
    return value


def texts(name: str, values: Any) -> list[str]:
    if isinstance(values, (str, bytes, Mapping)):
        refuse(name, values, "a list of texts")
    try:
        listed = list(values)
    except TypeError:
        refuse(name, values, "a list of texts")
    return [text(f"{name}[{i}]", value) for i, value in enumerate(listed)]


def path(name: str, value: Any, *, may_be_empty: bool = False) -> Any:
    """The name of a file, a string or os.PathLike, in the form that the core accepts."""
    try:
        given = os.fspath(value)
    except TypeError:
        refuse(name, value, "a path, which is a text or an os.PathLike")
    if not isinstance(given, str):
        refuse(name, value, "a path, which is a text or an os.PathLike")
    if "\0" in given or (not given and not may_be_empty):
        refuse(name, value, "a path that is not empty and has no NUL")
    if _is_unicode(given):
        return given
    try:
        return os.fsencode(given)  # a name that is not Unicode
    except UnicodeEncodeError:
        refuse(name, value, "a path that the file system can have")


def settings(name: str, value: Any) -> dict[str, str]:
    """Options by name, as the program reads them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        refuse(name, value, "options by name, or None")
    return {text(f"{name}: a name", key): _setting(f"{name}[{key!r}]", one) for key, one in value.items()}


def integers(name: str, values: Any, low: int = -2**63, high: int = 2**63 - 1) -> Any:
    """An array of int64 in C order. Floats, bools and strings are not integers."""
    array = _array(name, values, "iu", "integers")
    if array.size > 0 and not (low <= int(array.min()) and int(array.max()) <= high):
        bad = int(array.min()) if int(array.min()) < low else int(array.max())
        raise _core.InputError(f"{name}: has {bad} ({low} to {high})")
    return np.ascontiguousarray(array, np.int64)


def numbers(name: str, values: Any, low: float = -math.inf) -> Any:
    """An array of finite float64 in C order."""
    array = np.ascontiguousarray(_array(name, values, "iuf", "finite numbers"), np.float64)
    good = np.isfinite(array) & (array >= low)
    if not good.all():
        where = ", ".join(str(int(i)) for i in np.argwhere(~good)[0])
        least = f", from {low:g}" if low > -math.inf else ""
        raise _core.InputError(f"{name}[{where}]: is {array[~good][0]:g} (a finite number{least})")
    return array


def _array(name: str, values: Any, kinds: str, what: str) -> Any:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        refuse(name, values, f"an array of {what}")
    if array.size == 0 and array.dtype.kind == "f":  # what numpy makes of []
        return array.astype(np.int64)
    if array.dtype.kind not in kinds:
        raise _core.InputError(f"{name}: is an array of {array.dtype} (of {what})")
    return array


def _setting(name: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            refuse(name, value, "a finite number")
        return str(float(value))
    if isinstance(value, str):
        return text(name, value)
    refuse(name, value, "a text, a number or a truth value")


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(value: str) -> str:
    """The text on one line, without characters that move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


__all__ = ["SEED", "flag", "instance", "integer", "integers", "number", "numbers", "path", "refuse", "settings",
           "text", "texts"]
