"""Studies on federated platforms, without a platform: what the machines send each other, and every refusal."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tomli_w
from loopback_owners import NAMES, reachable

from ostrakon.data.checksummed import npy, write_checksummed
from ostrakon.study.federation import Site, finish_by_messages, join_by_message, study_files
from ostrakon.study.tables import read_shares, read_sum, shares_folder, write_share, write_sum
from ostrakon.validation import InvalidInput

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def studies(three):
    return {
        "files": three.create("federated", exchange="files"),
        "other": three.create("other", exchange="files", seed=1),
    }


def site(three, study, owner, **changes):
    content = {
        "owner": owner,
        "private": f"{owner}.csv",
        "by": "patient",
        "expect": study.hash[:12],
        "keep": f"at-{owner}",
    }
    path = three.folder / f"{owner}-site.toml"
    path.write_text(tomli_w.dumps(content | changes))
    return Site.read(path)


@pytest.fixture(scope="module")
def answers(three, studies):
    """What the owners send; of the study `files`."""
    study = studies["files"]
    return {name: join_by_message(study_files(study), site(three, study, name)) for name in NAMES}


def test_missing_late_and_foreign_owners_then_a_finished_study(three, studies, answers):
    study = studies["files"]
    some = [answers["north"], answers["south"]]
    with pytest.raises(
        InvalidInput, match=r"^west gave no answer within 5 seconds: run the same job again, .*without=west"
    ):
        finish_by_messages(study, some, silent="within 5 seconds")
    other = join_by_message(study_files(studies["other"]), site(three, studies["other"], "west", keep="at-other"))
    with pytest.raises(InvalidInput, match=r"What 'west' sent was not taken: .* was made for another study"):
        finish_by_messages(study, [other])
    refused = join_by_message(study_files(study), site(three, studies["other"], "west"))
    assert refused["refused"].startswith(f"expect must be the study's hash, {study.hash}")
    with pytest.raises(InvalidInput, match=r"^west did not join: expect must be the study's hash"):
        finish_by_messages(study, [refused])
    # Tables that came stay: the late owner alone was missing.
    release = finish_by_messages(study, [answers["west"]])
    statement = json.loads((release / "statement.json").read_bytes())
    assert statement["private"]
    assert statement["guarantee"]["epsilon"] <= 3
    assert list(read_shares(shares_folder(study, None), study)) == list(NAMES)


def test_joining_again_hands_over_the_same_table(three, studies, answers):
    study = studies["files"]
    assert join_by_message(study_files(study), site(three, study, "north")) == answers["north"]


def test_owners_that_add_up_their_tables_hand_over_the_sum(three):
    keys = three.folder / "keys"
    study = three.create("summed", exchange="secure-sum", owners=reachable(keys))
    files = study_files(study)
    assert join_by_message(files, site(three, study, "north", keep="no-key"))["refused"].startswith("key must be given")
    assert not list((three.folder / "no-key").glob("*/owner"))
    own = {name: site(three, study, name, keep=f"sum-{name}", key=f"keys/{name}.key") for name in NAMES}
    with ThreadPoolExecutor(len(NAMES)) as pool:
        sent = list(pool.map(lambda name: join_by_message(files, own[name], wait=60), NAMES))
    assert len({answer["table"] for answer in sent}) == 1, sent
    with pytest.raises(InvalidInput, match=r"^south, west gave no answer"):
        finish_by_messages(study, sent[:1])
    assert not list(shares_folder(study, None).iterdir())
    release = finish_by_messages(study, sent)
    assert read_sum(shares_folder(study, None), study)[0] == list(NAMES)
    assert "Shamir" in json.loads((release / "statement.json").read_bytes())["trust_model"]
    with pytest.raises(InvalidInput, match=r"must hold|was not taken"):
        finish_by_messages(three.create("again", exchange="secure-sum", owners=reachable(keys)), sent)


def test_tables_of_somebody_else_and_made_up_ones_are_refused(three, studies, answers, tmp_path):
    study = studies["other"]
    write_checksummed(
        tmp_path / "x",
        npy(study.queries),
        what="an owner's share",
        belongs={"study": study.hash, "owner": "north"},
        mode=0o600,
    )
    made_up = {"owner": "north", "study": study.hash, "table": (tmp_path / "x").read_bytes()}
    for answer, reason in (
        (made_up, "must hold whole numbers of shape"),
        (made_up | {"table": b"no table"}, "What 'north' sent was not taken"),
        (made_up | {"table": None}, "it holds no table"),
        (made_up | {"owner": None}, "What None sent was not taken: owner must be one of this study's"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            finish_by_messages(study, [answer])
    own = join_by_message(study_files(study), site(three, study, "south", keep="at-south-other"))
    with pytest.raises(InvalidInput, match="What 'north' sent was not taken: it is the table of south"):
        finish_by_messages(study, [own | {"owner": "north"}])
    assert not list(shares_folder(study, None).glob("*.share"))


@pytest.fixture
def sent(three, tmp_path):
    """A function that returns a study and, for each number, the answer of an owner whose table is full of it."""

    def study_and_answers(exchange, *numbers):
        study = three.create(str(tmp_path / exchange), exchange=exchange, owners=reachable(three.folder / "keys"))

        def answer(owner, number):
            table, folder = np.full((8, 2), number), tmp_path / f"{exchange}-{owner}-{number}"
            stored = write_sum(folder, study, list(NAMES), table) if study.exchange.summed else None
            path = stored or write_share(folder, study, owner, table)
            return {"owner": owner, "study": study.hash, "table": path.read_bytes()}

        return study, [answer(name, number) for name, number in numbers]

    return study_and_answers


ALL = tuple((name, 1) for name in NAMES)
REFUSED = {"owner": "south", "refused": "my clock\n2026 ERROR\x1b[2J is wrong"}


@pytest.mark.parametrize(
    ("exchange", "numbers", "others", "sentence"),
    [
        ("files", [("south", 2), *ALL], [], "Two different tables of south were sent: nobody can tell which is right"),
        ("files", ALL, [REFUSED], "south did not join: my clock�2026 ERROR"),
        ("files", ALL, [5], "An answer must be a dictionary, got 5"),
        ("files", ALL, [{"owner": {}, "refused": {"a": 1}}], r"\{\} did not join: \{'a': 1\}"),
        ("secure-sum", [("north", 2), *ALL[1:]], [], "north, south, west handed over different sums"),
        ("secure-sum", ALL[:1], [REFUSED, {"owner": "west", "refused": "no"}], "south did not join: .* west did not"),
        ("secure-sum", ALL[:1], [], "south, west gave no answer"),
    ],
)
def test_a_job_that_is_refused_stores_nothing(sent, exchange, numbers, others, sentence):
    study, answers = sent(exchange, *numbers)
    with pytest.raises(InvalidInput, match=sentence) as caught:
        finish_by_messages(study, [*answers, *others])
    assert str(caught.value).isprintable()
    assert not list(shares_folder(study, None).iterdir())
    assert not (shares_folder(study, None).parent / f"{exchange}-finished").exists()


@pytest.mark.parametrize(
    ("exchange", "without", "sentence"),
    [
        ("secure-sum", ["west"], "north handed over is of north, south, west, and this job is of north, south"),
        ("secure-sum", ["nobody"], "owner must be one of this study's"),
        ("files", ["nobody"], "owner must be one of this study's"),
    ],
)
def test_a_job_without_owners_that_its_tables_hold_stores_nothing(sent, exchange, without, sentence):
    study, answers = sent(exchange, *ALL)
    with pytest.raises(InvalidInput, match=sentence):
        finish_by_messages(study, answers, without=without)
    assert not shares_folder(study, None).exists() or not list(shares_folder(study, None).iterdir())


def test_a_table_that_differs_from_an_earlier_job_finishes_nothing(sent):
    study, (first, second, *others) = sent("files", ("north", 1), ("north", 2), *ALL[1:])
    with pytest.raises(InvalidInput, match=r"^south, west gave no answer"):
        finish_by_messages(study, [first])
    with pytest.raises(InvalidInput, match=r"^What north sent differs from what was sent before, in .*north\.share"):
        finish_by_messages(study, [second, *others])
    assert [path.name for path in shares_folder(study, None).iterdir()] == ["north.share"]


def test_a_message_that_holds_no_study_writes_nothing(three, studies):
    study = studies["files"]
    own = site(three, study, "north", keep="at-nobody")
    for files in ({}, {"../escape": b"x"}, study_files(study) | {"study.toml": b"a = 1"}):
        assert "refused" in join_by_message(files, own)
    assert not list((three.folder / "at-nobody").iterdir())
    assert not (three.folder / "escape").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": 3}, "must give by as text, got 3"),
        ({"expect": ""}, "must give expect as text, got ''"),
        ({"shares": "x"}, "no 'shares'"),
    ],
)
def test_site_files_are_checked(three, studies, changes, message):
    with pytest.raises(InvalidInput, match=message):
        site(three, studies["files"], "north", **changes)
    with pytest.raises(InvalidInput, match="site must be a readable TOML file"):
        Site.read(three.folder / "absent.toml")
