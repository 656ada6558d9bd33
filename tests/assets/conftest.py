"""A cache of its own for every test, no outside index, archives made on the spot, an index on the loopback."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

FILES = {
    "toy/data/words.txt": b"one\ntwo\n",
    "toy/data/deep/more.txt": b"three\n",
    "toy/__init__.py": b"raise SystemExit(3)\n",
}


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The root of the cache; pip's and the hub's settings of this machine are out of the way, slow tests aside."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    if request.node.get_closest_marker("slow"):
        return tmp_path / "cache"
    for name in list(os.environ):
        if name.startswith(("PIP_", "HF_", "TRANSFORMERS_")) or name.lower() in {
            "http_proxy",
            "https_proxy",
            "all_proxy",
        }:
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@dataclass
class Shelf:
    """A find-links folder with archives in it."""

    folder: Path

    def wheel(
        self, files: Mapping[str, bytes] = FILES, name: str = "toy", version: str = "1.0", tag: str = "py3-none-any"
    ) -> str:
        """Puts a wheel there; its SHA-256."""
        path = self.folder / f"toy-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in files.items():
                archive.writestr(member, data)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def sdist(self, files: Mapping[str, bytes] = FILES, version: str = "1.0") -> str:
        path = self.folder / f"toy-{version}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for member, data in {"setup.py": b"raise SystemExit(3)\n", **files}.items():
                entry = tarfile.TarInfo(f"toy-{version}/{member}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Shelf(folder)


@dataclass
class Index:
    """A package index on the loopback that serves ``folder``. ``cut``: bytes after which downloads break off.

    ``pause``: seconds before a download starts; ``together``: it starts only when so many are asked for.
    """

    folder: Path
    url: str = ""
    cut: int | None = None
    pause: float = 0.0
    state_hashes: bool = True
    status: int = 200
    together: threading.Barrier | None = None
    downloads: list[str] = field(default_factory=list)

    def page(self) -> bytes:
        def anchor(path: Path) -> str:
            stated = f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}" if self.state_hashes else ""
            return f'<a href="/files/{path.name}{stated}">{path.name}</a>'

        return "\n".join(anchor(p) for p in sorted(self.folder.iterdir())).encode()


def _handler(index: Index) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/simple/"):
                known = self.path == "/simple/toy/"
                self.answer(index.status if known else 404, "text/html", index.page() if known else b"")
            else:
                name = self.path.rsplit("/", 1)[-1]
                index.downloads.append(name)
                if index.together is not None:
                    index.together.wait(30)
                time.sleep(index.pause)
                self.answer(200, "application/octet-stream", (index.folder / name).read_bytes(), index.cut)

        def answer(self, status: int, kind: str, body: bytes, cut: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    folder = tmp_path / "served"
    folder.mkdir()
    made = Index(folder)
    with serving(_handler(made)) as url:
        made.url = url
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        yield made


@pytest.fixture
def stocked(index: Index) -> str:
    """Puts the toy wheel on the index; its SHA-256."""
    return Shelf(index.folder).wheel()


class serving:
    """Runs a request handler on a free port of the loopback; gives the address."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *exception: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def serve() -> Callable[[type[BaseHTTPRequestHandler]], serving]:
    return serving
