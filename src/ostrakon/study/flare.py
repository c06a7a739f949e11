"""A study as a job of NVIDIA FLARE: `StudyExecutor` joins with an owner's table, `StudyController` finishes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ostrakon.study.federation import (
    finish_by_messages,
    join_by_site_file,
    owners_to_leave_out,
    study_files,
)
from ostrakon.study.study import Study
from ostrakon.validation import InvalidInput, whole

try:
    from nvflare.apis.client import Client
    from nvflare.apis.controller_spec import ClientTask, Task
    from nvflare.apis.executor import Executor
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.impl.controller import Controller
    from nvflare.apis.shareable import Shareable
    from nvflare.apis.signal import Signal
    from nvflare.job_config.api import FedJob
except ImportError as missing:
    raise ModuleNotFoundError("NVIDIA FLARE is not installed: pip install '.[flare]'.", name="nvflare") from missing

TASK = "join_study"
SITE_FILE = "ostrakon-site.toml"
_STUDY, _ANSWER = "study", "answer"


class StudyExecutor(Executor):
    """Joins the study that the server sends.

    Parameters
    ----------
    site : str
        The owner's site file (`ostrakon.study.federation.Site`); a relative path counts from the folder `local` of this
        site's workspace.
    """

    def __init__(self, site: str = SITE_FILE) -> None:
        super().__init__()
        self.site = site

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Return what the owner hands over, or one sentence that says why not."""
        name = fl_ctx.get_identity_name() or "a site"
        local = fl_ctx.get_workspace().get_site_config_dir()
        reply = Shareable()
        reply[_ANSWER] = join_by_site_file(shareable[_STUDY], lambda: Path(local) / self.site, node=name)
        return reply


class StudyController(Controller):
    """Sends the study to all sites, and finishes it with their tables.

    Parameters
    ----------
    study : str
        The study's folder, on the server.
    wait : int of at least 1
        Seconds to wait for the sites.
    without : str
        Owners that dropped out, as a,b.
    """

    def __init__(self, study: str, wait: int = 600, without: str = "") -> None:
        super().__init__()
        self.study = study
        self.wait = whole("wait", wait, at_least=1)
        self.without = without
        self._answers: list[Any] = []

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Refuse a study that cannot be read before any site is asked."""
        try:
            Study.read(self.study)
        except InvalidInput as error:
            self.system_panic(str(error), fl_ctx)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Ask all sites for their tables, and finish. A failure ends the job with one sentence."""
        study, without = Study.read(self.study), owners_to_leave_out(self.without)
        data = Shareable()
        data[_STUDY] = study_files(study)
        task = Task(name=TASK, data=data, timeout=self.wait, result_received_cb=self._received)
        fewest = len(study.owners) - len(without)
        self.broadcast_and_wait(task, fl_ctx, min_responses=fewest, abort_signal=abort_signal)
        if abort_signal.triggered:
            return
        try:
            silent = f"within {self.wait} seconds"
            release = finish_by_messages(study, self._answers, without=without, silent=silent)
        except InvalidInput as error:
            self.system_panic(str(error), fl_ctx)
            return
        self.log_info(fl_ctx, f"May be published: {release}")

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left to do."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Leave out an answer that came too late: its site answers again in the next job."""
        self.log_warning(fl_ctx, f"{client.name} answered after the study was finished; its table was not used.")

    def _received(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        answer = client_task.result.get(_ANSWER) if client_task.result is not None else None
        if answer is not None:
            self._answers.append(answer)
        client_task.result = None


def study_job(study: str, *, sites: Mapping[str, str], wait: int = 600, without: str = "") -> FedJob:
    """Return a FLARE job that runs a study.

    Parameters
    ----------
    study : str
        The study's folder, on the server.
    sites : mapping of str to str
        The site file of each FLARE site, by the site's name; relative paths count from the site's folder `local`.
    wait : int of at least 1
        Seconds to wait for the sites.
    without : str
        Owners that dropped out, as a,b.

    Returns
    -------
    nvflare.job_config.api.FedJob
        To be exported (`export_job`), submitted or simulated (`simulator_run`). It holds no program: ostrakon is
        installed at every site, whose `class_allow_list` names ``ostrakon.study.flare``.
    """
    job = FedJob(name="ostrakon-study", min_clients=max(1, len(sites) - len(owners_to_leave_out(without))))
    job.set_app_packages(["ostrakon"])
    job.to_server(StudyController(study, wait, without))
    for name, site in sites.items():
        job.to(StudyExecutor(site), name, tasks=[TASK])
    return job
