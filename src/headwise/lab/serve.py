"""Start the lab: find a port, say where it is, open the browser, and stop cleanly."""

import errno
import json
import socket
import threading
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable

from headwise.errors import HeadwiseError, OptionError, missing_extra

HOST = "127.0.0.1"


class PortError(HeadwiseError, OSError):
    """A port that somebody else has."""


def serve(
    *,
    port: int = 0,
    browser: bool = True,
    say: Callable[[str], object] = print,
    at: Callable[[str], object] | None = None,
) -> None:
    """Serve the lab on this machine until Ctrl-C.

    Parameters
    ----------
    port
        The port; 0 takes a free one.
    browser
        Whether to open the page in a browser.
    say
        What to do with the lines that tell where the page is.
    at
        Called with the address once the port is taken.
    """
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 1 << 16:
        raise OptionError("serve", f"port must be a whole number from 0 to 65535, but got {port!r}")
    try:
        import uvicorn  # noqa: PLC0415

        from headwise.lab.server import application  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("lab", error.name or "starlette", "lab") from None
    bound = _bound(port)
    address = f"http://{HOST}:{bound.getsockname()[1]}/"
    app = application()

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Let open questions be answered with that the server stops, before their connections are closed."""
            app.state.stopping.set()
            await super().shutdown(sockets)

    server = Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2))
    say(f"the lab is at {address} (Ctrl-C stops it)")
    if at is not None:
        at(address)
    if browser:
        threading.Thread(target=_opened, args=(server, address, say), daemon=True).start()
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        say("stopped")
    finally:
        bound.close()


def _opened(server: object, address: str, say: Callable[[str], object]) -> None:
    """Open the browser when the server is there."""
    wait = threading.Event()
    for _ in range(200):
        if getattr(server, "started", False):
            break
        wait.wait(0.05)
    if not webbrowser.open(address):
        say(f"no browser was found; open {address} yourself")


def _bound(port: int) -> socket.socket:
    """Take the port, or say who has it and which is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        if error.errno == errno.EACCES:
            raise PortError("serve", f"port must be one that you may use, but {port} is kept for root", "Try 8000.") from None
        if error.errno != errno.EADDRINUSE:
            raise
        step = f"Try: headwise lab --port {_free(port)}"
        raise PortError("serve", f"port must be free, but {port} is used by {_holder(port)}", step) from None
    return made


def _holder(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/api/health", timeout=1) as reply:
            if "headwise" in json.load(reply):
                return "another headwise lab"
    except (OSError, ValueError, urllib.error.URLError):
        pass
    return "another program"


def _free(port: int) -> int:
    for other in range(port + 1, min(port + 50, 1 << 16)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
            try:
                tried.bind((HOST, other))
            except OSError:
                continue
            return other
    return 0
