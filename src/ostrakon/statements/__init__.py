"""Every sentence that states a guarantee."""
