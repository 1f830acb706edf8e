"""What runs inside a sandbox, before and around a model's code. Standard library only; the host never imports it.

Two processes. The *keeper* is process 1 of its PID namespace. It holds the channel to the host, the clock, and the far
ends of the pipes that the interpreter writes to; no code of a model ever runs in it, and the kernel keeps signals from
inside away from it. The *interpreter* is its child and runs the code. It has no way to the host but what the keeper
passes on: output up to a limit, pictures from the session's folder, and one reply for each step. So nothing that the
host reads about times, crashes and sizes was written by the model's code.

The folder is mounted as it stands, under another name; hence the relative imports.
"""
