"""The options of a run: declared once, checked once."""
