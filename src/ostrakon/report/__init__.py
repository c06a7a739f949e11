"""Renders finished runs: the report, the model card and the release, all from the plan and the released numbers."""
