"""The cost of the given votes: private, not a guarantee."""
