"""From options and public numbers to a plan: every default is settled here, once."""
