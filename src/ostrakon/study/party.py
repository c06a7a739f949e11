"""One owner's part in a sum by MPyC: a program of its own, which `ostrakon.study.secure_sum` starts and speaks with.

MPyC reads the command line and the environment when it is imported, prints, and waits for ever, so it never runs in the
process that users see. Secret sharing, addition and opening are MPyC's. What is done here is whom it speaks with: MPyC
takes a caller's word for who it is, and so its connections are made here, by TLS 1.3 in which both sides show exactly
the certificate that the study names for them, and agree (by ALPN) on one study and one set of owners. MPyC unpickles
some messages, which could run code: it is asked to send bytes instead, and a pickle that names code is refused by an
audit hook. Nothing in MPyC is patched.

In: one line of settings; when all are there, one line with the table. Out: a line {"ready"}, then {"opened"} or
{"failed": a sentence}. The end of the input ends the program.
"""

from __future__ import annotations

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
"""Labels of messages beside MPyC's own, which are hashes of 64 bits."""


class Stopped(Exception):
    """Why there is no sum, in a sentence."""


class Meeting:
    """Who is connected, and what went wrong. peers: the connection with each other owner that said hello."""

    def __init__(self, settings: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.names: list[str] = settings["names"]
        self.own: int = settings["index"]
        self.settings = settings
        self.certificates = [ssl.PEM_cert_to_DER_cert(pem) for pem in settings["certificates"]]
        self.peers: dict[int, Any] = {}
        self.came: set[int] = set()
        self.hung_up: set[int] = set()
        self.missed: list[int] = []
        self.everybody = asyncio.Event()
        self.failure: asyncio.Future[str] = loop.create_future()
        self.begun = False

    @property
    def others(self) -> list[int]:
        return [each for each in range(len(self.names)) if each != self.own]

    def stop(self, sentence: str) -> None:
        if not self.failure.done():
            self.failure.set_result(sentence)

    def met(self, peer: int, connection: Any) -> None:
        self.peers[peer] = connection
        self.came.add(peer)
        self.hung_up.discard(peer)
        if len(self.peers) == len(self.others):
            self.everybody.set()

    def lost(self, peer: int, connection: Any) -> None:
        # Who calls has shown its certificate before it knows whether it was taken.
        if connection.called is not None and not connection.heard:
            self.hung_up.add(peer)
        if self.peers.get(peer) is not connection or DONE in connection.heard:
            return
        if self.begun:
            self.missed = [peer]
            self.stop(self.ended(self.names[peer]))
        del self.peers[peer]
        self.everybody.clear()

    def ended(self, who: str) -> str:
        return f"{who} left during the sum: start it again, all of you; your table keeps its noise."

    def stopped(self, peer: int, missed: bytes) -> None:
        """Another owner has stopped, and says because of whom: there will be no sum, and nobody waits for it."""
        try:
            said: Any = json.loads(missed)
        except (ValueError, RecursionError):
            said = []
        here = [each for each in self.others if each != peer and isinstance(said, list) and each in said]
        self.missed = here or [peer]
        who = ", ".join(self.names[each] for each in here)
        if self.begun:
            self.stop(self.ended(who or self.names[peer]))
        elif who:
            self.stop(
                f"{who} did not come while {self.names[peer]} waited: agree on a time, and start the sum again; "
                "nothing was sent."
            )
        else:
            self.stop(f"{self.names[peer]} has stopped, and knows why: start the sum again; nothing was sent.")

    async def within(self, work: Coroutine[Any, Any, Any] | asyncio.Future[Any], late: Callable[[], str]) -> Any:
        """What `work` gives, unless something fails before, or it is too late, which `late` says in a sentence."""
        task = asyncio.ensure_future(work)
        wait = float(self.settings["wait"])
        await asyncio.wait({task, self.failure}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if self.failure.done() or not task.done():
            task.cancel()
            raise Stopped(self.failure.result() if self.failure.done() else late())
        return task.result()

    def _named(self, owners: list[int]) -> str:
        return ", ".join(self.names[each] for each in owners)

    def missing(self) -> str:
        away = [each for each in self.others if each not in self.came]
        left = [each for each in self.others if each in self.came and each not in self.peers]
        self.missed = away + left
        told = [f"{self._named(away)} did not come"] if away else []
        told += [f"{self._named(left)} came and left"] if left else []
        hung_up = self._named(sorted(self.hung_up))
        why = f" ({hung_up} hung up: by its clock this owner's certificate may not be valid)" if hung_up else ""
        return (
            f"{', and '.join(told)}, within {self.settings['wait']:g} seconds{why}: agree on a time, and start the sum "
            "again; nothing was sent."
        )

    def silent(self) -> str:
        self.missed = [each for each, one in self.peers.items() if one.awaited()]
        away = self._named(self.missed) or "somebody"
        return f"{away} did not answer within {self.settings['wait']:g} seconds: start the sum again."


def contexts(meeting: Meeting) -> tuple[ssl.SSLContext, Callable[[int], ssl.SSLContext]]:
    """(for those who call, for whom is called): each trusts the certificates that the study names, and nothing else."""
    settings = meeting.settings

    def context(side: int, trusted: list[str]) -> ssl.SSLContext:
        made = ssl.SSLContext(side)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        # Who it is says the certificate as a whole, compared below, not a host's name in it.
        made.check_hostname = False
        made.verify_mode = ssl.CERT_REQUIRED
        made.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        made.set_alpn_protocols([settings["protocol"]])
        made.load_verify_locations(cadata="".join(trusted))
        made.load_cert_chain(settings["certificate"], settings["key"], password=_no_password)
        return made

    pems = settings["certificates"]
    server = context(ssl.PROTOCOL_TLS_SERVER, [pems[each] for each in meeting.others])
    return server, lambda peer: context(ssl.PROTOCOL_TLS_CLIENT, [pems[peer]])


def _no_password() -> str:
    raise Stopped("The key is under a password, which nobody is asked for here: give a key without one.")


def connection_type(base: Any) -> Any:
    """MPyC's `MessageExchanger`, which learns who the other side is from its certificate."""

    class Connection(base):
        def __init__(self, runtime: Any, meeting: Meeting, called: int | None) -> None:
            super().__init__(runtime, called)
            self.meeting, self.called, self.heard = meeting, called, set[int]()
            self.gone = asyncio.Event()
            self.farewell: asyncio.Future[bytes] | None = None

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            meeting, layer = self.meeting, transport.get_extra_info("ssl_object")
            shown = layer.getpeercert(True)
            peer = meeting.certificates.index(shown) if shown in meeting.certificates else None
            expected = range(meeting.own) if self.called is None else (self.called,)
            if peer is None or peer not in expected:
                transport.abort()
                if self.called is not None:
                    meeting.stop(other_certificate(meeting, self.called))
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
                self.send(BUSY, b"")
                self.peer_pid = None
                transport.close()
                return
            self.send(HELLO, b"")
            self.expect(HELLO)
            self.expect(BUSY)
            self.farewell = self.expect(STOPPED)

        def expect(self, label: int) -> asyncio.Future[bytes]:
            """What the other side says under a label; noted once it did."""
            told: Any = self.receive(label)
            if not isinstance(told, asyncio.Future):
                future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                future.set_result(told)
                told = future
            told.add_done_callback(partial(self.hear, label))
            return told

        def awaited(self) -> bool:
            """Whether something that the other side has to say is waited for."""
            return any(isinstance(said, asyncio.Future) for label, said in self.buffers.items() if label not in _RARE)

        def hear(self, label: int, said: asyncio.Future[bytes]) -> None:
            if said.cancelled() or self.peer_pid is None:
                return
            self.heard.add(label)
            if label == HELLO:
                self.meeting.met(self.peer_pid, self)
            elif label == BUSY:
                self.meeting.stop(_TWICE)
            elif label == STOPPED and self.meeting.peers.get(self.peer_pid) is self:
                self.meeting.stopped(self.peer_pid, said.result())

        def data_received(self, data: bytes) -> None:
            if self.peer_pid is not None:
                super().data_received(data)

        def connection_lost(self, exc: BaseException | None) -> None:
            self.gone.set()
            if self.farewell is not None and self.farewell.done():
                self.hear(STOPPED, self.farewell)  # its callback may be due after this
            peer = self.called if self.peer_pid is None else self.peer_pid
            if peer is not None:
                self.meeting.lost(peer, self)

    return Connection


_RARE = (BUSY, STOPPED)
"""What is said only where something went wrong."""

_TWICE = "Another process of this owner is in the sum already: let that one finish."


def other_certificate(meeting: Meeting, peer: int, reason: str = "") -> str:
    """Somebody else answers; or the clock says so."""
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


async def call(meeting: Meeting, runtime: Any, made: Any, peer: int, context: ssl.SSLContext) -> None:
    """Call a peer until it is there, and again when it is gone."""
    host, port = meeting.settings["hosts"][peer], meeting.settings["ports"][peer]
    loop = asyncio.get_running_loop()
    while not meeting.begun:
        try:
            _, connection = await loop.create_connection(
                lambda: made(runtime, meeting, peer), host, port, ssl=context, ssl_handshake_timeout=20.0
            )
            await connection.gone.wait()
        except ssl.SSLCertVerificationError as error:
            meeting.stop(other_certificate(meeting, peer, str(error.verify_message)))
            return
        except OSError:
            pass  # Not there yet.
        await asyncio.sleep(0.2)


async def take_part(meeting: Meeting, mpc: Any, made: Any, table: asyncio.Future[list[int]]) -> dict[str, Any]:
    """Meet, say so, wait for the table, add up, and agree on the sum."""
    loop, settings = asyncio.get_running_loop(), meeting.settings
    try:
        for_callers, for_called = contexts(meeting)
        clients = {peer: for_called(peer) for peer in meeting.others if peer > meeting.own}
    except (OSError, ValueError) as error:
        raise Stopped(
            f"The key {settings['key']} must be the one that belongs to this owner's certificate in the study "
            f"({getattr(error, 'reason', None) or error})."
        ) from None
    server = None
    if meeting.own:
        host, port = settings["listen"]
        try:
            server = await loop.create_server(
                lambda: made(mpc, meeting, None), host, port, ssl=for_callers, ssl_handshake_timeout=20.0
            )
        except OSError as error:
            told = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else error
            raise Stopped(
                f"Port {port} cannot be listened on ({told}): another program has it, or another process of this "
                "owner; or give the one that is forwarded here (--listen)."
            ) from None
    calls = [asyncio.ensure_future(call(meeting, mpc, made, peer, each)) for peer, each in clients.items()]
    try:
        await meeting.within(meeting.everybody.wait(), meeting.missing)
        meeting.begun = True
        await said_by_all(meeting, READY, b"")
        tell({"ready": True})
        values = await meeting.within(table, lambda: "The table was not handed over in time.")
        started = time.perf_counter()
        opened = await meeting.within(add_up(meeting, mpc, values), meeting.silent)
        seconds = time.perf_counter() - started
        digest = hashlib.sha256(json.dumps(opened).encode()).digest()
        unsure: list[str] = []
        try:
            said = await said_by_all(meeting, DONE, digest)
        except Stopped:
            # The sum is open all the same; who left may not have it.
            unsure = [meeting.names[each] for each in meeting.others if not heard(meeting, each)]
        else:
            other = [meeting.names[each] for each, theirs in said.items() if theirs != digest]
            if other:
                raise Stopped(f"{', '.join(other)} opened another sum: one of you has made an error; use none of them.")
        sent = sum(each.nbytes_sent for each in meeting.peers.values())
        return {"opened": opened, "seconds": seconds, "bytes": sent, "unsure": unsure}
    except Stopped:
        for each in meeting.peers.values():
            each.send(STOPPED, json.dumps(meeting.missed).encode())
        raise
    finally:
        for each in calls:
            each.cancel()
        if server is not None:
            server.close()
        for each in list(meeting.peers.values()):
            each.transport.close()
        leaving = [asyncio.ensure_future(each.gone.wait()) for each in meeting.peers.values()]
        if leaving:
            await asyncio.wait(leaving, timeout=5)


def heard(meeting: Meeting, peer: int) -> bool:
    """Whether that peer said that it has the sum."""
    return peer in meeting.peers and DONE in meeting.peers[peer].heard


async def said_by_all(meeting: Meeting, label: int, payload: bytes) -> dict[int, bytes]:
    """Say something to every peer, and what each says, once all have."""
    told = {peer: each.expect(label) for peer, each in meeting.peers.items()}
    for each in meeting.peers.values():
        each.send(label, payload)
    await meeting.within(asyncio.gather(*told.values()), meeting.silent)
    return {peer: each.result() for peer, each in told.items()}


async def add_up(meeting: Meeting, mpc: Any, values: list[int]) -> list[int]:
    """MPyC's part: share the table with all, add, open the sum. Shares of all owners are needed to open anything."""
    import numpy as np

    mpc.threshold = len(meeting.names) - 1
    mpc.parties[meeting.own].protocol = asyncio.get_running_loop().create_future()
    for peer, each in meeting.peers.items():
        mpc.set_protocol(peer, each)
    field = mpc.SecFld(modulus=MODULUS)
    table = field.array(np.array([value % MODULUS for value in values], dtype=object))
    total = functools.reduce(operator.add, mpc.input(table))
    opened = [int(value) for value in await mpc.output(total, raw=True)]
    return [value - MODULUS if 2 * value > MODULUS else value for value in opened]


def refuse_pickle(event: str, _: tuple[Any, ...]) -> None:
    """An audit hook of Python: a pickle that names any class or function ends the sum, whatever reads it."""
    if event == "pickle.find_class":
        raise Stopped("A message would have been unpickled, which nothing here needs: refused.")


def runtime_of(settings: dict[str, Any]) -> tuple[Any, Any]:
    """(MPyC's runtime for so many parties, its kind of connection); what it reads at import is set here alone."""
    for name in [each for each in os.environ if each.startswith("MPYC_") or each == "READTHEDOCS"]:
        del os.environ[name]
    addresses = [f"-P{host}:{port}" for host, port in zip(settings["hosts"], settings["ports"], strict=True)]
    # The portable way writes numbers as bytes; the other one pickles them.
    others = ["--no-log", "--no-prss", "--no-uvloop", "--mix32-64bit"]
    sys.argv = ["party", *addresses, f"-I{settings['index']}", *others]
    import mpyc.runtime
    from mpyc import asyncoro

    sys.addaudithook(refuse_pickle)
    return mpyc.runtime.mpc, connection_type(asyncoro.MessageExchanger)


_OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")


def tell(event: dict[str, Any]) -> None:
    """One line to whoever started this."""
    _OUT.write(json.dumps(event) + "\n")
    _OUT.flush()


def main() -> None:
    """See the module."""
    # MPyC prints.
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    mpc, base = runtime_of(settings)

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
            # Whoever started this is gone.
            os._exit(1)

        threading.Thread(target=listen, daemon=True).start()
        meetings.append(Meeting(settings, loop))
        return await take_part(meetings[0], mpc, base, table)

    try:
        tell(mpc.run(run()))
    except Stopped as stopped:
        tell({"failed": str(stopped)})
    except RuntimeError as error:
        # MPyC stops the loop where one of its steps fails, as it may when somebody has left.
        left = meetings[0].failure if meetings else None
        why = trouble[-1] if trouble else repr(error)
        sentence = f"MPyC could not go on ({why}): start the sum again, all of you; your table keeps its noise."
        tell({"failed": left.result() if left is not None and left.done() else sentence})
    os._exit(0)


if __name__ == "__main__":
    main()
