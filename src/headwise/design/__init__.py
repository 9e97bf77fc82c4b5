"""Can a head attend like this? Queries, heads and layers, with certificates."""

from headwise.design.context import context
from headwise.design.copyable import Copyable, copyable
from headwise.design.extractor import Extractor, extractor
from headwise.design.layer import Layer, layer
from headwise.design.queries import average, copy
from headwise.design.result import Design
from headwise.design.robust import robust
from headwise.design.weights import weights

__all__ = [
    "Copyable",
    "Design",
    "Extractor",
    "Layer",
    "average",
    "context",
    "copy",
    "copyable",
    "extractor",
    "layer",
    "robust",
    "weights",
]
