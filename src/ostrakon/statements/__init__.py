"""All sentences that state a guarantee."""
