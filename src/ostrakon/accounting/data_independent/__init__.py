"""What a run costs whatever the votes are."""
