#!/usr/bin/env python3
"""Starts the program `emplace`, which a wheel has in its package."""

import importlib.util
import os
import sys

package = importlib.util.find_spec("emplace").submodule_search_locations[0]
program = os.path.join(package, "emplace")
os.execv(program, [program, *sys.argv[1:]])
