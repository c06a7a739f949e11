"""A study of several owners: one student from data that stay where they are, each owner at its own machine."""

from ostrakon.study.create import create_study
from ostrakon.study.exchange import EXCHANGES
from ostrakon.study.finish import finish_study
from ostrakon.study.join import Joined, join_study
from ostrakon.study.own_key import make_certificate
from ostrakon.study.owners import Owner, read_owners
from ostrakon.study.secure_sum import Opened, sum_study
from ostrakon.study.study import Study

__all__ = [
    "EXCHANGES",
    "Joined",
    "Opened",
    "Owner",
    "Study",
    "create_study",
    "finish_study",
    "join_study",
    "make_certificate",
    "read_owners",
    "sum_study",
]
