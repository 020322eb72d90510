"""Is it ready? The questions that are asked while a node comes up.

A question is answered with yes or no, or with an OSError while nobody listens; whoever waits
(`Component.wait_until`) takes that for a no and remembers the words.
"""

import http.client
from urllib.parse import urlsplit

from cluster.api import Api

_TIMEOUT = 5.0


def answers(url: str) -> bool:
    """Tell whether a plain HTTP address answers with 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except http.client.HTTPException as error:
        raise ConnectionError(f"{url}: {error!r}") from error
    finally:
        connection.close()


def node_is_ready(api: Api, name: str) -> bool:
    """Tell whether the node's own condition Ready is true."""
    answer = api.request("GET", f"/api/v1/nodes/{name}")
    if answer.code != 200:
        return False
    conditions = answer.json.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
