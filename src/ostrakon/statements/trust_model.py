"""Who is trusted besides the operator, in the words of a statement."""

from __future__ import annotations


def with_engines(trust_model: str, engines: tuple[str, ...]) -> str:
    """`trust_model`, and who else is trusted when workers of `engines` trained the teachers.

    >>> with_engines("the operator", ())
    'the operator'
    """
    if not engines:
        return trust_model
    return (
        f"{trust_model}; workers of {' and '.join(engines)} received private rows: everyone who runs or can reach "
        "these workers or their storage could see private rows, teachers and votes, and is trusted like the operator"
    )


def with_private_table(trust_model: str, stored: bool) -> str:
    """`trust_model`, and who else is trusted when the private table is `stored` in object storage.

    >>> with_private_table("the operator", False)
    'the operator'
    """
    if not stored:
        return trust_model
    return (
        f"{trust_model}; the private table is in object storage: its provider and everyone who can read its bucket "
        "can see it, and are trusted like the operator"
    )


def with_store(trust_model: str, stored: str) -> str:
    """`trust_model`, and who else is trusted when the run keeps its private files in object storage, `stored` so.

    >>> with_store("the operator", "")
    'the operator'
    """
    if not stored:
        return trust_model
    return (
        f"{trust_model}; the votes, the noise and, where the run has them, shards of private rows, teachers and their "
        f"predictions were stored in object storage ({stored}): its provider and everyone who can read its bucket "
        "could see them, everyone who can write there could change them, and all of them are trusted like the operator"
    )
