"""A budget over many runs on the same data: what each spends is written down before its noise is drawn."""
