"""`kandev-gateway run`: reads the options, sets up logs, serves until it is stopped."""

import asyncio
import logging
import sys
from collections.abc import Sequence

from kandev_operator.clients.errors import ClientError
from kandev_operator.gateway.options import parse
from kandev_operator.gateway.process import serve
from kandev_operator.gateway.store.database import StoreRefused


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gateway; the exit code is 0 after a graceful stop."""
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    log = logging.getLogger(__name__)
    code = 0
    try:
        asyncio.run(serve(settings))
    except* (ClientError, StoreRefused, OSError) as group:
        for error in group.exceptions:
            log.error("the gateway cannot serve: %s", error)
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
