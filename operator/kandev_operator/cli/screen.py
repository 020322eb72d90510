"""Where words go: answers to standard output, everything beside them to standard error.

So `kubectl kandev prompt … > answer.md` holds the answer alone. Colour is used on terminals only,
and not where NO_COLOR is set; without it the words are the same. Every text is made plain first
(`plain`), because most of it was written by an agent. Questions are asked only where somebody sits
at a terminal, and a question can be withdrawn.
"""

import asyncio
import sys
from typing import Final, TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from kandev_operator.cli.faults import Fault
from kandev_operator.cli.plain import plain

DIM: Final = "dim"
STRONG: Final = "bold"
WARNING: Final = "yellow"
ERROR: Final = "bold red"
COMMAND: Final = "cyan"
GOOD: Final = "green"


class Screen:
    """The three standard streams, as one thing to speak with."""

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self._stdin = stdin or sys.stdin
        self._stdout = stdout or sys.stdout
        self._out = _console(self._stdout)
        self._err = _console(stderr or sys.stderr)
        self._open_line = False

    @property
    def is_attended(self) -> bool:
        """Somebody can be asked."""
        return self._stdin.isatty() and self._err.is_terminal

    def say(self, text: str, style: str = "") -> None:
        """A line of the answer."""
        self.end_line()
        self._out.print(Text(plain(text), style), soft_wrap=True)

    def parts(self, *parts: tuple[str, str]) -> None:
        """A line of the answer whose parts (text, style) differ in style."""
        self.end_line()
        whole = Text.assemble(*((plain(text), style) for text, style in parts))
        self._out.print(whole, soft_wrap=True)

    def stream(self, text: str, style: str = "") -> None:
        """A piece of the answer as it comes: exactly as it is, and at once."""
        # Not printed by the console, which takes the blanks off the end of a line.
        self._stdout.write(_styled(self._out, plain(text), style))
        self._stdout.flush()
        if text:
            self._open_line = not text.endswith("\n")

    def write(self, data: bytes) -> None:
        """Bytes of the answer, where nobody looks at them; plain text on a terminal."""
        if self._out.is_terminal:
            self.stream(data.decode("utf-8", "replace"))
            return
        self._stdout.flush()
        self._stdout.buffer.write(data)
        self._stdout.buffer.flush()

    def end_line(self) -> None:
        """End the line of the answer that is open, if one is."""
        if self._open_line:
            self._stdout.write("\n")
            self._stdout.flush()
            self._open_line = False

    def note(self, text: str, style: str = DIM) -> None:
        """A line beside the answer."""
        if self._open_line and self._err.is_terminal:
            self.end_line()
        self._err.print(Text(plain(text), style), soft_wrap=True)

    def fault(self, fault: Fault) -> None:
        """Why the command ends."""
        self.note(f"error: {fault.message}", ERROR)
        for hint in fault.hints:
            self.note(f"  {hint}", "")

    def read_bytes(self) -> bytes:
        """Everything on standard input, as it is."""
        return self._stdin.buffer.read()

    def read_all(self) -> str:
        """Everything on standard input."""
        return self._stdin.read()

    async def ask(self, question: str) -> str | None:
        """Ask, and wait for a line; None when the input ends. May be cancelled."""
        self.end_line()
        self._err.print(Text(plain(question)), end=" ", soft_wrap=True)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str] = loop.create_future()

        def ready() -> None:
            # A terminal is readable when a whole line is there, so this does not block.
            line = self._stdin.readline()
            if not answered.done():
                answered.set_result(line)

        descriptor = self._stdin.fileno()
        loop.add_reader(descriptor, ready)
        try:
            return (await answered).strip() if await answered else None
        finally:
            loop.remove_reader(descriptor)


def _styled(console: Console, text: str, style: str) -> str:
    if not style or console.color_system is None or console.no_color:
        return text
    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


def _console(stream: TextIO) -> Console:
    return Console(file=stream, markup=False, highlight=False, emoji=False)
