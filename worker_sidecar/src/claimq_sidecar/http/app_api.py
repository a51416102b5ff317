"""The API on the app's socket: /v1/claim and the other paths."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from claimq.model import Claim
from claimq_sidecar.claims.calls import VerdictRequest, default_wait
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.bodies import VERDICT_BODIES
from claimq_sidecar.http.open_sessions import OpenSessions
from claimq_sidecar.http.requests import (
    claim_request,
    enqueue_request,
    next_request,
    verdict_request,
    verdict_requests,
)
from claimq_sidecar.http.responses import (
    InFlight,
    Info,
    claims_body,
    enqueued_of,
    next_body,
    outcomes_of,
)
from claimq_sidecar.http.router import CLAIM_PATH, App, Exchange, Handler
from claimq_sidecar.memory import Allowance, Bodies, Budget


class AppApi:
    """The handlers of the socket's paths."""

    def __init__(self, sidecar: Sidecar, health_host: str, health_port: int) -> None:
        self._sidecar = sidecar
        self._health_host = health_host
        self._health_port = health_port

    def app(self) -> App:
        """The ASGI app."""
        verdicts = {
            f"/v1/{verb}": {"POST": self._verdict(verb)} for verb in VERDICT_BODIES if verb != "renew"
        }
        allowance = Allowance(self._sidecar.settings.memory)
        sessions = OpenSessions(self._sidecar, Budget(allowance.lines), Budget(allowance.send_buffers))
        routes: dict[str, dict[str, Handler]] = {
            CLAIM_PATH: {"POST": self._claim},
            **verdicts,
            "/v1/renew": {"POST": self._renew},
            "/v1/next": {"POST": self._next},
            "/v1/verdicts": {"POST": self._verdicts},
            "/v1/enqueue": {"POST": self._enqueue},
            "/v1/session": {"POST": sessions.session},
            "/v1/stream": {"POST": sessions.stream},
            "/v1/window": {"POST": sessions.window},
            "/v1/prestop": {"POST": self._prestop},
            "/v1/info": {"GET": self._info},
            "/v1/openapi.json": {"GET": self._openapi},
        }
        bodies = Bodies(allowance.bodies)
        return App(routes, self._sidecar.settings.max_body, self._sidecar.metrics, bodies=bodies)

    async def _claim(self, exchange: Exchange) -> None:
        request, encoding = claim_request(await exchange.body())
        began = self._sidecar.now
        exchange.share.end()  # the body is not needed any longer
        claims = await self._sidecar.claim(request, exchange.connection, exchange.share)
        exchange.waited = self._sidecar.now - began if request.wait != 0 else 0.0
        body = claims_body(claims, encoding, draining=self._sidecar.draining.is_set())
        await self._reply_claims(exchange, claims, body)

    async def _next(self, exchange: Exchange) -> None:
        verdicts, request, encoding = next_request(await exchange.body())
        await self._expect_followers(exchange, verdicts.values())
        began = self._sidecar.now
        answer = await self._sidecar.next(verdicts, request, exchange.connection, exchange.share)
        exchange.waited = self._sidecar.now - began if request.wait != 0 and not request.ahead else 0.0
        body = next_body(answer, encoding, draining=self._sidecar.draining.is_set())
        await self._reply_claims(exchange, answer.claims, body)

    async def _reply_claims(self, exchange: Exchange, claims: list[Claim], body: bytes) -> None:
        """Replies, and keeps the memory of the response reserved until the client has read it."""
        tokens = tuple(claim.token for claim in claims)
        claims.clear()
        if tokens:  # else those of a response before this one may still be unread
            exchange.connection.hand(tokens, self._sidecar.give_backs.unread)
        await exchange.reply(body)
        exchange.share.shrink(2 * len(body))
        del body
        await exchange.connection.flushed.wait()

    @staticmethod
    async def _expect_followers(exchange: Exchange, requests: Iterable[VerdictRequest]) -> None:
        await exchange.expect(
            item for request in requests for ending in request.endings for item in ending.enqueue
        )

    async def _verdicts(self, exchange: Exchange) -> None:
        requests = verdict_requests(await exchange.body())
        await self._expect_followers(exchange, requests.values())
        outcomes = await self._sidecar.verdicts.answer_all(requests, exchange.share)
        await exchange.reply_json(outcomes_of(outcomes))

    def _verdict(self, verb: str) -> Handler:
        async def handle(exchange: Exchange) -> None:
            request = verdict_request(verb, await exchange.body())
            outcomes = await self._sidecar.verdicts.answer(verb, request, exchange.share)
            await exchange.reply_json(outcomes_of(outcomes))

        return handle

    async def _renew(self, exchange: Exchange) -> None:
        request = verdict_request("renew", await exchange.body())
        outcomes = await self._sidecar.verdicts.renew_for_app(request.tokens)
        await exchange.reply_json(outcomes_of(outcomes))

    async def _enqueue(self, exchange: Exchange) -> None:
        items = enqueue_request(await exchange.body())
        await exchange.expect(items)
        await exchange.reply_json(enqueued_of(await self._sidecar.enqueue(items)))

    async def _prestop(self, exchange: Exchange) -> None:
        await self._sidecar.drain.app_stopping()
        await exchange.reply_json(InFlight(len(self._sidecar.in_flight)))

    async def _info(self, exchange: Exchange) -> None:
        sidecar = self._sidecar
        info = Info(
            queue=sidecar.settings.queue,
            worker=sidecar.settings.worker,
            busy_expiry=sidecar.store.busy_expiry,
            claim_wait=default_wait(sidecar.store.claim_wait),
            processing_timeout=sidecar.settings.processing_timeout,
            drain_timeout=sidecar.settings.drain_timeout,
            draining=sidecar.draining.is_set(),
            ready=sidecar.store.ready.is_set(),
            concurrency=sidecar.concurrency.limit,
            in_flight=len(sidecar.in_flight) - sidecar.ahead.count,
            sessions=len(sidecar.sessions),
            health_host=self._health_host,
            health_port=self._health_port,
        )
        await exchange.reply_json(info)

    async def _openapi(self, exchange: Exchange) -> None:
        await exchange.expect_bytes(len(_openapi_document()))
        await exchange.reply(_openapi_document())
        await exchange.connection.flushed.wait()


@cache
def _openapi_document() -> bytes:
    return (files("claimq_sidecar.http") / "openapi.json").read_bytes()
