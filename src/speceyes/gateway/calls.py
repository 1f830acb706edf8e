"""A chat request that has been understood: what is asked of whom, and whether we answer it or pass it on."""

from __future__ import annotations

import time
from dataclasses import dataclass

from speceyes.gateway.names import Names
from speceyes.gateway.speculation import NATIVE
from speceyes.gateway.wire.content import Conversation, read_conversation
from speceyes.gateway.wire.errors import ApiError, bad_request
from speceyes.gateway.wire.fields import check_served, sampling
from speceyes.gateway.wire.requests import ChatBody, read_body, read_tolerantly
from speceyes.gateway.wire.responses import Envelope
from speceyes.types import Route, Sampling

_NOT_READ = Conversation("", (), None)


@dataclass(frozen=True, slots=True)
class Call:
    """One chat request.

    Attributes:
        body: Its fields.
        raw: The JSON that they came in.
        route: The route that its model's name forces; None where the funnel decides.
        conversation: What the models are asked.
        sampling: How.
        envelope: What each object of the response repeats.
        client_loop: None: we run the agent's loop. Else the client does, and this is what it reads: "tools" for native
            tool calls, or the name of a text dialect.
    """

    body: ChatBody
    raw: bytes | bytearray
    route: Route | None
    conversation: Conversation
    sampling: Sampling
    envelope: Envelope
    client_loop: str | None = None

    @property
    def has_images(self) -> bool:
        """Without an image there is nothing to speculate on, and a model's own server answers."""
        return bool(self.conversation.images)


def read_call(raw: bytes | bytearray, names: Names, request_id: str) -> Call:
    """Understand a request.

    A request without an image is passed on with all its fields, so those that only the model's own server knows are no
    error there.

    Raises:
        ApiError: 400 or 404 that names what is wrong.
    """
    try:
        body, strange = read_body(raw), None
    except ApiError as error:
        body, strange = read_tolerantly(raw), error
    route = names.route(body.model)
    envelope = Envelope(request_id, int(time.time()), body.model)
    if (loop := _client_loop(body, names)) is not None:
        return Call(body, raw, route, _NOT_READ, Sampling(), envelope, loop)
    conversation = read_conversation(body.messages)
    if conversation.images:
        if strange is not None:
            raise strange
        check_served(body, route)
    asked = sampling(body) if conversation.images else Sampling()
    return Call(body, raw, route, conversation, asked, envelope)


def _client_loop(body: ChatBody, names: Names) -> str | None:
    """Who runs the agent's loop, as `Call.client_loop` says it. Raises ApiError where that cannot be told."""
    options = body.options
    if options.mode == "managed":
        return None
    dialect = options.dialect or names.dialect_of(body.model)
    if dialect is not None or (options.mode is not None and not body.tools):
        if dialect is None or dialect != names.dialect:
            known = (
                f"The agent here speaks {names.dialect}." if names.dialect else "The agent here speaks no text dialect."
            )
            raise bad_request(f"speceyes.dialect: {dialect!r} says how you read the agent's text. {known}", "speceyes")
        return dialect
    return NATIVE if body.tools else None
