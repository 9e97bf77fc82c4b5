"""The lab in a notebook: the same modules, answered by the notebook's own Python."""

from functools import cache
from typing import Any

from headwise.arrays import Given
from headwise.errors import check_option, missing_extra
from headwise.lab.bundle import bundled, styles
from headwise.shown import plain

PANELS = ("copy", "noise", "matrices", "extract", "answer")


def widget(panel: str = "copy", **state: Given) -> Any:  # noqa: ANN401  a class of anywidget's, which is loaded on use
    """Return the lab as a widget for Jupyter or marimo.

    Parameters
    ----------
    panel
        The panel to open: "copy", "noise", "matrices", "extract" or "answer".
    **state
        What it opens on, for example ``keys``, ``values`` and ``query`` of "copy", or ``scale`` of "noise"; the panel's JSON
        export shows all names. What is not given or cannot be is as the panel opens by itself.

    Examples
    --------
    >>> made = widget("copy", keys=[[0, 0], [4, 0], [0, 4], [1, 1]])
    >>> made.state["panel"]
    'copy'
    """
    check_option("widget", "panel", panel, PANELS)
    return _kind()(state={"panel": panel, "state": plain(state)})


@cache
def _kind() -> Any:  # noqa: ANN401
    """Make the class, once."""
    try:
        import anywidget  # noqa: PLC0415
        import msgspec  # noqa: PLC0415
        import traitlets  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("widget", error.name or "anywidget", "lab") from None
    from headwise.lab.questions import KINDS  # noqa: PLC0415
    from headwise.lab.workers import Helper  # noqa: PLC0415

    # A process of its own: work that does not end must not keep the notebook.
    helper = Helper()

    class Lab(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = bundled("lab.js")
        _css = styles()
        state = traitlets.Dict().tag(sync=True)

        def __init__(self, **given: Any) -> None:  # noqa: ANN401
            super().__init__(**given)
            self.on_msg(self._asked)

        def _asked(self, _: object, message: object, __: object) -> None:
            given = message if isinstance(message, dict) else {}
            kind = str(given.get("kind"))
            try:
                body = msgspec.json.encode(given.get("body"))
                status, reply = helper.ask(kind, body) if kind in KINDS else (404, b"{}")
                data = msgspec.json.decode(reply)
            except Exception as error:  # noqa: BLE001  the page waits for a reply, whatever happens
                status, data = 500, {"error": f"headwise itself failed ({type(error).__name__})."}
            answer = {"answer": data} if status == 200 else {"error": data.get("error", "there is no such question")}
            self.send({"id": given.get("id"), **answer})

    return Lab
