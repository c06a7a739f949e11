"""A service over several owners: votes add up, every owner pays every block, and without one nothing is drawn."""

import contextlib
import dataclasses
import http.server
import io
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error

import numpy as np
import pandas as pd
import pytest
import sqlalchemy
import tomli_w
from starlette.testclient import TestClient

from ostrakon.cli.train import train_from
from ostrakon.data.files import CannotWrite
from ostrakon.ledger.ledger import Ledger
from ostrakon.ledger.location import Head
from ostrakon.ledger.turn import Turn
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.service import BudgetSpent, Client, answers, desk, open_service
from ostrakon.service.app import make_app
from ostrakon.service.audit_file import AuditFile
from ostrakon.service.clients import ClientFile, token_digest
from ostrakon.validation import InvalidInput

NOISE = {"threshold": 14.0, "sigma1": 6.0, "sigma2": 4.0}


def trained(folder, seed, *, public=None, teachers=20):
    """A run on an owner's own rows and the same public ones."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 600), "town": rng.choice(["Ulm", "Bonn"], 600)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 5, 600) > 50, "yes", "no")
    frame.to_csv(folder / "private.csv", index=False)
    if public is None:
        shown = pd.DataFrame({"age": rng.integers(18, 90, 300), "town": rng.choice(["Ulm", "Bonn"], 300)})
        shown.to_csv(folder / "public.csv", index=False)
    else:
        shutil.copy(public, folder / "public.csv")
    files = {"private": str(folder / "private.csv"), "public": str(folder / "public.csv"), "target": "ill"}
    options = {"classes": "no,yes", "teachers": teachers, "teacher": "naive-bayes", "queries": 30, "delta": 1e-5}
    train_from({**files, **options, **NOISE, "student": "logistic", "jobs": 1}, out=folder / "run")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owners")
    north = trained(folder / "north", 1)
    return {"north": north, "south": trained(folder / "south", 2, public=north / "public.csv", teachers=30)}


class Consortium:
    """The desk is north; south is a service in this process, reached through `RemoteOwner._said`."""

    def __init__(self, folder, runs, stack, monkeypatch=None, port=1):
        self.folder, self.stack, self.down, self.lies = folder, stack, False, lambda said: said
        for name, source in runs.items():
            shutil.copytree(source / "run", folder / name / "run")
        (folder / "token").write_text("desk-token\n")
        owner = {"name": "south", "url": f"http://127.0.0.1:{port}", "token_file": "token"}
        (folder / "owners.toml").write_text(tomli_w.dumps({"owner": [owner]}))
        client = Client(name="desk", token=token_digest("desk-token"), answers=0, requests_per_second=10**6)
        (folder / "clients.toml").write_text(tomli_w.dumps({"client": [dataclasses.asdict(client)]}))
        if monkeypatch is not None:
            monkeypatch.setattr(
                desk.urllib.request.OpenerDirector, "open", lambda _, *given, **how: self.call(*given, **how)
            )

    def open(self, name, budget=100.0, **options):
        ledger = f"sqlite:///{self.folder / name}.db"
        return self.stack.enter_context(
            open_service(self.folder / name / "run", ledger=ledger, budget=budget, block=5, **options)
        )

    def open_south(self, **options):
        self.south = self.open("south", **options)
        audit = AuditFile(self.folder / "audit.log")
        app = make_app(self.south, ClientFile(self.folder / "clients.toml"), audit=audit, desk="desk")
        self.web = self.stack.enter_context(TestClient(app, raise_server_exceptions=False))

    def open_north(self, **options):
        self.north = self.open("north", owners=self.folder / "owners.toml", **options)
        return self.north

    def call(self, request, timeout):
        if self.down:
            raise urllib.error.URLError("down")
        path = request.full_url.removeprefix("http://127.0.0.1:1")
        said = self.web.request(request.get_method(), path, content=request.data, headers=dict(request.headers))
        if said.status_code != 200:
            raise urllib.error.HTTPError(request.full_url, said.status_code, "", {}, io.BytesIO(said.content))
        return io.BytesIO(json.dumps(self.lies(said.json())).encode())

    def spends(self, name):
        (account,) = Ledger(f"sqlite:///{self.folder / name}.db").accounts().values()
        return account.spends


@pytest.fixture
def consortium(tmp_path, runs, monkeypatch):
    with contextlib.ExitStack() as stack:
        yield Consortium(tmp_path, runs, stack, monkeypatch)


@pytest.mark.slow
def test_votes_of_all_owners_are_added_and_everybody_pays(consortium, ask, rows, monkeypatch):
    consortium.open_south()
    north = consortium.open_north()
    mechanism = north.plan.mechanism
    assert (north.plan.teachers, mechanism.threshold, mechanism.sigma1) == (50, 14.0 * 50 / 20, 6.0)
    seen, sample = [], ConfidentGNMax.sample
    monkeypatch.setattr(
        ConfidentGNMax, "sample", lambda self, votes, rng: (seen.append(votes), sample(self, votes, rng))[1]
    )
    some = rows(25)
    labels = ask(north, some)
    counts = np.concatenate([votes.counts for votes in seen])
    features = north._view.transform(north.form.read(some))
    own, other = (each.owner.teachers.predict(np.asarray(features)) for each in (north, consortium.south))
    expected = [[(row == label).sum() for label in (0, 1)] for row in np.column_stack([own, other])]
    assert counts.tolist() == expected
    assert (other != own[:, :1]).any()
    # The same block, once, in both ledgers; the run itself stands first in each.
    paid = {name: consortium.spends(name)[1:] for name in ("north", "south")}
    assert len(paid["north"]) == len(paid["south"]) >= 3
    mu = {each.cost.mu for name in paid for each in paid[name]}
    assert max(mu) == pytest.approx(np.sqrt(10 / 6**2 + 5 * 2 / 4**2)) == pytest.approx(min(mu))
    assert ask(north, some) == labels
    assert len(consortium.spends("south")) == 1 + len(paid["south"])
    assert "ill" not in (consortium.folder / "audit.log").read_text()


@pytest.mark.slow
def test_a_payment_comes_before_votes_leave(consortium, ask, rows, monkeypatch):
    consortium.open_south()
    north = consortium.open_north()
    order = []
    reserve, predict = Ledger.reserve, type(consortium.south.owner.teachers).predict
    monkeypatch.setattr(Ledger, "reserve", lambda *a, **k: (order.append(a[0].url[-8:-3]), reserve(*a, **k))[1])
    kind = type(consortium.south.owner.teachers)
    monkeypatch.setattr(kind, "predict", lambda *a: (order.append(a[0].n_teachers), predict(*a))[1])
    ask(north, rows(2))
    # North looks at its own teachers, both pay, and then south's teachers are asked.
    assert order == [20, "north", "south", 30]


@pytest.mark.slow
def test_without_an_owner_nothing_is_drawn_and_it_goes_on_when_it_is_back(consortium, ask, rows):
    consortium.open_south()
    north = consortium.open_north()
    ask(north, rows(2))
    left, known = north._block.checks, north.rows_known
    consortium.down = True
    with pytest.raises(InvalidInput, match="Owner south cannot be reached at http"):
        ask(north, rows(2, start=50))
    assert (north._block.checks, north.rows_known) == (left, known)
    assert ask(north, rows(2)) is not None
    north._end_block()
    with pytest.raises(InvalidInput, match="cannot be reached"):
        ask(north, rows(2, start=50))
    paid = len(consortium.spends("north"))
    consortium.down = False
    assert set(ask(north, rows(2, start=50))) <= {-1, 0, 1}
    # The block that north had paid when south was away is the one that is used.
    assert len(consortium.spends("north")) == paid


@pytest.mark.slow
def test_rows_that_others_counted_while_an_owner_was_away_do_not_stop_the_service(consortium, ask, rows, monkeypatch):
    consortium.open_south()
    north = consortium.open_north()
    ask(north, rows(1))
    paid = len(consortium.spends("south"))
    votes = desk.RemoteOwner.votes

    def lost(*given):
        votes(*given)
        raise InvalidInput("the answer was lost")

    monkeypatch.setattr(desk.RemoteOwner, "votes", lost)
    for start in range(10, 30, 5):
        with pytest.raises(InvalidInput, match="lost"):
            ask(north, rows(3, start=start))
    monkeypatch.setattr(desk.RemoteOwner, "votes", votes)
    assert set(ask(north, rows(3, start=50))) <= {-1, 0, 1}
    assert len(consortium.spends("south")) == len(consortium.spends("north")) == paid + 1


@pytest.mark.parametrize("teachers", [1, 29])
def test_terms_with_fewer_teachers_than_vote_are_refused_before_a_vote_leaves(consortium, teachers):
    consortium.open_south()
    owner, paid = consortium.south.owner, len(consortium.spends("south"))
    # With one teacher and this threshold a block would be free.
    terms = desk.Terms(**{**NOISE, "threshold": 1000.0}, teachers=teachers, queries=4, answers=2)
    with pytest.raises(InvalidInput, match=r"teachers must be .*30"):
        owner.votes("a", terms, np.asarray(consortium.south._view.public)[:1])
    with pytest.raises(InvalidInput, match=r"teachers must be .*30"):
        owner.blocks_left(terms)
    assert len(consortium.spends("south")) == paid


@pytest.mark.slow
def test_an_owner_that_starts_again_is_paid_again(consortium, ask, rows):
    consortium.open_south()
    north = consortium.open_north()
    ask(north, rows(1))
    paid = len(consortium.spends("south"))
    consortium.south.owner.__init__(
        plan=consortium.south.owner._plan,
        classes=consortium.south.owner._classes,
        public=consortium.south._view.public,
        teachers=consortium.south.owner.teachers,
        budget=consortium.south.owner._budget,
    )
    ask(north, rows(1, start=9))
    assert len(consortium.spends("south")) == paid + 1


def test_a_block_has_no_more_rows_than_were_paid(consortium):
    consortium.open_south()
    owner, terms = consortium.south.owner, desk.Terms(**NOISE, teachers=50, queries=4, answers=2)
    features = np.asarray(consortium.south._view.public)[:6]
    counts, left = owner.votes("a", terms, features[:3])
    again, _ = owner.votes("a", terms, features[:4])
    assert again[:3].tolist() == counts.tolist()
    with pytest.raises(InvalidInput, match="at most 4 different rows"):
        owner.votes("a", terms, features[3:6])
    assert owner.votes("b", terms, features[3:6])[1] == left - 1
    paid = len(consortium.spends("south"))
    for wrong, sentence in ((features[:2, :1], "features must be"), (features[:2] * np.nan, "must be finite")):
        with pytest.raises(InvalidInput, match=sentence):
            owner.votes("c", terms, wrong)
    assert len(consortium.spends("south")) == paid


@pytest.mark.slow
def test_the_account_of_one_owner_ends_it_for_all(consortium, ask, rows):
    consortium.open_south(budget=20.0)
    north = consortium.open_north()
    room = north.blocks_left()
    assert 0 < room < 60
    refusal = ask(north, rows(400))
    assert isinstance(refusal, BudgetSpent)
    assert north.blocks_left() == 0
    assert consortium.south.account.cap.admits(consortium.south.account.total)
    known = rows(north.rows_known)
    assert set(ask(north, known)) <= {-1, 0, 1}


LIES = (
    lambda said: {**said, "votes": [[0, 0]] * len(said["votes"])},
    lambda said: {**said, "votes": [[-1, 31]] * len(said["votes"])},
    lambda said: {**said, "votes": [[30, 0]]},
    lambda said: {**said, "votes": [["x", 30]] * len(said["votes"])},
    lambda said: {"votes": said["votes"]},
)


@pytest.mark.slow
def test_what_is_not_one_vote_of_each_teacher_is_refused(consortium, ask, rows):
    consortium.open_south()
    north = consortium.open_north()
    for lie in LIES:
        consortium.lies = lambda said, lie=lie: lie(said) if said.get("votes") else said
        with pytest.raises(InvalidInput, match="Owner south must give"):
            ask(north, rows(3))
    assert north.rows_known == 0


@pytest.mark.slow
def test_owners_that_differ_are_refused_before_anything_is_paid(consortium):
    consortium.open_south()
    different = {
        "same classes in the same order": {"classes": ["yes", "no"]},
        "same unit of privacy": {"unit": "user"},
        "same features of the public rows": {"features": "0"},
        "must have teachers, got 0": {"teachers": 0},
    }
    for sentence, facts in different.items():
        consortium.lies = lambda said, facts=facts: {**said, **facts}
        with pytest.raises(InvalidInput, match=sentence):
            consortium.open_north()
    assert len(consortium.spends("south")) == 1


def test_votes_are_for_the_desk_alone(consortium):
    consortium.open_south()
    other = Client(name="other", token=token_digest("other"), answers=9, requests_per_second=99)
    known = json.loads(json.dumps([dataclasses.asdict(other)]))
    (consortium.folder / "clients.toml").write_text(tomli_w.dumps({"client": known}))
    for route in ("/v1/owner", "/v1/votes", "/v1/room"):
        method = "GET" if route == "/v1/owner" else "POST"
        for token, status in (("other", 404), ("nobody", 401)):
            said = consortium.web.request(method, route, json={}, headers={"Authorization": f"Bearer {token}"})
            assert said.status_code == status, said.text
    assert "/v1/votes" not in consortium.web.get("/openapi.json", headers={"Authorization": "Bearer other"}).text


@pytest.mark.slow
def test_the_statement_names_every_owner_and_its_cap(consortium):
    consortium.open_south(budget=60.0)
    north = consortium.open_north()
    from ostrakon.service.app import _statement

    said = _statement(north)
    assert said["owners"] == [
        {"name": "the operator of the service", "teachers": 20, "epsilon": 100.0, "delta": 1e-5},
        {"name": "south", "teachers": 30, "epsilon": 60.0, "delta": 1e-5},
    ]
    assert said["guarantee"] == {"epsilon": 100.0, "delta": 1e-5}
    assert "sees, without noise" in said["trust_model"]
    assert "without noise" not in _statement(consortium.south)["trust_model"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "must hold tables"),
        ('queries = 3\n[[owner]]\nname = "a"', "must hold tables"),
        ('[[owner]]\nname = "a"', "must have certificate, name, token_file, url"),
        ('[[owner]]\nname = "a"\nurl = "http://example.org:1"\ntoken_file = "token"', "must be https://HOST:PORT"),
        ('[[owner]]\nname = "a"\nurl = "https://example.org/x"\ntoken_file = "token"', "must be https://HOST:PORT"),
        ('[[owner]]\nname = "a"\nurl = "http://[::1]example.org"\ntoken_file = "token"', "must be https://HOST:PORT"),
        ('[[owner]]\nname = "a"\nurl = "http://a@127.0.0.1"\ntoken_file = "token"', "must be https://HOST:PORT"),
        ('[[owner]]\nname = "a"\nurl = "https://example.org"\ntoken_file = "absent"', "must be a readable token"),
    ],
)
def test_other_files_of_owners_are_refused_in_one_sentence(tmp_path, content, sentence):
    (tmp_path / "token").write_text("x")
    (tmp_path / "owners.toml").write_text(content)
    with pytest.raises(InvalidInput, match=sentence):
        desk.read_owners(tmp_path / "owners.toml")


def full(*_, **__):
    raise CannotWrite("it could not be written: the disk is full")


def full_in_sqlite(*_, **__):
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["north", "south"])
@pytest.mark.parametrize("when", ["before", "half way"])
def test_on_a_full_disk_of_a_ledger_nothing_is_answered_and_the_block_is_paid_once(
    consortium, ask, rows, monkeypatch, name, when
):
    """Half way: the entry is in the ledger, and its head beside it cannot be written."""
    consortium.open_south()
    north = consortium.open_north()
    before = {owner: len(consortium.spends(owner)) for owner in ("north", "south")}
    advance, finish = Head.advance, Turn.finish

    def head(self, *given):
        return full() if self.path.name.startswith(name) else advance(self, *given)

    def entry(self):
        if name in self._where:
            raise sqlalchemy.exc.OperationalError("", {}, sqlite3.OperationalError("database or disk is full"))
        return finish(self)

    with monkeypatch.context() as patched:
        patched.setattr(*((Turn, "finish", entry) if when == "before" else (Head, "advance", head)))
        for _ in range(3):
            with pytest.raises(InvalidInput, match="the disk is full"):
                ask(north, rows(2))
        assert north.rows_known == 0
        assert north._unstored == []
    assert set(ask(north, rows(2))) <= {-1, 0, 1}
    paid = {owner: len(consortium.spends(owner)) - before[owner] for owner in before}
    assert paid == {"north": 1, "south": 1}


@pytest.mark.slow
def test_on_a_full_disk_of_answers_nothing_leaves_and_a_start_again_pays_once_more(consortium, ask, rows, monkeypatch):
    consortium.open_south()
    north = consortium.open_north()
    with monkeypatch.context() as patched:
        patched.setattr(answers.AnswerStore, "_insert", full_in_sqlite)
        for _ in range(2):
            with pytest.raises(InvalidInput, match=r"is full; nothing left this machine"):
                ask(north, rows(2))
        assert north.rows_known == 0
    drawn = [one.label for one in north._unstored]
    assert ask(north, rows(2)) == drawn
    assert len(consortium.spends("north")) == len(consortium.spends("south")) == 2


PAYS = """
import os, signal
from ostrakon.cli import main
from ostrakon.ledger.ledger import Ledger

reserve, calls, killed = Ledger.reserve, [], os.environ["KILLED"]

def pay(*given, **how):
    # The first payment is for the run.
    calls.append(killed)
    if calls[1:] == ["before"]:
        os.kill(os.getpid(), signal.SIGKILL)
    receipt = reserve(*given, **how)
    if calls[1:] == ["after"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return receipt

Ledger.reserve = pay
main()
"""


@contextlib.contextmanager
def process_of_south(folder, port, killed):
    """South as a process, which dies when it pays its first block: before or after the ledger has the entry."""
    asked = ["--ledger", f"sqlite:///{folder}/south.db", "--budget", "100", "--desk", "desk", "--port", str(port)]
    command = [sys.executable, "-c", PAYS, "service", "start", "south/run", *asked]
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "KILLED": killed})
    try:
        for _ in range(600):
            with socket.socket() as wire:
                if wire.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(("killed", "lost"), [("before", 0), ("after", 1)])
def test_an_owner_that_is_killed_while_it_pays_costs_one_block_at_most(tmp_path, runs, ask, rows, killed, lost):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with contextlib.ExitStack() as stack:
        consortium = Consortium(tmp_path, runs, stack, port=port)
        with process_of_south(tmp_path, port, killed):
            north = consortium.open_north()
            with pytest.raises(InvalidInput, match="Owner south cannot be reached at http"):
                ask(north, rows(2))
        assert (north.rows_known, north._unstored) == (0, [])
        assert len(consortium.spends("south")) == 1 + lost
        with process_of_south(tmp_path, port, ""):
            assert set(ask(north, rows(2))) <= {-1, 0, 1}
        assert len(consortium.spends("north")) == 2
        assert len(consortium.spends("south")) == 2 + lost


def test_without_tls_nothing_goes_to_a_proxy(tmp_path, monkeypatch):
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        proxy.settimeout(0.2)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        (tmp_path / "token").write_text("secret")
        owner = desk.RemoteOwner(name="south", url="http://127.0.0.1:1", token_file=tmp_path / "token")
        with pytest.raises(InvalidInput, match="cannot be reached"):
            owner.greet()
        with pytest.raises(TimeoutError):
            proxy.accept()


def test_the_token_goes_nowhere_but_to_the_owner(tmp_path):
    asked = []

    class Redirects(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Redirects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "token").write_text("secret")
        url = f"http://127.0.0.1:{server.server_port}"
        owner = desk.RemoteOwner(name="south", url=url, token_file=tmp_path / "token")
        with pytest.raises(InvalidInput, match="refused with status 302"):
            owner.greet()
        server.shutdown()
    assert asked == ["/v1/owner"]
