"""The sentences that define neighbouring data sets."""

from __future__ import annotations


def adjacency(*, by: str | None = None, fixed: bool = False) -> str:
    """The sentence of a privacy statement that defines neighbouring data sets.

    by: the column of user numbers, where rows were partitioned by user. fixed: whether the number of rows (or users) is
    public, as it is after a `random_partition` or where every record is a teacher.
    """
    if by is not None and fixed:
        return (
            f"Two data sets are neighbours when they have equally many values of {by!r} and differ in all the rows of "
            "one of them, in any way."
        )
    if by is not None:
        return f"Two data sets are neighbours when they differ in all the rows of one value of {by!r}, in any way."
    if fixed:
        return "Two data sets are neighbours when they have equally many rows and differ in the content of one."
    return (
        "Two data sets are neighbours when one has one record more than the other; "
        "changing a record's content counts as removing one and adding one."
    )


def label_adjacency(*, by: str | None = None) -> str:
    """The sentence where labels alone are protected. by: the column of users, where all labels of one may differ."""
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
    """The sentence about the other definition of neighbours, for which the same release has another epsilon.

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
    return "Two data sets are neighbours when they have equally many records and differ in the content of one."
