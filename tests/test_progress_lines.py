"""In a pipe or a log file, long work prints a line with an estimate."""

from types import SimpleNamespace

from ostrakon import progress


def test_long_work_prints_lines_where_there_is_no_terminal(monkeypatch, capsys) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with progress.reporting(True, label="Collecting votes", total=8) as report:
        for done in range(1, 9):
            clock[0] = 4.0 * done
            report(done, 8)
    lines = [line for line in capsys.readouterr().out.splitlines() if "left" in line]
    assert lines == [
        "Collecting votes: 3 of 8, about 20 seconds left",
        "Collecting votes: 6 of 8, about 8 seconds left",
    ]
