"""What programs are compiled from, for another process: the nodes of graphs, and tensors without their content.

(torch would trace a pickled graph again, whereby tensors that it makes become constants.)
"""

from __future__ import annotations

import copyreg
import io
import pickle
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fp3o.execution.compiler import Source


def described(sources: list[Source]) -> bytes:
    """The sources as `read` takes them."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    operator = type(torch.ops.aten.add.Tensor)
    pickler.dispatch_table = copyreg.dispatch_table | {
        operator: lambda x: (_operator, tuple(str(x).split("."))),
        torch.fx.Node: lambda x: (_Named, (x.name,)),
    }
    parts = []
    for source in sources:
        nodes = [(x.op, x.name, x.target, x.args, x.kwargs) for x in source.graph.graph.nodes]
        kinds = [(tuple(x.shape), x.stride(), x.dtype, x.device) for x in source.tensors]
        parts.append((nodes, kinds))
    pickler.dump(parts)
    return file.getvalue()


class _Named(str):
    """Stands for the node with this name."""


def _operator(namespace: str, name: str, overload: str) -> Any:
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


def read(description: bytes) -> list[Source]:
    """What `described` has written; the tensors of a GPU have no memory, which the process that trains needs."""
    sources = [Source(_graph(nodes), [_tensor(*kind) for kind in kinds]) for nodes, kinds in pickle.loads(description)]
    torch.cuda.empty_cache()
    return sources


def _graph(nodes: list[tuple[Any, ...]]) -> torch.fx.GraphModule:
    graph, there = torch.fx.Graph(), dict[str, torch.fx.Node]()

    def found(x: Any) -> Any:
        return there[x] if isinstance(x, _Named) else x

    for op, name, target, *given in nodes:
        args, kwargs = (pytree.tree_map(found, x) for x in given)
        there[name] = graph.create_node(op, target, args, kwargs, name)
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def _tensor(shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    x = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    memory = cast(Any, x.untyped_storage())
    if x.is_cuda:
        memory.resize_(0)  # the compiler only looks at shapes
    else:
        memory.fill_(0)
    return x
