"""A calibration survives its file, refuses edits, and refuses what it was not made for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from speceyes.engines.nano import nano_files
from speceyes.errors import CalibrationMismatch, ConfigError
from speceyes.gating import SCORES, Calibration, fingerprint, squash, unsquash
from speceyes.gating.calibration import BOUND_FIELDS
from speceyes.gating.evidence import CertifiedThreshold, Promise, Traffic

PROMPT = fingerprint("You answer from the image.", "Answer:")


CERTIFIED = (
    {
        "threshold": 8.0,
        "accepted": 200,
        "losses": (0, 9),
        "bounds": (0.015, 0.08),
        "intervals": ((0, 0.02), (0.02, 0.09)),
    },
    {
        "threshold": 6.5,
        "accepted": 420,
        "losses": (3, 20),
        "bounds": (0.018, 0.07),
        "intervals": ((0.002, 0.02), (0.03, 0.08)),
    },
)
PROMISES = ({"risk": "excess", "alpha": 0.02}, {"risk": "error", "alpha": 0.1})


def certified(**changes):
    """A calibration of format 2, with two promises and two certified thresholds."""
    fields = {
        "promises": tuple(Promise(**promise) for promise in PROMISES),
        "certified": tuple(CertifiedThreshold(**passed) for passed in CERTIFIED),
        "risk": 3 / 420,
        "bound": 0.018,
        "interval": (0.002, 0.02),
        "n_tuning": 250,
        "traffic": Traffic(screened=600, score_edges=(3.0, 5.0), score_counts=(200, 200, 190, 10)),
    }
    return made(**{**fields, **changes})


def made(**changes):
    fields = {
        "score": "separability",
        "k": 64,
        "aggregate": "min",
        "threshold": 6.5,
        "draft_model": "nano-draft@sha256:aa",
        "agent_model": "nano-agent@sha256:bb",
        "draft_prompt": PROMPT,
        "screen_prompt": fingerprint("Would a tool help?"),
        "agent_prompt": fingerprint("Use the tool."),
        "logprob_mode": "raw",
        "data": fingerprint("rows"),
        "method": "fixed-sequence",
        "n": 800,
        "accepted": 420,
        "risk": 0.01,
        "alpha": 0.02,
        "delta": 0.05,
        "bound": 0.019,
        "created": "2026-03-31",
        "notes": "calibration split, seed 7",
    }
    return Calibration(**{**fields, **changes})


def looking(**changes):
    """One for a draft model that may look closer by itself."""
    return made(max_depth=1, look_prompt=fingerprint("Where must one look?"), **changes)


def in_use(**changes):
    calibration = looking()
    return {**{name: getattr(calibration, name) for name in BOUND_FIELDS}, **changes}


def rewrite(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}))


@pytest.mark.parametrize(
    "calibration",
    [made(), certified(), certified(threshold=None), made(threshold=None, accepted=0), Calibration.manual(4.0)],
)
def test_survives_its_file(tmp_path, calibration):
    calibration.save(tmp_path / "gate.json")
    loaded = Calibration.load(tmp_path / "gate.json")
    assert loaded == calibration
    assert loaded.digest == calibration.digest
    assert [path.name for path in tmp_path.iterdir()] == ["gate.json"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(st.characters(codec="utf-8"), max_size=20))
def test_survives_to_the_last_bit(tmp_path_factory, threshold, notes):
    path = tmp_path_factory.mktemp("calibration") / "gate.json"
    calibration = made(threshold=threshold, notes=notes)
    calibration.save(path)
    loaded = Calibration.load(path)
    assert loaded == calibration
    assert repr(loaded.threshold) == repr(calibration.threshold)


def test_the_file_is_strict_json_that_people_can_read(tmp_path):
    made().save(tmp_path / "gate.json")
    text = (tmp_path / "gate.json").read_text()
    assert '\n  "threshold": 6.5,\n' in text
    assert json.loads(text, parse_constant=pytest.fail)["format"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 1.0},
        {"threshold": None},
        {"k": 20},
        {"notes": "x"},
        {"digest": "sha256:00"},
        {"extra": 1},
    ],
)
def test_an_edited_file_is_refused_with_the_way_out(tmp_path, changes):
    path = tmp_path / "gate.json"
    made().save(path)
    rewrite(path, **changes)
    with pytest.raises(ConfigError, match=r"gate.json was changed after.*Calibration\.manual"):
        Calibration.load(path)


def test_a_removed_digest_is_no_way_around(tmp_path):
    path = tmp_path / "gate.json"
    made().save(path)
    content = json.loads(path.read_text())
    del content["digest"]
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="digest"):
        Calibration.load(path)


def test_spaces_and_order_do_not_count_as_edits(tmp_path):
    path = tmp_path / "gate.json"
    made().save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(content.items()))))
    assert Calibration.load(path) == made()


def test_a_file_of_another_format_is_named_as_such(tmp_path):
    path = tmp_path / "gate.json"
    made().save(path)
    for other in (0, 4, "2", None):
        rewrite(path, format=other)
        with pytest.raises(ConfigError, match="this version reads 1 to 3"):
            Calibration.load(path)


def test_what_needs_no_format_2_is_written_as_before(tmp_path):
    """Byte for byte the digest that files of format 1 hold, so that older files and versions go on."""
    path = tmp_path / "gate.json"
    made().save(path)
    content = json.loads(path.read_text())
    assert content["format"] == 1
    assert not {"promises", "certified", "traffic", "interval", "n_tuning"} & set(content)
    assert Calibration.load(path).digest == content["digest"]
    certified().save(path)
    assert json.loads(path.read_text())["format"] == 2


def test_the_file_that_comes_with_the_nano_pair_is_read():
    shipped = nano_files().draft.parent / "calibration.json"
    assert Calibration.load(shipped).digest == json.loads(shipped.read_text())["digest"]


def test_the_evidence_is_that_of_the_threshold():
    assert certified().evidence.losses == (3, 20)
    assert certified().evidence == certified().certified[-1]
    assert made().evidence is None


def test_tightening_goes_through_the_certified_thresholds_and_ends_at_none():
    once = certified().tightened()
    assert (once.threshold, once.accepted, once.risk, once.bound) == (8.0, 200, 0.0, 0.015)
    assert once.interval == (0.0, 0.02)
    assert once.promises == certified().promises
    twice = once.tightened()
    assert (twice.threshold, twice.accepted, twice.risk, twice.feasible) == (None, 0, None, False)
    assert twice.tightened() == twice
    assert made().tightened().threshold is None
    assert twice.check(**{name: getattr(made(), name) for name in BOUND_FIELDS}) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"threshold": 7.0}, "not among the certified"),
        ({"alpha": 0.03}, "first promise"),
        ({"promises": ()}, "nothing that they promise"),
        ({"promises": (Promise(**PROMISES[0]),)}, "one value for each promise"),
        ({"promises": (Promise(**PROMISES[0]),) * 2}, "promised twice"),
        ({"certified": tuple(CertifiedThreshold(**passed) for passed in reversed(CERTIFIED))}, "strictest first"),
        (
            {"threshold": 8.0, "certified": (CertifiedThreshold(**{**CERTIFIED[0], "losses": (0, 201)}),)},
            "loses more than it accepts",
        ),
        ({"certified": ({"threshold": 6.5},)}, "certified.0.accepted"),
        ({"promises": ({"risk": "regret", "alpha": 0.02},)}, "promises.0.risk"),
    ],
)
def test_evidence_that_contradicts_itself(changes, says):
    with pytest.raises(ConfigError, match=says):
        certified(**changes)


def test_an_edited_certified_threshold_is_noticed(tmp_path):
    path = tmp_path / "gate.json"
    certified().save(path)
    content = json.loads(path.read_text())
    content["certified"][0]["losses"] = [0, 0]
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="was changed after"):
        Calibration.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1, "threshold": NaN}',
        '{"format": 1, "threshold": 1e999}',
        '{"format": 1, "threshold": 1.0, "threshold": 9.0}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_damaged_files(tmp_path, text):
    path = tmp_path / "gate.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"gate\.json"):
        Calibration.load(path)


def test_no_file_and_no_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"Cannot read.*none\.json.*No such file"):
        Calibration.load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="Cannot write"):
        made().save(tmp_path / "missing" / "gate.json")


def test_check_passes_what_it_was_made_for():
    looking().check(**in_use())
    made().check(k=64)


@pytest.mark.parametrize("name", BOUND_FIELDS)
def test_check_refuses_each_difference(name):
    for other in ("something else", None):
        with pytest.raises(CalibrationMismatch, match=name):
            looking().check(**in_use(**{name: other}))


def test_check_names_every_field_that_differs():
    with pytest.raises(CalibrationMismatch) as caught:
        looking().check(**in_use(k=20, draft_model="other", score="margin"))
    message = str(caught.value)
    assert "k: calibrated for 64, in use is 20" in message
    assert "draft_model: calibrated for 'nano-draft@sha256:aa', in use is 'other'" in message
    assert "score: calibrated for 'separability', in use is 'margin'" in message
    assert "agent_model" not in message


def test_check_knows_its_names():
    with pytest.raises(ConfigError, match="not bound to colour"):
        made().check(colour="red")


def test_a_manual_threshold_binds_to_k_score_and_aggregate_only():
    calibration = Calibration.manual(unsquash(0.98), k=20)
    assert calibration.method == "manual"
    assert calibration.squashed_threshold == pytest.approx(0.98)
    assert (calibration.n, calibration.alpha, calibration.bound) == (0, None, None)
    calibration.check(**in_use(k=20))
    with pytest.raises(CalibrationMismatch, match="k: "):
        calibration.check(k=64)
    with pytest.raises(CalibrationMismatch, match="draft_model"):
        Calibration.manual(4.0, draft_model="mine").check(draft_model="yours")


def test_infeasible():
    calibration = made(threshold=None, accepted=0, risk=None, bound=None)
    assert not calibration.feasible
    assert calibration.squashed_threshold is None
    assert made().feasible
    assert made().squashed_threshold == squash(6.5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": float("inf")}, "threshold"),
        ({"threshold": "6.5"}, "threshold"),
        ({"k": 2}, "k >= 3"),
        ({"k": -1}, "k"),
        ({"k": 64.0}, "k"),
        ({"score": "sep"}, "no score 'sep'"),
        ({"score": "margin", "aggregate": "log"}, "cannot be aggregated"),
        ({"accepted": 801}, r"accepted \(801\)"),
        ({"screen_threshold": 1.1}, "screen_threshold"),
        ({"alpha": 0.0}, "alpha"),
        ({"risk": -0.1}, "risk"),
        ({"created": "31.3.2026"}, "created"),
        ({"created": "20260331"}, "YYYY-MM-DD"),
        ({"colour": "red"}, "colour"),
        ({"draft_model": None, "n": 0, "accepted": 0}, "draft_model, n"),
        ({"draft_model": ""}, "draft_model"),
        ({"method": "manual"}, "promises nothing: risk, alpha, delta, bound"),
        (
            {
                "method": "manual",
                "threshold": None,
                "risk": None,
                "alpha": None,
                "delta": None,
                "bound": None,
            },
            "threshold is missing",
        ),
    ],
)
def test_wrong_values_are_config_errors(changes, says):
    with pytest.raises(ConfigError, match=says):
        made(**changes)


def test_it_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        made().threshold = 0.0


def test_a_new_one_is_dated_today():
    assert len(Calibration.manual(1.0).created) == len("2026-03-31")


@pytest.mark.parametrize("name", SCORES)
def test_every_score_can_be_calibrated(name):
    how = SCORES[name].aggregates[0]
    assert Calibration.manual(0.5, score=name, aggregate=how).squashed_threshold == SCORES[name].squash(0.5)


def test_fingerprints_tell_texts_apart():
    assert fingerprint("ab", "c") != fingerprint("a", "bc") != fingerprint("abc")
    assert fingerprint("ab") == fingerprint("ab")
    assert fingerprint("ab").startswith("sha256:")
    assert fingerprint("\udcff") != fingerprint("")


def test_what_does_not_say_how_deep_it_looks_was_made_from_a_glance():
    glance = made()
    glance.check(max_depth=0, look_prompt=None)
    with pytest.raises(CalibrationMismatch, match="max_depth: calibrated for 0, in use is 1"):
        glance.check(max_depth=1)
    looking().check(max_depth=1)
    Calibration.manual(2.0).check(max_depth=3)


def test_a_calibration_from_a_glance_is_written_as_it_always_was(tmp_path):
    made().save(tmp_path / "glance.json")
    looking().save(tmp_path / "closer.json")
    glance, closer = (json.loads((tmp_path / name).read_text()) for name in ("glance.json", "closer.json"))
    assert (glance["format"], closer["format"]) == (1, 3)
    assert "max_depth" not in glance
    assert Calibration.load(tmp_path / "closer.json").max_depth == 1
