"""What `helm test` runs: of all ready replicas exactly one leads. Tried until that holds."""

import os
import re
import socket
import sys
import time
import urllib.request

SERVICE = os.environ["SERVICE"]
LEADS = re.compile(r"^kandev_operator_lease_valid (\S+)$", re.MULTILINE)


def leaders() -> list[bool]:
    """For each ready replica, whether it leads."""
    found = socket.getaddrinfo(SERVICE, 8080, type=socket.SOCK_STREAM)
    hosts = {f"[{each[4][0]}]" if ":" in each[4][0] else each[4][0] for each in found}
    answers = []
    for host in sorted(hosts):
        with urllib.request.urlopen(f"http://{host}:8080/metrics", timeout=5) as page:
            (value,) = LEADS.findall(page.read().decode())
        answers.append(float(value) == 1.0)
    return answers


said: object = "nothing"
for _ in range(30):
    try:
        said = leaders()
        if sum(said) == 1:
            print(f"{len(said)} ready, one leads")
            sys.exit(0)
    except (OSError, ValueError) as error:
        said = error
    time.sleep(2)
sys.exit(f"{SERVICE}: nobody, or more than one, leads: {said}")
