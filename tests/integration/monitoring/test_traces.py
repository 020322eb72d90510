"""A session's life as traces: a real operator, and a receiver on the loopback that reads OTLP."""

import asyncio
import gzip
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task
from stage.talk import talk

SECRET_WORDS = "alpha-bravo-only-the-agent-may-know"


class Receiver:
    """What came in, whole requests."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.url = ""

    def spans(self) -> list[Any]:
        return [
            span
            for body in list(self.raw)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans() if span.name == name]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver of OTLP over HTTP."""
    got = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            got.raw.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        got.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        try:
            yield got
        finally:
            server.shutdown()
            thread.join()


async def until(got: Receiver, name: str, count: int, operator: OperatorProcess) -> None:
    for _ in range(600):
        if len(got.named(name)) >= count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{[span.name for span in got.spans()]}\n{operator.tail()}")


async def test_a_start_a_turn_and_a_resume_by_another_leader(
    place: Namespace, make_operator: Callable[..., OperatorProcess]
) -> None:
    with receiver() as got:
        operator = make_operator(f"--otlp-endpoint={got.url}").start()
        wanted = session("s", place.worktree("s"))
        place.apply(profile(), task(), wanted)
        place.wait_idle("s")
        name = place.name
        async with talk(place.cluster.kubeconfig, name, "s", operator_namespace=name) as it:
            await it.ask(SECRET_WORDS)
        await until(got, "turn", 1, operator)
        operator.stop()
        operator.start()
        os.kill(place.executor_of("s")["status"]["pid"], signal.SIGKILL)
        place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed")
        await until(got, "resume", 1, operator)
        assert operator.stop() == 0
        spans = got.spans()
        whole = {span.name: span for span in spans if not span.parent_span_id}
        assert whole.keys() == {"start", "resume"}
        below = [span for span in spans if span.parent_span_id]
        parts = {
            name: {span.name for span in below if span.parent_span_id == each.span_id}
            for name, each in whole.items()
        }
        assert {"agentctl ready", "executor ready", "agent ready", "turn"} <= parts["start"]
        assert "agent ready" in parts["resume"]
        assert len(got.named("agentctl ready")) >= 2
        assert whole["start"].trace_id != whole["resume"].trace_id
        for span in below:
            traces = {each.span_id: each.trace_id for each in whole.values()}
            assert traces[span.parent_span_id] == span.trace_id
        for span in spans:
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            told = {each.key: each.value for each in span.attributes}
            assert told["kandev.session"].string_value == "s"
        token = place.kubectl("get", "secrets", "-o", "jsonpath={.items[*].data.token}")
        assert token
        for body in got.raw:
            assert SECRET_WORDS.encode() not in body


async def test_a_receiver_that_is_not_there_stops_nothing(
    place: Namespace, make_operator: Callable[..., OperatorProcess]
) -> None:
    operator = make_operator("--otlp-endpoint=http://127.0.0.1:9/v1/traces").start()
    place.apply(profile(), task(), session("s", place.worktree("s")))
    place.wait_idle("s")
    assert operator.stop() == 0
