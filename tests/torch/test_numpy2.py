# environment: rl
"""The tests of the package with numpy 2, and of the environments with Gymnasium, whose classes they then derive from."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import test_arguments  # noqa: E402
import test_env  # noqa: E402
import test_search  # noqa: E402
import test_simulator  # noqa: E402


def load_tests(loader, tests, pattern):
    del tests, pattern
    modules = (test_arguments, test_env, test_search, test_simulator)
    return unittest.TestSuite(loader.loadTestsFromModule(module) for module in modules)
