"""What is learned from public data alone, free of privacy cost: representation, queries, neighbour graph."""

from ostrakon.features.embedded import EmbeddedFeatures
from ostrakon.features.frozen import FrozenEncoder
from ostrakon.features.graph import PublicGraph, build_graph
from ostrakon.features.images import DeskewHOG, deskew
from ostrakon.features.onnx_text import OnnxText
from ostrakon.features.queries import choose_queries, representatives
from ostrakon.features.representation import Representation, default_representation, learn_representation
from ostrakon.features.sentences import SentenceEncoder
from ostrakon.features.tables import TableFeatures
from ostrakon.features.text import TextColumns

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
