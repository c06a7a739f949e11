"""Slow, idle and malformed connections end in time and do not keep others out."""

import asyncio
import json

import pytest
import uvicorn

from ostrakon.service import connections
from ostrakon.service.audit_file import AuditFile
from ostrakon.service.connections import Connection

HEAD = b"GET /x HTTP/1.1\r\nHost: localhost\r\n"


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    while (await receive()).get("more_body"):
        pass
    body = b"x" * 20_000_000 if scope["path"] == "/big" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def served(tmp_path, script, **limits):
    """Run `script(port)` beside a server with these limits; returns the lines of its audit log."""
    audit = tmp_path / "audit.log"
    kind = type("Own", (Connection,), {"audit": AuditFile(audit), **limits})

    async def both():
        config = uvicorn.Config(app, port=0, http=kind, lifespan="off", log_level="critical", timeout_keep_alive=5)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            await script(port)
        finally:
            server.should_exit = True
            await task

    asyncio.run(both())
    return [json.loads(line) for line in audit.read_text().splitlines()]


async def talk(port, content, *, more=()):
    """What comes back until the end of the connection; more: pieces that are sent one after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    for piece in more:
        await asyncio.sleep(0.05)
        writer.write(piece)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_an_idle_connection_makes_room_for_a_new_one(tmp_path):
    async def script(port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        await asyncio.sleep(0.1)
        for _ in range(3):
            assert (await talk(port, HEAD + b"Connection: close\r\n\r\n")).endswith(b"ok")
        ended = [reader.at_eof() or reader.exception() is not None for reader, _ in idle]
        # One had to go; the next two found the place of the one before them.
        assert ended == [True] + [False] * 9
        for _, writer in idle:
            writer.close()

    assert served(tmp_path, script, max_connections=10) == []


def test_where_all_are_busy_a_new_one_is_refused_in_the_usual_shape(tmp_path):
    async def script(port):
        busy = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"Content-Length: 5\r\n\r\n1")
            busy.append((reader, writer))
        await asyncio.sleep(0.1)
        told = await talk(port, HEAD + b"\r\n")
        assert told.startswith(b"HTTP/1.1 503 ")
        assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["code"] == "unavailable"
        for _, writer in busy:
            writer.close()

    assert [line["status"] for line in served(tmp_path, script, max_connections=4)] == [503]


def test_one_address_has_a_limit_of_its_own(tmp_path):
    async def script(port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        await asyncio.sleep(0.1)
        assert sum(reader.at_eof() or reader.exception() is not None for reader, _ in idle) == 3
        for _, writer in idle:
            writer.close()

    served(tmp_path, script, max_per_address=3)


@pytest.mark.parametrize(
    ("start", "pieces"),
    [(b"", []), (b"GET / HT", [b"T"] * 3), (HEAD + b"Content-Length: 9\r\n\r\n", [b"1"] * 3)],
    ids=["nothing", "slow head", "slow body"],
)
def test_a_request_that_takes_too_long_ends(tmp_path, monkeypatch, start, pieces):
    monkeypatch.setattr(connections, "SECONDS_FOR_HEAD", 0.3)
    monkeypatch.setattr(connections, "SECONDS_FOR_BODY", 0.3)

    async def script(port):
        assert b"200" not in await asyncio.wait_for(talk(port, start, more=pieces), 10)

    served(tmp_path, script)


def test_a_kept_connection_serves_several_requests_and_then_a_slow_one_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_FOR_HEAD", 0.5)

    async def script(port):
        told = await talk(port, HEAD + b"\r\n", more=[HEAD + b"\r\n", HEAD + b"\r\n", b"GET /slow"])
        assert told.count(b"ok") == 3

    served(tmp_path, script)


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [pytest.param("time", marks=pytest.mark.slow), "room"])
def test_clients_that_do_not_read_their_answers_end(tmp_path, monkeypatch, ended_by):
    if ended_by == "time":
        monkeypatch.setattr(connections, "SECONDS_FOR_ANSWER", 0.3)

    async def script(port):
        deaf = []
        for _ in range(3):
            # A limit of one byte: what is not read here is not taken from the network.
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(HEAD.replace(b"/x", b"/big") + b"\r\n")
            deaf.append((reader, writer))
        await asyncio.sleep(1)
        told = await talk(port, HEAD + b"Connection: close\r\n\r\n")
        assert told.endswith(b"ok")
        cut = 0
        for reader, _ in deaf[: 3 if ended_by == "time" else 1]:
            try:
                cut += len(await asyncio.wait_for(reader.read(), 20)) < 20_000_000
            except ConnectionError:
                cut += 1
        assert cut == (3 if ended_by == "time" else 1)
        for _, writer in deaf:
            writer.transport.abort()

    served(tmp_path, script, max_connections=3 if ended_by == "room" else 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "piece"),
    [(HEAD, b"X: " + b"a" * 5_000 + b"\r\n"), (b"GET /", b"a" * 5_000), (HEAD + b"X: ", b"a" * 5_000)],
    ids=["many headers", "a long path", "one long header"],
)
def test_a_head_without_end_is_refused(tmp_path, start, piece):
    async def script(port):
        # The connection may be closed before the refusal is read.
        assert b"200" not in await talk(port, start, more=[piece] * 20)
        # Many requests on one connection are not one large request.
        assert (await talk(port, HEAD + b"\r\n", more=[HEAD + b"X: " + b"a" * 5_000 + b"\r\n\r\n"] * 20)).count(
            b"ok"
        ) == 21

    assert [line["status"] for line in served(tmp_path, script)] == [431]


def test_headers_without_end_after_a_body_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MAX_REQUEST", 2**17)

    async def script(port):
        start = HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
        assert b"ok" not in await talk(port, start, more=[b"X: " + b"a" * 20_000 + b"\r\n"] * 10)

    assert [line["status"] for line in served(tmp_path, script)] == [431]


def test_what_is_not_http_is_refused_in_the_usual_shape(tmp_path):
    async def script(port):
        told = await talk(port, b"\x16\x03\x01 hello\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 400 ")
        assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["code"] == "bad_request"

    assert [line["status"] for line in served(tmp_path, script)] == [400]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n",
        b"POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"GET /x HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ],
    ids=["1.0", "1.0 in chunks", "no host", "two hosts"],
)
def test_other_versions_and_a_missing_host_are_refused(tmp_path, request_):
    async def script(port):
        told = await talk(port, request_)
        assert told.startswith(b"HTTP/1.1 400 ")
        assert b"ok" not in told

    assert [line["status"] for line in served(tmp_path, script)] == [400]


def test_many_requests_sent_ahead_end_the_connection(tmp_path, monkeypatch):
    started = 0
    task = Connection._start_asgi_task

    def counted(self, cycle, app):
        nonlocal started
        started += 1
        task(self, cycle, app)

    monkeypatch.setattr(Connection, "_start_asgi_task", counted)
    ahead = HEAD + b"\r\n"

    async def script(port):
        # One is answered while the others wait.
        assert (await talk(port, ahead * 16 + HEAD + b"Connection: close\r\n\r\n")).count(b"ok") == 17
        assert (await talk(port, ahead * 10_000)).count(b"ok") == 0
        assert started == 18

    assert [line["status"] for line in served(tmp_path, script)] == [429]
