"""What these votes cost: private, never a guarantee."""
