"""Outcome laws of noisy votes."""
