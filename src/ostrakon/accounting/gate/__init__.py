"""What may be released when votes agree: the gate, and the sanitized estimate."""
