"""How costs add up: Gaussian DP, pure DP, Rényi DP, and whole runs."""
