"""One owner's part in a sum by MPyC: a program that `ostrakon.study.secure_sum` starts.

MPyC reads the command line and the environment when it is imported, prints, and waits without end, so it never runs in
the user's process. Secret sharing, addition and opening are MPyC's. This program makes the connections, because MPyC
trusts a caller that only says who it is: it uses TLS 1.3, both sides must show exactly the certificate that the study
names for them, and they agree (by ALPN) on one study and one set of owners. MPyC unpickles some messages, which could
run code. Here it sends bytes instead, and an audit hook refuses a pickle that names code. Nothing in MPyC is patched.

Input: one line of settings; when all owners are connected, one line with the table. Output: a line {"ready"}, then
{"opened"} or {"failed": a sentence}. The end of the input ends the program.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import operator
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

MODULUS = 2**64 + 13
"""A prime above twice any sum: 1000 tables of numbers up to 2^52."""
HELLO, BUSY, READY, DONE, STOPPED = -1, -2, -3, -4, -5
"""Labels of this program's messages. MPyC's own labels are hashes of 64 bits."""


class Stopped(Exception):
    """There is no sum; the message says why in one sentence."""


class Meeting:
    """The connections with the other owners, and what went wrong.

    Attributes
    ----------
    peers : dict of int to connection
        Owners that are connected and said hello.
    seen : set of int
        Owners that said hello at any time.
    hung_up : set of int
        Owners that answered and hung up before they said hello.
    missing : list of int
        Owners because of whom there is no sum.
    everybody : asyncio.Event
        Set while all owners are connected.
    failure : asyncio.Future
        The sentence that says what went wrong.
    begun : bool
        Whether tables may have been shared.
    """

    def __init__(self, settings: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.names: list[str] = settings["names"]
        self.own: int = settings["index"]
        self.settings = settings
        self.certificates = [ssl.PEM_cert_to_DER_cert(pem) for pem in settings["certificates"]]
        self.peers: dict[int, Any] = {}
        self.seen: set[int] = set()
        self.hung_up: set[int] = set()
        self.missing: list[int] = []
        self.everybody = asyncio.Event()
        self.failure: asyncio.Future[str] = loop.create_future()
        self.begun = False

    @property
    def others(self) -> list[int]:
        """All owners but this one."""
        return [owner for owner in range(len(self.names)) if owner != self.own]

    def stop(self, sentence: str) -> None:
        """Note what went wrong, unless something went wrong before."""
        if not self.failure.done():
            self.failure.set_result(sentence)

    def add_peer(self, peer: int, connection: Any) -> None:
        """Note that an owner said hello."""
        self.peers[peer] = connection
        self.seen.add(peer)
        self.hung_up.discard(peer)
        if len(self.peers) == len(self.others):
            self.everybody.set()

    def remove_peer(self, peer: int, connection: Any) -> None:
        """Note that a connection has ended."""
        # A caller has shown its certificate before it knows whether it was accepted.
        if connection.called is not None and not connection.received:
            self.hung_up.add(peer)
        if self.peers.get(peer) is not connection or DONE in connection.received:
            return
        if self.begun:
            self.missing = [peer]
            self.stop(f"The connection with {self.names[peer]} ended during the sum: {_AGAIN}")
        del self.peers[peer]
        self.everybody.clear()

    @property
    def most_bytes(self) -> int:
        """How much an owner may send: shares of the table and of the sum take 9 bytes a number each."""
        return 32 * self.settings["numbers"] + 2**16

    def sent_too_much(self, peer: int) -> None:
        """Note that an owner sent more than `most_bytes`."""
        self.missing = [peer]
        self.stop(
            f"{self.names[peer]} sent more than a sum of this study takes, so it does not run this program: clear that "
            "up before you start the sum again; your table keeps its noise."
        )

    def peer_stopped(self, peer: int, missing: bytes) -> None:
        """Note that another owner has stopped and because of which owners (JSON): there will be no sum."""
        try:
            owners: Any = json.loads(missing)
        except (ValueError, RecursionError):
            owners = []
        owners = owners if isinstance(owners, list) else []
        others = [owner for owner in self.others if owner != peer and owner in owners]
        # An owner that others wait for in vain must not accuse the one that says so.
        self.missing = others or [self.own if self.own in owners else peer]
        who = self._names_of(others)
        if self.begun:
            says = f", and says that it has waited for {who}" if who else ""
            self.stop(f"{self.names[peer]} stopped during the sum{says}: {_AGAIN}")
        elif who:
            self.stop(
                f"{who} did not come while {self.names[peer]} waited: agree on a time, and start the sum again; "
                "nothing was sent."
            )
        else:
            self.stop(f"{self.names[peer]} has stopped, and knows why: start the sum again; nothing was sent.")

    async def wait_for(self, work: Coroutine[Any, Any, Any] | asyncio.Future[Any], late: Callable[[], str]) -> Any:
        """Return the result of `work`; raise `Stopped` if something fails first, or with `late()` after the wait."""
        task = asyncio.ensure_future(work)
        wait = float(self.settings["wait"])
        await asyncio.wait({task, self.failure}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if self.failure.done() or not task.done():
            task.cancel()
            raise Stopped(self.failure.result() if self.failure.done() else late())
        return task.result()

    def _names_of(self, owners: list[int]) -> str:
        return ", ".join(self.names[owner] for owner in owners)

    def missing_message(self) -> str:
        """Return the sentence that owners are missing at the end of the wait."""
        away = [owner for owner in self.others if owner not in self.seen]
        left = [owner for owner in self.others if owner in self.seen and owner not in self.peers]
        self.missing = away + left
        parts = [f"{self._names_of(away)} did not come"] if away else []
        parts += [f"{self._names_of(left)} came and left"] if left else []
        hung_up = self._names_of(sorted(self.hung_up))
        why = f" ({hung_up} hung up: by its clock this owner's certificate may not be valid)" if hung_up else ""
        return (
            f"{', and '.join(parts)}, within {self.settings['wait']:g} seconds{why}: agree on a time, and start the "
            "sum again; nothing was sent."
        )

    def silent_message(self) -> str:
        """Return the sentence that owners did not answer."""
        self.missing = [peer for peer, connection in self.peers.items() if connection.is_awaited()]
        away = self._names_of(self.missing) or "somebody"
        return f"{away} did not answer within {self.settings['wait']:g} seconds: start the sum again."


def make_contexts(meeting: Meeting) -> tuple[ssl.SSLContext, Callable[[int], ssl.SSLContext]]:
    """Return the TLS context of the server and that of a client by owner. They trust the study's certificates only."""
    settings = meeting.settings

    def context(side: int, trusted: list[str]) -> ssl.SSLContext:
        tls = ssl.SSLContext(side)
        tls.minimum_version = ssl.TLSVersion.TLSv1_3
        # The certificate as a whole, compared below, identifies an owner, not the host name in it.
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        tls.set_alpn_protocols([settings["protocol"]])
        tls.load_verify_locations(cadata="".join(trusted))
        tls.load_cert_chain(settings["certificate"], settings["key"], password=_no_password)
        return tls

    pems = settings["certificates"]
    server = context(ssl.PROTOCOL_TLS_SERVER, [pems[owner] for owner in meeting.others])
    return server, lambda peer: context(ssl.PROTOCOL_TLS_CLIENT, [pems[peer]])


def _no_password() -> str:
    raise Stopped("The key is protected by a password, and nobody is asked for it here: give a key without one.")


class OwnerConnection:
    """Added to MPyC's `MessageExchanger` (which comes next in `super`): recognise the other side by its certificate."""

    peer_pid: int | None
    buffers: dict[int, Any]
    send: Callable[[int, bytes], None]
    receive: Callable[[int], Any]

    def __init__(self, runtime: Any, meeting: Meeting, called: int | None) -> None:
        super().__init__(runtime, called)  # pyright: ignore
        self.meeting, self.called, self.received = meeting, called, set[int]()
        self.taken = 0
        self.gone = asyncio.Event()
        self.farewell: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        meeting, layer = self.meeting, transport.get_extra_info("ssl_object")
        certificate = layer.getpeercert(True)
        peer = meeting.certificates.index(certificate) if certificate in meeting.certificates else None
        candidates = range(meeting.own) if self.called is None else (self.called,)
        if peer is None or peer not in candidates:
            transport.abort()
            if self.called is not None:
                meeting.stop(wrong_certificate_message(meeting, self.called))
            return
        self.peer_pid = peer
        if layer.selected_alpn_protocol() != meeting.settings["protocol"]:
            name = meeting.names[peer]
            meeting.stop(
                f"{name} sums another study or version of it, other owners (--without), or by another version of "
                "MPyC: agree on the hash and on who takes part; nothing was sent."
            )
            transport.close()
            return
        if peer in meeting.peers:
            self.refuse_second()
            return
        self.send(HELLO, b"")
        self.expect(HELLO)
        self.expect(BUSY)
        self.farewell = self.expect(STOPPED)

    def refuse_second(self) -> None:
        """End this connection: its owner has another one."""
        self.send(BUSY, b"")
        self.peer_pid = None
        self.transport.close()

    def expect(self, label: int) -> asyncio.Future[bytes]:
        """Return the other side's message under a label, which is noted when it arrives."""
        message: Any = self.receive(label)
        if not isinstance(message, asyncio.Future):
            future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            future.set_result(message)
            message = future
        message.add_done_callback(partial(self.note, label))
        return message

    def is_awaited(self) -> bool:
        """Return whether a message that the other side must send has not arrived."""
        return any(isinstance(part, asyncio.Future) for label, part in self.buffers.items() if label not in _RARE)

    def note(self, label: int, message: asyncio.Future[bytes]) -> None:
        if message.cancelled() or self.peer_pid is None:
            return
        self.received.add(label)
        if label == HELLO and self.peer_pid in self.meeting.peers:
            # Both connections were made before one of them said hello: the first that did stays.
            self.refuse_second()
        elif label == HELLO:
            self.meeting.add_peer(self.peer_pid, self)
        elif label == BUSY:
            self.meeting.stop(_TWICE)
        elif label == STOPPED and self.meeting.peers.get(self.peer_pid) is self:
            self.meeting.peer_stopped(self.peer_pid, message.result())

    def data_received(self, data: bytes) -> None:
        if self.peer_pid is None:
            return
        self.taken += len(data)
        if self.taken > self.meeting.most_bytes:
            self.meeting.sent_too_much(self.peer_pid)
            self.transport.abort()
            return
        super().data_received(data)  # pyright: ignore

    def connection_lost(self, exc: BaseException | None) -> None:
        self.gone.set()
        if self.farewell is not None and self.farewell.done():
            self.note(STOPPED, self.farewell)  # its own callback may come later
        peer = self.called if self.peer_pid is None else self.peer_pid
        if peer is not None:
            self.meeting.remove_peer(peer, self)


_AGAIN = "start it again, all of you; your table keeps its noise."

_RARE = (BUSY, STOPPED)
"""Messages that are sent only if something went wrong."""

_TWICE = "Another process of this owner is in the sum already: let that one finish."


def wrong_certificate_message(meeting: Meeting, peer: int, reason: str = "") -> str:
    """Return the sentence that a program with another certificate answers, or that the clock is wrong."""
    name, where = meeting.names[peer], f"{meeting.settings['hosts'][peer]}:{meeting.settings['ports'][peer]}"
    if "expired" in reason or "not yet valid" in reason:
        return (
            f"The certificate of {name} is not valid by this machine's clock ({reason}): set the clock right, or "
            "create the study anew with another certificate; nothing was sent."
        )
    return (
        f"At {where} somebody answers with another certificate than the study names for {name}: the wrong one, or "
        "somebody in between; nothing was sent."
    )


async def call(meeting: Meeting, runtime: Any, connection_type: Any, peer: int, context: ssl.SSLContext) -> None:
    """Connect to a peer until it answers, and again when the connection ends."""
    host, port = meeting.settings["hosts"][peer], meeting.settings["ports"][peer]
    loop = asyncio.get_running_loop()
    while not meeting.begun:
        try:
            _, connection = await loop.create_connection(
                lambda: connection_type(runtime, meeting, peer), host, port, ssl=context, ssl_handshake_timeout=20.0
            )
            await connection.gone.wait()
        except ssl.SSLCertVerificationError as error:
            meeting.stop(wrong_certificate_message(meeting, peer, str(error.verify_message)))
            return
        except OSError:
            pass  # It does not listen yet.
        await asyncio.sleep(0.2)


async def take_part(
    meeting: Meeting, mpc: Any, connection_type: Any, table: asyncio.Future[list[int]]
) -> dict[str, Any]:
    """Connect, report that all owners are ready, wait for the table, add up, and agree on the sum."""
    try:
        for_callers, for_called = make_contexts(meeting)
        clients = {peer: for_called(peer) for peer in meeting.others if peer > meeting.own}
    except (OSError, ValueError) as error:
        raise Stopped(
            f"The key {meeting.settings['key']} must be the one that belongs to this owner's certificate in the study "
            f"({getattr(error, 'reason', None) or error})."
        ) from None
    server = await listen(meeting, mpc, connection_type, for_callers) if meeting.own else None
    calls = [asyncio.ensure_future(call(meeting, mpc, connection_type, *client)) for client in clients.items()]
    try:
        await meeting.wait_for(meeting.everybody.wait(), meeting.missing_message)
        meeting.begun = True
        ready = {peer: connection.expect(READY) for peer, connection in meeting.peers.items()}
        await exchange_with_all(meeting, READY, b"", ready)
        print_event({"ready": True})
        values = await meeting.wait_for(table, lambda: "The table was not handed over in time.")
        start = time.perf_counter()
        opened = await meeting.wait_for(add_up(meeting, mpc, values), meeting.silent_message)
        seconds = time.perf_counter() - start
        await agree(meeting, opened)
        bytes_sent = sum(connection.nbytes_sent for connection in meeting.peers.values())
        return {"opened": opened, "seconds": seconds, "bytes": bytes_sent}
    except Stopped:
        for connection in meeting.peers.values():
            connection.send(STOPPED, json.dumps(meeting.missing).encode())
        raise
    finally:
        for pending in calls:
            pending.cancel()
        if server is not None:
            server.close()
        for connection in list(meeting.peers.values()):
            connection.transport.close()
        closing = [asyncio.ensure_future(connection.gone.wait()) for connection in meeting.peers.values()]
        if closing:
            await asyncio.wait(closing, timeout=5)


async def listen(meeting: Meeting, mpc: Any, connection_type: Any, tls: ssl.SSLContext) -> asyncio.Server:
    """Wait for the owners that call this one."""
    host, port = meeting.settings["listen"]
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: connection_type(mpc, meeting, None), host, port, ssl=tls, ssl_handshake_timeout=20.0
        )
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else error
        raise Stopped(
            f"Port {port} cannot be listened on ({reason}): another program has it, or another process of this "
            "owner; or give the one that is forwarded here (--listen)."
        ) from None


async def agree(meeting: Meeting, opened: list[int]) -> None:
    """Raise `Stopped` unless every other owner says that it opened the same sum.

    An owner alters the shares that it sends to one other, and the sum that this one opens is wrong: then any two owners
    that the program of a third reaches have different checksums. So a sum counts only with all confirmations. The last
    confirmation may get lost, so that some owners have the sum and others have none, but never another one.
    """
    digest = hashlib.sha256(json.dumps(opened).encode()).digest()
    messages = {peer: connection.expect(DONE) for peer, connection in meeting.peers.items()}
    with contextlib.suppress(Stopped):
        await exchange_with_all(meeting, DONE, digest, messages)
    came = {peer: theirs.result() for peer, theirs in messages.items() if has_come(theirs)}
    other = [meeting.names[peer] for peer, theirs in came.items() if theirs != digest]
    if other:
        raise Stopped(
            f"{', '.join(other)} opened another sum: one of you sent numbers that the program does not send, and "
            "nobody can tell who; use none of these sums, and start again; your table keeps its noise."
        )
    meeting.missing = [peer for peer in meeting.others if peer not in came]
    if meeting.missing:
        names = ", ".join(meeting.names[peer] for peer in meeting.missing)
        raise Stopped(f"{names} sent no confirmation of the sum, so nothing was stored here: {_AGAIN}")


def has_come(message: asyncio.Future[bytes]) -> bool:
    """Return whether a message has arrived."""
    return message.done() and not message.cancelled()


async def exchange_with_all(
    meeting: Meeting, label: int, payload: bytes, messages: dict[int, asyncio.Future[bytes]]
) -> None:
    """Send a message to every peer and wait for the `messages` that are expected from them."""
    for connection in meeting.peers.values():
        connection.send(label, payload)
    await meeting.wait_for(asyncio.wait(messages.values()), meeting.silent_message)


async def add_up(meeting: Meeting, mpc: Any, values: list[int]) -> list[int]:
    """Share the table with all owners, add, and open the sum, by MPyC. Opening needs the shares of all owners."""
    import numpy as np

    mpc.threshold = len(meeting.names) - 1
    mpc.parties[meeting.own].protocol = asyncio.get_running_loop().create_future()
    for peer, connection in meeting.peers.items():
        mpc.set_protocol(peer, connection)
    field = mpc.SecFld(modulus=MODULUS)
    table = field.array(np.array([value % MODULUS for value in values], dtype=object))
    total = functools.reduce(operator.add, mpc.input(table))
    opened = [int(value) for value in await mpc.output(total, raw=True)]
    return [value - MODULUS if 2 * value > MODULUS else value for value in opened]


def refuse_pickle(event: str, _: tuple[Any, ...]) -> None:
    """End the sum if any code reads a pickle that names a class or function (an audit hook of Python)."""
    if event == "pickle.find_class":
        raise Stopped("A message would have been unpickled, which nothing here needs: refused.")


def make_runtime(settings: dict[str, Any]) -> tuple[Any, Any]:
    """Return MPyC's runtime for these owners and its type of connection. MPyC reads only what is set here."""
    for name in [name for name in os.environ if name.startswith("MPYC_") or name == "READTHEDOCS"]:
        del os.environ[name]
    addresses = [f"-P{host}:{port}" for host, port in zip(settings["hosts"], settings["ports"], strict=True)]
    # The portable format writes numbers as bytes; the other one pickles them.
    others = ["--no-log", "--no-prss", "--no-uvloop", "--mix32-64bit"]
    sys.argv = ["party", *addresses, f"-I{settings['index']}", *others]
    import mpyc.runtime
    from mpyc import asyncoro

    sys.addaudithook(refuse_pickle)
    return mpyc.runtime.mpc, type("Connection", (OwnerConnection, asyncoro.MessageExchanger), {})


_OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")


def print_event(event: dict[str, Any]) -> None:
    """Write one line for the program that started this one."""
    _OUT.write(json.dumps(event) + "\n")
    _OUT.flush()


def main() -> None:
    """Run the program: see the module."""
    # MPyC prints.
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    mpc, connection_type = make_runtime(settings)

    trouble: list[str] = []
    meetings: list[Meeting] = []

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        trouble.append(repr(context.get("exception")))

    async def run() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(note)
        table: asyncio.Future[list[int]] = loop.create_future()

        def listen() -> None:
            for line in sys.stdin:
                values = json.loads(line)
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(table.set_result, values)
            # The program that started this one has ended.
            os._exit(1)

        threading.Thread(target=listen, daemon=True).start()
        meetings.append(Meeting(settings, loop))
        return await take_part(meetings[0], mpc, connection_type, table)

    try:
        print_event(mpc.run(run()))
    except Stopped as stopped:
        print_event({"failed": str(stopped)})
    except RuntimeError as error:
        # MPyC stops the loop if one of its steps fails, which can happen when an owner has left.
        failure = meetings[0].failure if meetings else None
        why = trouble[-1] if trouble else repr(error)
        sentence = f"MPyC could not go on ({why}): start the sum again, all of you; your table keeps its noise."
        print_event({"failed": failure.result() if failure is not None and failure.done() else sentence})
    os._exit(0)


if __name__ == "__main__":
    main()
