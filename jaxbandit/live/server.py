"""A session over HTTP: agents that come for questions, and a page for a person."""

import asyncio
import errno
import hmac
import json
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from jaxbandit.errors import BadInput
from jaxbandit.live import inputs
from jaxbandit.live.desk import Desk, Line
from jaxbandit.live.session import LEASE, Session
from jaxbandit.parsers import real

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError:
    raise BadInput(
        "jaxbandit.live", "not installed", "an installation with the extra: pip install 'jaxbandit[live]'"
    ) from None

MOST_BODY = 1 << 16
"""The most bytes of a request."""
MOST_RATE = 2000
"""Requests a second from one address."""
MOST_WAIT = 60.0
"""The most seconds that a request waits for a question."""
_PATIENCE = 10.0
"""Seconds within which the first request of a connection begins, and the body of each has come."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_WILDCARDS = ("0.0.0.0", "::", "0", "")
HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""The names of the loopback, as a Host header has them."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
}  # fmt: skip

Beside = Callable[[dict[str, Any]], dict[str, Any]]


class _Rates:
    """Counts how many requests an address makes in a second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._second, self._seen = 0, dict[str, int]()

    def allows(self, address: str) -> bool:
        """Counts a request, and returns whether the address may still make it."""
        if (now := int(time.monotonic())) != self._second:
            self._second, self._seen = now, {}
        self._seen[address] = self._seen.get(address, 0) + 1
        return self._seen[address] <= self._most


# uvicorn chooses the class as it is imported, by what is installed: to a type checker it is a variable.
class _Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Is closed where no request begins. uvicorn waits for the first one forever, and silent connections count among
    those that may be open."""

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for a request."""
        super().connection_made(transport)
        self.loop.call_later(_PATIENCE, lambda: None if self.cycle else transport.close())


class _Hosts:
    """Refuses requests whose Host header names none of ``hosts``: a page of another site whose name was made to lead to
    this machine (DNS rebinding) has that name there. Starlette's own check tells nobody what is allowed."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            given = Headers(scope=scope).get("host") or "missing"
            if re.sub(r":\d*$", "", given).lower() not in self._hosts:
                allowed = f"one of {', '.join(self._hosts)}; --allowed-hosts adds others"
                answer = _refused(403, f"Host = {given}: {allowed}")
        await answer(scope, receive, send)


@dataclass(frozen=True, eq=False)
class _Routes:
    """Answers each kind of request: see ``app``."""

    session: Session
    token: str
    lease: float
    ahead: int
    offers: Beside | None
    rate: int
    desk: Desk
    line: Line
    rates: _Rates

    async def page(self, request: Request) -> Response:
        """GET /."""
        return HTMLResponse(resources.files(__package__).joinpath("page.html").read_text("utf-8"), headers=_HEADERS)

    async def status(self, request: Request) -> Response:
        """GET /status."""
        return await self._guarded(request, lambda given: self.desk.call(self.session.status))

    async def next(self, request: Request) -> Response:
        """POST /next."""

        def ask(given: dict[str, Any]) -> Awaitable[dict[str, Any]]:
            agent, wait = _text(given, "agent", ""), real(0, MOST_WAIT)("wait", given.get("wait", 0))
            more = {} if self.offers is None else {"offers": True}
            return self.line.next(
                lambda: self.session.next(agent, lease=self.lease, ahead=self.ahead) | more,
                wait, request.is_disconnected,
            )  # fmt: skip

        return await self._guarded(request, ask, "agent", "wait")

    async def answers(self, request: Request) -> Response:
        """POST /answers."""

        async def record(given: dict[str, Any]) -> dict[str, Any]:
            answer = given.get("answer")
            text = json.dumps(answer) if isinstance(answer, list | int | float) else _text(given, "answer")
            number, agent, cost = given.get("id", "missing"), _text(given, "agent", ""), given.get("cost")
            found = await self.desk.call(lambda: self.session.record(number, text, agent, cost))
            self.line.wake()
            return found

        return await self._guarded(request, record, "id", "answer", "agent", "cost")

    async def undo(self, request: Request) -> Response:
        """POST /undo."""

        async def take_back(given: dict[str, Any]) -> dict[str, Any]:
            found = await self.desk.call(lambda: self.session.undo(given.get("id")))
            self.line.wake()
            return found

        return await self._guarded(request, take_back, "id")

    async def candidates(self, request: Request) -> Response:
        """POST /candidates."""

        async def found(given: dict[str, Any]) -> dict[str, Any]:
            asked = await self.desk.call(lambda: self.session.asked(given.get("id", "missing")))
            if self.offers is None:
                return {"candidates": [], "none": "serve was started without --candidates"}
            return await asyncio.to_thread(self.offers, asked)

        return await self._guarded(request, found, "id")

    async def _guarded(
        self, request: Request, handle: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], *keys: str
    ) -> Response:
        """Returns what ``handle`` makes of a request's content, an object that may have these ``keys``, where the
        request is one that may be made."""
        if not self.rates.allows(request.client.host if request.client else ""):
            return _refused(429, f"more than {self.rate} requests a second")
        # A browser says so of another site's page, which could send a form here from the person's own machine.
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if (site or "none") not in ("none", "same-origin"):
            return _refused(403, f"Sec-Fetch-Site = {site}: a request of this server's own page, or of a program")
        if not site and origin and _host_of(origin) != request.headers.get("host"):  # of an older browser
            return _refused(403, f"Origin = {origin}: a request of this server's own page, or of a program")
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            return _refused(401, "Authorization = missing or wrong: the token that the server was started with")
        body = b""
        try:
            async with asyncio.timeout(_PATIENCE):
                async for part in request.stream():
                    body += part
                    if len(body) > MOST_BODY:
                        return _refused(413, f"body = more than {MOST_BODY} bytes: a question's answer")
            content = _object(body)
            for other in [key for key in content if key not in keys][:1]:
                allowed = f"no such key; there are {', '.join(keys)}" if keys else "a body without keys"
                return _refused(400, str(BadInput(other, content[other], allowed)))
            return JSONResponse(await handle(content), headers=_HEADERS)
        except ClientDisconnect:  # nobody reads this
            return _refused(400, "body = cut off: a whole one")
        except TimeoutError:
            return _refused(408, f"body = not whole: all of it within {_PATIENCE:g} seconds")
        except BadInput as error:
            if error.field == "place":
                return _refused(503, str(error))
            unknown = error.field == "ID" and "of this session" in error.allowed
            return _refused(404 if unknown else 409 if error.field == "ID" else 400, str(error))


def app(
    session: Session, token: str = "", lease: float = LEASE, ahead: int = 0, offers: Beside | None = None,
    rate: int = MOST_RATE, hosts: Sequence[str] | None = HOSTS,
) -> Starlette:  # fmt: skip
    """Returns the application: POST /next, /answers, /undo and /candidates, GET /status and the page at /.

    Args:
        session: whose questions.
        token: what requests have to bring, as ``Authorization: Bearer TOKEN``; "" for none.
        lease: seconds for which a question is an agent's.
        ahead: see ``Session.next``.
        offers: what a reconciliation service offers beside a question, see ``Offers``.
        rate: requests a second that are taken from one address.
        hosts: one of which a request's Host header has to name; None for any.

    Raises:
        BadInput: for a lease, or a number of pulls ahead, that no question could be asked with, and for a token that
            no header brings as it is.
    """
    inputs.token("JAXBANDIT_TOKEN", token)
    inputs.lease("lease", lease)
    inputs.ahead("ahead", ahead)
    desk = Desk(session)
    routes = _Routes(session, token, lease, ahead, offers, rate, desk, Line(desk), _Rates(rate))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        yield
        desk.close()

    def route(path: str, call: Callable[[Request], Awaitable[Response]], method: str) -> Route:
        return Route(path, call, methods=[method])

    made = Starlette(
        routes=[
            route("/", routes.page, "GET"), route("/status", routes.status, "GET"), route("/next", routes.next, "POST"),
            route("/answers", routes.answers, "POST"), route("/undo", routes.undo, "POST"),
            route("/candidates", routes.candidates, "POST"),
        ], lifespan=lifespan, exception_handlers={HTTPException: _no_such_request},
        middleware=[] if hosts is None else [Middleware(_Hosts, hosts)],
    )  # fmt: skip
    made.router.redirect_slashes = False  # a client that does not follow would be told nothing
    return made


def serve(
    session: Session, host: str = "127.0.0.1", port: int = 8000, token: str = "", lease: float = LEASE, ahead: int = 0,
    offers: Beside | None = None, ready: Callable[[str], None] | None = None, allowed_hosts: Sequence[str] = (),
) -> None:  # fmt: skip
    """Serves a session until it is stopped, to requests whose Host header names ``host``, the loopback or one of
    ``allowed_hosts``. Where ``host`` stands for all addresses and none are allowed by name, it may name any.

    Raises:
        BadInput: for another address than the loopback without a token, one that cannot be listened on, a host that is
            neither name nor address, and what ``app`` does not take.
    """
    name = f"[{host}]" if ":" in host else host
    more = [inputs.host("--allowed-hosts", each) for each in allowed_hosts]
    hosts = None if host in _WILDCARDS and not more else tuple(dict.fromkeys([name.lower(), *HOSTS, *more]))
    if host not in _LOOPBACK and len(token) < 16:
        raise BadInput("--host", host, "127.0.0.1, or a token of at least 16 characters in JAXBANDIT_TOKEN")
    config = uvicorn.Config(
        app(session, token, lease, ahead, offers, hosts=hosts), host=host, port=port, log_level="warning",
        access_log=False, limit_concurrency=1000, timeout_keep_alive=30, http=_Connection,
    )  # fmt: skip
    try:
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        door = socket.create_server((host, port), family=kind, backlog=2048)
        # Else the second part of a reply waits 40 ms for the first one to be acknowledged.
        door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as error:
        if getattr(error, "errno", 0) in (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN):
            raise BadInput("--host", host, f"an address of this machine ({error})") from None
        raise BadInput("--port", port, f"a port from 0 to 65535 that is free at {host} ({error})") from None
    session.play.prepare()  # or the first answer would hold the journal for as long as the compiler takes
    if ready is not None:
        ready(f"http://{name}:{door.getsockname()[1]}/")
    server = uvicorn.Server(config)
    # The loop would take the main thread's signals, and those that end a program would wait for who stands in line.
    thread = threading.Thread(target=server.run, args=([door],), daemon=True)
    thread.start()
    try:
        thread.join()
    finally:
        server.should_exit = True


def _host_of(origin: str) -> str:
    with suppress(ValueError):  # such as http://[
        return urlsplit(origin).netloc
    return ""


def _object(body: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(content := inputs.parsed(body or b"{}"), dict):
            return content
    raise BadInput("body", "no JSON object", "such as {}, its texts in UTF-8")


def _text(given: dict[str, Any], key: str, default: str | None = None) -> str:
    return inputs.text(key, given.get(key, default))


async def _no_such_request(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    allowed = "GET / or /status, or POST /next, /answers, /undo or /candidates, with no slash at the end"
    line = BadInput("request", f"{request.method} {request.url.path}", allowed)
    return _refused(status, str(line))


def _refused(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status, headers=_HEADERS)


__all__: Sequence[str] = ["app", "serve"]
