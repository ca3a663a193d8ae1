"""An encoder in two: what is below a cut and stays as it is, and what is above it and is trained. Both share its parameters.

The cut for the last stage is found in any convolutional encoder whose outer parts can be traced: before the block in which the
resolution falls for the last time.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from adaptd.errors import ConfigError
from adaptd.learning.backbones import Classifier
from adaptd.learning.settings import Depth


class Upper(Classifier):
    """A classifier above a cut: takes what is below made of images, and changes the whole classifier as it is trained."""

    def __init__(self, whole: Classifier, encoder: nn.Module) -> None:
        nn.Module.__init__(self)
        self.settings, self.encoder, self.projector, self.classifier = whole.settings, encoder, whole.projector, whole.classifier
        self.register_buffer("mean", whole.mean, persistent=False)
        self.register_buffer("std", whole.std, persistent=False)

    def normalise(self, images: Tensor) -> Tensor:
        """Activations are what they are."""
        return images


class Lower(nn.Module):
    """What is below a cut, in evaluation mode: images in 0…1 to activations."""

    mean: Tensor
    std: Tensor

    def __init__(self, whole: Classifier, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", whole.mean, persistent=False)
        self.register_buffer("std", whole.std, persistent=False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Activations, [n, C, h, w] or [n, features]."""
        normalised = (images - self.mean) / self.std
        activations: Tensor = self.encoder(normalised.contiguous(memory_format=torch.channels_last))
        return activations

    def digest(self) -> str:
        """Of its weights."""
        found = hashlib.sha256()
        for key, value in self.state_dict().items():
            found.update(key.encode() + value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()


@dataclass(frozen=True, slots=True)
class Cut:
    """Both parts, and the shape of one image's activations between them."""

    lower: Lower
    upper: Upper
    shape: torch.Size


def cut(model: Classifier, depth: Depth) -> Cut:
    """Cut a classifier so that only what `depth` says is above.

    Raises:
        ConfigError: the backbone has no stages that can be found.
    """
    if depth == "classifier":
        return Cut(Lower(model, model.encoder), Upper(model, nn.Identity()), torch.Size([model.classifier.in_features]))
    found = find_last_stage(model)
    if found is None:
        name = model.settings.backbone
        raise ConfigError(f'no stages are found in the backbone {name}: set the depth to "classifier" or "all"')
    graph, node, shape = found
    nodes = list(graph.nodes)
    place = nodes.index(node)
    lower, upper = _copy(model.encoder, nodes[: place + 1]), _copy(model.encoder, nodes[place + 1 :], node)
    return Cut(Lower(model, lower), Upper(model, upper), shape)


def find_last_stage(model: Classifier) -> tuple[fx.Graph, fx.Node, torch.Size] | None:
    """The traced encoder, the last node below its last stage, and the shape of what comes out there; None if there is none."""
    encoder, size = model.encoder, model.settings.image_size
    modes = [(module, module.training) for module in encoder.modules()]
    try:
        graph = _Tracer().trace(encoder.eval())
        shapes = _Shapes(fx.GraphModule(encoder, graph))
        with torch.no_grad():
            shapes.run(model.mean.new_zeros(2, 3, size, size))
    except Exception:  # noqa: BLE001  # a forward that branches on its data raises anything at all
        return None
    finally:
        for module, mode in modes:
            module.training = mode
    nodes = list(graph.nodes)
    node = choose_node(nodes, shapes.found)
    return None if node is None else (graph, node, shapes.found[node])


def choose_node(nodes: Sequence[fx.Node], shapes: dict[fx.Node, torch.Size]) -> fx.Node | None:
    """The last one at the resolution before the last through which everything goes."""
    last_use = {node: max((nodes.index(user) for user in node.users), default=0) for node in nodes}
    narrow = [
        node
        for place, node in enumerate(nodes[1:-1], 1)
        if len(shapes.get(node, ())) == 3 and all(last_use[earlier] <= place for earlier in nodes[:place])
    ]
    sides = [shapes[node][1] for node in narrow if shapes[node][1] > 1]
    before_last = sorted({side for side in sides if side > sides[-1]})
    if not before_last:
        return None
    return [node for node in narrow if shapes[node][1] == before_last[0]][-1]


class _Tracer(fx.Tracer):
    """Looks into sequences alone: what is in a block, and may depend on its mode, stays as it is."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002  # fx's name
        return not isinstance(m, nn.Sequential)


class _Shapes(fx.Interpreter):
    """Runs a graph, and notes the shape of each node's output, batch aside."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[fx.Node, torch.Size] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.found[n] = result.shape[1:]
        return result


def _copy(encoder: nn.Module, nodes: Sequence[fx.Node], given: fx.Node | None = None) -> nn.Module:
    """Some nodes as a module of their own, which shares the encoder's parts; `given` is its input, else the encoder's."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    if given is not None:
        copies[given] = graph.placeholder("activations")
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda each: copies[each])
    if nodes[-1].op != "output":
        graph.output(copies[nodes[-1]])
    return fx.GraphModule(encoder, graph)
