"""How a command ends: the documented exit codes, and the errors that carry one.

    Fault          1  it failed
    ├── Misuse     2  it was asked in a way that cannot be meant
    ├── Refusal    3  the session cannot, as it is: no agent runs, nobody serves it, …
    ├── OutOfTime  4  it did not come true in the time given
    └── Passing    1  something between here and there fails, and may be well at the next try

A fault is one sentence for a person, and hints: what is missing, or what to type next. It never
holds a token, a key or what a Secret says. Who prints it is the program's business.
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What the shell sees. 130 is added by the program when it is interrupted."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    TIMEOUT = 4


class Fault(Exception):
    """The command ends here. `hints` are lines of their own."""

    code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints


class Misuse(Fault):
    """The command line makes no sense, which could be seen only late."""

    code = ExitCode.USAGE


class Refusal(Fault):
    """The session cannot do this as it is."""

    code = ExitCode.REFUSED


class OutOfTime(Fault):
    """It did not come true in time. Nothing is known to have failed."""

    code = ExitCode.TIMEOUT


class Passing(Fault):
    """It says nothing about the session; whoever can wait may try again."""
