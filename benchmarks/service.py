"""A labelling service under load: repeated and new rows per second, and a loop over 250 models.

    python benchmarks/service.py --data DIR [--seconds 20] [--connections 64]

DIR holds adult.data.gz and adult.test.gz. 250 logistic teachers are trained on Adult, `ostrakon service start` answers
on localhost, and wrk (which must be installed) sends requests of one row from the same machine: rows that were answered
before (cached), and new rows (fresh: adult.test with slightly changed numbers). Every fresh answer is charged in the
ledger and written to the disk before it is sent. Plain: the 250 models in one process, one row at a time, without a
service.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.datasets import adult
from ostrakon.data.files import write_atomically
from ostrakon.service import open_service

TARGET = "income"
WRK = """\
local rows, at, step = {}, 0, 1
for line in io.lines("ROWS") do rows[#rows + 1] = line end
local threads = 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init(args) at = number * math.floor(#rows / 2) end
function request()
  at = at % #rows + 1
  return wrk.format("POST", "/v1/labels", wrk.headers, rows[at])
end
wrk.headers["Authorization"] = "Bearer TOKEN"
wrk.headers["Content-Type"] = "application/json"
local bad = 0
function response(status) if status ~= 200 then bad = bad + 1; if bad < 4 then print("status", status) end end end
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk must be installed (Debian: apt-get install wrk).")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = train(options.data, folder)
        url = f"sqlite:///{folder / 'budget.db'}"
        limits = ["--answers", "10000000", "--requests-per-second", "1000000"]
        token = ostrakon("service", "client", "load", *limits, cwd=folder)
        print(f"plain way, one row at a time: {plain(folder, url, rows):.1f} rows a second", flush=True)
        with serving(folder, url) as at:
            ask(at, token, rows[:500])
            for name, some in (("cached", rows[:500]), ("fresh", changed(rows, 40 * options.seconds * 100))):
                write_atomically(folder / "rows", "\n".join(json.dumps({"rows": [row]}) for row in some) + "\n")
                script = WRK.replace("ROWS", str(folder / "rows")).replace("TOKEN", token)
                write_atomically(folder / "ask.lua", script)
                before = budget(at, token)
                command = ["wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "--latency"]
                told = subprocess.run([*command, "-s", str(folder / "ask.lua"), at], capture_output=True, text=True)
                fresh = budget(at, token) - before
                kept = [line.strip() for line in told.stdout.splitlines() if any(word in line for word in SHOWN)]
                print(
                    f"{name}: {'; '.join(' '.join(line.split()) for line in kept)}; rows put to the teachers: {fresh}"
                )


SHOWN = ("Requests/sec", "50%", "99%", "Non-2xx", "Socket errors", "status")


def train(data: Any, folder: Path) -> list[dict[str, Any]]:
    """Train the run, and return rows of the public table that were not asked about."""
    held = adult(data, random_state=0)
    labels = np.asarray(held.classes, object)
    pd.DataFrame(held.X).assign(**{TARGET: labels[held.y]}).to_csv(folder / "private.csv", index=False)
    pd.DataFrame(held.X_public).to_csv(folder / "public.csv", index=False)
    files = ["--private", "private.csv", "--public", "public.csv", "--target", TARGET, "--classes", "from-private"]
    sizes = ["--teachers", "250", "--teacher", "logistic", "--queries", "100", "--epsilon", "2", "--out", "run"]
    ostrakon("train", *files, *sizes, cwd=folder)
    rows: Any = pd.DataFrame(held.X_test).to_dict("records")
    return [{name: plain_value(value) for name, value in row.items()} for row in rows]


def plain_value(value: Any) -> Any:
    """A cell as JSON holds it."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value


def changed(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Rows that differ from each other."""
    numbers = [name for name, value in rows[0].items() if isinstance(value, int | float)]
    made = (
        {**rows[at % len(rows)], numbers[0]: rows[at % len(rows)][numbers[0]] + 1e-4 * at} for at in range(1, count)
    )
    return list(made)


def plain(folder: Path, url: str, rows: list[dict[str, Any]]) -> float:
    """Rows a second, the median of 20, one after the other."""
    with open_service(folder / "run", ledger=url, budget=900) as labeller:
        models = labeller._teachers.models
        seconds = []
        for row in rows[1000:1020]:
            started = time.perf_counter()
            features = labeller._view.transform(labeller.form.read([row]))
            [model.predict(features) for model in models]
            seconds.append(time.perf_counter() - started)
    return 1 / statistics.median(seconds)


class serving:
    """`ostrakon service start` on a free port, while the block lasts: its address."""

    def __init__(self, folder: Path, url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.at = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "ostrakon", "service", "start", "run", "--ledger", url, "--port", str(port)]
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)

    def __enter__(self) -> str:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.at}/health")
                return self.at
            except OSError:
                time.sleep(0.2)
        sys.exit("the service did not start")

    def __exit__(self, *_: Any) -> None:
        peak = Path(f"/proc/{self._process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
        print(f"peak memory of the service: {int(peak) / 2**20:.2f} GiB")
        os.kill(self._process.pid, signal.SIGINT)
        self._process.wait()


def ask(at: str, token: str, rows: list[dict[str, Any]]) -> None:
    """Have rows answered."""
    call(f"{at}/v1/labels", token, {"rows": rows})


def budget(at: str, token: str) -> int:
    """Rows that were put to the teachers so far."""
    return int(call(f"{at}/v1/budget", token, None)["asked"])


def call(url: str, token: str, body: Any) -> Any:
    """One request."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as told:
        return json.loads(told.read())


def ostrakon(*arguments: str, cwd: Path) -> str:
    """The last line that a command of ours prints."""
    told = subprocess.run([sys.executable, "-m", "ostrakon", *arguments], cwd=cwd, capture_output=True, text=True)
    if told.returncode:
        sys.exit(told.stderr)
    return told.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
