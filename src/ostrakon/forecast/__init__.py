"""Forecasts of utility for each epsilon, from public rows and public numbers alone: no function takes private data.

Modules: `public_rows` (input), `offers` (a plan for each mechanism and epsilon), `rehearsal` (simulated runs on public
rows), `interval` (their uncertainty), `least_epsilon` (from an accuracy to an epsilon), `outlook` (everything
together).
"""

from ostrakon.forecast.outlook import Outlook, plan

__all__ = ["Outlook", "plan"]
