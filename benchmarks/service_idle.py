"""Honest requests beside thousands of idle and slow connections, and beside many requests sent ahead.

    python benchmarks/service_idle.py [--idle 2000] [--slow 500] [--ahead 20 300] [--seconds 30]

`ostrakon service start` answers over TLS on localhost, from 20 teachers of a generated table. Idle connections finish
their TLS handshake and send nothing; slow ones send one byte of a header per second; a closed one is opened again.
Connections that send ahead send 10,000 requests for /health each, without a token, and never read; a closed one is
opened again after 10 seconds.
Honest requests use new connections, up to five a second, first alone and then beside the others, which are in a process
of their own. They start when all idle and slow connections are accepted; some of these may not have finished their
handshake. The same attack on a bare TLS server of asyncio, which answers 200 to every request, shows what is due to the
machine or to TLS. For the slowest request, the script prints when it began and the seconds of its parts (connect, TLS
handshake, until the whole answer has arrived).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import ostrakon


def certificate(folder: Path) -> None:
    """A certificate of localhost, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    serial = x509.random_serial_number()
    draft = x509.CertificateBuilder(name, name, key.public_key(), serial, now, now + timedelta(1))
    (folder / "cert.pem").write_bytes(draft.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain, form = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))


def trained(folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 900), "town": rng.choice(["Ulm", "Bonn"], 900)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 5, 900) > 50, "yes", "no")
    frame[:600].to_csv(folder / "private.csv", index=False)
    frame[600:].drop(columns="ill").to_csv(folder / "public.csv", index=False)
    ostrakon.train(
        private=str(folder / "private.csv"),
        public=str(folder / "public.csv"),
        target="ill",
        classes="no,yes",
        teachers=20,
        teacher="naive-bayes",
        queries=30,
        student="logistic",
        mechanism="confident-gnmax(threshold=14, sigma1=6, sigma2=4)",
        delta=1e-5,
        out=folder / "run",
        # In this process: workers that outlive a kill warn about semaphores that they leave.
        jobs=1,
    )


class Took(NamedTuple):
    """Seconds of one request, when it began, and whether it was answered."""

    at: float
    connect: float
    handshake: float
    answer: float
    answered: bool

    @property
    def total(self) -> float:
        return self.connect + self.handshake + self.answer


def honest(port: int, trust: ssl.SSLContext, token: str, seconds: float) -> list[Took]:
    """Requests over new connections, one after the other."""
    body = json.dumps({"rows": [{"age": 40, "town": "Ulm"}]})
    head = f"POST /v1/labels HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    took: list[Took] = []
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        times, answer = [time.monotonic()], b""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as plain:
            times.append(time.monotonic())
            wire = trust.wrap_socket(plain, server_hostname="localhost")
            times.append(time.monotonic())
            wire.sendall(request)
            answer = b"".join(iter(lambda wire=wire: wire.recv(65536), b""))
        parts = [*map(float, np.diff([*times, time.monotonic()])), 0.0, 0.0][:3]
        took.append(Took(times[0] - start, *parts, answered=answer.startswith(b"HTTP/1.1 200")))
        time.sleep(0.2)
    return took


async def bare(port: int, folder: Path) -> None:
    """A TLS server that answers 200 to whatever it reads."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(65536)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

    await (await asyncio.start_server(answer, "127.0.0.1", port, ssl=tls, backlog=4096)).serve_forever()


async def waste(port: int, trust: ssl.SSLContext, slow: bool) -> None:
    """One idle or slow connection, opened again when the service ends it."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            ended = asyncio.create_task(reader.read(1))
            writer.write(b"GET /health HTTP/1.1\r\nX-Slow: " if slow else b"")
            while not ended.done():
                await asyncio.wait({ended}, timeout=1)
                writer.write(b"a" if slow else b"")
            ended.exception()
            writer.transport.abort()
        await asyncio.sleep(0.5)


async def send_ahead(port: int, trust: ssl.SSLContext) -> None:
    """One connection that sends 10,000 requests at once and never reads, opened again when the service ends it."""
    while True:
        with contextlib.suppress(OSError):
            # A limit of one byte: what is not read here is not taken from the network.
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, limit=1)
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10_000)
            while not (writer.transport.is_closing() or reader.exception()):
                await asyncio.sleep(1)
            writer.transport.abort()
        await asyncio.sleep(10)


async def attack(port: int, certificate: str, idle: int, slow: int, ahead: int) -> None:
    trust = ssl.create_default_context(cafile=certificate)
    trust.check_hostname = False
    wasted = (waste(port, trust, at < slow) for at in range(idle + slow))
    await asyncio.gather(*wasted, *(send_ahead(port, trust) for _ in range(ahead)))


def memory(process: int) -> float:
    """MiB of a process at most so far (Linux)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def processor_seconds(process: int) -> float:
    """Of a process so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(servers: dict[str, tuple[int, int]], folder: Path, token: str, given: argparse.Namespace) -> None:
    """servers: port and process by name."""
    trust = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    trust.check_hostname = False
    attacks = [("alone", (0, 0, 0)), (f"beside {given.idle} idle and {given.slow} slow", (given.idle, given.slow, 0))]
    attacks += [(f"beside {count} that send ahead", (0, 0, count)) for count in given.ahead]
    for name, counts in attacks:
        took = {
            server: under(counts, name, server, *servers[server], folder, trust, token, given) for server in servers
        }
        ours, theirs = took.values()
        medians = [statistics.median(one.total for one in each) for each in (ours, theirs)]
        slowest = [max(one.total for one in each) for each in (ours, theirs)]
        print(f"{name}: ratio of medians {medians[0] / medians[1]:.1f}, of the slowest {slowest[0] / slowest[1]:.1f}")


def under(
    counts: tuple[int, int, int],
    name: str,
    server: str,
    port: int,
    process: int,
    folder: Path,
    trust: ssl.SSLContext,
    token: str,
    given: argparse.Namespace,
) -> list[Took]:
    """Honest requests to one server under one attack."""
    attacker = None
    if any(counts):
        # A process of its own: these connections must not slow down the client that is measured.
        what = [str(port), str(folder / "cert.pem"), *map(str, counts)]
        attacker = subprocess.Popen([sys.executable, __file__, "--attack", *what])
        while len(os.listdir(f"/proc/{process}/fd")) < counts[0] + counts[1]:
            time.sleep(0.5)
    before = processor_seconds(process)
    took = honest(port, trust, token, given.seconds)
    used = processor_seconds(process) - before
    if attacker is not None:
        attacker.kill()
        attacker.wait()
    slowest = max(took, key=lambda one: one.total)
    fast = sum(one.answered and one.total < 1 for one in took)
    print(
        f"{name}, {server}: {len(took)} requests, {sum(not one.answered for one in took)} failed, {fast} within a "
        f"second, median {statistics.median(one.total for one in took):.3f} s, slowest {slowest.total:.3f} s (at "
        f"{slowest.at:.1f} s: connect {slowest.connect:.3f}, handshake {slowest.handshake:.3f}, answer "
        f"{slowest.answer:.3f}); {used:.1f} processor seconds in {given.seconds:g} s and {memory(process):.0f} MiB at "
        f"most, {os.getloadavg()[0]:.0f} processes were ready to run on {os.cpu_count()} cores",
        flush=True,
    )
    return took


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--slow", type=int, default=500)
    parser.add_argument("--ahead", type=int, nargs="*", default=[20, 300])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--attack", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if given.attack:
        port, trust, idle, slow, ahead = given.attack
        asyncio.run(attack(int(port), trust, int(idle), int(slow), int(ahead)))
    if given.bare:
        asyncio.run(bare(int(given.bare[0]), Path(given.bare[1])))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        trained(folder)
        certificate(folder)
        command = [sys.executable, "-m", "ostrakon"]
        client = [*command, "service", "client", "a", "--answers", "1000", "--requests-per-second", "1000"]
        token = subprocess.run(client, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
        port, other = free_port(), free_port()
        serve = ["service", "start", "run", "--ledger", "sqlite:///budget.db", "--budget", "100", "--block", "5"]
        tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--port", str(port)]
        process = subprocess.Popen([*command, *serve, *tls], cwd=folder, stdout=subprocess.DEVNULL)
        peer = subprocess.Popen([sys.executable, __file__, "--bare", str(other), str(folder)])
        try:
            for _ in range(600):
                time.sleep(0.3)
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
            measure({"service": (port, process.pid), "bare": (other, peer.pid)}, folder, token, given)
        finally:
            peer.kill()
            peer.wait()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


if __name__ == "__main__":
    main()
