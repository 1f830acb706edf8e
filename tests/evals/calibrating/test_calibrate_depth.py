"""Calibrations over closer looks: the promise is about the whole rule, and the gate takes it for that depth alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_tables import answers_with, drawn_table, made_table
from scripted_pair import K, Knowing, scripted_pair

from speceyes.errors import CalibrationMismatch, InputError
from speceyes.evals.calibrating import GateSetting, Method, calibrate, collect, summary_lines, write_page
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.records import CloserTable, RecordTable, RunWriter, load_run
from speceyes.evals.records.recorder import record
from speceyes.evals.records.session import make_manifest
from speceyes.funnel import Funnel
from speceyes.gating import Calibration, fingerprint
from speceyes.gating.certify import Limit, Risk
from speceyes.phases.gate import gate, gate_screening
from speceyes.types import Draft, Reason, Route, Screening, Token

GATE = GateSetting(k=4)
EXCESS = [Limit(Risk.EXCESS, 0.05)]
LOOK = fingerprint("Look.")


def closer_table(scores: Any, right: Any, agent_right: Any, **changes: Any) -> CloserTable:
    """A look at every query, shown a part each time."""
    n, hits = len(scores), np.asarray(right, dtype=np.bool_)
    fields: dict[str, Any] = {
        "answers": answers_with(scores),
        "known": np.ones(n, dtype=np.bool_),
        "looked": np.ones(n, dtype=np.bool_),
        "usable": np.ones(n, dtype=np.bool_),
        "right": hits,
        "agrees": hits & np.asarray(agent_right, dtype=np.bool_),
        "seconds": np.full(n, 0.3),
    }
    return CloserTable(**{**fields, **changes})


def with_looks(table: RecordTable, depths: int, seed: int = 0) -> RecordTable:
    """Each look makes drafts surer and better, and some come to nothing."""
    rng, n, closer, going = np.random.default_rng(seed), len(table), [], np.ones(len(table), dtype=np.bool_)
    for _ in range(depths):
        scores = rng.gamma(6.0, 1.1, n) + 1.5
        right = rng.random(n) >= np.minimum(0.5, 4.0 * np.exp(-scores))
        looked = going & (rng.random(n) < 0.9)
        seconds = np.where(going, 0.3, np.nan)
        usable = looked & (rng.random(n) < 0.97)
        closer.append(closer_table(scores, right, table.agent_right, looked=looked, usable=usable, seconds=seconds))
        going = looked
    bound_to = {**table.bound_to, "look_prompt": LOOK}
    return RecordTable(
        **{name: getattr(table, name) for name in RecordTable.__slots__}
        | {"closer": tuple(closer), "bound_to": bound_to}
    )


def token(answers: Any, i: int) -> tuple[Token, ...]:
    top = tuple(answers.logprobs[i].tolist())
    return (Token("x", top[0], top),)


def answered(table: RecordTable, i: int, setting: Calibration, max_depth: int) -> int:
    """The funnel's rule for one query, with its own gate: the depth of the draft that answers, -1 for the agent."""
    p = float(table.help_probability[i])
    first = Draft("x", token(table.answers, i), None if table.draft_usable[i] else Reason.TRUNCATED_ANSWER)
    if gate_screening(Screening(p_yes=p, p_no=1 - p), setting) is None and gate(first, setting).accepted:
        return 0
    for depth, closer in enumerate(table.closer[:max_depth], start=1):
        if not closer.looked[i]:
            return -1
        fault = None if closer.usable[i] else Reason.TRUNCATED_ANSWER
        if gate(Draft("x", token(closer.answers, i), fault), setting).accepted:
            return depth
    return -1


@pytest.mark.parametrize("max_depth", [0, 1, 2])
@pytest.mark.parametrize("method", Method)
def test_its_figures_are_those_of_the_rule_applied_one_by_one(method: Method, max_depth: int) -> None:
    table = with_looks(drawn_table(250, seed=3, draft_usable=np.arange(250) % 50 != 0), 2)
    limits = [Limit(Risk.EXCESS, 0.15), Limit(Risk.ERROR, 0.3), Limit(Risk.DISAGREEMENT, 0.4)]
    result = calibrate(table, GATE, limits, 0.1, method=method, max_depth=max_depth)
    assert result.calibration.feasible
    everything = collect(table, GATE, limits, max_depth).outcomes
    right = np.stack([table.draft_right, *(closer.right for closer in table.closer)])
    agrees = np.stack([table.agrees, *(closer.agrees for closer in table.closer)])
    for passed in result.calibration.certified[:: 1 + len(result.calibration.certified) // 2]:
        setting = Calibration.manual(passed.threshold, k=4)
        by = [(answered(table, i, setting, max_depth), i) for i in range(len(table))]
        taken = [(depth, i) for depth, i in by if depth >= 0]
        accepted, lost = everything.count([passed.threshold])
        assert accepted[0] == len(taken)
        assert lost[:, 0].tolist() == [
            sum(table.agent_right[i] and not right[depth, i] for depth, i in taken),
            sum(not right[depth, i] for depth, i in taken),
            sum(not agrees[depth, i] for depth, i in taken),
        ]
        if method is Method.FIXED_SEQUENCE:
            assert (passed.accepted, passed.losses) == (len(taken), tuple(lost[:, 0].tolist()))


def test_looks_let_it_accept_more_and_it_says_at_which_depth() -> None:
    table = with_looks(drawn_table(3000), 2)
    results = [calibrate(table, GATE, EXCESS, 0.05, max_depth=depth) for depth in (0, 1, 2)]
    accepted = [result.calibration.accepted for result in results]
    assert accepted[0] < accepted[1] < accepted[2]
    for depth, result in enumerate(results):
        made, evidence = result.calibration, result.calibration.evidence
        assert evidence is not None
        assert len(result.depths) == depth + 1
        assert tuple(map(sum, zip(*result.depths, strict=True))) == (made.accepted, evidence.losses[0])
        assert [sum(column) for column in zip(*result.groups.values(), strict=True)] == [
            made.n,
            made.accepted,
            evidence.losses[0],
        ]
        text, page = " ".join(summary_lines(result)), write_page(result)
        if depth:
            parts = [f"{result.depths[0][0]:,} at the first look", f"{result.depths[1][0]:,} after 1 closer look ("]
            assert all(part in text for part in parts)
            assert "after 2 closer looks" in page if depth == 2 else "after 1 closer look" in page
        else:
            assert "closer look" not in text + page


def test_it_is_bound_to_its_depth() -> None:
    table = with_looks(drawn_table(3000), 2)
    default, one, none = (
        calibrate(table, GATE, EXCESS, 0.05, **how) for how in ({}, {"max_depth": 1}, {"max_depth": 0})
    )
    assert [made.calibration.max_depth for made in (default, one, none)] == [2, 1, None]
    assert [made.calibration.look_prompt for made in (default, one, none)] == [LOOK, LOOK, None]


def test_without_looks_a_deeper_run_says_what_a_plain_one_says() -> None:
    plain = drawn_table(2000)
    deeper = with_looks(plain, 2)
    assert (
        calibrate(plain, GATE, EXCESS, 0.05).calibration
        == calibrate(deeper, GATE, EXCESS, 0.05, max_depth=0).calibration
    )


def test_queries_whose_look_is_not_known_are_left_out_where_it_counts() -> None:
    table = drawn_table(400)
    known = np.arange(400) >= 25
    scores = np.full(400, 6.0)
    closer = closer_table(scores, np.ones(400), table.agent_right, known=known, seconds=np.where(known, 0.3, np.nan))
    table = RecordTable(**{name: getattr(table, name) for name in RecordTable.__slots__} | {"closer": (closer, closer)})
    assert [collect(table, GATE, EXCESS, depth).coverage.incomplete for depth in (0, 1, 2)] == [0, 25, 25]


def test_it_says_why_a_look_has_no_score() -> None:
    looked, usable = np.arange(100) >= 10, np.arange(100) >= 15
    closer = closer_table(np.full(100, 6.0), np.ones(100), np.ones(100), looked=looked, usable=looked & usable)
    ended = closer_table(
        np.full(100, 6.0),
        np.ones(100),
        np.ones(100),
        looked=looked,
        usable=looked,
        seconds=np.where(looked, 0.3, np.nan),
    )
    table = made_table(np.full(100, 6.0), np.ones(100), np.ones(100), closer=(closer, ended))
    coverage = collect(table, GATE, EXCESS, 2).coverage
    assert coverage.unscored_closer == ({"look_failed": 10, "draft_fault": 5}, {})
    assert "without a score after 1 closer look: look_failed" in write_page(calibrate(table, GATE, EXCESS, 0.05))


def test_a_depth_that_was_not_recorded() -> None:
    with pytest.raises(InputError, match=r"recorded without any.*record with --max-depth 1"):
        calibrate(drawn_table(100), GATE, EXCESS, 0.05, max_depth=1)
    with pytest.raises(InputError, match=r"with 1 of them at most.*Calibrate with --max-depth 1"):
        calibrate(with_looks(drawn_table(100), 1), GATE, EXCESS, 0.05, max_depth=2)
    with pytest.raises(InputError, match="must be 0 or more"):
        collect(drawn_table(100), GATE, EXCESS, -1)


async def test_from_a_record_to_a_funnel_of_the_same_depth_and_no_other(tmp_path: Path) -> None:
    """Recorded, calibrated, saved, and used: the funnel of that depth takes it and answers by it; the others refuse."""
    name, samples = "nano:40:3", make_samples(40, 3)
    async with scripted_pair(Knowing(samples), max_depth=1) as (draft, agent):
        with RunWriter(tmp_path / "run", make_manifest(open_dataset(name), draft, agent)) as writer:
            await record(open_dataset(name).items, draft, agent, writer, concurrency=4)
        made = {}
        for depth in (0, 1):
            table = load_run(tmp_path / "run")
            result = calibrate(table, GateSetting(k=K), [Limit(Risk.EXCESS, 0.2)], 0.2, max_depth=depth)
            result.calibration.save(tmp_path / f"{depth}.json")
            made[depth] = Calibration.load(tmp_path / f"{depth}.json")
            assert made[depth].feasible
        models = {depth: replace(draft, max_depth=depth) for depth in (0, 1, 2)}
        for depth, model in models.items():
            for of, calibration in made.items():
                if of == depth:
                    continue
                with pytest.raises(CalibrationMismatch, match=f"max_depth: calibrated for {of}, in use is {depth}"):
                    Funnel(model, agent, calibration)
        with pytest.raises(CalibrationMismatch, match="look_prompt"):
            Funnel(replace(models[1], look_prompt="Where? JSON with bbox_2d."), agent, made[1])
        hard = [sample for sample in samples if sample.tool_helps and len(sample.boxes) == 1][:5]
        for depth, route, reason in (
            (0, Route.AGENT, Reason.TOOL_WOULD_HELP),
            (1, Route.DRAFT, Reason.ACCEPTED_CLOSER),
        ):
            funnel = Funnel(models[depth], agent, made[depth])
            answers = await funnel.answer_many(sample.query() for sample in hard)
            assert {(answer.route, answer.trace.reason) for answer in answers} == {(route, reason)}
            assert [answer.text for answer in answers] == [sample.gold for sample in hard]
