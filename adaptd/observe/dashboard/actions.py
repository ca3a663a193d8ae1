"""Changes asked for on a page: checked, then done by the command line in a process of its own.

Publishing needs torch, which the supervisor never loads; and a person at a terminal gets the same answers.
"""

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request

from adaptd.errors import RequestRefused
from adaptd.observe.dashboard.access import is_from_here, is_token

MAX_FORM_BYTES, MAX_FIELDS = 4096, 8
FORM_SECONDS = 10.0
ACTION_SECONDS = 900
MESSAGE_LENGTH = 2000
"""As much of what the command printed as is shown."""
ACTIONS = ("back", "restore", "promote")


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of it, in the command's own words."""

    succeeded: bool
    message: str


class Actions:
    """Runs one command at a time on a project."""

    def __init__(self, root: Path, token: str) -> None:
        self._root, self._token = root, token
        self._lock = threading.Lock()

    @property
    def is_offered(self) -> bool:
        """Whether there is a token to ask for."""
        return bool(self._token)

    async def read(self, request: Request) -> dict[str, str]:
        """The form of a request that may go on; RequestRefused for any other."""
        if not self.is_offered:
            raise RequestRefused(404, "nothing can be changed here: set ADAPTD_METRICS__TOKEN")
        if not is_from_here(request.headers):
            raise RequestRefused(403, "the request came from another site")
        form = await _read_form(request)
        if not is_token(form.get("token", ""), self._token):
            raise RequestRefused(403, "that is not the token")
        return form

    def run(self, words: list[str]) -> ActionResult:
        """Run a command, and wait for its end."""
        if not self._lock.acquire(blocking=False):
            return ActionResult(succeeded=False, message="Another change is under way: look again in a minute.")
        try:
            command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(self._root), *words]
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ACTION_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return ActionResult(succeeded=False, message=f"It did not end within {ACTION_SECONDS} seconds.")
        finally:
            self._lock.release()
        said = " ".join((run.stdout if run.returncode == 0 else run.stderr).split())[-MESSAGE_LENGTH:]
        return ActionResult(run.returncode == 0, said.removeprefix("adaptd: ") or f"exit code {run.returncode}")


def release_words(action: str, version: int, form: dict[str, str]) -> list[str]:
    """The command that goes back from a version, back to it, or promotes it."""
    words = {"back": ["rollback"], "restore": ["rollback", str(version)], "promote": ["promote", str(version)]}[action]
    why = " ".join(form.get("why", "").split())
    return [*words, "--force", f"--why={why}"] if action == "promote" and why else words


async def _read_form(request: Request) -> dict[str, str]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise RequestRefused(415, "send a form")
    try:
        async with asyncio.timeout(FORM_SECONDS):
            body = await request.body()
    except TimeoutError:
        raise RequestRefused(408, f"the form did not arrive within {FORM_SECONDS:g} seconds") from None
    if b"\0" in body or b"%00" in body:
        raise RequestRefused(400, "the form has a character that is none")
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError as problem:
        raise RequestRefused(413, f"the form has more than {MAX_FIELDS} fields") from problem
    return {name: values[-1] for name, values in fields.items()}
