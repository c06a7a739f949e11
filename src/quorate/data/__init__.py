"""See DESIGN: filled below."""
