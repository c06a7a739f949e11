"""A labelling service: whoever improves a student asks a run's trained teachers, until the budget ends."""

from ostrakon.service.clients import Client, add_client, read_clients
from ostrakon.service.labeller import Labeller, Spent, TooMany, opened

__all__ = ["Client", "Labeller", "Spent", "TooMany", "add_client", "opened", "read_clients"]
