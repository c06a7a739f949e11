"""Print a study in a terminal: its facts, the cost of each exchange, and what an owner hands over."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from ostrakon.statements.statement import epsilon_in_words
from ostrakon.study.study import Study


def study_table(study: Study) -> Table:
    """Return the facts to review before joining."""
    plan, mechanism = study.plan(), study.mechanism
    facts = {
        "Study": str(study.folder),
        "Hash": study.hash,
        "Owners": ", ".join(f"{owner.name} ({owner.people:,} people announced)" for owner in study.owners),
        "To be predicted": f"{study.target}: {', '.join(study.classes)}",
        "Columns": ", ".join(study.pool.columns.kept),
        "Public rows": f"{len(study.pool.X):,}, of which {plan.queries:,} are asked about",
        "Exchange": study.exchange.name,
        "Guarantee": f"epsilon {epsilon_in_words(plan.bound.epsilon)} at delta {plan.delta:g}, for every person",
        "Teachers": _teachers(study),
        "A person": (
            f"{_votes(study)} of each owner, and may have rows at {_up_to(mechanism.owners_per_person, 'owner')}"
        ),
        "Noise": study.price(),
        "Who is trusted": f"{study.trust_model}.",
        **{name.replace("_", " ").capitalize(): text for name, text in study.report.as_toml().items()},
    }
    return _of_facts(facts, title="A study")


def _teachers(study: Study) -> str:
    if study.teachers is None:
        return "none are trained: everybody votes for themselves"
    return f"{study.voters(study.owners):,}, which the owners train: {study.teachers.in_words()}"


def _votes(study: Study) -> str:
    if study.teachers is not None:
        return "is, with all rows, in one teacher"
    return f"votes at {_up_to(study.mechanism.max_contributions, 'public row')}"


def _up_to(number: int, what: str) -> str:
    return f"one {what}" if number == 1 else f"up to {number} {what}s"


def price_table(study: Study) -> Table:
    """Return the noise of every exchange at this study's guarantee, compared with a trusted aggregator's."""
    table = Table(title="What an exchange costs, at this guarantee", title_justify="left")
    table.add_column("Exchange")
    table.add_column("Noise on the sum (votes)", justify="right")
    table.add_column("times", justify="right")
    for name, noise, times in study.prices():
        table.add_row(f"{name}{' (this one)' if name == study.exchange.name else ''}", f"{noise:.4g}", f"{times:.2f}")
    return table


def handed_over_table(facts: Mapping[str, str]) -> Table:
    """Return what an owner hands over (`ostrakon.study.join.handed_over`)."""
    return _of_facts(facts, title="What will leave the building")


def _of_facts(facts: Mapping[str, str], *, title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, Text(fact))
    return table
