from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness.assets import AssetError, describe, resolve, revision
from harness.assets.fetch import fetch_all

hub_library = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LATER = "89abcdef0123456789abcdef0123456789abcdef"
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "sub/tok.json": b"[]", "pytorch_model.bin": b"pickle"}


class Hub:
    """A stand-in for the hub: one repository org/toy. ``head``: commit of main; ``status``: of every answer."""

    def __init__(self) -> None:
        self.head = COMMIT
        self.status = 200
        self.files = dict(FILES)
        self.asked: list[str] = []

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append(path)
        if self.status != 200:
            return self.status, b"refused hf_secretsecret for https://me:geheim@host/", {}
        if found := re.fullmatch(r"/api/models/org/toy/revision/(.+?)(?:\?.*)?", path):
            sha = self.head if found[1] == "main" else found[1]
            return (
                200,
                json.dumps({"id": "org/toy", "sha": sha, "siblings": [{"rfilename": f} for f in self.files]}).encode(),
                {},
            )
        if path.startswith("/api/models/org/toy/tree/"):
            listed = [{"type": "file", "path": f, "size": len(d), "oid": self.etag(f)} for f, d in self.files.items()]
            return 200, json.dumps(listed).encode(), {}
        found = re.fullmatch(r"/org/toy/resolve/([0-9a-f]{40})/(.+)", path)
        if found and found[2] in self.files:
            return 200, self.files[found[2]], {"X-Repo-Commit": found[1], "ETag": f'"{self.etag(found[2])}"'}
        code = "EntryNotFound" if found else "RepoNotFound"
        return 404, b"", {"X-Error-Code": code, "X-Repo-Commit": COMMIT}

    def etag(self, name: str) -> str:
        import hashlib

        data = self.files[name]
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, headers = hub.answer(self.path)
                self.send_response(status)
                for name, value in {
                    "Content-Length": str(len(body)),
                    "Content-Type": "application/json",
                    **headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]) -> Iterator[Hub]:
    made = Hub()
    with serve(made.handler()) as url:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, url)
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield made


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def prefill(folder: Path, files: dict[str, bytes], branch: str | None = None) -> Path:
    """A cache as the library lays it out, filled by another program."""
    snapshot = folder / "models--org--toy/snapshots" / COMMIT
    for name, data in files.items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(data)
    if branch:
        (folder / "models--org--toy/refs").mkdir()
        (folder / "models--org--toy/refs" / branch).write_text(COMMIT)
    return snapshot


def test_one_file(fake: Hub) -> None:
    text = f"hub:org/toy@{COMMIT}/model.safetensors"
    assert revision(text) == text
    assert not describe(text).cached
    assert fake.asked == []
    assert resolve(text).read_bytes() == b"weights"
    asked = len(fake.asked)
    assert describe(text).cached
    assert resolve(text, fetch=False) == resolve(text) == describe(text).path
    assert len(fake.asked) == asked


def test_a_snapshot_leaves_pickles_out(fake: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    folder = resolve(f"hub:org/toy@{COMMIT}")
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == [
        "config.json",
        "model.safetensors",
        "sub/tok.json",
    ]
    asked = len(fake.asked)
    assert resolve(f"hub:org/toy@{COMMIT}") == describe(f"hub:org/toy@{COMMIT}").path == folder
    assert len(fake.asked) == asked
    assert capfd.readouterr().err == ""
    allowed = resolve(f"hub:org/toy@{COMMIT}#allow-pickle")
    assert (allowed / "pytorch_model.bin").read_bytes() == b"pickle"


def test_a_branch_is_taken_as_one_commit_until_fetched_anew(fake: Hub) -> None:
    assert "is resolved when it is fetched" in describe("hub:org/toy@main").note
    assert revision("hub:org/toy@main/config.json") == f"hub:org/toy@{COMMIT}/config.json"
    fake.head = LATER
    assert revision("hub:org/toy@main/config.json") == f"hub:org/toy@{COMMIT}/config.json"
    assert COMMIT in str(resolve("hub:org/toy@main/config.json"))
    (fetched,) = fetch_all(["hub:org/toy@main/config.json"])
    assert fetched.downloaded
    assert f"taken as commit {LATER}; write @{LATER} to pin it" in fetched.note
    assert revision("hub:org/toy@main/config.json") == f"hub:org/toy@{LATER}/config.json"
    assert describe(f"hub:org/toy@{LATER}").note == ""


def test_a_snapshot_of_which_a_part_is_there_is_completed(fake: Hub) -> None:
    part = resolve(f"hub:org/toy@{COMMIT}/config.json")
    assert not describe(f"hub:org/toy@{COMMIT}").cached
    assert resolve(f"hub:org/toy@{COMMIT}") == part.parent
    assert (part.parent / "model.safetensors").read_bytes() == b"weights"


def test_progress(fake: Hub) -> None:
    seen: list[tuple[int, int | None, str]] = []
    resolve(f"hub:org/toy@{COMMIT}/config.json", progress=lambda *step: seen.append(step))
    assert [step[:2] for step in seen] == [(0, None), (2, 2)]


def test_prefilled_cache_offline(fake: Hub, tmp_path: Path, offline: None) -> None:
    snapshot = prefill(tmp_path / "hf", {"model.safetensors": b"w"}, branch="main")
    assert resolve(f"hub:org/toy@{COMMIT}/model.safetensors") == snapshot / "model.safetensors"
    assert revision("hub:org/toy@main") == f"hub:org/toy@{COMMIT}"
    assert resolve("hub:org/toy@main/model.safetensors").read_bytes() == b"w"
    assert fake.asked == []


def test_offline_and_not_there(fake: Hub, offline: None) -> None:
    for text in (f"hub:org/toy@{COMMIT}/config.json", f"hub:org/toy@{COMMIT}", "hub:org/toy@main"):
        with pytest.raises(AssetError, match=r"^hub:org/toy@.*harness fetch SPEC.*HF_HUB_OFFLINE"):
            resolve(text)
    assert fake.asked == []


def test_not_fetched_unless_allowed(fake: Hub) -> None:
    with pytest.raises(AssetError, match="nothing may be fetched"):
        resolve(f"hub:org/toy@{COMMIT}/config.json", fetch=False)
    assert not [path for path in fake.asked if "org/toy" in path]


def test_snapshot_with_pickled_weights_alone_is_refused(fake: Hub, tmp_path: Path, offline: None) -> None:
    snapshot = prefill(tmp_path / "hf", {"config.json": b"{}", "pytorch_model.bin": b"p"})
    try:
        found = resolve(f"hub:org/toy@{COMMIT}#allow-pickle")
    except AssetError:
        pytest.skip("this version of the library takes no snapshot that it did not list itself")
    assert found == snapshot
    with pytest.raises(AssetError, match=r"only weights that may run code .*pytorch_model\.bin"):
        resolve(f"hub:org/toy@{COMMIT}")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"hub:org/toy@{COMMIT}/no.json", "correct the file"),
        (f"hub:org/none@{COMMIT}/config.json", "correct ORG/NAME"),
    ],
)
def test_what_the_hub_does_not_have(fake: Hub, text: str, hint: str) -> None:
    with pytest.raises(AssetError, match=hint) as caught:
        resolve(text)
    assert text in str(caught.value)


def test_no_secret_in_errors(fake: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*arguments: object, **keywords: object) -> None:
        raise OSError("401 for https://me:geheim@host/ with token my-own-token and hf_secretsecret")

    monkeypatch.setattr(hub_library, "get_token", lambda: "my-own-token")
    monkeypatch.setattr(hub_library, "hf_hub_download", fail)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(AssetError) as caught:
        resolve(f"hub:org/toy@{COMMIT}/config.json")
    message = str(caught.value)
    assert "401" in message
    assert not any(secret in message for secret in ("geheim", "my-own-token", "secretsecret"))
    assert caught.value.__cause__ is None


def test_extra_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(AssetError, match=r"pip install 'methods-harness\[hub\]'"):
        resolve(f"hub:org/toy@{COMMIT}/config.json")
    assert revision(f"hub:org/toy@{COMMIT}/config.json") == f"hub:org/toy@{COMMIT}/config.json"
    assert not describe(f"hub:org/toy@{COMMIT}").cached
