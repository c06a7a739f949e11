"""Rényi curves of mechanisms that are pure DP or bounded-range."""
