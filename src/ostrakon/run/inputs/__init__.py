"""What a run reads: tables or images, in memory or on disk."""
