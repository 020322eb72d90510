"""`kubectl kandev`, as the console script `kubectl-kandev`: read the command line, then run it.

Only the options are imported at once; `--help` answers before any client is loaded.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence

from kandev_operator.cli.options import parse

INTERRUPTED = 130
ENDED = 143
"""Asked to end, by SIGTERM or SIGHUP."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script's entry point; gives the exit code."""
    where, command = parse(sys.argv[1:] if argv is None else argv, os.environ)
    import asyncio

    from kandev_operator.cli.program import run
    from kandev_operator.cli.screen import Screen

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    try:
        return asyncio.run(run(where, command, Screen()))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return ENDED
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does.
        return _without_output()
    except OSError as error:
        if error.errno not in FULL:
            raise
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        return _without_output()


def _without_output() -> int:
    """The exit must not write to it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


if __name__ == "__main__":
    sys.exit(main())
