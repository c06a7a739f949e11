"""What an epsilon buys, from public rows and public numbers alone: no function here takes private data.

Modules: `public_rows` (what is known), `offers` (what each mechanism would do), `rehearsal` (the whole
run, played on public rows), `interval` (the uncertainty of that), `least_epsilon` (from an accuracy to an epsilon),
`outlook` (all of it at once).
"""

from ostrakon.forecast.outlook import Outlook, plan

__all__ = ["Outlook", "plan"]
