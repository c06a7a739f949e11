"""What is learned from public data alone, free of privacy cost: representation, queries, neighbour graph."""

from ostrakon.public.embedded import EmbeddedFeatures
from ostrakon.public.frozen import FrozenEncoder
from ostrakon.public.graph import PublicGraph, build_graph
from ostrakon.public.images import DeskewHOG, deskew
from ostrakon.public.onnx_text import OnnxText
from ostrakon.public.queries import choose_queries, representatives
from ostrakon.public.representation import Representation, default_representation, learn_representation
from ostrakon.public.sentences import SentenceEncoder
from ostrakon.public.tables import TableFeatures
from ostrakon.public.text import TextColumns

__all__ = [
    "DeskewHOG",
    "EmbeddedFeatures",
    "FrozenEncoder",
    "OnnxText",
    "PublicGraph",
    "Representation",
    "SentenceEncoder",
    "TableFeatures",
    "TextColumns",
    "build_graph",
    "choose_queries",
    "default_representation",
    "deskew",
    "learn_representation",
    "representatives",
]
