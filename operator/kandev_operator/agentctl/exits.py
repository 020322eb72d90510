"""How a process of ours ended, as the contract tells it: an exit code, or the name of a signal.

Both are None while it runs. Whether an end was wanted is not known here.
"""

import signal


def code_of(returncode: int | None) -> int | None:
    """Its exit code, if it ended by itself."""
    return returncode if returncode is not None and returncode >= 0 else None


def signal_of(returncode: int | None) -> str | None:
    """The signal that ended it, by name, or by number where it has none."""
    if returncode is None or returncode >= 0:
        return None
    return name_of(-returncode)


def name_of(number: int) -> str:
    """A signal's name; its number, where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
