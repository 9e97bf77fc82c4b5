"""What is said of text that cannot be read: the place, what was read there, what was expected."""


def as_text(given: str) -> str:
    r"""Return text that can be written: halves of characters, which JSON and names of files may hold, become question marks.

    >>> as_text("a\ud800")
    'a?'
    """
    return given.encode("utf-8", "replace").decode()


class Unreadable(Exception):
    """Text that is not an answer; `start` and `end` are the place in it."""

    def __init__(self, problem: str, start: int, end: int) -> None:
        """Keep the place beside the sentence."""
        super().__init__(problem)
        self.problem, self.start, self.end = problem, start, max(end, start + 1)

    def shown(self, text: str) -> str:
        """Return the sentence with the line of the text and a mark under the place.

        >>> print(Unreadable("expected a factor, but this is the end", 6, 7).shown("beta *"))
        expected a factor, but this is the end
          beta *
                ^
        """
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.start)
        line = text[first : last if last >= 0 else len(text)]
        near = max(0, self.start - first - 50)
        piece = "".join(sign if sign.isprintable() else "?" for sign in line[near : near + 100])
        under = " " * (self.start - first - near) + "^" * max(1, min(self.end, first + near + len(piece)) - self.start)
        return f"{self.problem}\n  {piece}\n  {under}".rstrip()
