"""Shape checks on, the array libraries, and settings of the property tests."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import array_api_strict
import jax
import numpy as np
import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook
from promises import kept_promise

# Every annotated function of headwise checks the shapes it says it takes and gives; what numba or Triton compile has none.
SOURCE = Path(__file__).parents[1] / "src"
MODULES = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py")]
CHECKED = [name for name in MODULES if not name.endswith(("__init__", "fused", "loops")) and ".gpu." not in name]
install_import_hook(CHECKED, "shapes.check")

jax.config.update("jax_enable_x64", True)  # noqa: FBT003  jax's signature
settings.register_profile("default", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("default")


@dataclass(frozen=True)
class Library:
    """An array library under test."""

    name: str
    asarray: Callable[..., Any]
    kind: type

    def __call__(self, *arrays: np.ndarray) -> list[Any]:
        """Turn NumPy arrays into arrays of this library."""
        return [self.asarray(array) for array in arrays]


def _read_only(array: np.ndarray) -> np.ndarray:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


LIBRARIES = [
    Library("numpy", np.array, np.ndarray),
    Library("read-only", _read_only, np.ndarray),
    Library("torch", torch.tensor, torch.Tensor),
    Library("jax", jax.numpy.asarray, jax.Array),
    Library("strict", array_api_strict.asarray, type(array_api_strict.asarray(0.0))),
]


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture(autouse=True)
def promises(monkeypatch):
    """Check every design of a single query that any test makes: its certificate, and its leak under mpmath."""
    from headwise.design import face

    made, original = [], face._possible

    def remembered(task, asked, answer, leak, values):
        design = original(task, asked, answer, leak, values)
        made.append((asked, design, leak))
        return design

    monkeypatch.setattr(face, "_possible", remembered)
    yield
    for asked, design, leak in made:
        assert design.verify()
        if design.query is not None:
            assert kept_promise(asked.keys, design.query, set(asked.inside), leak)


def pytest_terminal_summary(terminalreporter):
    """Print what tests measured, also when other processes ran them."""
    reports = terminalreporter.getreports("passed")
    found = [(report.nodeid, text) for report in reports for name, text in report.user_properties if name == "worst case"]
    if found:
        terminalreporter.section("worst cases")
        for where, text in found:
            terminalreporter.write_line(f"{where.rsplit('::', maxsplit=1)[-1]}: {text}")
