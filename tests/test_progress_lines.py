"""In a pipe or a log file, long work prints a line with an estimate."""

from types import SimpleNamespace

from rich.progress import Progress

from ostrakon import progress


def test_long_work_prints_lines_where_there_is_no_terminal(monkeypatch, capsys) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with progress.reporting(True, label="Collecting votes", total=8) as report:
        for done in range(1, 9):
            clock[0] = 8.0 + 4.0 * done  # the first step takes longest
            report(done, 8)
    lines = [line for line in capsys.readouterr().out.splitlines() if " of 8" in line]
    assert lines == [
        "Collecting votes: 1 of 8",
        "Collecting votes: 4 of 8, about 24 s left",
        "Collecting votes: 7 of 8, about 5 s left",
    ]


def test_a_bar_shows_an_estimate_once_it_means_something() -> None:
    clock = [0.0]
    with Progress(*progress.columns(), get_time=lambda: clock[0], disable=True) as bar:
        task = bar.add_task("Collecting votes", total=20)
        shown = []
        for done in range(1, 7):
            clock[0] += 1.0
            bar.update(task, completed=done)
            shown.append(str(bar.columns[-1](bar.tasks[0])))
    assert shown[:3] == ["-:--:--"] * 3
    assert all(text.startswith("0:00:1") for text in shown[3:])
