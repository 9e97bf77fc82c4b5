"""Worker processes that are given questions, and are killed when nobody waits for the answer or it takes too long."""

import asyncio
import os
import sys
from collections import OrderedDict
from contextlib import suppress

from headwise.lab.questions import told
from headwise.lab.worker import LENGTH

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
            return 400, told(f"the work must end within {self.seconds:g} s here, but it did not. Use fewer keys, or Python.")
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._dropped(process)
            return 500, told("the process that works on this has ended; ask again.")
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
        # One thread each: the processes share the cores already.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headwise.lab.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | threads,
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
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _exchanged(process: asyncio.subprocess.Process, kind: str, body: bytes) -> Reply:
    assert process.stdin is not None  # noqa: S101  both were asked for
    assert process.stdout is not None  # noqa: S101
    frame = kind.encode() + b"\n" + body
    process.stdin.write(LENGTH.pack(len(frame)) + frame)
    await process.stdin.drain()
    head = await process.stdout.readexactly(LENGTH.size)
    answer = await process.stdout.readexactly(LENGTH.unpack(head)[0])
    return int(answer[:3]), answer[3:]
