"""Who is told how far work is: nobody, a function, or whoever watches the terminal."""

import pytest

from ostrakon.teachers.progress import reporting


@pytest.mark.parametrize("silent", [None, False])
def test_silence(silent, capsys):
    with reporting(silent, label="Working", total=2) as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_function_is_called_itself():
    told = []
    with reporting(lambda done, total: told.append((done, total)), label="Working", total=2) as report:
        report(1, 2)
        report(2, 2)
    assert told == [(1, 2), (2, 2)]


def test_a_bar_ends_at_the_total(capsys):
    with reporting(True, label="Working", total=2) as report:
        report(2, 2)
    said = capsys.readouterr().out
    assert "Working" in said
    assert "2/2" in said
