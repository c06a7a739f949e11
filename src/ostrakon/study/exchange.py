"""How owners' tables are combined: who adds the noise, who sees what, and what that costs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ostrakon.mechanisms.summed_gnmax import EVERY_TABLE, SUM, SharedGNMax, SummedGNMax
from ostrakon.statements.statement import NOT_COVERED
from ostrakon.validation import one_of

_HONEST = (
    "all owners are taken to follow the program (semi-honest): one that hands over other counts than its data give "
    "spoils the student, which nothing here detects"
)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One way in which tables are combined.

    Parameters
    ----------
    name : str
    mechanism : callable
        Returns the mechanism for the number of owners and the other public parameters, by name.
    trust_model : str
        For the statement; `trust_model_of` adds what depends on the mechanism.
    handed_over : str
        What an owner hands over, and to whom it may be shown.
    noised : bool
        Whether an owner hands over noisy counts.
    summed : bool
        Whether the owners add up their tables, so that each table stays where it is.
    facts : tuple of str
        Public parameters of the mechanism that only this exchange has.
    """

    name: str
    mechanism: Callable[..., SummedGNMax]
    trust_model: str
    handed_over: str
    noised: bool
    summed: bool = False
    facts: tuple[str, ...] = ()


def _trusted(*, owners: int, **parameters: Any) -> SummedGNMax:
    return SummedGNMax(**parameters)


def _files(**parameters: Any) -> SummedGNMax:
    return SharedGNMax(released=EVERY_TABLE, **parameters)


def _secure_sum(*, owners: int, colluders: int | None = None, **parameters: Any) -> SummedGNMax:
    chosen = default_colluders(owners) if colluders is None else colluders
    return SharedGNMax(released=SUM, owners=owners, colluders=chosen, **parameters)


def default_colluders(owners: int) -> int:
    """Return how many owners may collude by default: a minority, and one of two, which knows its own share."""
    return max(1, (owners - 1) // 2)


EXCHANGES: dict[str, Exchange] = {
    exchange.name: exchange
    for exchange in (
        Exchange(
            name="trusted",
            mechanism=_trusted,
            trust_model=(
                "a trusted aggregator: every owner's exact counts, of votes at public rows, go to the person who "
                "finishes the study, adds them up and then adds the noise; people are not protected from that "
                "aggregator, which must keep the counts to itself and draw the noise once; other owners and the public "
                f"see release/ only; each owner sees only its own data; {_HONEST}, without weakening anybody's "
                "protection"
            ),
            handed_over=(
                "the exact counts of your votes: give the file to the aggregator alone, over a safe way, and "
                "to nobody else"
            ),
            noised=False,
        ),
        Exchange(
            name="files",
            mechanism=_files,
            trust_model=(
                "no aggregator is trusted: every owner adds noise to its counts before anything leaves it, enough to "
                "protect its people by itself from everyone who sees that table, the other owners and the aggregator "
                "included, even if they join forces; each owner alone sees its own data, and has to draw its noise "
                f"as the program does; {_HONEST}; an owner that omits its noise gives up its own people's protection, "
                "and nobody else's"
            ),
            handed_over=(
                "counts that are noised already, whole steps of 1/1024 vote: the file is private by itself and may be "
                "seen by anybody"
            ),
            noised=True,
        ),
        Exchange(
            name="secure-sum",
            mechanism=_secure_sum,
            trust_model=(
                "no aggregator is trusted: every owner adds its share of the noise to its counts on its own machine, "
                "and the owners add up these tables by secret sharing (Shamir's, by MPyC, over TLS from owner to "
                "owner, each known by the certificate in the study), so that only the sum of all tables is ever "
                "opened; each owner sees its own data, random numbers in place of the others' tables, and the sum; "
                f"{_HONEST}"
            ),
            handed_over=(
                "random numbers, a set for each other owner, in which your noised counts are hidden: only the sum of "
                "all owners' tables is opened, which may be seen by anybody; the table itself stays here"
            ),
            noised=True,
            summed=True,
            facts=("colluders", "dropouts"),
        ),
    )
}

STUDY_NOT_COVERED = (
    *(item for item in NOT_COVERED if not item.startswith(("what is treated as public", "the operator,"))),
    "what is treated as public knowledge: names and types of columns, class names, who the owners are, that each takes "
    "part, how many people each has announced, and all parameters here",
    "each owner, who sees its own data and votes: its folder private/ must never be published",
    "a person with rows at more owners than the study allows for",
)


def find_exchange(name: Any) -> Exchange:
    """Return the exchange of that name, or refuse the name with all names that there are."""
    return EXCHANGES[one_of("exchange", name, EXCHANGES)]


def trust_model_of(exchange: Exchange, mechanism: SummedGNMax) -> str:
    """Return who has to be trusted, in words, without a final full stop."""
    if not isinstance(mechanism, SharedGNMax) or mechanism.released != SUM:
        return exchange.trust_model
    n, t, d = mechanism.owners, mechanism.colluders, mechanism.dropouts
    if t:
        some = "one owner uses all that it knows" if t == 1 else f"up to {t} owners share all that they know"
        sentence = f"the guarantee holds even if {some} against a person"
    else:
        sentence = "the guarantee is against everyone who sees the sum or release/ and is not an owner"
    sentence += (
        f"; if more of the {n} owners do, only the others' shares of the noise protect, and the guarantee is weaker"
    )
    if d:
        sentence += f"; it also holds if {d} of the owners dropped out"
    return f"{exchange.trust_model}; {sentence}"
