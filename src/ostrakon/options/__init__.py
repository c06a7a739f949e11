"""What a user may set: each option once, checked once."""
