"""The papers' bounds, to reproduce their numbers; never a guarantee."""
