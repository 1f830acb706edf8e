"""The checks, and how they are run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from speceyes.agents.dialects.base import Call, Dialect, Final
from speceyes.agents.dialects.conformance.stage import (
    ANSWER,
    BLUE,
    DOT,
    RED,
    SIGN,
    Check,
    Played,
    Skipped,
    Stage,
    Unfit,
    Writer,
    middle_is,
    pictures_in,
)
from speceyes.agents.dialects.conformance.stand_in import StandInPython
from speceyes.agents.dialects.conformance.wrong_turns import RUN, TOLD, WrongTurn, wrong_turns
from speceyes.agents.dialects.forms import PYTHON
from speceyes.agents.dialects.reader import LEAD
from speceyes.errors import ConfigError
from speceyes.types import Completion, Delta, Finish

LONG = "The small sign on the left, half behind the tree, says that parking is free on Sundays and on all holidays."
assert len(LONG) > LEAD

_TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", "<|", "\0")

Body = Callable[[Stage], Awaitable[str]]


async def check_dialect(dialect: Dialect, writer: Writer | None = None) -> list[Check]:
    """Check a dialect.

    Args:
        dialect: The dialect, with all its tools. One whose models write code has a tool that runs it, or a stand-in.
        writer: How its model writes. None: the dialect itself, as all that come with SpecEyes can.

    Returns:
        All checks, in order; nothing that goes wrong in one comes out as an exception.

    Raises:
        ConfigError: There is no writer, or no tool.
    """
    writer = writer or (dialect if isinstance(dialect, Writer) else None)
    if writer is None:
        raise ConfigError(f"The dialect {dialect.name} cannot write: give a writer to check it.")
    if not dialect.toolbox:
        raise ConfigError(f"The dialect {dialect.name} has no tool: give it one to check it.")
    stage = Stage(dialect, writer)
    checks = [await _outcome(name, check, stage) for name, check in CHECKS.items()]
    for wrong in _written(stage, checks):
        checks.append(await _outcome(f"wrong turn: {wrong.name}", partial(_wrong, wrong), stage))
        await asyncio.sleep(0)  # whoever shows progress gets a turn
    return checks


async def _outcome(name: str, check: Body, stage: Stage) -> Check:
    try:
        return Check(name, "passed", await check(stage))
    except Skipped as why:
        return Check(name, "skipped", str(why))
    except Unfit as why:
        return Check(name, "failed", str(why))
    except Exception as error:
        return Check(name, "failed", f"{type(error).__name__}: {error}")


def _written(stage: Stage, checks: list[Check]) -> list[WrongTurn]:
    try:
        return list(wrong_turns(stage))
    except Exception as error:
        checks.append(Check("wrong turns", "failed", f"they cannot be written: {type(error).__name__}: {error}"))
        return []


async def _wrong(wrong: WrongTurn, stage: Stage) -> str:
    played = await stage.play(wrong.turn)
    run, first = played.run, played.run.turns[0]
    _want(run.text == ANSWER and len(run.turns) == 2, f"the run ended with {run.text[:40]!r}, {run.finish}")
    left = stage.dialect.closing_answer(wrong.turn).text
    for tag in (*_TAGS, *(f"<{stop.strip('</>')}>" for stop in stage.dialect.stop)):
        _want(tag not in left, f"as the last turn it leaves {tag!r} in the answer")
    ran = first.error is None
    _want(bool(played.told()) or played.shown() > 0, "the model is told nothing")
    _want(wrong.becomes != RUN or ran, f"it is refused: {first.error}")
    _want(wrong.becomes != TOLD or not ran, "it is run, and the model never hears that it was wrong")
    if ran:
        _right(played, stage)
        return "run" + (f", mended: {', '.join(first.repairs)}" if first.repairs else "")
    _want((first.error or "") in played.told(), "the model does not read the error")
    return f"told: {first.error}"


def _right(played: Played, stage: Stage) -> None:
    """The first turn's tool ran, and what it gave reaches the model at a size that the model takes."""
    _want(len(played.results) == 1, f"{len(played.results)} calls were run")
    _want(played.run.turns[0].tool == stage.tool, f"{played.run.turns[0].tool} was run")
    views = played.results[0].views
    _want(played.shown() == len(views), f"the model is shown {played.shown()} of {len(views)} pictures")
    for view in views:
        _want(stage.dialect.limits.accepts(view.size), f"a picture of {view.size} does not suit the model")


async def _opening(stage: Stage) -> str:
    views = [stage.whole]
    act, screen = (stage.dialect.opening_messages(stage.query, views, screening=flag) for flag in (False, True))
    _want(len(act) == len(screen) and act[:-1] == screen[:-1], "screening begins otherwise")
    _want(pictures_in(act) == 1, "the picture is not there, or there twice")
    *before, last = act[-1]["content"]
    _want(before == screen[-1]["content"][:-1], "screening and run differ before the last words")
    _want(stage.query.question in last["text"], "the question is not in the last words, behind the picture")
    question = last["text"].index(stage.query.question)
    _want(screen[-1]["content"][-1]["text"].startswith(last["text"][: question + len(stage.query.question)]), "words")
    _want(last != screen[-1]["content"][-1], "the screening asks nothing else than the run")
    told = stage.dialect.opening_messages(replace(stage.query, system="Reply in French."), views)
    _want(any("Reply in French." in str(message["content"]) for message in told), "the user's system prompt is lost")
    return "screening and run share all but the last words"


async def _right_call(stage: Stage) -> str:
    turn = stage.call()
    action = stage.dialect.parse(turn)
    _want(isinstance(action, Call) and not action.repairs and not action.note, f"it is read as {action}")
    played = await stage.play(turn)
    _want(
        (played.run.text, played.run.finish, played.run.depth) == (ANSWER, Finish.ANSWERED, 1), str(played.run.finish)
    )
    _want(played.run.turns[0].error is None, f"the call failed: {played.run.turns[0].error}")
    _right(played, stage)
    return f"{stage.tool} was run, and the model sees {played.shown()} picture"


async def _right_pixels(stage: Stage) -> str:
    played = await stage.play(stage.call())
    _want(bool(played.results and played.results[0].views), "nothing was shown")
    _want(
        middle_is(played.results[0].views[0], RED),
        "the middle of what was asked for is not the middle of what is shown",
    )
    return "a box lands where it was meant"


async def _crop_of_crop(stage: Stage) -> str:
    if stage.codes:
        if isinstance(stage.dialect.toolbox[PYTHON], StandInPython):
            raise Skipped("the stand-in keeps no variables; a sandbox does")
        left, top = SIGN.left, SIGN.top
        inside = ", ".join(
            f"{edge:.0f}" for edge in (DOT.left - left, DOT.top - top, DOT.right - left, DOT.bottom - top)
        )
        second = stage.call({"code": f'part.crop(({inside})).save("inside.png")'})
    else:
        first = (await stage.play(stage.call())).results[0].views[0]
        second = stage.call(stage.arguments(DOT, first, picture=1))
    played = await stage.play(stage.call(), second)
    _want(len(played.results) == 2, f"{len(played.results)} calls were run")
    _want(played.results[1].error is None, f"the second call failed: {played.results[1].error}")
    _want(middle_is(played.results[1].views[0], BLUE), "the crop of the crop shows something else")
    return "a box in a crop lands where it was meant"


async def _no_such_picture(stage: Stage) -> str:
    if stage.codes:
        raise Skipped("code names its images itself")
    played = await stage.play(stage.call(stage.arguments(picture=7)))
    _want(played.run.text == ANSWER and played.run.turns[0].error is not None, "it was shown all the same")
    return f"told: {played.run.turns[0].error}"


async def _answers(stage: Stage) -> str:
    for text in (ANSWER, "(B)", "a red van, left of the door", r"\frac{1}{2}", "1 < 2", LONG):
        found = stage.dialect.parse(stage.writer.write_answer(text))
        _want(found == Final(text), f"{text!r} is read as {found}")
    quoted = replace(stage.answer, text=f"<think>I must write {stage.writer.write_answer('X').text}</think>")
    _want(stage.dialect.parse(quoted) != Final("X"), "an answer that a thought quotes counts as one in form")
    both = replace(stage.answer, text=f"<think>I write <answer>X</answer></think>{stage.answer.text}")
    _want(stage.dialect.parse(both) == Final(ANSWER), f"behind a thought that quotes one: {stage.dialect.parse(both)}")
    plain = stage.dialect.parse(Completion("The answer is C", "stop"))
    _want(plain == Final("The answer is C", tagged=False), f"plain text is read as {plain}")
    return "clean, and marked where the form is missing"


async def _call_and_answer(stage: Stage) -> str:
    call = stage.call()
    after = await stage.play(replace(call, text=f"{call.text}{stage.writer.write_answer('X').text}"))
    _want(after.run.text in (ANSWER, "X") and len(after.run.turns) <= 2, f"the run ended with {after.run.text[:40]!r}")
    if after.run.text == "X" and not call.tool_calls:
        raise Unfit("an answer behind a call counts, although the model had not seen what it asked for")
    return "the call is run" if after.run.text == ANSWER else "the answer in the text counts before a native call"


async def _stop_strings(stage: Stage) -> str:
    stops = stage.dialect.stop
    if not stops:
        raise Skipped("there are none")
    for turn in (stage.call(), stage.answer):
        kept = next((stop for stop in stops if turn.text.endswith(stop)), None)
        if kept is None:
            continue
        cut = replace(turn, text=turn.text.removesuffix(kept))
        _want(stage.dialect.parse(cut) == stage.dialect.parse(turn), f"without {kept} the turn is another one")
        same = stage.dialect.assistant_messages(cut) == stage.dialect.assistant_messages(turn)
        _want(same, f"without {kept} the history is another one")
    return ", ".join(stops)


async def _closing(stage: Stage) -> str:
    answered = await stage.play(stage.call(), stage.answer, max_turns=1)
    _want((answered.run.text, answered.run.finish) == (ANSWER, Finish.TURN_LIMIT), f"{answered.run.text[:40]!r}")
    _want(answered.requests[0].tools == answered.requests[1].tools, "the closing request has other tools")
    _want(stage.dialect.prompts.closing in answered.told(), "nobody asks for the answer")
    stubborn = await stage.play(stage.call(), stage.call(), max_turns=1)
    _want(len(stubborn.results) == 1, "a call in the closing turn was run")
    _want("<" not in stubborn.run.text, f"a call is left for an answer: {stubborn.run.text[:60]!r}")
    return "asked once, and no call is run any more"


async def _repeated(stage: Stage) -> str:
    played = await stage.play(stage.call(), stage.call())
    _want(len(played.results) == 1, "the same call was run twice")
    _want(stage.dialect.prompts.repeated in played.told(2), "the model is not told")
    return "the same call is refused in words"


async def _reader(stage: Stage) -> str:
    turns = [stage.call(), stage.answer, stage.writer.write_answer(LONG)]
    for text in (turn.text for turn in turns):
        final = stage.dialect.parse(Completion(text, "stop"))
        whole = _read(stage, text)
        for at in range(len(text)):
            pieces = _read(stage, text[:at], text[at:])
            _want(pieces == whole, f"cut at {at} it shows something else of {text[:40]!r}")
        answer = whole["answer"]
        _want(not answer or (isinstance(final, Final) and final.text.startswith(answer)), f"it shows {answer[:40]!r}")
    return "what is shown while a turn is written is what is read of it"


def _read(stage: Stage, *pieces: str) -> dict[str, str]:
    reader = stage.dialect.reader()
    shown = [piece for text in pieces for piece in reader.feed(Delta(text))]
    shown += reader.close()
    return {kind: "".join(p.text for p in shown if p.kind == kind) for kind in ("thought", "answer")}


def _want(fulfilled: bool, otherwise: str) -> None:
    if not fulfilled:
        raise Unfit(otherwise)


CHECKS: dict[str, Body] = {
    "opening": _opening,
    "a right call": _right_call,
    "the right pixels": _right_pixels,
    "a crop of a crop": _crop_of_crop,
    "a picture that there is not": _no_such_picture,
    "answers": _answers,
    "a call and an answer": _call_and_answer,
    "stop strings kept or cut": _stop_strings,
    "the closing turn": _closing,
    "a repeated call": _repeated,
    "the reader": _reader,
}
