"""What an account has spent, as a small table."""

from rich.table import Table
from rich.text import Text

from ostrakon.ledger.state import History
from ostrakon.statements.statement import round_up

_SO_FAR = (
    "“All so far” is what the account charges for all runs up to this one, in any order, by one bound that was fixed "
    "when it was opened: one run alone may cost more than its own epsilon, and many runs cost less than the sum."
)


def account_table(account: History) -> Table:
    """Return the table of an account: for each run its epsilon, the cost of all runs up to it, and the remainder."""
    cap = account.cap
    table = Table(
        title=Text(
            f"{account.name}: epsilon {cap.epsilon:g} at delta {cap.delta:g}, {account.relation} of one {account.unit}"
            f"; {cap.lanes}{', closed' if account.closed else ''}"
        ),
        title_justify="left",
        caption=f"{account.remaining():g} remains for one more run at delta {cap.delta:g}. {_SO_FAR}",
        caption_justify="left",
    )
    for name in ("run", "what", "its epsilon", "all so far", "state", "when"):
        table.add_column(name, justify="right" if "epsilon" in name or "far" in name else "left")
    for number, run in enumerate(account.spends, start=1):
        own = "not private" if run.epsilon is None else f"{round_up(run.epsilon):g}"
        so_far = f"{round_up(cap.spent(account.costs[:number])):g}"
        state = "settled" if run.settled else "reserved"
        table.add_row(Text(run.run[:12]), Text(run.what), own, so_far, state, run.when[:16].replace("T", " "))
    return table
