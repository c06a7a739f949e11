"""The secure sum, over real processes and sockets of the loopback: what is opened, and all that can go wrong."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from loopback_owners import NAMES, free_ports, reachable

from ostrakon.report.release import publish
from ostrakon.run.folder import RunFolder
from ostrakon.study import create, finish_study, join_study, make_certificate, secure_sum, sum_study
from ostrakon.study.certificates import read_certificate
from ostrakon.study.party import BUSY, HELLO, Meeting, OwnerConnection
from ostrakon.study.tables import read_share, read_sum, write_share
from ostrakon.validation import InvalidInput

LATE = 4.0


class Owners:
    """Owners of a study on the loopback: each has a folder, and a key."""

    def __init__(self, three, place, keys, study):
        self.three, self.place, self.keys, self.study = three, place, keys, study

    def seat(self, *names):
        """Owners that have joined, without the time that it takes: a folder each, with noise for a table."""
        for name in names:
            home = RunFolder(self.place / name)
            with home.opened():
                home.write({"asked": {"owner": name}})
                table = np.random.default_rng(len(name)).integers(-(2**20), 2**20, (8, 2))
                write_share(home.private, self.study, name, table)
        return self

    def table(self, name):
        return read_share(self.place / name / "private" / f"{name}.share", self.study)[1]

    def sum(self, name, **changes):
        """What one owner gets: the sum, or the sentence that refuses it."""
        own = {"owner": name, "key": self.keys / f"{name}.key", "keep": self.place / name}
        own |= {"shares": self.place / f"sum-{name}", "wait": 30.0}
        try:
            return sum_study(**{"study": self.study, **own, **changes})
        except InvalidInput as refused:
            return str(refused)

    def together(self, *names, **changes):
        """What each owner gets; changes: by name."""
        with ThreadPoolExecutor(len(names)) as pool:
            running = {name: pool.submit(self.sum, name, **changes.get(name, {})) for name in names}
            return {name: each.result() for name, each in running.items()}

    def opened(self, name):
        return read_sum(self.place / f"sum-{name}", self.study)


@pytest.fixture(scope="module")
def keys(three):
    reachable(three.folder / "keys")
    return three.folder / "keys"


@pytest.fixture
def owners(three, keys, tmp_path, request):
    """A study of its own for each test: ports are not shared."""
    asked = {"exchange": "secure-sum", "owners": reachable(keys), **getattr(request, "param", {})}
    return Owners(three, tmp_path, keys, three.create(str(tmp_path / "study"), **asked))


@pytest.mark.slow
def test_only_the_sum_is_opened_and_everybody_has_it(owners, three):
    for name in NAMES:
        joined = join_study(owners.study, three.table(name), owner=name, by="patient", keep=owners.place / name)
        assert joined.share == owners.place / name / "private" / f"{name}.share"
    assert not (owners.place / "study-shares").exists()
    done = owners.together(*NAMES)
    total = sum(owners.table(name) for name in NAMES)
    for name in NAMES:
        assert done[name].owners == NAMES, done[name]
        assert owners.opened(name)[0] == list(NAMES)
        assert np.array_equal(owners.opened(name)[1], total)
        # 9 bytes a cell, to two others, twice; and at most some hundred bytes of words.
        assert 2 * 2 * 9 * 16 < done[name].bytes_sent < 2 * 2 * 9 * 16 + 400
        assert done[name].seconds > 0
        assert oct((owners.place / name / "private" / f"{name}.share").stat().st_mode)[-3:] == "600"
    files = [(owners.place / f"sum-{name}" / "opened.sum").read_bytes() for name in NAMES]
    assert files[0] == files[1] == files[2]
    # Summed again, it is the same sum: the same tables, with the same noise.
    again = owners.together(*NAMES)
    assert [again[name].path.read_bytes() for name in NAMES] == files

    outcome = finish_study(owners.study, shares=owners.place / "sum-south", out=owners.place / "run")
    assert np.array_equal(outcome.answers.counts * 1024, total)
    said = json.loads((publish(outcome) / "statement.json").read_text())
    assert said["guarantee"]["epsilon"] <= 3
    assert "even if one owner uses all that it knows" in said["trust_model"]
    assert "Shamir" in said["trust_model"]
    assert "dropped out" not in said["trust_model"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "owners", [{"queries": 20, "epsilon": 8.0, "teacher": "logistic", "people_per_teacher": 11}], indirect=True
)
def test_what_trained_teachers_vote_is_summed_too(owners, three):
    for name in NAMES:
        keep = owners.place / name
        join_study(owners.study, three.table(name), owner=name, by="patient", keep=keep, jobs=1)
    done = owners.together(*NAMES)
    assert not any(isinstance(each, str) for each in done.values()), done
    outcome = finish_study(owners.study, shares=owners.place / "sum-west", out=owners.place / "run")
    told = outcome.statement.as_dict()
    assert told["teachers"] == 90
    assert told["rounds"][0]["parameters"]["max_contributions"] == told["queries"] == 20
    assert 7 < told["guarantee"]["epsilon"] <= 8
    # Every teacher has voted on every query, under the noise of all three.
    cast, noise = outcome.answers.counts.sum(axis=1), np.sqrt(2) * owners.study.mechanism.sigma2
    assert np.abs(cast - 90).max() < 5 * noise
    assert np.abs(cast - 90).max() > 0.5 * noise
    assert np.abs(cast.mean() - 90) < 4 * noise / np.sqrt(20)


def test_negative_sums_and_large_ones_are_opened_as_they_are(owners):
    """The field has to hold the largest tables that are read, of either sign."""
    owners.seat(*NAMES)
    tables = {"north": np.full((8, 2), 2**52), "south": np.full((8, 2), -(2**52)), "west": np.full((8, 2), -(2**52))}
    tables["south"][0] = tables["west"][0] = 2**52
    for name in NAMES:
        (owners.place / name / "private" / f"{name}.share").unlink()
        write_share(owners.place / name / "private", owners.study, name, tables[name])
    done = owners.together(*NAMES)
    assert all(not isinstance(each, str) for each in done.values()), done
    assert np.array_equal(owners.opened("north")[1], sum(tables.values()))


def test_what_is_sent_says_nothing_without_the_others():
    """Shares of a table of zeros, as MPyC sends them to two others: any two of the three shares fit every table."""
    program = r"""
import asyncio, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("party", sys.argv[1])
party = importlib.util.module_from_spec(spec)
spec.loader.exec_module(party)
settings = {"names": list("abc"), "index": 0, "hosts": ["h"] * 3, "ports": [1, 2, 3], "certificates": [], "wait": 1}
mpc, _ = party.make_runtime(settings)
sent = {}

class Peer:
    def __init__(self, pid): self.pid = pid
    def send(self, pc, payload): sent.setdefault(self.pid, []).append(payload.hex())
    def receive(self, pc): return asyncio.get_running_loop().create_future()

async def run():
    meeting = party.Meeting(settings, asyncio.get_running_loop())
    meeting.peers = {1: Peer(1), 2: Peer(2)}
    task = asyncio.ensure_future(party.add_up(meeting, mpc, [0] * 200))
    await asyncio.wait({task}, timeout=0.5)

mpc.run(run())
import mpyc.runtime, pickle
try:
    mpyc.runtime.pickle.loads(pickle.dumps(print))
    refused = False
except party.Stopped:
    refused = True
party.print_event({"sent": sent, "refused": refused})
"""
    done = subprocess.run(
        [sys.executable, "-c", program, secure_sum.PROGRAM], capture_output=True, text=True, timeout=60
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["refused"]
    modulus = 2**64 + 13
    received = {}
    for peer, messages in told["sent"].items():
        content = bytes.fromhex(messages[0])
        size = (len(content) - 2) // 200 if (len(content) - 2) % 200 == 0 else len(content) // 200
        body = content[len(content) - 200 * size :]
        received[peer] = [int.from_bytes(body[at * size : (at + 1) * size], "little") for at in range(200)]
    second, third = received["1"], received["2"]
    assert all(0 <= each < modulus for each in second + third)
    assert len(set(second)) == len(set(third)) == 200
    # Party 1 and 2 hold f(2) and f(3). Of a line through 0, 3 f(2) - 2 f(3) would be that 0: two would be enough.
    assert not any((3 * a - 2 * b) % modulus == 0 for a, b in zip(second, third, strict=True))


@pytest.mark.slow
def test_an_owner_that_does_not_come_is_named_and_nothing_was_sent(owners):
    owners.seat(*NAMES)
    done = owners.together("north", "west", north={"wait": 8}, west={"wait": 8})
    # Who stops waiting second may hear it from the one that stopped first.
    assert any("south did not come, within 8 seconds" in each for each in done.values()), done
    for name in ("north", "west"):
        assert done[name].startswith("south did not come"), done
        assert not (owners.place / f"sum-{name}").exists()
    # Without noise for that, the others may not go on alone.
    refused = owners.sum("north", without=["south"])
    assert "without must name at most 0 owners that dropped out" in refused
    assert "would not keep epsilon 3" in refused


@pytest.mark.slow
def test_where_one_stops_waiting_the_others_hear_for_whom_and_stop_too(owners):
    """West never comes. South would wait two minutes more, and north is not to blame."""
    owners.seat(*NAMES)
    began = time.monotonic()
    done = owners.together("north", "south", north={"wait": LATE + 2}, south={"wait": 120.0})
    assert done["north"].startswith("west did not come, within 6 seconds"), done
    assert done["south"].startswith("west did not come while north waited: agree on a time"), done
    assert "came and left" not in done["south"]
    assert time.monotonic() - began < 60


@pytest.mark.slow
@pytest.mark.parametrize("owners", [{"dropouts": 1}], indirect=True)
def test_a_study_that_reckoned_with_it_goes_on_without_an_owner(owners):
    owners.seat(*NAMES)
    left = {"without": ["south"]}
    # All who remain have to say so.
    done = owners.together("north", "west", west=left)
    assert all("other owners (--without)" in each for each in done.values()), done
    done = owners.together("north", "west", north=left, west=left)
    assert done["north"].owners == ("north", "west"), done
    assert np.array_equal(owners.opened("west")[1], owners.table("north") + owners.table("west"))
    # The difference of two such sums would be south's table, with its share of the noise alone.
    refused = owners.together(*NAMES, north={"wait": LATE}, south={"wait": LATE}, west={"wait": LATE})
    assert "first, north, west, got north, south, west" in refused["north"]
    assert "north, west did not come" in refused["south"]

    where = {"shares": owners.place / "sum-north", "out": owners.place / "run"}
    with pytest.raises(InvalidInput, match="without must name whose tables are not in the sum, south"):
        finish_study(owners.study, without=["west"], **where)
    release = publish(finish_study(owners.study, **where))
    said = json.loads((release / "statement.json").read_text())
    assert "south dropped out: nothing of its data" in said["trust_model"]
    assert "south dropped out" in (release / "model_card.md").read_text()
    assert said["guarantee"]["epsilon"] <= 3


def impostors(folder):
    """A key and certificate that call themselves south."""
    key, certificate = make_certificate("south", folder / "impostor")
    return certificate, key


def answering(certificate, key, port, then):
    """A TLS server with that certificate; `then` gets each connection. Ends with the test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = socket.create_server(("127.0.0.1", port))

    def serve():
        while True:
            try:
                plain, _ = server.accept()
                then(context.wrap_socket(plain, server_side=True))
            except (ssl.SSLError, ConnectionError):
                continue
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    return server


def test_somebody_else_at_an_owners_address_is_refused(owners, tmp_path):
    owners.seat("north", "west")
    port = owners.study.owner("south").host_and_port[1]
    with answering(*impostors(tmp_path), port, lambda each: each.close()):
        done = owners.together("north", "west", north={"wait": LATE}, west={"wait": LATE})
    assert (
        f"At 127.0.0.1:{port} somebody answers with another certificate than the study names for south"
        in (done["north"])
    )
    assert "nothing was sent" in done["north"]


def pump(source, target):
    def run():
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        finally:
            target.close()

    threading.Thread(target=run, daemon=True).start()


def change(pieces):
    """Flip one bit of each."""
    for piece in map(bytearray, pieces):
        piece[len(piece) // 2] ^= 1
        yield piece


def drop(pieces):
    """Hold back the first and pass on the rest."""
    next(pieces, None)
    yield from pieces


def repeat(pieces):
    """Send each twice."""
    for piece in pieces:
        yield piece + piece


def swap(pieces):
    """Exchange the halves of each."""
    for piece in pieces:
        yield piece[len(piece) // 2 :] + piece[: len(piece) // 2]


@pytest.mark.slow
@pytest.mark.parametrize("tamper", [repeat, change, swap, drop])
def test_a_relay_that_tampers_ends_the_sum_and_changes_nothing(owners, tamper):
    """Somebody on the wire before south changes what passes, once the sum has begun."""
    owners.seat(*NAMES)
    port, real = owners.study.owner("south").host_and_port[1], free_ports(1)[0]
    begun = threading.Event()

    def carry(source, target):
        with contextlib.suppress(OSError):
            pieces = iter(lambda: source.recv(65536), b"")
            for piece in pieces:
                for sent in tamper(chain([piece], pieces)) if begun.is_set() else [piece]:
                    target.sendall(sent)
        target.close()

    def serve():
        with contextlib.suppress(OSError):
            while True:
                near, far = server.accept()[0], socket.create_connection(("127.0.0.1", real))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    def say(stage):
        if "Adding up" in stage:
            begun.set()

    with socket.create_server(("127.0.0.1", port)) as server:
        threading.Thread(target=serve, daemon=True).start()
        done = owners.together(
            *NAMES, north={"say": say}, south={"say": say, "listen": f"127.0.0.1:{real}"}, west={"say": say}
        )
    assert all(isinstance(each, str) for each in done.values()), done
    # A connection that opens only now fails in its handshake, before anything is sent.
    ends = ("start it again", "start the sum again", "nothing was sent")
    assert all(any(end in each for end in ends) for each in done.values()), done
    assert not list(owners.place.glob("sum-*"))


HONEST = ("north", "west")


def attacked(owners, monkeypatch, attack):
    """What the owners get where south attacks."""
    owners.seat(*NAMES)
    monkeypatch.setattr(secure_sum, "PROGRAM", Path(__file__).with_name("hostile_party.py"))
    monkeypatch.setenv("ATTACK", attack)
    return owners.together(*NAMES, **{name: {"wait": 8.0} for name in NAMES})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "sentence"),
    [
        ("one bit for north", "opened another sum"),
        ("the same for all", "The numbers that were opened cannot be the sum of tables"),
        ("too much", "south sent more than a sum of this study takes|(west|north) stopped during the sum"),
        ("late", "(south|west)(, (south|west))? sent no confirmation of the sum|did not answer|stopped during the sum"),
    ],
)
def test_an_owner_that_sends_something_else_leaves_no_sum_behind(owners, monkeypatch, attack, sentence):
    done = attacked(owners, monkeypatch, attack)
    said = [str(done[name]) for name in HONEST]
    # One may learn that the other has stopped, before it hears of another sum.
    stopped = "sent no confirmation of the sum, so nothing was stored here"
    assert any(re.search(sentence, one) for one in said), done
    assert all(re.search(f"{sentence}|{stopped}", one) for one in said), done
    assert not any((owners.place / f"sum-{name}" / "opened.sum").exists() for name in HONEST)


@pytest.mark.slow
def test_messages_in_another_order_give_the_same_sum(owners, monkeypatch):
    done = attacked(owners, monkeypatch, "reordered")
    assert all(np.array_equal(owners.opened(name)[1], sum(map(owners.table, NAMES))) for name in HONEST), done


@pytest.mark.slow
@pytest.mark.parametrize("opens", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_man_in_the_middle_is_refused_and_a_wire_is_not(owners, tmp_path, opens):
    """A proxy at south's address: it passes on bytes, or it ends TLS with a certificate and key of its own."""
    owners.seat(*NAMES)
    port, real = owners.study.owner("south").host_and_port[1], free_ports(1)[0]
    certificate, key = impostors(tmp_path)
    stop = threading.Event()

    def through(near):
        far = socket.create_connection(("127.0.0.1", real))
        if opens:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(certificate, key)
            far = context.wrap_socket(far)
        pump(near, far)
        pump(far, near)

    if opens:
        server = answering(certificate, key, port, through)
    else:
        server = socket.create_server(("127.0.0.1", port))

        def serve():
            while not stop.is_set():
                try:
                    through(server.accept()[0])
                except ConnectionError:
                    continue
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
    wait = {"wait": LATE if opens else 30.0}
    with server:
        done = owners.together(*NAMES, south={**wait, "listen": f"127.0.0.1:{real}"}, west=wait)
        stop.set()
    if opens:
        assert "another certificate than the study names for south" in done["north"]
        assert "north" in done["south"]
        assert "did not come" in done["south"]
        assert not (owners.place / "sum-south").exists()
    else:
        assert all(not isinstance(each, str) for each in done.values()), done


@pytest.mark.slow
def test_a_caller_who_is_nobody_is_not_listened_to(owners, tmp_path):
    """Bytes that are no TLS, a certificate of its own, and west's door stays open for those who are meant."""
    owners.seat(*NAMES)
    certificate, key = impostors(tmp_path)
    port, said = owners.study.owner("west").host_and_port[1], []

    def call():
        for wrapped in (False, True):
            plain = reach(port)
            try:
                if wrapped:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                    context.load_cert_chain(certificate, key)
                    plain = context.wrap_socket(plain)
                # As MPyC's own parties say who they are: party 0.
                plain.sendall(b"\x00\x00" + bytes(100))
                said.append(plain.recv(10))
            except OSError as error:
                said.append(type(error))

    with ThreadPoolExecutor(1) as pool:
        west = pool.submit(owners.sum, "west")
        call()
        assert len(said) == 2
        assert said[1] in (ssl.SSLError, ssl.SSLEOFError, ConnectionResetError, b""), said
        done = owners.together("north", "south")
        assert west.result().owners == NAMES, west.result()
    assert np.array_equal(owners.opened("west")[1], owners.opened("north")[1]), done


def reach(port):
    """A connection, once somebody listens."""
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nobody listens on {port}")


@pytest.mark.slow
def test_another_version_of_the_study_is_refused_by_both(owners, tmp_path, three):
    owners.seat("north", "west", "south")
    other = Owners(
        three,
        tmp_path / "other",
        owners.keys,
        three.create(str(tmp_path / "changed"), exchange="secure-sum", owners=owners.study.owners, seed=1),
    ).seat("south")
    with ThreadPoolExecutor(1) as pool:
        south = pool.submit(other.sum, "south", wait=12)
        done = owners.together("north", "west", north={"wait": 12}, west={"wait": 12})
        assert "sums another study or version of it" in south.result(), done
    assert any("sums another study or version of it" in each for each in done.values()), done


@pytest.mark.slow
def test_an_owner_cannot_be_in_the_sum_twice(owners):
    """From the same folder; from another one, a copy, while the first waits."""
    owners.seat(*NAMES)
    shutil.copytree(owners.place / "north", owners.place / "copy")
    with ThreadPoolExecutor(2) as pool:
        first = {name: pool.submit(owners.sum, name) for name in ("north", "west")}
        reach(owners.study.owner("west").host_and_port[1]).close()
        time.sleep(1.5)
        assert "is in use by another ostrakon process" in owners.sum("north")
        assert "Another process of this owner is in the sum already" in owners.sum(
            "north", keep=owners.place / "copy", wait=LATE
        )
        assert owners.sum("south").owners == NAMES
        assert first["north"].result().owners == NAMES


def test_a_port_that_is_taken_is_said(owners):
    owners.seat("south")
    with socket.create_server(("", owners.study.owner("south").host_and_port[1])):
        assert "cannot be listened on (address already in use)" in owners.sum("south")


DIES = """
import os, pathlib, sys, time
from ostrakon.study import secure_sum, sum_study

def dies(party, content):
    if isinstance(content, list):
        while not pathlib.Path(now).exists():
            time.sleep(0.02)
        os.kill(party._process.pid, 9)
        os.kill(os.getpid(), 9)
    return send(party, content)

send, secure_sum._Party.send = secure_sum._Party.send, dies
study, owner, key, keep, now = sys.argv[1:]
sum_study(study, owner=owner, key=key, keep=keep)
"""


@pytest.mark.slow
def test_killed_during_the_sum_the_others_say_so_and_the_same_sum_is_opened_later(owners):
    owners.seat(*NAMES)
    before, now, adding = owners.table("south"), owners.place / "now", []
    arguments = [owners.study.folder, "south", owners.keys / "south.key", owners.place / "south", now]
    dying = subprocess.Popen([sys.executable, "-c", DIES, *map(str, arguments)])

    def say(stage):
        """South dies once both others are within the sum."""
        adding.extend(["north or west"] if "Adding up" in stage else [])
        if len(adding) == 2:
            now.touch()

    done = owners.together("north", "west", north={"say": say}, west={"say": say})
    assert dying.wait(60) == -signal.SIGKILL
    assert all(
        "south ended during the sum: start it again" in each or "stopped during the sum" in each
        for each in done.values()
    ), done
    assert not (owners.place / "sum-north").exists()
    # Shares of the tables may be with the others: from now on it is these owners or none.
    assert np.array_equal(owners.table("south"), before)
    done = owners.together(*NAMES)
    assert np.array_equal(owners.opened("west")[1], sum(owners.table(name) for name in NAMES)), done


@pytest.mark.slow
def test_an_owner_that_stands_still_during_the_sum_is_named_and_the_sum_is_opened_later(owners):
    owners.seat(*NAMES)

    def say(stage):
        if "Adding up" in stage:
            time.sleep(8)

    wait = {"wait": LATE}
    done = owners.together(*NAMES, north=wait, south={"say": say, "wait": 30.0}, west=wait)
    assert all(
        re.search("south did not answer within 4 seconds|south stopped during|it has waited for south", done[each])
        for each in ("north", "west")
    ), done
    assert "during the sum" in done["south"], done
    assert "start it again" in done["south"], done
    assert not list(owners.place.glob("sum-*"))
    done = owners.together(*NAMES)
    assert np.array_equal(owners.opened("west")[1], sum(owners.table(name) for name in NAMES)), done


def test_an_owner_that_others_wait_for_does_not_accuse_the_one_that_says_so():
    """What it passes on may arrive first, and all others would name the wrong owner."""
    loop = asyncio.new_event_loop()
    settings = {"names": list(NAMES), "certificates": []}
    passed_on = {}
    for own, named in ((1, [1]), (2, [1]), (2, [])):
        met = Meeting({**settings, "index": own}, loop)
        met.begun = True
        met.peer_stopped(0, json.dumps(named).encode())
        passed_on[own, tuple(named)] = (met.missing, met.failure.result().partition(":")[0])
    loop.close()
    first, second, _ = NAMES
    stopped = f"{first} stopped during the sum"
    names = f"{stopped}, and says that it has waited for {second}"
    assert passed_on == {(1, (1,)): ([1], stopped), (2, (1,)): ([1], names), (2, ()): ([0], stopped)}


class Exchanger:
    """What a connection needs of MPyC's."""

    def __init__(self, runtime, called):
        self.peer_pid, self.sent, self.transport = 0, [], SimpleNamespace(close=lambda: self.sent.append("closed"))

    def send(self, label, payload):
        self.sent.append(label)


def test_a_second_connection_of_an_owner_does_not_replace_the_first():
    """Both are made before either says hello; afterwards the first one's end must still be noticed."""
    loop = asyncio.new_event_loop()
    met = Meeting({"names": list(NAMES), "certificates": [], "index": 2}, loop)
    hello = loop.create_future()
    hello.set_result(b"")
    kind = type("Connection", (OwnerConnection, Exchanger), {})
    first, second = kind(None, met, None), kind(None, met, None)
    first.note(HELLO, hello)
    second.note(HELLO, hello)
    assert met.peers == {0: first}
    assert (first.sent, second.sent) == ([], [BUSY, "closed"])
    met.begun = True
    second.peer_pid = None
    second.connection_lost(None)
    assert not met.failure.done()
    first.connection_lost(None)
    assert met.failure.result().startswith(f"The connection with {NAMES[0]} ended during the sum")
    loop.close()


@pytest.mark.slow
def test_killed_while_it_waits_nothing_stays_behind(owners):
    owners.seat("west")
    code = "import sys; from ostrakon.study import sum_study; sum_study(sys.argv[1], owner='west', key=sys.argv[2], "
    code += "keep=sys.argv[3])"
    arguments = [owners.study.folder, owners.keys / "west.key", owners.place / "west"]
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])
    port = owners.study.owner("west").host_and_port[1]
    reach(port).close()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.1)
    raise AssertionError("the program beside it goes on")


@pytest.mark.slow
@pytest.mark.parametrize(("days", "told"), [(-900, "expired"), (30, "not yet valid")])
def test_a_certificate_that_the_clock_refuses_is_said(three, tmp_path, monkeypatch, days, told):
    """South's: it hears so at home; should its clock be the wrong one, north says so, whom it does not call."""
    keys = tmp_path / "keys"
    make_certificate("south", keys, today=datetime.now(UTC) + timedelta(days=days))
    asked = {"exchange": "secure-sum", "owners": reachable(keys)}
    with pytest.raises(InvalidInput, match="certificate of south is valid from"):
        three.create(str(tmp_path / "study"), **asked)
    monkeypatch.setattr(create, "require_valid_now", lambda *arguments: None)
    owners = Owners(three, tmp_path, keys, three.create(str(tmp_path / "study"), **asked)).seat(*NAMES)
    assert "certificate of south is valid from" in owners.sum("south")
    monkeypatch.setattr(secure_sum, "require_valid_now", lambda *arguments: None)
    done = owners.together("north", "south", south={"wait": LATE})
    assert "The certificate of south is not valid by this machine's clock" in done["north"]
    assert told in done["north"]
    # South calls west, which does not take its certificate.
    done = owners.together("south", "west", south={"wait": LATE}, west={"wait": LATE})
    assert "west hung up: by its clock this owner's certificate may not be valid" in done["south"], done
    assert "south did not come" in done["west"].replace("north, south", "south")


@pytest.mark.parametrize("name", NAMES)
def test_a_key_of_somebody_else_is_refused_at_home(owners, name):
    owners.seat(name)
    other = owners.keys / f"{next(each for each in NAMES if each != name)}.key"
    told = owners.sum(name, key=other, wait=LATE)
    assert "must be the one that belongs to this owner's certificate" in told


def test_a_key_under_a_password_is_refused_without_asking(owners):
    from cryptography.hazmat.primitives import serialization

    plain = serialization.load_pem_private_key((owners.keys / "north.key").read_bytes(), None)
    locked = plain.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (owners.place / "locked.key").write_bytes(locked)
    owners.seat("north")
    assert "key is protected by a password" in owners.sum("north", key=owners.place / "locked.key", wait=LATE)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"owner": "east"}, "owner must be one of this study's"),
        ({"without": ["north"]}, "without must name other owners, and north is you"),
        ({"without": ["south", "west"]}, "without must leave at least 2 owners"),
        ({"without": ["east"]}, "without must be one of this study's"),
        ({"key": "none.key"}, "key must be the file of the private key"),
        ({"wait": 0}, "wait must be a finite number above 0"),
        ({"listen": "here"}, "listen must be HOST:PORT"),
        ({"expect": "0" * 64}, "expect must be the study's hash"),
        ({"keep": "nowhere"}, "is not the folder of an owner that has joined"),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_called(owners, changes, sentence):
    assert sentence in owners.sum("north", **changes)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import os; os.kill(os.getpid(), 9)", "its program was killed"),
        ("raise RuntimeError('odd')", "RuntimeError: odd"),
        ("print('{}')", "its program was killed"),
    ],
)
def test_a_program_that_ends_is_a_sentence(owners, tmp_path, monkeypatch, program, told):
    (tmp_path / "odd.py").write_text(program)
    monkeypatch.setattr(secure_sum, "PROGRAM", tmp_path / "odd.py")
    sentence = owners.seat("north").sum("north")
    assert f"The sum ended without a result ({told}): start it again" in sentence
    assert "sum" not in (RunFolder(owners.place / "north").read() or {})


def test_a_study_whose_tables_are_handed_over_has_no_sum(three, keys):
    study = three.create("handed", exchange="files")
    with pytest.raises(InvalidInput, match="exchange is files: its tables are handed over"):
        sum_study(study, owner="north", key=keys / "north.key")


def test_the_folder_of_another_owner_is_refused(owners):
    owners.seat("north")
    told = owners.sum("south", keep=owners.place / "north")
    assert "south.share is not there" in told
    shutil.copy(owners.place / "north/private/north.share", owners.place / "north/private/south.share")
    assert "is the folder of north, and owner is south" in owners.sum("south", keep=owners.place / "north")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 5, 11])
def test_any_number_of_owners(three, tmp_path, count):
    names = tuple(f"owner-{at}" for at in range(count))
    keys = tmp_path / "keys"
    study = three.create(str(tmp_path / "study"), exchange="secure-sum", owners=reachable(keys, names), epsilon=6.0)
    assert study.mechanism.colluders == {2: 1, 5: 2, 11: 5}[count]
    owners = Owners(three, tmp_path, keys, study)
    owners.seat(*names)
    done = owners.together(*names)
    total = sum(owners.table(name) for name in names)
    for name in names:
        assert done[name].owners == names, done[name]
        assert np.array_equal(owners.opened(name)[1], total)


def test_certificates_in_studies_are_public(owners):
    text = (owners.study.folder / "study.toml").read_text()
    assert text.count("BEGIN CERTIFICATE") == 3
    assert "PRIVATE" not in text
    assert read_certificate(owners.keys / "north.crt") == owners.study.owner("north").certificate
