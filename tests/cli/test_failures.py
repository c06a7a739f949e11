"""What is not the user's input and still ends in one sentence: too little memory."""

import errno
import importlib
import subprocess
import sys

import numpy as np
import pytest
import rich.table
import rich.text

from ostrakon.validation import InvalidInput

# The package has a name for the application inside that hides its module.
root = importlib.import_module("ostrakon.cli.app")
# All commands, before a test puts something else in their place.
root._arguments()


def chained() -> Exception:
    try:
        try:
            raise MemoryError
        except MemoryError as first:
            raise ValueError("the model could not be read") from first
    except ValueError as error:
        return error


def too_large() -> Exception:
    with pytest.raises(MemoryError) as caught:
        np.empty(2**50)
    return caught.value


LACKS = [
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("can't start new thread"),
    ImportError("libblas.so: failed to map segment from shared object"),
    chained(),
    too_large(),
]


@pytest.mark.parametrize("error", LACKS, ids=lambda error: type(error).__name__)
def test_lack_of_memory_is_one_sentence(error, monkeypatch, capsys):
    def fail():
        raise error

    monkeypatch.setattr(root, "app", fail)
    for verb, continued in (("train", True), ("compare", False)):
        monkeypatch.setattr(sys, "argv", ["ostrakon", verb])
        with pytest.raises(SystemExit) as stopped:
            root.main()
        assert stopped.value.code == 2
        told = capsys.readouterr().err
        kept = "; finished work is kept, and the same command continues from there, with more memory or fewer workers"
        assert told.startswith(f"Error: Memory ran out{kept if continued else ''}")
        assert ("continues" in told) == continued
        assert told.count("\n") == 1


@pytest.mark.parametrize(("verb", "continued"), [("train", True), ("plan", False)])
def test_only_a_command_that_continues_says_so_if_it_is_interrupted(verb, continued, monkeypatch, capsys):
    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr(root, "app", stop)
    monkeypatch.setattr(root.atexit, "register", lambda function: None)
    monkeypatch.setattr(sys, "argv", ["ostrakon", verb])
    with pytest.raises(SystemExit) as stopped:
        root.main()
    assert stopped.value.code == 130
    end = ": finished work is kept, and the same command continues from there."
    assert capsys.readouterr().err.strip() == f"Interrupted{end if continued else '.'}"


@pytest.mark.parametrize("error", [ValueError("memory"), KeyError("x"), RuntimeError("a bug"), OSError(errno.EIO, "x")])
def test_a_bug_is_not_called_lack_of_memory(error, monkeypatch):
    def fail():
        raise error

    monkeypatch.setattr(root, "app", fail)
    with pytest.raises(type(error)):
        root.main()


def test_brackets_in_a_sentence_are_shown(monkeypatch, capsys):
    def fail():
        raise InvalidInput("The column '[red]' is missing, got ['a', 'b'].")

    monkeypatch.setattr(root, "app", fail)
    with pytest.raises(SystemExit):
        root.main()
    assert capsys.readouterr().err == "Error: The column '[red]' is missing, got ['a', 'b'].\n"


@pytest.mark.parametrize("text", ["\x1b]0;title\x07\x1b[2J", "a\rb", "\x9b2J", "\u202etxt.exe", "\u2066x\u2028"])
def test_text_of_others_cannot_control_the_terminal(text, monkeypatch, capsys):
    table = rich.table.Table(text)
    table.add_row(rich.text.Text(text))
    root.SafeConsole(width=80).print(table, text, f"[bold]{text}[/]", soft_wrap=True)
    monkeypatch.setattr(root, "app", lambda: (_ for _ in ()).throw(InvalidInput(f"{text} is damaged.")))
    with pytest.raises(SystemExit):
        root.main()
    told = capsys.readouterr()
    assert "is damaged" in told.err
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))


def test_the_command_line_without_its_script():
    done = subprocess.run(
        [sys.executable, "-m", "ostrakon", "account", "absent.npy", "--mechanism", "gnmax", "--sigma2", "40"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "absent.npy" in done.stderr
    assert "Traceback" not in done.stderr
