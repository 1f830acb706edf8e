"""OpenAI's JSON and server-sent events on one side, our types on the other. Nothing here knows a model or a socket."""
