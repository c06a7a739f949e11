"""Where an owner, or whoever finishes, keeps what it makes: a run's folder, for a plan that the study has fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ostrakon.planning.plan import Plan
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.features import View
from ostrakon.run.storage import InFolder
from ostrakon.study.study import Study


class InStudy(InFolder):
    """`InFolder` whose plan is the study's: nothing of it is settled here, and features are the study's or refused."""

    def __init__(self, home: RunFolder, task: Task, study: Study, plan: Plan, asked: dict[str, Any]) -> None:
        super().__init__(home, task, study.options(), {"study": study.hash, **asked})
        self._home = home
        self._plan = plan
        self._study = study

    def plan(self, make: Callable[[], Plan]) -> Plan:
        """See `Storage`; the study's, whatever would be made."""
        if self._home.read() is None:
            self._describe(self._plan)
        return self._plan

    def view(self, make: Callable[[], View]) -> View:
        """See `Storage`; refused where it is not the study's."""
        view = super().view(make)
        self._study.require_view(view)
        return view
