"""Ask for an URL every few milliseconds until standard input ends; print how long each took.

python -m benchmarks.asking URL      prints `asking`, and at the end a list of seconds as JSON
"""

import http.client
import json
import select
import sys
import time
from urllib.parse import urlsplit

PAUSE = 0.005


def main(url: str) -> None:
    """Ask on one connection, as a probe does."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    times = []
    print("asking", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE)[0]:
        began = time.perf_counter()
        connection.request("GET", parts.path)
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1])
