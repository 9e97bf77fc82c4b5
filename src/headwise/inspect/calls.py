"""Which layer attends: layers may share one attention module, and some layers have none."""

import re
from collections import Counter
from typing import Any

from headwise.inspect.capture import UnsupportedModelError

# An element of the model's list of layers, such as layers.3 or encoder.layer.3; what lies inside of one has more numbers.
_ELEMENT = re.compile(r"(?:[^\W\d]\w*\.)*(\d+)")


class Calls:
    """The layers of a model, numbered as the model numbers them, while it runs."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401  a model
        """Prepare to follow; a forward pass begins with `start`."""
        self.model = type(model).__name__
        named = ((module, _ELEMENT.fullmatch(name)) for name, module in model.named_modules())
        self.elements = {id(module): int(found[1]) for module, found in named if found is not None}
        self.numbers: dict[tuple[int, int], int] = {}
        self.start()

    def start(self) -> None:
        """Begin a forward pass."""
        self.running: int | None = None
        self.entered: Counter[int] = Counter()
        self.attended: set[tuple[int, int]] = set()

    def enter(self, module: Any, _given: Any) -> None:  # noqa: ANN401  a torch module and its arguments
        """Note that a module begins: a hook."""
        self.entered[id(module)] += 1
        self.running = self.elements.get(id(module), self.running)

    def number(self, function: str, module: Any) -> int:  # noqa: ANN401  a torch module
        """Return the number of the layer whose attention is computed now."""
        call = id(module), self.entered[id(module)]
        if call not in self.numbers:
            taken = set(self.numbers.values())
            fresh = self.running is not None and self.running not in taken
            self.numbers[call] = self.running if fresh and self.running is not None else max(taken, default=-1) + 1
        if call in self.attended:
            rule = f"each layer must attend once, but layer {self.numbers[call]} of {self.model} attends several times"
            raise UnsupportedModelError(function, rule)
        self.attended.add(call)
        return self.numbers[call]

    @property
    def known(self) -> list[int]:
        """The numbers of the layers that attend, as far as they have been met."""
        return sorted(self.numbers.values())
