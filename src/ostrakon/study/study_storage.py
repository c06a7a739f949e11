"""Where an owner, or the person who finishes, stores results: a run's folder, with the plan that the study fixed."""

from collections.abc import Callable
from typing import Any

from ostrakon.planning.plan import Plan
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.features import View
from ostrakon.run.storage import InFolder
from ostrakon.study.study import Study


class StudyStorage(InFolder):
    """`InFolder` with the plan of a study. Features must be the study's.

    Parameters
    ----------
    home : RunFolder
    task : Task
    study : Study
    plan : Plan
    asked : dict
        What is stored besides the study's hash; a second call must ask for the same.
    """

    def __init__(self, home: RunFolder, task: Task, study: Study, plan: Plan, asked: dict[str, Any]) -> None:
        super().__init__(home, task, study.options(), {"study": study.hash, **asked})
        self._home = home
        self._plan = plan
        self._study = study

    def plan(self, make: Callable[[], Plan]) -> Plan:
        """Return the study's plan, whatever `make` would return: see `Storage`."""
        if self._home.read() is None:
            self._describe(self._plan)
        return self._plan

    def view(self, make: Callable[[], View]) -> View:
        """Return what the learners see, refused unless it is the study's: see `Storage`."""
        view = super().view(make)
        self._study.require_view(view)
        return view
