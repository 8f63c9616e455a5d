"""Predicts how long a training step of a neural network takes with each op on the device that you choose.

A graph, a cluster and op times give a simulator, which evaluates placements from numpy arrays::

    import emplace
    graph = emplace.generate("nmt", layers=2)
    cluster = emplace.Cluster("p2.8xlarge", gpus=4)
    simulator = emplace.Simulator(graph, cluster, "roofline")
    step_ns, peak_bytes = simulator.evaluate(placements)      # int16, (batch, ops)

Bad input raises InputError, a ValueError, with the same line that the program prints.
"""

from importlib.util import find_spec as _find_spec

try:
    from emplace._core import InputError, version as __version__
except ModuleNotFoundError as _error:
    if _error.name != "emplace._core":
        raise
    raise ImportError(f"emplace in {__path__[0]} is not built: it lacks the module _core of this Python (run `pip install .` "
                      "in the clone, or build it with CMake and set PYTHONPATH=build/release/python)") from None
from emplace.cluster import Cluster, Costs
from emplace.datasets import (FamilyMember, Imported, LibraryInstance, family, generate, import_files, improvement_table, library,
                              names, transform)
from emplace.graph import Graph, Grouping
from emplace.planning import Plan, PlanSearch, plan
from emplace.search import SearchResult, compare, place
from emplace.simulator import Simulator, Timeline

if _find_spec("gymnasium"):
    from emplace import env as _env  # registers emplace/Placement-v0

__all__ = [
    "Cluster", "Costs", "FamilyMember", "Graph", "Grouping", "Imported", "InputError", "LibraryInstance", "Plan",
    "PlanSearch", "SearchResult", "Simulator", "Timeline", "__version__", "compare", "family", "generate", "import_files",
    "improvement_table", "library", "names", "place", "plan", "transform",
]
