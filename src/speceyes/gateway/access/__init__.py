"""Who may ask, how much at a time, and how large.

    keyfile.py      API keys on disk: made, listed, revoked; only hashes are kept
    auth.py         a request's key -> who asks, and what they may
    admission.py    a bounded number of requests in flight, a bounded queue, else 429 with Retry-After
    bodies.py       a request's body, within limits on its size and on the time that it takes
    memory.py       a bound on the bytes that all requests together hold
    cors.py         which web pages may call
    refusals.py     the errors of all these, as clients see them
    setup.py        all of it from the settings

A request passes them in this order: CORS, key, body, admission. Who has no key costs neither memory nor a place.
"""
