"""Composition of costs: Gaussian DP, pure DP, Rényi DP, and whole runs."""
