"""A web server of files in memory, with the faults of real ones."""

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """A file and how the server gives it out.

    Each request takes the first of `statuses` (0: none) and of `drops` (after how many bytes of the body the
    connection breaks; None: not at all), as long as there are any.
    """

    content: bytes
    etag: str | None = "by content"
    modified: str | None = None
    type: str = "application/octet-stream"
    ranges: bool = True
    heeds_if_range: bool = True
    announced: int | None = None  # a Content-Length that is not true
    chunked: bool = False
    encoding: str | None = None
    location: str | None = None  # a redirect to there
    statuses: list[int] = field(default_factory=list)
    drops: list[int | None] = field(default_factory=list)
    after: Callable[["Served"], None] | None = None  # called once, after the next answer
    delay: float = 0.0

    def version(self) -> str | None:
        if self.etag != "by content":
            return self.etag
        return f'"{hashlib.sha256(self.content).hexdigest()[:16]}"'


@dataclass
class Server:
    url: str
    files: dict[str, Served] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def add(self, path: str, content: bytes, **how: object) -> Served:
        """Serve `content` at `path`, which starts with a slash."""
        self.files[path] = Served(content, **how)  # type: ignore[arg-type]
        return self.files[path]

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    @property
    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.requests]


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A running server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            path = self.path.replace("%2B", "+")
            server.requests.append((path, dict(self.headers)))
            file = server.files.get(path)
            if file is None:
                return self.send_error(404)
            status = file.statuses.pop(0) if file.statuses else 0
            if status:
                return self.send_error(status)
            if file.location:
                self.send_response(302)
                self.send_header("Location", file.location)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            threading.Event().wait(file.delay)
            self.answer(file)
            if file.after:
                hook, file.after = file.after, None
                hook(file)
            return None

        def answer(self, file: Served) -> None:
            start = 0
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            condition = self.headers.get("If-Range")
            fits = condition in (None, file.version(), file.modified) or not file.heeds_if_range
            if asked and file.ranges and fits:
                start = int(asked[1])
            length = len(file.content)
            if start >= length > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{length}")
                page = b"<html>416 Range Not Satisfiable</html>"
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)
                return
            body = file.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{length - 1}/{length}")
            if file.version():
                self.send_header("ETag", str(file.version()))
            if file.modified:
                self.send_header("Last-Modified", file.modified)
            if file.encoding:
                self.send_header("Content-Encoding", file.encoding)
            self.send_header("Content-Type", file.type)
            drop = file.drops.pop(0) if file.drops else None
            if file.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                body = b"%x\r\n%b\r\n" % (len(body), body) + (b"0\r\n\r\n" if drop is None else b"")
            else:
                announced = len(body) if file.announced is None else file.announced - start
                self.send_header("Content-Length", str(announced))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # a client may have had enough
                self.wfile.write(body if drop is None else body[:drop])

        def end_headers(self) -> None:
            self.send_header("Connection", "close")  # unsaid, a client may ask again on a connection that just closes
            super().end_headers()

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
