"""What an epsilon would buy, from public rows and public numbers alone: no function here takes private data.

Rooms: `public_rows` (what is known), `offers` (what each mechanism would do), `rehearsal` and `worlds` (the whole run,
played on public rows), `interval` (how sure that is), `least_epsilon` (the way back), `outlook` (all of it at once).
"""

from ostrakon.forecast.outlook import Outlook, plan

__all__ = ["Outlook", "plan"]
