"""A T-Graph as JSON, and back with everything checked. Text in, text out: reading files is the caller's business."""

from codecs import BOM_UTF8
from typing import Literal

import msgspec

from opilio.model.errors import ConfigError
from opilio.tgraph.graph import TGraph, check
from opilio.tgraph.node import Document, Node

SCHEMA = 1


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: int
    kind: Literal["t-graph"]
    nodes: list[Node]
    documents: list[Document] = []


def encode(graph: TGraph) -> bytes:
    """The graph as indented JSON: a person may read and change it."""
    nodes = sorted(graph.nodes.values(), key=lambda node: (node.level, node.id))
    file = _File(schema=SCHEMA, kind="t-graph", nodes=nodes, documents=list(graph.documents))
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def decode(data: bytes, source: str) -> TGraph:
    """A graph from JSON; ConfigError names the source, and the node where there is one."""
    try:
        file = msgspec.json.decode(data.removeprefix(BOM_UTF8), type=_File)  # which some editors put there
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: is no T-Graph: {error}; 'opilio tgraph build' makes one") from error
    if file.schema > SCHEMA:
        raise ConfigError(f"{source}: was made by a newer Opilio (schema {file.schema}); update Opilio")
    ids = [node.id for node in file.nodes]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ConfigError(f"{source}: two nodes have the id {twice}; give one of them another")
    graph = TGraph(file.nodes, file.documents)
    check(graph, source)
    return graph
