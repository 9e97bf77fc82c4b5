"""A process that answers questions, one after the other: a frame in, a frame out. Run as ``python -m headwise.lab.worker``.

A frame is its length in four bytes and that many bytes. In: the kind, a line break, the body. Out: the status in three digits,
then JSON. Whoever gives up on an answer kills the process.
"""

import os
import struct
import sys
import warnings

from headwise.lab.questions import answered

LENGTH = struct.Struct(">I")
COMMAND = (sys.executable, "-m", "headwise.lab.worker")


def main() -> None:
    """Answer until the other side closes."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not come between frames
    warnings.simplefilter("ignore")  # they would run through the terminal of somebody who looks at a page
    while head := sys.stdin.buffer.read(LENGTH.size):
        kind, _, body = sys.stdin.buffer.read(LENGTH.unpack(head)[0]).partition(b"\n")
        status, answer = answered(kind.decode(), body)
        out.write(LENGTH.pack(3 + len(answer)) + str(status).encode() + answer)
        out.flush()


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(0)
