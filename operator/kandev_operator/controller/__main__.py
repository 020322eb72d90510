"""`kandev-operator run`: reads the options, sets up logs, runs the operator until it is stopped."""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from kandev_operator.clients.errors import ClientError
from kandev_operator.controller import logs
from kandev_operator.controller.app import serve
from kandev_operator.controller.settings import parse
from kandev_operator.controller.tracing import TracingMissing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator; the exit code is 0 after a graceful stop."""
    settings = parse(sys.argv[1:] if arguments is None else arguments, os.environ)
    redactor = logs.set_up(settings.log_format, settings.log_level)
    try:
        asyncio.run(serve(settings, redactor.register))
    except (ClientError, TracingMissing) as error:
        logging.getLogger(__name__).error("the operator cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
