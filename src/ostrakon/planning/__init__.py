"""From options and public numbers to a plan, which settles every default."""
