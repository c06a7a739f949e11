"""Private and public data: tables on disk, who teaches from which record, votes from files, data sets."""
