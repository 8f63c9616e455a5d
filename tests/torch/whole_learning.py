# environment: rl
"""test_learning.py on three problems, with three seeds: about six CPU minutes."""

import test_learning


class WholeTest(test_learning.LearningTest):
    INSTANCES = ("cifar10-4-p2-4", "cifar10-8-p2-8", "cifar10-13-p2-4")
    SEEDS = (1, 2, 3)
