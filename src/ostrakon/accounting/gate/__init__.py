"""What may leave when votes agree: the gate, and the sanitized estimate."""
