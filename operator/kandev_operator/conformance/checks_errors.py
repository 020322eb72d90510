"""What is refused is refused in one way, with bounds: bodies, paths, sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

from kandev_operator.conformance.checks_access import health_of, refused
from kandev_operator.conformance.musts import NotApplicable, must, need
from kandev_operator.conformance.target import Target
from kandev_operator.contract import paths
from kandev_operator.contract.errors import Code, ErrorBody

ERRORS: Final = "errors"
BOUNDS: Final = "bounds"
HALF_OPEN: Final = 50


@must("C-030", ERRORS, "An unknown path answers 404 with an error body, code not_found.")
async def unknown_path(target: Target) -> str:
    return refused(await target.call("GET", "/api/v1/no-such-thing"), Code.NOT_FOUND)


@must("C-031", ERRORS, "A body that is no JSON is refused with 400, and is not quoted.")
async def no_json(target: Target) -> str:
    for content in (b"{", b"not json at all, secret-word", b'{"a": "\xff\xfe"}', b"\x00\x01"):
        answer = await target.send("POST", paths.PROMPT, content=content, token=target.token())
        refused(answer, Code.INVALID_REQUEST)
        need(b"secret-word" not in answer.body, "the answer quotes the body")
    return "400 invalid_request"


@must("C-032", ERRORS, "A missing, empty or mistyped field is refused with 400; details tell it.")
async def bad_fields(target: Target) -> str:
    await target.configured()
    whole = target.prompt_body("secret-word")
    changes: tuple[dict[str, object], ...] = (
        {"prompt_id": None},
        {"prompt_id": ""},
        {"prompt_id": 7},
        {"content": []},
    )
    for change in changes:
        body = {k: v for k, v in {**whole, **change}.items() if v is not None}
        answer = await target.call("POST", paths.PROMPT, body)
        refused(answer, Code.INVALID_REQUEST)
        name = next(iter(change))
        told = json.dumps(answer.details())
        need(name in told, f"details do not name {name}: {told[:200]}")
        need("secret-word" not in told, "the details quote a value")
    return "400 with the field's name"


@must("C-033", ERRORS, "Fields that the contract does not know are ignored.")
async def unknown_fields(target: Target) -> str:
    answer = await target.call("PUT", paths.AGENT, target.spec(of_a_later_version={"a": 1}))
    need(answer.status == 200, f"got {answer}")
    return "taken"


@must("C-034", ERRORS, "Every refusal has the body {code, message, details} as JSON.")
async def one_error_body(target: Target) -> str:
    tried = (
        await target.send("GET", paths.STATUS),
        await target.call("GET", "/nowhere"),
        await target.call("DELETE", paths.STATUS),
        await target.call("POST", paths.PROMPT, {}),
        await target.call("GET", paths.EVENTS + "?after=nonsense"),
    )
    for answer in tried:
        need(400 <= answer.status < 500, f"a client's mistake got {answer.status}")
        kind = answer.headers.get("content-type", "")
        need(kind.startswith("application/json"), f"content-type is {kind!r}")
        need(answer.fits(ErrorBody).message, "the message is empty")
    return f"{len(tried)} refusals alike"


@must("C-130", BOUNDS, "A body longer than 4 MiB is refused with 413 too_large.")
async def too_long(target: Target) -> str:
    content = b'{"a": "' + b"x" * paths.MAX_BODY_BYTES + b'"}'
    answer = await target.send("POST", paths.PROMPT, content=content, token=target.token())
    return refused(answer, Code.TOO_LARGE)


@must("C-131", BOUNDS, "The same holds for a body that does not say how long it is.")
async def too_long_unannounced(target: Target) -> str:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"a": "'
        for _ in range(5):
            yield b"x" * (1024 * 1024)
        yield b'"}'

    answer = await target.send("POST", paths.PROMPT, content=chunks(), token=target.token())
    return refused(answer, Code.TOO_LARGE)


@must("C-132", BOUNDS, "Callers who stop in the middle of a request keep nobody else waiting.")
async def half_open(target: Target) -> str:
    parts = urlsplit(target.url)
    if parts.scheme != "http" or parts.hostname is None:
        raise NotApplicable("half a request is sent over plain http only")
    begun = f"POST {paths.PROMPT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n".encode()
    writers: list[asyncio.StreamWriter] = []
    try:
        for number in range(HALF_OPEN):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            writers.append(writer)
            writer.write(begun if number % 2 else begun + b"\r\n{")
        async with asyncio.timeout(10):
            for _ in range(5):
                await health_of(target)
            await target.status()
    except TimeoutError:
        need(False, f"no answer within 10 s beside {len(writers)} half requests")
    finally:
        for writer in writers:
            with contextlib.suppress(OSError):
                writer.transport.abort()
    return f"answers beside {HALF_OPEN} half requests"
