"""What a monitor of the service may see, in the text format of Prometheus: no row, no label, no name of a client."""

from ostrakon.service.audit_file import AuditFile
from ostrakon.service.labeller import Labeller
from ostrakon.service.request_queue import RequestQueue

CONTENT_TYPE = "text/plain; version=0.0.4"


def metrics_text(labeller: Labeller, queue: RequestQueue, audit: AuditFile, *, ready: bool) -> str:
    """Return all metrics.

    Parameters
    ----------
    labeller : Labeller
    queue : RequestQueue
    audit : AuditFile
    ready : bool
        As of ``/ready``.
    """
    account = labeller.account
    # Routes are those of the application, never what a client typed.
    requests = {
        f'{{route="{route or "none"}",status="{status}"}}': count
        for (route, status), count in sorted(audit.requests.items(), key=str)
    }
    plain = {
        "request_rows_total": ("Rows in all requests, whether or not they were answered.", audit.rows),
        "known_rows": ("Different rows that have an answer, or were refused one by the teachers.", labeller.rows_known),
        "waiting_rows": ("Rows that wait for the teachers.", queue.waiting_rows),
        "ready": ("Whether the service works, as of /ready, also where the account is spent.", int(ready)),
        "spent": ("Whether a new row was refused because the account is spent.", int(queue.spent)),
        "answers_left": (
            "Answers of the blocks that are left in the account.",
            labeller.blocks_left() * (labeller.plan.max_answers or 0),
        ),
        "epsilon_cap": ("Epsilon of the account.", account.cap.epsilon),
        "epsilon_spent": ("Epsilon that the account charges so far.", account.spent),
    }
    values = {name: (text, {"": value}) for name, (text, value) in plain.items()}
    values = {
        "requests_total": ("Requests by route and status; none: another route or an unknown caller.", requests)
    } | values
    lines: list[str] = []
    for name, (text, by_label) in values.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP ostrakon_{name} {text}", f"# TYPE ostrakon_{name} {kind}"]
        lines += [f"ostrakon_{name}{label} {_number(value)}" for label, value in by_label.items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)
