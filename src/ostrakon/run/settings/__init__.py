"""What a run is asked to do, and what is settled from public numbers."""
