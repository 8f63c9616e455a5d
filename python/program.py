#!/usr/bin/env python3
"""Starts the program `emplace`, which a wheel has in its package."""

import os
import sys

for folder in sys.path:
    program = os.path.join(folder, "emplace", "emplace")
    if os.access(program, os.X_OK):
        os.execv(program, [program, *sys.argv[1:]])
sys.exit("emplace: the program is not in the package emplace of this Python (pip install . in the clone installs both)")
