"""`ostrakon service`: a labelling service on the teachers of a run, and who may ask it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ostrakon.cli.app import Commands, app, console

service = Commands(help="A labelling service on the teachers of a run: start, client.", no_args_is_help=True)
app.add_typer(service, name="service")

Clients = Annotated[Path, typer.Option(help="TOML file of the clients (`ostrakon service client` adds one).")]


@service.command()
def start(
    run: Annotated[Path, typer.Argument(help="The folder of a run with trained teachers.", metavar="RUN")],
    *,
    ledger: Annotated[
        str | None,
        typer.Option(help=r"Ledger that is charged. \[default: the run's, or budget.db beside its data]"),
    ] = None,
    clients: Clients = Path("clients.toml"),
    budget: Annotated[
        float | None, typer.Option(help="Open an account with this epsilon, if the data have none.")
    ] = None,
    ledger_account: Annotated[
        str | None, typer.Option(help=r"Name of the account. \[default: the account of these data]")
    ] = None,
    block: Annotated[int, typer.Option(help="Number of answers that are reserved together.")] = 100,
    owners: Annotated[
        Path | None,
        typer.Option(help="TOML file of other owners, whose teachers vote together with these; this is their desk."),
    ] = None,
    desk: Annotated[
        str | None,
        typer.Option(help="The client that gets votes without noise, as the desk of a service over several owners."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; TLS is required for other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8443,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
) -> None:
    """Label public rows for clients, over HTTP, until the budget of the ledger is spent.

    The OpenAPI description is at /openapi.json, the guarantee of all answers together at /v1/statement.
    """
    from ostrakon.cli.train import say
    from ostrakon.service.clients import ClientFile
    from ostrakon.service.labeller import open_service
    from ostrakon.service.web import listen, require_safe

    require_safe(host, port=port, certificate=tls_cert, key=tls_key)
    client_file = ClientFile(clients)
    say("Reading the teachers")
    paid: Any = {"ledger": ledger, "budget": budget, "ledger_account": ledger_account, "block": block}
    with open_service(run, **paid, owners=owners) as labeller:
        account = labeller.account
        console.print(
            f"Account {account.name}: epsilon {account.cap.epsilon:g} at delta {account.cap.delta:g}; blocks of "
            f"{block} answers that it has room for: {labeller.blocks_left()}.",
            markup=False,
        )
        if not labeller.blocks_left():
            console.print(f"No block of {block} answers fits: rows that were answered before are, no new one is.")
        scheme = "http" if tls_cert is None else "https"
        console.print(f"Listening at {scheme}://{host}:{port}; Ctrl-C ends it.", markup=False)
        listen(
            labeller,
            client_file,
            audit=run / "private" / "service" / "audit.log",
            host=host,
            port=port,
            tls=(tls_cert, tls_key),
            desk=desk,
        )


@service.command()
def client(
    name: Annotated[str, typer.Argument(help="The client's name.")],
    *,
    answers: Annotated[
        int, typer.Option(help="Number of different rows that it may ask about; 0: a monitor, which reads /metrics.")
    ],
    clients: Clients = Path("clients.toml"),
    requests_per_second: Annotated[int, typer.Option(help="Maximum number of requests per second.")] = 20,
) -> None:
    """Add a client of a labelling service, and print its token, which is not stored."""
    from ostrakon.service.clients import add_client

    typer.echo(add_client(clients, name, answers=answers, requests_per_second=requests_per_second))
