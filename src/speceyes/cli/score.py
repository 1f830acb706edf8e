"""`speceyes score RESPONSE.json`: what the gate makes of a saved chat completion."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import output
from speceyes.errors import InputError

if TYPE_CHECKING:
    from speceyes.types import Completion

NOT_A_COMPLETION = "not_a_completion"
"""The reason where a file is JSON, but no chat completion. All others are values of `speceyes.types.Reason`."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("score")(score)


def score(
    response: Annotated[
        str, typer.Argument(metavar="RESPONSE", help="A chat completion, or a stream's chunks; - is standard input.")
    ],
    k: Annotated[int, typer.Option("--k", min=1, help="Log-probs of each token that the score uses.")] = 64,
    aggregate: Annotated[str, typer.Option(help="min, mean, bottom or log.")] = "min",
    score_name: Annotated[str, typer.Option("--score", help="separability, margin, entropy, ...")] = "separability",
    json_target: output.JsonTarget = None,
) -> None:
    """Tell how sure a saved chat completion was of its answer, token by token.

    The JSON has `score` and `squashed` (numbers or null), `reason` (null, or why there is no confidence) and `tokens`.
    """
    from speceyes.cli.saved import read_completion
    from speceyes.gating import find_score

    find_score(score_name, aggregate)
    output.check_target(json_target)
    completion = read_completion(_read(response), "standard input" if response == "-" else response)
    record = score_record(completion, score=score_name, k=k, aggregate=aggregate)
    if json_target != output.STDOUT:
        output.console().print(_table(record))
    output.write_json(json_target, record)


def score_record(completion: Completion | None, *, score: str, k: int, aggregate: str) -> dict[str, Any]:
    """The gate's view of a completion, as the command's JSON.

    Returns:
        `score` and `squashed`, numbers or None; `reason`, None where there is a score, `not_a_completion` for None,
        else the value of a `Reason`; and `tokens`, the answer's own: `token`, `logprob`, `score` (None where it has
        none) and `top_logprobs`, the `k` largest.
    """
    from speceyes.engines.logprobs import answer_tokens
    from speceyes.export import token_json
    from speceyes.gating import confidence

    if completion is None:
        return {"score": None, "squashed": None, "reason": NOT_A_COMPLETION, "tokens": []}
    tokens, fault = answer_tokens(completion)
    found = confidence(tokens, score=score, k=k, aggregate=aggregate)
    reason = fault or found.reason
    rows = []
    for index, token in enumerate(tokens):
        row = token_json(token)
        own = found.token_scores[index] if index < len(found.token_scores) else None
        rows.append({**row, "score": own, "top_logprobs": row["top_logprobs"][:k]})
    return {
        "score": None if reason else found.score,
        "squashed": None if reason else found.squashed,
        "reason": reason.value if reason else None,
        "tokens": rows,
    }


def _read(response: str) -> bytes:
    if response == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(response).read_bytes()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read {response}: {said}") from error


def _table(record: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from speceyes.cli.reasons import WHY
    from speceyes.types import Reason

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("token", "log-prob", "score", "log-probs sent"):
        table.add_column(title, overflow="fold")
    for row in record["tokens"]:
        numbers = ["none" if row[name] is None else f"{row[name]:.4f}" for name in ("logprob", "score")]
        token = '"' + output.visible(row["token"]).replace("\n", "\\n") + '"'
        table.add_row(Text(token), *numbers, str(len(row["top_logprobs"])))
    if record["reason"] == NOT_A_COMPLETION:
        verdict = "no confidence: this is JSON, but no chat completion"
    elif record["reason"] is not None:
        verdict = WHY[Reason(record["reason"])]
    else:
        verdict = f"score {record['score']:.4f}, squashed {record['squashed']:.4f}"
    return Group(table, Text(verdict, style="bold")) if record["tokens"] else Text(verdict, style="bold")
