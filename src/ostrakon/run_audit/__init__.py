"""Attacks on whole runs: planted records and poisoned teachers."""
