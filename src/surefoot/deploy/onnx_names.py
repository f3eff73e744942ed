"""Other names for the tensors of an ONNX graph: whatever has the new name already steps aside."""

from collections.abc import Mapping
from typing import Any


def rename(graph: Any, names: Mapping[str, str]) -> None:
    """Give tensors new names (old -> new) throughout a graph and its inner graphs; shapes of inner tensors are forgotten."""
    taken = {new: f"inner_{new}" for new in names.values() if new not in names}
    every = _every(graph)
    for new, aside in taken.items():
        while aside in every or aside in names.values():
            aside = f"inner_{aside}"
        taken[new] = aside
    _apply(graph, {**taken, **names})


def _every(graph: Any) -> set[str]:
    found = {item.name for part in (graph.input, graph.output, graph.initializer) for item in part}
    for node in graph.node:
        found |= {*node.input, *node.output}
        for inner in _inner(node):
            found |= _every(inner)
    return found


def _apply(graph: Any, names: Mapping[str, str]) -> None:
    for part in (graph.input, graph.output, graph.initializer):
        for item in part:
            item.name = names.get(item.name, item.name)
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]
        for inner in _inner(node):
            _apply(inner, names)
    del graph.value_info[:]


def _inner(node: Any) -> list[Any]:
    """Graphs within a node, such as the branches of an If."""
    return [graph for item in node.attribute for graph in ([item.g] if item.HasField("g") else list(item.graphs))]
