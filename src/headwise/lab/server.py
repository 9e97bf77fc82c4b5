"""The page and its questions over HTTP, for this machine only."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headwise.lab.bundle import STATIC
from headwise.lab.questions import KINDS, told
from headwise.lab.workers import Workers
from headwise.version import __version__

MOST_BYTES = 6 << 20
_HOSTS = (b"127.0.0.1", b"localhost")
_HEADERS = [
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
            b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


class Guard:
    """Refuses what another page sends, and puts the rules for the browser on every answer."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        """Stand before an application."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")

        async def guarded(message: Scope) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        if host.partition(b":")[0] not in _HOSTS:
            await _json(400, told("this server is reached as 127.0.0.1 or localhost only."))(scope, receive, guarded)
            return
        if origin is not None and origin != b"http://" + host:
            await _json(403, told("this server answers its own page only."))(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)


def _json(status: int, body: bytes) -> Response:
    return Response(body, status, media_type="application/json")


async def _body(request: Request) -> bytes | None:
    """Read what was sent, but no more than is allowed."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


async def _question(request: Request) -> Response:
    kind = request.path_params["kind"]
    if kind not in KINDS:
        return _json(404, told(f"a question must be one of {', '.join(KINDS)}, but this is another."))
    try:
        body = await _body(request)
    except ClientDisconnect:
        return _json(499, told("nobody waits for this."))
    if body is None:
        return _json(
            413,
            told(f"a question may have {MOST_BYTES >> 20} MB, but this has more. Ask headwise in Python."),
        )
    if kind == "file":
        name = request.query_params.get("name", "file")
        body = msgspec.json.encode({"name": name, "base64": base64.b64encode(body).decode()})
    elif request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return _json(415, told("a question must be application/json, but this is not."))
    asked = asyncio.create_task(request.app.state.workers.ask(kind, body))
    gone = asyncio.create_task(_gone(request))
    stopped = asyncio.create_task(request.app.state.stopping.wait())
    try:
        await asyncio.wait({asked, gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return _json(*asked.result())
        return _json(503, told("the server has stopped.")) if stopped.done() else _json(499, told("nobody waits for this."))
    finally:
        for task in (asked, gone, stopped):
            task.cancel()


async def _gone(request: Request) -> None:
    """Wait until the one who asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refused(_: Request, error: Exception) -> Response:
    """Say in JSON what Starlette refuses: a path or a method that is not there."""
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "this failed")
    return _json(status, told(f"{detail}."))


async def _health(_: Request) -> Response:
    return _json(200, msgspec.json.encode({"headwise": __version__}))


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")


def application(workers: Workers | None = None) -> Starlette:
    """Return the application; its processes run as long as it does."""
    pool = workers or Workers()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.stopping = asyncio.Event()
        await pool.start()
        yield
        await pool.stop()

    app = Starlette(
        routes=[
            Route("/", _index),
            Route("/api/health", _health),
            Route("/api/{kind}", _question, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    app.state.workers = pool
    return app
