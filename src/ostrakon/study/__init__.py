"""A study of several owners: one student from data that stay with their owners, each on its own machine."""

from ostrakon.study.certificates import make_certificate
from ostrakon.study.create import create_study
from ostrakon.study.exchange import EXCHANGES
from ostrakon.study.finish import finish_study
from ostrakon.study.join import Joined, join_study
from ostrakon.study.owners import Owner, read_owners
from ostrakon.study.secure_sum import OpenedSum, sum_study
from ostrakon.study.study import Study

__all__ = [
    "EXCHANGES",
    "Joined",
    "OpenedSum",
    "Owner",
    "Study",
    "create_study",
    "finish_study",
    "join_study",
    "make_certificate",
    "read_owners",
    "sum_study",
]
