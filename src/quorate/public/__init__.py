"""What is learned from public data alone, free of privacy cost: representation, queries, neighbour graph."""

from quorate.public.graph import PublicGraph, build_graph
from quorate.public.images import DeskewHOG, deskew
from quorate.public.queries import choose_queries, representatives, uncertain
from quorate.public.representation import Representation, default_representation, learn_representation
from quorate.public.tables import TableFeatures

__all__ = [
    "DeskewHOG",
    "PublicGraph",
    "Representation",
    "TableFeatures",
    "build_graph",
    "choose_queries",
    "default_representation",
    "deskew",
    "learn_representation",
    "representatives",
    "uncertain",
]
