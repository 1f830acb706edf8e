"""One OpenAI-compatible URL in front of a draft and an agent.

    app.py          routes, and what becomes of errors
    wire/           OpenAI's JSON and server-sent events <-> our types, nothing else
    intake.py       the images of a request, decoded within limits
    managed.py      one chat request run down the funnel, whole or streamed
    passing.py      requests without an image, passed to a model's own server as they are
    transparent.py  clients that run the agent's loop themselves: speculate on their questions, else relay
    serving.py      what a running gateway is made of
    server.py       the process: socket, signals, draining

Needs `pip install 'speceyes[gateway]'`. Nothing outside this package imports FastAPI, msgspec or uvicorn.
"""
