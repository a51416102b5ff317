"""The program by which an uninstall deletes all queues, against an API server that is played here."""

import io
import json
import runpy
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, urlsplit
from urllib.request import Request

import pytest

from claimq_kubernetes.port import Json
from testkit.repository.chart import FOLDER


class Api:
    """Answers with what is there; a deleted queue goes at once, and its Deployment with it."""

    def __init__(self, *faults: Exception) -> None:
        self.queues: list[Json] = [{"metadata": {"name": "q", "namespace": "n"}}]
        self.leases: list[Json] = [{"metadata": {"name": "queues.claimq.dev", "namespace": "n"}}]
        self.asked: list[str] = []
        self.goes = True
        self.largest_list = 0
        self._faults = list(faults)

    def answer(self, request: Request, **_: object) -> io.BytesIO:
        self.asked.append(f"{request.get_method()} {request.full_url.partition('?')[0]}")
        if self._faults:
            raise self._faults.pop(0)
        path, query = urlsplit(request.full_url)[2:4]
        if request.get_method() == "DELETE":
            name = path.rpartition("/")[2]
            if "/leases/" in path:
                assert not self.queues, "the operator still needs it"
                self.leases = [one for one in self.leases if one["metadata"]["name"] != name]
            self.queues = [one for one in self.queues if not self.goes or one["metadata"]["name"] != name]
            return io.BytesIO(b"{}")
        found = self.queues if path.endswith("reliablequeues") else []
        if path.endswith("/leases"):
            # The permission is for one name, which such a request has to give.
            assert dict(parse_qsl(query))["fieldSelector"] == "metadata.name=queues.claimq.dev"
            found = self.leases
        return io.BytesIO(json.dumps(self._page(found, dict(parse_qsl(query)))).encode())

    def _page(self, found: list[Json], query: dict[str, str]) -> Json:
        begin = int(query.get("continue", "0"))
        page = found[begin : begin + int(query.get("limit", len(found)))]
        self.largest_list = max(self.largest_list, len(page))
        end = begin + len(page)
        metadata = {"continue": str(end)} if end < len(found) else {}
        return {"metadata": metadata, "items": page or None}  # as lists of metadata are


def unverified(**_: object) -> None:
    """There is no TLS here."""


def no_time(_: float) -> None:
    """Nothing is waited for."""


def run(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, timeout: str = "60s") -> int:
    """Runs the program; returns its exit code."""
    (tmp_path / "token").write_text("t")
    variables = {
        "ACCOUNT": str(tmp_path),
        "TIMEOUT": timeout,
        "KUBERNETES_SERVICE_HOST": "k",
        "KUBERNETES_SERVICE_PORT": "1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ssl.create_default_context", unverified)
    monkeypatch.setattr("urllib.request.urlopen", api.answer)
    monkeypatch.setattr("time.sleep", no_time)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / "files" / "delete_queues.py"), run_name="__main__")
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    "fault",
    [
        URLError("connection refused"),
        TimeoutError("timed out"),
        HTTPError("https://k", 503, "restarting", None, None),  # type: ignore[arg-type]  # headers are not looked at
    ],
)
def test_a_request_that_fails_once_does_not_fail_the_uninstall(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = Api(fault)
    assert run(api, monkeypatch, tmp_path) == 0
    assert not api.queues
    assert not api.leases
    assert sum("DELETE " in asked and "/reliablequeues/" in asked for asked in api.asked) == 1


def test_thousands_of_queues_are_listed_in_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The Job has 128Mi of memory; a list of all objects takes more."""
    api = Api()
    api.queues = [{"metadata": {"name": f"q{number}", "namespace": "n"}} for number in range(2050)]
    assert run(api, monkeypatch, tmp_path) == 0
    assert not api.queues
    assert sum("DELETE " in asked and "/reliablequeues/" in asked for asked in api.asked) == 2050
    assert api.largest_list == 100


def test_a_queue_that_stays_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Api()
    api.goes = False
    assert run(api, monkeypatch, tmp_path, timeout="0s") == 1
    assert "kubectl describe reliablequeue q --namespace n" in capsys.readouterr().out


def test_an_api_server_that_does_not_answer_is_reported_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Api(URLError("connection refused")), monkeypatch, tmp_path, timeout="0s") == 1
    assert "uninstall again when it works" in capsys.readouterr().out
