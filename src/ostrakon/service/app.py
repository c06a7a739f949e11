"""The labelling service as a web application: it checks and limits requests, and a queue answers them."""

import contextlib
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Any

from ostrakon.ledger.fits import Refused
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.service.audit_file import AuditFile
from ostrakon.service.clients import Client, ClientFile
from ostrakon.service.labeller import BudgetSpent, ClientLimitReached, Labeller
from ostrakon.service.metrics import CONTENT_TYPE, metrics_text
from ostrakon.service.owner import Terms, read_features
from ostrakon.service.pictures import IMAGE, MAX_PICTURES, PictureForm
from ostrakon.service.request_queue import Busy, RequestQueue, Unavailable, describe
from ostrakon.statements.statement import NOT_COVERED, round_up
from ostrakon.validation import InvalidInput, quote

try:
    from fastapi import Depends, FastAPI, HTTPException, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, PlainTextResponse
    from fastapi.security import HTTPBearer
    from pydantic import BaseModel, Field, WithJsonSchema, create_model
    from starlette.exceptions import HTTPException as AnyHTTPException

    from ostrakon.service.middleware import LARGEST_BODY, AuditLog, BodyLimit, TokenCheck
except ImportError as missing:
    raise InvalidInput("A service needs FastAPI, which is not installed: pip install '.[service]'.") from missing

MAX_ROWS = 1000
"""Rows of one request."""

MAX_TEXT = 20_000
"""Characters of one cell."""

MIN_FREE_BYTES = 16 * 2**20
"""Free space that the disk of the answers must have."""

Number = Annotated[float, Field(allow_inf_nan=False)]
Cell = Annotated[str, Field(max_length=MAX_TEXT)] | bool | int | Number | list[Number] | None
Picture = Annotated[str, Field(max_length=LARGEST_BODY)] | Cell
"""A cell of a request for pictures."""

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "spent",
    404: "not_found",
    405: "not_allowed",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    503: "unavailable",
}
_LIMIT = "limit_reached"
"""A client has reached its own limit, whatever is left in the account."""
_REFUSALS: dict[type[InvalidInput], int] = {BudgetSpent: 403, ClientLimitReached: 403, Busy: 503, Unavailable: 503}


class Labels(BaseModel):
    """labels: one for each row, null if the teachers gave none; the same row always gets the same label. asked, most:
    the number of different rows that the client has asked about so far, and may ask about in all."""

    labels: list[str | None]
    asked: int
    most: int


class Problem(BaseModel):
    """Why there is no answer."""

    code: str
    message: str


class Refusal(BaseModel):
    """Every refusal has this shape."""

    error: Problem


class Budget(BaseModel):
    """What is left. answers_left: answers of the blocks that are left for all clients together; the block in use is not
    counted, so that the number changes with whole blocks alone."""

    asked: int
    most: int
    epsilon: float
    delta: float
    epsilon_spent: float | None
    epsilon_of_the_run_alone: float
    answers_left: int
    answers_left_is_at_least: bool


def make_rows_model(columns: Sequence[Mapping[str, Any]]) -> type[BaseModel]:
    """Make the model of a request: public rows with these columns by name, and any further ones.

    Parameters
    ----------
    columns : sequence of mappings
        As of `RowForm.columns` or `PictureForm.columns`.
    """
    pictures = columns == PictureForm.columns
    cell: Any = Picture if pictures else Cell
    properties = {str(column["name"]): {"title": str(column["kind"]), **_cell_schema(column)} for column in columns}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    row = Annotated[dict[str, cell], WithJsonSchema({**schema, "additionalProperties": _cell_schema({"kind": ""})})]
    rows: Any = Annotated[list[row], Field(min_length=1, max_length=MAX_PICTURES if pictures else MAX_ROWS)]
    return create_model("Rows", __doc__="Public rows to be labelled, columns by name.", rows=(rows, ...))


def _cell_schema(column: Mapping[str, Any]) -> dict[str, Any]:
    if column["kind"] == "embedding":
        width = column["width"]
        return {"type": "array", "items": {"type": "number"}, "minItems": width, "maxItems": width}
    if column["kind"] == IMAGE:
        return {"type": "string", "contentEncoding": "base64"}
    text = {"type": "string", "maxLength": MAX_TEXT}
    return {"anyOf": [text, *({"type": kind} for kind in ("number", "boolean", "null"))]}


def _refusal_models(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Refusal} for code in codes}


def make_app(labeller: Labeller, clients: ClientFile, *, audit: AuditFile, desk: str | None = None) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    labeller : Labeller
    clients : ClientFile
    audit : AuditFile
        Gets a line for every request.
    desk : str, optional
        The client that gets the votes of the teachers without noise, as the desk of a service over several owners.
    """
    queue = RequestQueue(labeller)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with queue.running():
            yield

    app = FastAPI(
        title="ostrakon: a labelling service",
        description="Noisy labels of public rows from teachers that were trained on private data.",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirect would repeat the Host that a client typed.
        redirect_slashes=False,
    )

    def is_ready() -> bool:
        admits = clients.read() is not None
        return admits and not queue.failed_lately and shutil.disk_usage(labeller.folder).free >= MIN_FREE_BYTES

    _add_client_routes(app, labeller, queue)
    if desk is not None:
        _add_desk_routes(app, labeller, queue, desk)

    # Clients get status 404 there, so that their description leaves it out.
    @app.get("/metrics", include_in_schema=False)
    async def metrics(client: Annotated[Client, Depends(_client_of)]) -> PlainTextResponse:
        """Show a client that may ask about no row how the service does, in the text format of Prometheus."""
        if client.answers:
            raise HTTPException(404, "Not Found")
        return PlainTextResponse(metrics_text(labeller, queue, audit, ready=is_ready()), media_type=CONTENT_TYPE)

    @app.get("/health", responses=_refusal_models(413, 429))
    async def health() -> dict[str, str]:
        """Say that the process runs."""
        return {"status": "ok"}

    @app.get("/ready", responses=_refusal_models(413, 429, 503))
    async def ready() -> JSONResponse:
        """Say whether the service works: clients are known, no attempt has failed lately, and the disk has room.

        A spent account does not change it: rows that were asked about before are still answered.
        """
        if not is_ready():
            return _problem(503, "New rows cannot be answered now; come again later.")
        return JSONResponse({"status": "ready"})

    _add_error_handlers(app, {str(one["name"]): describe(one) for one in labeller.form.columns or ()})
    large = f"A request must be of at most {LARGEST_BODY} bytes."
    app.add_middleware(BodyLimit, error=lambda: HTTPException(413, large), refuse=_problem(413, large))  # pyright: ignore
    app.add_middleware(TokenCheck, clients=clients, refuse=_problem)  # pyright: ignore
    app.add_middleware(AuditLog, file=audit)  # pyright: ignore
    return app


_BEARER = HTTPBearer(auto_error=False, description="The token that `ostrakon service client` has shown.")


async def _client_of(request: Request, _: Annotated[Any, Depends(_BEARER)]) -> Client:
    """Return the client that `TokenCheck` recognised."""
    return request.scope["client_of_token"]


def _add_client_routes(app: FastAPI, labeller: Labeller, queue: RequestQueue) -> None:
    """Add what a client with a token may ask."""
    rows: Any = make_rows_model(labeller.form.columns or ())

    @app.post("/v1/labels", response_model=Labels, responses=_refusal_models(400, 401, 403, 413, 422, 429, 503))
    async def labels(request: Request, body: rows, client: Annotated[Client, Depends(_client_of)]) -> JSONResponse:  # pyright: ignore
        """Label public rows. A row that was asked about before costs nothing and gets the same answer."""
        request.scope["audit"]["rows"] = len(body.rows)
        numbers, questions = await queue.answer(client, body.rows)
        names = [None if number == NO_ANSWER else labeller.classes[number] for number in numbers]
        return JSONResponse({"labels": names, "asked": questions, "most": client.answers})

    @app.get("/v1/budget", response_model=Budget, responses=_refusal_models(401, 413, 429))
    async def budget(client: Annotated[Client, Depends(_client_of)]) -> JSONResponse:
        """Say how many rows this client has asked about, and how many answers are left for all clients."""
        account, blocks = labeller.account, labeller.blocks_left()
        cost = account.spent
        per_block = labeller.plan.max_answers or 0
        return JSONResponse(
            {
                "asked": labeller.rows_asked(client.name),
                "most": client.answers,
                "epsilon": account.cap.epsilon,
                "delta": account.cap.delta,
                "epsilon_spent": round_up(cost) if cost < float("inf") else None,
                "epsilon_of_the_run_alone": round_up(labeller.run_epsilon),
                "answers_left": blocks * per_block,
                "answers_left_is_at_least": True,
            }
        )

    @app.get("/v1/statement", responses=_refusal_models(401, 413, 429))
    async def statement(client: Annotated[Client, Depends(_client_of)]) -> JSONResponse:
        """Say what all answers together promise, to whom, and what they do not; and what rows must look like."""
        return JSONResponse(_statement(labeller))


class BlockTerms(BaseModel):
    """What the desk says of its blocks."""

    threshold: Number
    sigma1: Number
    sigma2: Number
    teachers: int
    queries: int
    answers: int


class BlockRows(BlockTerms):
    """Features of rows, as a NumPy file in base64, and the block that pays for them."""

    block: Annotated[str, Field(min_length=1, max_length=64)]
    features: Annotated[str, Field(max_length=LARGEST_BODY)]


def _add_desk_routes(app: FastAPI, labeller: Labeller, queue: RequestQueue, desk: str) -> None:
    """Add what the desk of several owners may ask. Other clients get 404, and descriptions leave it out."""

    async def is_desk(client: Annotated[Client, Depends(_client_of)]) -> None:
        if client.name != desk:
            raise HTTPException(404, "Not Found")

    hidden: Any = {"dependencies": [Depends(is_desk)], "include_in_schema": False}

    @app.get("/v1/owner", **hidden)
    async def owner() -> JSONResponse:
        """Say who this owner is."""
        return JSONResponse(labeller.owner.facts())

    @app.post("/v1/room", **hidden)
    async def room(body: BlockTerms) -> JSONResponse:
        """Say how many blocks fit."""
        left = await queue.in_turn(labeller.owner.blocks_left, Terms(**body.model_dump()))
        return JSONResponse({"blocks_left": left})

    @app.post("/v1/votes", **hidden)
    async def votes(request: Request, body: BlockRows) -> JSONResponse:
        """Count the votes on rows, after their block is paid."""
        terms = Terms(**body.model_dump(include=set(BlockTerms.model_fields)))
        features = read_features(body.features)
        request.scope["audit"]["rows"] = len(features)
        try:
            counts, left = await queue.in_turn(labeller.owner.votes, body.block, terms, features)
        except Refused as error:
            raise BudgetSpent(str(error)) from None
        return JSONResponse({"votes": counts.tolist(), "blocks_left": left})


def _add_error_handlers(app: FastAPI, allowed: Mapping[str, str]) -> None:
    """Give every refusal the same shape. allowed: what a cell of each column may be, in words."""

    @app.exception_handler(InvalidInput)
    async def refused(request: Request, error: Exception) -> JSONResponse:
        return _problem(_status(error), str(error), word=_LIMIT if isinstance(error, ClientLimitReached) else None)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> JSONResponse:
        return _problem(422, _first(error, allowed))

    @app.exception_handler(AnyHTTPException)
    async def other(request: Request, error: Any) -> JSONResponse:
        return _problem(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        return _problem(500, "Something went wrong here.")


def _statement(labeller: Labeller) -> dict[str, Any]:
    """Public facts only."""
    account, plan, owners = labeller.account, labeller.plan, _owners(labeller)
    largest = {name: max(owner[name] for owner in owners) for name in ("epsilon", "delta")}
    return {
        "guarantee": largest,
        "of": "all answers of this service and every other run on the account, however they were chosen",
        "adjacency": labeller.task.private.adjacencies(counted=False)[0][1],
        "unit": account.unit,
        "mechanism": plan.mechanism.name,
        "parameters": plan.mechanism.parameters(),
        "teachers": plan.teachers,
        "owners": owners,
        "classes": list(labeller.classes),
        "columns": [{"name": one["name"], "kind": one["kind"]} for one in labeller.form.columns or ()],
        "answers_reserved_at_a_time": plan.max_answers,
        "trust_model": (
            "the operator of the service sees the private data, the teachers, the votes and the rows that clients "
            "send; clients see labels, and whether a row was answered"
        )
        + (_DESK_IS_TRUSTED if labeller.owners else ""),
        "not_covered": list(NOT_COVERED),
    }


_DESK_IS_TRUSTED = (
    "; the operator also sees, without noise, how many teachers of each other owner chose each class, and the other "
    "owners rely on it to add the noise; each other owner sees its own data and teachers, and features of the rows"
)


def _owners(labeller: Labeller) -> list[dict[str, Any]]:
    """Whose teachers vote, and the cap that holds for the records of each."""
    own = labeller.owner.facts()
    groups = [("the operator of the service", own), *((owner.name, owner.facts) for owner in labeller.owners)]
    return [{"name": name, **{key: facts[key] for key in ("teachers", "epsilon", "delta")}} for name, facts in groups]


def _problem(
    code: int,
    message: str,
    *,
    word: str | None = None,
    headers: Mapping[str, str] | None = None,
    close: bool = False,
) -> JSONResponse:
    """Return a refusal. word: its code, if not that of the status. close: close the connection without reading
    any more of it.
    """
    fixed = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(code, {})
    fixed |= {"Connection": "close"} if close else {}
    content = {"error": {"code": word or _CODES.get(code, "error"), "message": message}}
    return JSONResponse(content, status_code=code, headers={**fixed, **(headers or {})})


def _status(error: Exception) -> int:
    return next((code for kind, code in _REFUSALS.items() if isinstance(error, kind)), 422)


def _first(error: Any, allowed: Mapping[str, str]) -> str:
    """Return the first error of a request, in words."""
    first = error.errors()[0]
    where = first["loc"]
    if len(where) > 4 and where[:2] == ("body", "rows"):
        expectation = allowed.get(where[3], f"text of at most {MAX_TEXT} characters, a finite number or null")
        name = where[3] if where[3] in allowed else quote(where[3])
        if first["type"] == "string_too_long":
            most, length = first["ctx"]["max_length"], len(first["input"])
            return f"Row {where[2]}: {name} must have at most {most} characters, got {length}."
        return f"Row {where[2]}: {name} must be {expectation}, got {quote(first['input'])}."
    field = ".".join(map(str, where))
    return f'The request must be JSON such as {{"rows": [{{"column": 1.5}}]}}: {field}: {first["msg"]}.'[:400]
