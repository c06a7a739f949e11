"""The audit log has a limited size, and nobody else may read any of its files."""

from ostrakon.service import audit_file
from ostrakon.service.audit_file import OLDER_FILES, AuditFile

LINE = {"client": None, "route": None, "rows": 0, "status": 401}


def test_older_files_are_few_and_as_private_as_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_file, "LARGEST_FILE", 2000)
    log = AuditFile(tmp_path / "audit.log")
    for at in range(500):
        log.write({"client": "a", "route": "/v1/labels", "rows": at, "status": 200})
    files = list(tmp_path.iterdir())
    assert len(files) == 1 + OLDER_FILES
    assert all(file.stat().st_size <= 2000 for file in files)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_file_that_another_program_moved_is_made_again(tmp_path):
    file, moved = tmp_path / "audit.log", tmp_path / "audit.moved"
    log = AuditFile(file)
    log.write(LINE | {"rows": 1})
    file.rename(moved)
    log.write(LINE | {"rows": 2})
    log.write(LINE | {"rows": 3})
    file.unlink()
    log.write(LINE | {"rows": 4})
    assert len(moved.read_text().splitlines()) == 1
    assert '"rows": 4' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_refusals_of_unknown_callers_are_counted_beyond_a_few(tmp_path):
    log = AuditFile(tmp_path / "audit.log")
    for at in range(5000):
        log.write_refusal(f"2001:db8::{at:x}", LINE)
    assert len((tmp_path / "audit.log").read_text().splitlines()) == 1000
    log.write(LINE)
    assert '"refusals_not_written": 4000' in (tmp_path / "audit.log").read_text()
    assert len(log._refused) == 1000
    assert log.requests == {(None, 401): 5001}
