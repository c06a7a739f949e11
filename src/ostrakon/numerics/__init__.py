"""Numerics that the privacy side rests on: compiled loops, the normal distribution, one inverse."""
