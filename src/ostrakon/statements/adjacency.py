"""The sentences that define neighbouring data sets, and say who is trusted besides the operator."""

from ostrakon.mechanisms.base import Relation

SAME_SIZE = " Both lead to the same default settings, which depend on the approximate number of records."
"""Added where trained teachers run at default settings."""


def adjacency(*, by: str | None = None, fixed: bool = False) -> str:
    """Return the sentence of a privacy statement that defines neighbouring data sets.

    by: the column of user numbers, where rows were partitioned by user. fixed: whether the number of rows (or users) is
    public, as it is after a `random_partition` or if every record is a teacher.
    """
    if by is not None and fixed:
        return (
            f"Two data sets are neighbours when they have equally many values of {by!r} and differ in all the rows of "
            "one of them, in any way."
        )
    if by is not None:
        return f"Two data sets are neighbours when they differ in all the rows of one value of {by!r}, in any way."
    if fixed:
        return "Two data sets are neighbours when they have equally many rows and differ in the content of one record."
    return (
        "Two data sets are neighbours when one has one record more than the other; "
        "changing a record's content counts as removing one and adding one."
    )


def label_adjacency(*, by: str | None = None) -> str:
    """Return the sentence if only labels are protected. by: the column of users, where all labels of one may differ."""
    only = "This is label differential privacy: it protects labels only; features and who is in the data are public."
    if by is not None:
        return (
            f"Two data sets are neighbours when they have the same rows, with the same features and the same {by!r}, "
            f"and differ in the labels of the rows of one value of {by!r}, in any way. {only}"
        )
    return (
        "Two data sets are neighbours when they have the same rows, with the same features, and differ in the label of "
        f"one of them. {only}"
    )


def other_adjacency(*, by: str | None = None, fixed: bool = False) -> str:
    """Return the sentence about the other definition of neighbours, for which the same release has another epsilon.

    Where the number of rows (or users) is public, one of them does not vote; else one is replaced, so that two teachers
    change.
    """
    one, many = ("record", "records") if by is None else (f"value of {by!r}", f"values of {by!r}")
    if fixed:
        return (
            f"Two data sets are neighbours when one of them lacks one {one} of the other, while the published number "
            f"of {many} stays the same."
        )
    if by is not None:
        return f"Two data sets are neighbours when all the rows of one {one} are exchanged for those of another one."
    return "Two data sets are neighbours when they have equally many records and differ in the content of one record."


def sentences_of(relation: Relation, *, by: str | None = None) -> tuple[str, ...]:
    """Return the sentences with which a statement may define the neighbours of this relation."""
    sentences = {
        "replace": (adjacency(by=by, fixed=True),),
        "take-out": (other_adjacency(by=by, fixed=True),),
        "add-remove": (adjacency(by=by), adjacency(by=by) + SAME_SIZE),
        "labels": (label_adjacency(by=by),),
    }
    return sentences[relation]


def with_trusted(trust_model: str, *, engines: tuple[str, ...], store: str, stored_table: bool) -> str:
    """Return `trust_model`, and who is trusted besides.

    engines: whose workers received private rows. store: how the run's private files are in object storage, in words;
    empty where they are not. stored_table: whether the private table is there.

    >>> with_trusted("the operator", engines=(), store="", stored_table=False)
    'the operator'
    """
    said = [trust_model]
    if engines:
        said.append(
            f"workers of {' and '.join(engines)} received private rows: everyone who runs or can reach these workers "
            "or their storage could see private rows, teachers and votes, and is trusted like the operator"
        )
    if store:
        said.append(
            "the votes, the noise and, where the run has them, shards of private rows, teachers and their predictions "
            f"were stored in object storage ({store}): its provider and everyone who can read its bucket could see "
            "them, everyone who can write there could change them, and all of them are trusted like the operator"
        )
    if stored_table:
        said.append(
            "the private table is in object storage: its provider and everyone who can read its bucket can see it, and "
            "are trusted like the operator"
        )
    return "; ".join(said)
