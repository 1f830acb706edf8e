"""The observer: nothing that goes wrong in it reaches a request, and audits find their records."""

from __future__ import annotations

import io
import json
import logging
import time
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from speceyes.config import ObserveSettings, StoreSettings
from speceyes.errors import ConfigError, EngineOverloaded
from speceyes.events import Answered, Decided, Failed, PhaseEnded, TextStreamed
from speceyes.gateway.observe import Metrics, Observer, RequestLog, open_observer
from speceyes.store import Recorder, Store
from speceyes.types import AgentRun, Answer, Draft, Finish, Reason, Screening, Token, Trace, Usage, Verdict

SECRET = "hunter2-secret"


def answer(reason: Reason = Reason.ACCEPTED, *, run: AgentRun | None = None, text: str = "cat") -> Answer:
    draft = Draft(text, (Token(text, -0.1, (-0.1, -4.0, -5.0)),), None, Usage(9, 1, None, 1))
    verdict = Verdict(Reason.ACCEPTED, 7.0, 0.98, 6.0)
    trace = Trace(
        reason,
        Screening(0.1, 0.8, Usage(8, 1, None, 1)),
        draft,
        verdict,
        run,
        phase_seconds={"screen": 0.1, "speculate": 0.2},
        usage={"small": Usage(9, 1, None, 1), "large": Usage(8, 1, None, 1)},
    )
    return Answer(run.text if run else text, trace, "r1")


RUN = AgentRun("Cat.", (), Finish.ANSWERED, Usage(50, 20, None, 2), 4.0)


def values(observer: Observer) -> dict[str, float]:
    text = observer.metrics.text().decode()
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_breaks_in_observing_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    def broken(draft: str, agent: str, question: str) -> bool:
        raise RuntimeError("no rule for this")

    observer = Observer(Metrics(), agree=broken)
    seen = observer.started("r1")
    with caplog.at_level(logging.ERROR):
        seen.listener(PhaseEnded("r1", "screen", float("nan")))
        seen.finished(200, answer=answer(Reason.BELOW_THRESHOLD, run=RUN))
    assert "observing a request failed" in caplog.text
    assert seen.done


def test_first_words_count_once_and_only_in_streams() -> None:
    observer = Observer(Metrics())
    whole, stream = observer.started("r1"), observer.started("r2")
    stream.streamed = True
    for seen in (whole, stream):
        seen.listener(TextStreamed("r", "thought", "hm"))
    assert (whole.first_token_s, stream.first_token_s) == (None, None)
    for seen in (whole, stream):
        seen.listener(TextStreamed("r", "answer", "7"))
    first = stream.first_token_s
    assert first is not None
    stream.listener(TextStreamed("r", "answer", "7"))
    assert (whole.first_token_s, stream.first_token_s) == (None, first)


def test_the_failing_server_is_that_of_the_last_phase() -> None:
    observer = Observer(Metrics())
    for phase, upstream in (("screen", "agent"), ("speculate", "draft"), ("fall_back", "agent")):
        seen = observer.started("r")
        seen.listener(PhaseEnded("r", phase, 0.1))
        seen.listener(Failed("r", EngineOverloaded("busy"), {"large": Usage(1, 1, None, 1)}))
        assert seen.failing_upstream == upstream
        assert seen.usage == {"large": Usage(1, 1, None, 1)}
    found = values(observer)
    assert found["speceyes_upstream_errors_total error=EngineOverloaded upstream=agent"] == 2
    assert found["speceyes_upstream_errors_total error=EngineOverloaded upstream=draft"] == 1


async def test_an_audit_reaches_its_record_and_the_metrics(tmp_path: Path) -> None:
    opening = partial(Store.open, f"sqlite:///{tmp_path / 'r.db'}")
    recorder = Recorder(opening)
    observer = Observer(Metrics(models=["small", "large"]), recorder=recorder, setup={"draft_model": "small"})
    recorder.start()
    seen = observer.started("r1")
    seen.listener(Decided("r1", Verdict(Reason.ACCEPTED)))
    seen.listener(Answered(answer()))
    seen.finished(200, answer=answer())
    observer.audited("r1", RUN, agrees=True, seconds=4.5, agent="large")
    observer.audited("r-unknown", None, agrees=None, seconds=0.1, agent="large")
    await observer.close()
    async with await opening() as store:
        (record,) = [one async for one in store.iterate()]
    assert (record.audited, record.agrees, record.audit_seconds, record.agent_finish) == (True, True, 4.5, "answered")
    assert record.usage["large"] == Usage(58, 21, None, 3)
    found = values(observer)
    assert (found["speceyes_audits_total agrees=true"], found["speceyes_audits_total agrees=none"]) == (1, 1)
    assert found["speceyes_saved_seconds_total"] == 4.5  # the draft that was accepted before any run


async def test_whether_both_agree_is_known_without_their_words(tmp_path: Path) -> None:
    opening = partial(Store.open, f"sqlite:///{tmp_path / 'r.db'}")
    recorder = Recorder(opening)
    observer = Observer(Metrics(), recorder=recorder, agree=lambda a, b, _: a.casefold() == b.strip(".").casefold())
    recorder.start()
    for id, text in (("r1", "cat"), ("r2", "dog"), ("r3", ""), ("r4", "no no " * 40)):
        seen = observer.started(id)
        seen.trust = "observe"
        seen.finished(200, answer=answer(Reason.FORCED_AGENT, run=RUN, text=text))
    await observer.close()
    async with await opening() as store:
        found = {one.id: one async for one in store.iterate()}
    assert [found[id].agrees for id in ("r1", "r2")] == [True, False]
    assert [found[id].draft_fault for id in found] == [None, None, "empty_answer", "repetitive_answer"]
    assert {(one.trust, one.verdict, one.route, one.agent_text) for one in found.values()} == {
        ("observe", "accepted", "agent", None)
    }


async def test_settings_make_an_observer(tmp_path: Path) -> None:
    stream = io.StringIO()
    store = StoreSettings(url=f"sqlite:///{tmp_path / 'r.db'}", images=tmp_path / "i", max_age_days=1.0)
    async with open_observer(ObserveSettings(), store, draft="small", agent="large", stream=stream) as observer:
        assert observer.recorder is not None
        assert observer.recorder.keeps_pictures
        observer.started("r1").finished(200, answer=answer())
    assert json.loads(stream.getvalue())["request_id"] == "r1"
    async with await Store.open(f"sqlite:///{tmp_path / 'r.db'}") as opened:
        assert await opened.count() == 1
    nothing = StoreSettings(enabled=False)
    async with open_observer(ObserveSettings(log=False), nothing, draft="a", agent="b") as observer:
        assert (observer.log, observer.recorder, observer.telemetry) == (None, None, None)


async def test_a_wrong_url_is_an_error_and_an_unwritable_default_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = StoreSettings(url=f"mysql://u:{SECRET}@h/d")
    with pytest.raises(ConfigError, match="begins with mysql") as caught:
        async with open_observer(ObserveSettings(log=False), wrong, draft="a", agent="b"):
            pass
    assert SECRET not in str(caught.value) + repr(wrong) + wrong.model_dump_json()
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with caplog.at_level(logging.WARNING):
        async with open_observer(ObserveSettings(log=False), StoreSettings(), draft="a", agent="b") as observer:
            assert observer.recorder is None
    assert "no request records are kept" in caplog.text


def test_observing_costs_little() -> None:
    """Counted in processor time, which a busy machine does not change much, and against a bound ten times as large."""
    observer = Observer(Metrics(models=["small", "large"]), log=RequestLog(io.StringIO()))
    one, rounds = answer(), 300
    began = time.thread_time()
    for i in range(rounds):
        seen = observer.started(f"r{i}", {})
        for phase in ("screen", "speculate"):
            seen.listener(PhaseEnded("r", phase, 0.1))
        seen.listener(Decided("r", Verdict(Reason.ACCEPTED)))
        seen.finished(200, answer=one)
    each_us = (time.thread_time() - began) / rounds * 1e6
    assert observer.log is not None
    observer.log.close()
    print(f"{each_us:.0f} us of processor time a request")
    assert each_us < 5000
