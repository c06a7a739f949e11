"""Noise for a given epsilon."""
