"""The web application: who may ask, what is refused, and that nothing but labels leaves."""

import dataclasses
import json
import shutil
import time

import pytest
import tomli_w
from limits import RateLimitItemPerHour
from starlette.testclient import TestClient

from ostrakon.ledger.ledger import Ledger
from ostrakon.service import Client, middleware
from ostrakon.service.app import MAX_ROWS, make_app
from ostrakon.service.audit_file import REFUSALS_WRITTEN, AuditFile
from ostrakon.service.clients import ClientFile, token_digest
from ostrakon.service.middleware import LARGEST_BODY
from ostrakon.service.request_queue import RequestQueue
from ostrakon.validation import InvalidInput


class Service:
    """The application on a labeller, its clients a (1,000 answers) and b (3 answers, 2 requests a second)."""

    def __init__(self, place, **options):
        self.place, self.audit = place, place.run / "private" / "audit.log"
        self.labeller = place.open(**options)
        self.file = place.run / "private" / "clients.toml"
        self.admit(("a", 1000, 1000), ("b", 3, 2))
        app = make_app(self.labeller, ClientFile(self.file), audit=AuditFile(self.audit))
        self.web = TestClient(app, raise_server_exceptions=False)

    def admit(self, *clients):
        """Write the file of clients: (name, answers, requests a second)."""
        held = [
            dataclasses.asdict(Client(name=name, token=token_digest(name), answers=answers, requests_per_second=rate))
            for name, answers, rate in clients
        ]
        self.file.write_text(tomli_w.dumps({"client": held}))

    def ask(self, rows, token="a"):
        return self.web.post("/v1/labels", json={"rows": rows}, headers={"Authorization": f"Bearer {token}"})

    def get(self, path, token="a"):
        return self.web.get(path, headers={"Authorization": f"Bearer {token}"})

    def log(self):
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@pytest.fixture
def service(place):
    held = Service(place)
    with held.web:
        yield held


@pytest.fixture(scope="module")
def idle(shared_place):
    """One that no test puts a row to."""
    held = Service(shared_place)
    with held.web:
        yield held
    assert held.labeller.rows_asked("a") == 0
    assert len(Ledger(shared_place.ledger).account("data-1").spends) == 1


def refused(told, status, code):
    """That it is a refusal of the one shape."""
    assert told.status_code == status, told.text
    assert set(told.json()) == {"error"}
    assert set(told.json()["error"]) == {"code", "message"}
    assert told.json()["error"]["code"] == code
    assert "Traceback" not in told.text
    return told.json()["error"]["message"]


@pytest.mark.slow
def test_labels_and_their_price(service, rows):
    told = service.ask(rows(30))
    assert told.status_code == 200
    assert set(told.json()["labels"]) == {"yes", "no", None}
    assert (told.json()["asked"], told.json()["most"]) == (30, 1000)
    assert service.ask(rows(30)).json() == told.json()
    left = service.get("/v1/budget").json()
    assert left["asked"] == 30
    assert left["epsilon"] == 100
    account = Ledger(service.place.ledger).account("data-1")
    assert account.spent <= left["epsilon_spent"] <= account.spent + 1e-3
    assert left["answers_left"] == 5 * service.labeller.blocks_left() > 0
    assert service.get("/health").json() == {"status": "ok"}


def test_the_budget_shows_other_clients_only_whole_blocks(service, rows):
    service.admit(("a", 1000, 1000), ("b", 3, 1000))
    service.ask(rows(1))
    before = service.get("/v1/budget", "b").json()
    blocks = service.labeller.blocks_left()
    for at in range(1, 40):
        service.ask(rows(1, start=at))
        if service.labeller.blocks_left() != blocks:
            break
        assert service.get("/v1/budget", "b").json() == before
    assert at > 1


def test_a_redirect_never_repeats_what_a_client_typed(idle):
    told = idle.web.post(
        "/v1/labels/", headers={"Authorization": "Bearer a", "Host": "elsewhere"}, follow_redirects=False
    )
    refused(told, 404, "not_found")
    assert "location" not in told.headers


def test_open_paths_have_a_rate_by_address(service, monkeypatch):
    # An hour, so that no second passes meanwhile on a busy machine.
    monkeypatch.setattr(middleware, "OPEN_PER_SECOND", RateLimitItemPerHour(middleware.OPEN_PER_SECOND.amount))
    answers = [service.web.get(path) for path in ("/health", "/ready") * 15]
    allowed = middleware.OPEN_PER_SECOND.amount
    assert [one.status_code for one in answers] == [200] * allowed + [429] * (30 - allowed)
    assert refused(answers[-1], 429, "too_many_requests")
    assert answers[-1].headers["connection"] == "close"
    assert service.get("/v1/budget").status_code == 200


def test_the_same_row_twice_in_a_request_is_one_row(service, rows):
    (row,) = rows(1)
    told = service.ask([row, row, {**row, "more": "x"}]).json()
    assert told["asked"] == 1
    assert len(set(told["labels"])) == 1


def test_only_known_tokens_are_let_in(idle, rows):
    for headers in ({}, {"Authorization": "Bearer c"}, {"Authorization": "Basic a"}, {"Authorization": "Bearer "}):
        told = idle.web.post("/v1/labels", json={"rows": rows(1)}, headers=headers)
        assert refused(told, 401, "unauthorized").startswith("A known token must be given, in the header")
    for path in ("/v1/budget", "/v1/statement"):
        refused(idle.get(path, token="c"), 401, "unauthorized")
    unknown = [line for line in idle.log() if line["client"] is None]
    assert all(line["status"] == 401 for line in unknown)
    assert len(unknown) == REFUSALS_WRITTEN


def test_a_client_has_its_cap_and_its_rate(service, rows, monkeypatch):
    # A clock of its own: on a busy machine three requests may take longer than a second.
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    assert service.ask(rows(3), token="b").status_code == 200
    assert refused(service.ask(rows(4), token="b"), 403, "limit_reached").startswith("The client may ask about 0 more")
    told = service.ask(rows(3), token="b")
    assert refused(told, 429, "too_many_requests") == "At most 2 requests a second."
    assert told.headers["Retry-After"] == "1"
    assert service.ask(rows(3)).status_code == 200
    now[0] += 2.1
    assert service.ask(rows(3), token="b").status_code == 200


def test_the_end_of_the_budget_is_said(place, rows, caplog):
    held = Service(place, budget=10.0)
    with held.web:
        told = held.ask(rows(200))
        assert refused(told, 403, "spent").startswith("The budget of these data is spent")
        assert held.get("/v1/budget").json()["answers_left"] == 0
        assert held.ask(rows(1)).status_code == 200
        refused(held.ask(rows(3, start=200)), 403, "spent")
        # Known rows are answered, so a load balancer must not take the service away.
        assert held.web.get("/ready").json() == {"status": "ready"}
    assert [record.message[:20] for record in caplog.records if record.levelname == "WARNING"] == [
        "The account is spent"
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"rows": []},
        {"rows": [[1, 2]]},
        {"rows": {"age": [1]}},
        {"rows": [{"age": {"a": 1}, "town": "Ulm"}]},
        {"rows": [{"age": 1}]},
        {"rows": [{"age": 1, "town": "Ulm"}] * (MAX_ROWS + 1)},
        [],
        7,
    ],
)
def test_what_is_no_request_costs_nothing(idle, body):
    told = idle.web.post("/v1/labels", json=body, headers={"Authorization": "Bearer a"})
    refused(told, 422, "invalid")


def test_a_text_that_is_too_long_is_refused_with_its_length(idle):
    body = {"rows": [{"age": 1, "town": "U" * 20_001}]}
    told = idle.web.post("/v1/labels", json=body, headers={"Authorization": "Bearer a"})
    assert refused(told, 422, "invalid") == "Row 0: town must have at most 20000 characters, got 20001."


@pytest.mark.parametrize("cell", ["NaN", "Infinity", "-Infinity", "1e400", '"\\ud800"', '{"a": 1}'])
def test_a_cell_that_is_no_value_is_refused_with_its_row_and_column(idle, cell):
    headers = {"Authorization": "Bearer a", "Content-Type": "application/json"}
    for column, wanted in (("age", "age must be a number or null"), ("town", "town must be text or null")):
        row = {"age": "1", "town": '"Ulm"', column: cell}
        second = ", ".join(f'"{name}": {text}' for name, text in row.items())
        body = '{"rows": [{"age": 1, "town": "Ulm"}, {' + second + "}]}"
        told = idle.web.post("/v1/labels", content=body, headers=headers)
        assert refused(told, 422, "invalid").startswith(f"Row 1: {wanted}, got ")
    body = '{"rows": [{"age": 1, "town": "Ulm", "\\ud800": ' + cell + "}]}"
    assert idle.web.post("/v1/labels", content=body, headers=headers).status_code == 422


def test_bytes_that_are_no_json_are_refused(idle):
    headers = {"Authorization": "Bearer a", "Content-Type": "application/json"}
    for body in (b"\xff\xfe", b"{", b"[" * 100_000, b'{"rows": [{"age": 1' + b"0" * 5000 + b', "town": "Ulm"}]}'):
        assert idle.web.post("/v1/labels", content=body, headers=headers).status_code in (400, 422)


def test_a_request_has_a_largest_size(idle):
    headers = {"Authorization": "Bearer a", "Content-Type": "application/json"}

    def pieces():
        for _ in range(40):
            yield b" " * (LARGEST_BODY // 32)

    refused(idle.web.post("/v1/labels", content=b" " * (LARGEST_BODY + 1), headers=headers), 413, "too_large")
    refused(idle.web.post("/v1/labels", content=pieces(), headers=headers), 413, "too_large")


def test_a_bug_is_a_refusal_too_and_tells_nothing(service, rows, monkeypatch):
    monkeypatch.setattr(service.labeller, "answer", lambda requests: 1 / 0)
    told = service.ask(rows(1))
    assert told.status_code == 500
    assert told.json() == {"error": {"code": "error", "message": "Something went wrong here."}}
    assert service.log()[-1]["status"] == 500


def test_no_votes_leave_and_the_audit_log_holds_no_rows(service, rows):
    some = rows(20)
    texts = [service.ask(some).text, service.get("/v1/budget").text, service.get("/v1/statement").text]
    told = service.get("/v1/statement").json()
    assert told["guarantee"] == {"epsilon": 100.0, "delta": 1e-5}
    assert told["columns"] == [{"name": "age", "kind": "number"}, {"name": "town", "kind": "category"}]
    assert told["teachers"] == 20
    assert "one record" in told["adjacency"]
    assert not any('"counts"' in text or '"votes"' in text for text in texts)
    lines = service.log()
    assert [line["route"] for line in lines] == ["/v1/labels", "/v1/budget", "/v1/statement", "/v1/statement"]
    assert all(set(line) == {"at", "client", "route", "rows", "status"} for line in lines)
    assert (lines[0]["client"], lines[0]["rows"], lines[0]["status"]) == ("a", 20, 200)
    text = service.audit.read_text()
    assert "Ulm" not in text
    assert "yes" not in text
    assert service.audit.stat().st_mode & 0o777 == 0o600
    service.web.get("/v1/secret-path")
    assert "secret" not in service.audit.read_text()


def test_metrics_are_for_a_monitor_and_name_no_row_label_or_client(service, rows):
    service.admit(("a", 1000, 1000), ("monitor", 0, 1000))
    service.ask(rows(3))
    service.ask(rows(2))
    service.ask([{"age": "4O", "town": "Ulm"}])
    service.get("/v1/elsewhere")
    for _ in range(REFUSALS_WRITTEN + 2):
        service.get("/metrics", token="c")
    refused(service.get("/metrics"), 404, "not_found")
    refused(service.ask(rows(1, start=50), token="monitor"), 403, "limit_reached")
    told = service.get("/metrics", token="monitor")
    assert told.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert told.text.endswith("\n")
    lines = [line for line in told.text.splitlines() if not line.startswith("# ")]
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
    assert values['ostrakon_requests_total{route="/v1/labels",status="200"}'] == 2
    assert values['ostrakon_requests_total{route="/v1/labels",status="422"}'] == 1
    assert values['ostrakon_requests_total{route="none",status="404"}'] == 1
    # Also those that have no line in the audit log.
    assert values['ostrakon_requests_total{route="none",status="401"}'] == REFUSALS_WRITTEN + 2
    assert (values["ostrakon_request_rows_total"], values["ostrakon_known_rows"]) == (7, 3)
    assert (values["ostrakon_ready"], values["ostrakon_waiting_rows"], values["ostrakon_spent"]) == (1, 0, 0)
    account = service.labeller.account
    assert values["ostrakon_epsilon_cap"] == account.cap.epsilon
    assert values["ostrakon_epsilon_spent"] == account.spent
    assert values["ostrakon_answers_left"] == service.get("/v1/budget").json()["answers_left"]
    assert not any(word in told.text for word in ("monitor", "Ulm", "yes", "age", '"a"'))


def test_the_description_is_for_clients_alone(idle):
    refused(idle.web.get("/openapi.json"), 401, "unauthorized")
    refused(idle.web.get("/docs"), 401, "unauthorized")
    refused(idle.get("/docs"), 404, "not_found")
    described = idle.get("/openapi.json").json()
    assert set(described["paths"]) == {"/v1/labels", "/v1/budget", "/v1/statement", "/health", "/ready"}


def test_a_token_that_is_taken_out_of_the_file_is_refused_at_once(service, rows):
    assert service.ask(rows(1), token="b").status_code == 200
    service.admit(("a", 1000, 1000))
    refused(service.ask(rows(1), token="b"), 401, "unauthorized")
    assert service.ask(rows(1)).status_code == 200
    service.file.write_text("client = 7")
    refused(service.ask(rows(1)), 503, "unavailable")
    service.admit(("a", 1000, 1000))
    assert service.ask(rows(1)).status_code == 200


def test_unknown_tokens_are_limited_and_nothing_of_their_bodies_is_read(service):
    def body():
        pytest.fail("read")
        yield b""

    codes = [
        service.web.post("/v1/labels", content=body(), headers={"Authorization": f"Bearer {at}"}).status_code
        for at in range(70)
    ]
    assert codes[:60] == [401] * 60
    assert codes[60:] == [429] * 10
    assert len(service.log()) == REFUSALS_WRITTEN
    assert service.get("/v1/statement").status_code == 200
    assert service.log()[-1]["refusals_not_written"] == 70 - REFUSALS_WRITTEN


def test_health_leaves_no_line_and_readiness_says_whether_new_rows_can_be_answered(service, rows, monkeypatch):
    for _ in range(10):
        assert service.web.get("/health").status_code == 200
    assert service.web.get("/ready").json() == {"status": "ready"}
    assert service.log() == []
    with monkeypatch.context() as patched:
        patched.setattr(service.labeller, "answer", lambda requests: (_ for _ in ()).throw(InvalidInput("full")))
        refused(service.ask(rows(1)), 503, "unavailable")
        refused(service.web.get("/ready"), 503, "unavailable")
    assert service.ask(rows(1)).status_code == 200
    assert service.web.get("/ready").status_code == 200
    whole = service.file.read_text()
    service.file.write_text("not toml")
    refused(service.web.get("/ready"), 503, "unavailable")
    service.file.write_text(whole)
    assert service.web.get("/ready").status_code == 200
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0})())
    refused(service.web.get("/ready"), 503, "unavailable")


def test_whether_a_row_was_asked_before_does_not_show_in_a_refusal(service):
    incomplete, whole = {"town": "Ulm"}, {"age": None, "town": "Ulm"}
    before = service.ask([incomplete]), service.ask([incomplete, whole])
    assert service.ask([whole]).status_code == 200
    after = service.ask([incomplete]), service.ask([incomplete, whole]), service.ask([whole, incomplete])
    for told in (*before, *after):
        assert "must have the column 'age'" in refused(told, 422, "invalid")
    assert service.labeller.rows_asked("a") == 1


@pytest.mark.parametrize("cell", ["4O", "39,0", [39], "Infinity", "NaN3", 10**400, "1e999", "12 years"])
def test_a_cell_that_cannot_be_read_is_refused_by_name_and_costs_nothing(idle, cell):
    told = idle.ask([{"age": 30, "town": "Ulm"}, {"age": cell, "town": "Ulm"}])
    assert told.status_code == 422
    if cell != 10**400:
        assert refused(told, 422, "invalid").startswith("Row 1: age must be a number or null, got ")


@pytest.mark.parametrize("cell", [None, "NA", " 39 ", "'39'", True, 39.5])
def test_a_missing_or_readable_cell_is_answered(service, cell):
    assert service.ask([{"age": cell, "town": "Ulm"}]).status_code == 200


def test_an_error_in_one_request_does_not_fail_the_others(service, rows, monkeypatch):
    answer = service.labeller.answer

    def sometimes(requests):
        if any(len(each.rows) == 2 for each in requests):
            raise ZeroDivisionError
        return answer(requests)

    monkeypatch.setattr(service.labeller, "answer", sometimes)
    read = [service.labeller.read("a", 1000, rows(count)) for count in (1, 2, 3)]
    found = RequestQueue(service.labeller)._answer_requests(read)
    assert [isinstance(each, tuple) for each in found] == [True, False, True]


def test_what_fails_here_is_no_clients_business(service, rows, monkeypatch, caplog):
    def fails(*_, **__):
        raise InvalidInput(f"There is no ledger at {service.place.ledger}.")

    known = service.ask(rows(1)).json()["labels"]
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "reserve", fails)
        told = refused(service.ask(rows(200, start=1)), 503, "unavailable")
    assert str(service.place.run.parent) not in told
    assert service.place.ledger in caplog.text
    assert service.ask(rows(1)).json()["labels"] == known
    assert service.ask(rows(9, start=1)).status_code == 200
