"""A labelling service: clients ask a run's trained teachers for labels of public rows until the budget is spent."""

from ostrakon.service.clients import Client, add_client, read_clients
from ostrakon.service.labeller import BudgetSpent, ClientLimitReached, Labeller, open_service

__all__ = ["BudgetSpent", "Client", "ClientLimitReached", "Labeller", "add_client", "open_service", "read_clients"]
