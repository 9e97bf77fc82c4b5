"""Worker processes that are given questions, and are killed when nobody waits for the answer or it takes too long."""

import asyncio
import os
import signal
import subprocess
import threading
from collections import OrderedDict
from contextlib import suppress

from headwise.lab.questions import told
from headwise.lab.worker import COMMAND, LENGTH

SECONDS = 20.0
_KEPT, _KEPT_BYTES = 256, 1 << 17

Reply = tuple[int, bytes]


class Workers:
    """Some processes, of which each answers one question at a time; the last answers are kept."""

    def __init__(self, count: int = 2, seconds: float = SECONDS) -> None:
        """Keep the sizes; nothing starts yet."""
        self.count, self.seconds = count, seconds
        self.idle: asyncio.Queue[asyncio.subprocess.Process | None] = asyncio.Queue()
        self.running: set[asyncio.subprocess.Process] = set()
        self.kept: OrderedDict[tuple[str, bytes], Reply] = OrderedDict()

    async def start(self) -> None:
        """Start all processes, so that the first question need not wait for it."""
        for _ in range(self.count):
            self.idle.put_nowait(await self._started())

    async def stop(self) -> None:
        """End all processes."""
        for process in list(self.running):
            await self._ended(process)

    async def ask(self, kind: str, body: bytes) -> Reply:
        """Return the answer; cancel this to give up on it."""
        found = self.kept.get((kind, body))
        if found is not None:
            self.kept.move_to_end((kind, body))
            return found
        process = await self.idle.get()
        try:
            if process is None or process.returncode is not None:
                process = await self._started()
            reply = await asyncio.wait_for(_exchanged(process, kind, body), self.seconds)
        except TimeoutError:
            await self._dropped(process)
            return _late(self.seconds)
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._dropped(process)
            return _gone()
        except BaseException:
            await asyncio.shield(self._dropped(process))
            raise
        self.idle.put_nowait(process)
        if reply[0] != 500 and len(body) + len(reply[1]) <= _KEPT_BYTES:
            self.kept[kind, body] = reply
            if len(self.kept) > _KEPT:
                self.kept.popitem(last=False)
        return reply

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_surroundings(),
            limit=1 << 24,
            start_new_session=True,
        )
        self.running.add(process)
        return process

    async def _dropped(self, process: asyncio.subprocess.Process | None) -> None:
        """End a process that is of no more use, and let another start when it is needed."""
        if process is not None:
            await self._ended(process)
        self.idle.put_nowait(None)

    async def _ended(self, process: asyncio.subprocess.Process) -> None:
        self.running.discard(process)
        _kill(process.pid)
        await process.wait()


class Helper:
    """One process whose answer is waited for, as a notebook does; nothing starts before the first question."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """Keep the limit."""
        self.seconds = seconds
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, kind: str, body: bytes) -> Reply:
        """Return the answer, or a sentence when it takes too long."""
        if self.process is None or self.process.poll() is not None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(  # noqa: S603  our own module
                COMMAND, stdin=pipe, stdout=pipe, env=_surroundings(), start_new_session=True
            )
        process, late = self.process, threading.Event()

        def give_up() -> None:
            late.set()
            _kill(process.pid)

        timer = threading.Timer(self.seconds, give_up)
        timer.start()
        try:
            return _exchanged_here(process, kind, body)
        except (EOFError, OSError):
            self.end()
            return _late(self.seconds) if late.is_set() else _gone()
        except BaseException:
            self.end()  # an answer that comes now would be taken for the next one
            raise
        finally:
            timer.cancel()

    def end(self) -> None:
        """End the process; the next question starts another."""
        process, self.process = self.process, None
        if process is None:
            return
        _kill(process.pid)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it has not read is lost with it
                    pipe.close()


def _kill(pid: int) -> None:
    """Kill a process and those that it has started: each of ours leads a group of its own."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


def _late(seconds: float) -> Reply:
    return 400, told(f"the work must end within {seconds:g} s here, but it did not. Use fewer keys, or Python.")


def _gone() -> Reply:
    return 500, told("the process that works on this has ended; ask again.")


def _surroundings() -> dict[str, str]:
    # One thread each: the processes share the cores already.
    return os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _exchanged_here(process: subprocess.Popen[bytes], kind: str, body: bytes) -> Reply:
    assert process.stdin is not None  # noqa: S101  both were asked for
    assert process.stdout is not None  # noqa: S101
    frame = kind.encode() + b"\n" + body
    process.stdin.write(LENGTH.pack(len(frame)) + frame)
    process.stdin.flush()
    head = process.stdout.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    size = LENGTH.unpack(head)[0]
    answer = process.stdout.read(size)
    if len(answer) < size:
        raise EOFError
    return int(answer[:3]), answer[3:]


async def _exchanged(process: asyncio.subprocess.Process, kind: str, body: bytes) -> Reply:
    assert process.stdin is not None  # noqa: S101  both were asked for
    assert process.stdout is not None  # noqa: S101
    frame = kind.encode() + b"\n" + body
    process.stdin.write(LENGTH.pack(len(frame)) + frame)
    await process.stdin.drain()
    head = await process.stdout.readexactly(LENGTH.size)
    answer = await process.stdout.readexactly(LENGTH.unpack(head)[0])
    return int(answer[:3]), answer[3:]
