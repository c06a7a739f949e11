"""The papers' bounds, to reproduce their numbers; not guarantees."""
