"""A run on disk: stages, resume, what stays in private/ and what may go to release/."""
