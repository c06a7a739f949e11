"""The stages of a run, in the order of its data flow."""
