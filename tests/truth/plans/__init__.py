"""Measured training steps, a module for each source of them, and what `emplace plan` predicts for them."""
