"""A threshold together with everything that it holds for.

The same draft scores differently with another K, aggregate, model or prompt, so a threshold is never a bare
number. It travels in a `Calibration`, and the gate refuses one that was made for something else.

A calibration's file is JSON with a digest over its content. The digest guards against slips (an edited
threshold, a bad merge, a torn download); it is no signature: whoever wants to deceive can compute it too.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from speceyes.errors import CalibrationMismatch, ConfigError
from speceyes.gating.evidence import (
    CertifiedThreshold,
    Count,
    Interval,
    OpenShare,
    Promise,
    Share,
    Traffic,
    check_evidence,
)
from speceyes.gating.scores import find_score
from speceyes.gating.strict_json import read_object

FORMAT: Final = 3
"""Version of the file's layout. Files of earlier formats are still read. A calibration without the fields that came
with a format is written in the one before, and keeps the digest that it always had."""
MANUAL: Final = "manual"

BOUND_FIELDS: Final = (
    "score",
    "k",
    "aggregate",
    "logprob_mode",
    "draft_model",
    "agent_model",
    "draft_prompt",
    "look_prompt",
    "screen_prompt",
    "agent_prompt",
    "max_depth",
)
"""The fields that tie a calibration to what it was made with."""

_SINCE_2: Final = ("n_tuning", "promises", "certified", "interval", "traffic")
_SINCE_3: Final = ("max_depth", "look_prompt")

_Name = Annotated[str, Field(min_length=1)]


def fingerprint(*texts: str) -> str:
    """`sha256:` and the hex digest of one or several texts; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for text in texts:
        # surrogatepass: a prompt read with undecodable bytes still has a fingerprint.
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return f"sha256:{digest.hexdigest()}"


class Calibration(BaseModel):
    """A gate's setting and the evidence for it. Frozen; unknown fields and wrong values raise ConfigError."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    score: str = "separability"
    """A key of `SCORES`."""
    k: Count = 64
    """Log-probs of each token that the score uses."""
    aggregate: str = "min"
    threshold: float | None
    """A draft passes where its score is at least this. On the raw score, not the squashed one. None: no
    threshold carries the guarantee, and the gate accepts nothing."""
    screen_threshold: Share = 0.5
    """The greatest help probability of phase I with which a draft still passes."""

    draft_model: _Name | None = None
    """Fingerprint of the draft model: its name, better with a hash of the weights. None binds to no model,
    which only a manual calibration may; so with the fields that follow."""
    agent_model: _Name | None = None
    draft_prompt: _Name | None = None
    """`fingerprint` of the prompt texts."""
    screen_prompt: _Name | None = None
    agent_prompt: _Name | None = None
    max_depth: Annotated[int, Field(ge=0)] | None = None
    """How often the draft model may look closer by itself before the agent is asked. None: never, but for a manual
    calibration, which does not say."""
    look_prompt: _Name | None = None
    """`fingerprint` of how it is asked to; None where it never is."""
    logprob_mode: _Name | None = None
    """`raw` (before temperature and the like) or `processed`, where the server's mode is known."""
    data: _Name | None = None
    """Hash of the calibration records."""

    method: _Name
    """How the threshold was found; `manual` where a person set it."""
    n: Count = 0
    """Records looked at."""
    accepted: Count = 0
    """Records that the gate accepts at this threshold."""
    risk: Share | None = None
    """Share of the accepted records that lost, by the first of the promises; without any, that lost against the
    agent. So the fields that follow."""
    alpha: OpenShare | None = None
    """The greatest loss that was to be tolerated. With confidence 1 - delta, this is kept."""
    delta: OpenShare | None = None
    """The greatest chance that the guarantee is wrong."""
    bound: Share | None = None
    """Upper confidence bound of the loss at this threshold, taken by itself: how much room alpha leaves."""
    interval: Interval | None = None
    """Two-sided confidence interval (1 - delta) of the loss at this threshold, taken by itself."""
    n_tuning: Count = 0
    """Further records, not among `n`, that chose the thresholds to be tested."""
    promises: Annotated[tuple[Promise, ...], Field(strict=False)] = ()
    """The risks that keep their limits, all at once."""
    certified: Annotated[tuple[CertifiedThreshold, ...], Field(strict=False)] = ()
    """Every threshold that passed, strictest first. All of them keep the promises, all at once, so a gate may move
    between them. It starts at the last one, which accepts the most."""
    traffic: Traffic | None = None
    """What else the records looked like, to be compared with the traffic in service."""
    created: str = Field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    """Day of making, YYYY-MM-DD, UTC."""
    notes: str = ""

    if not TYPE_CHECKING:  # the type checker sees the fields as parameters; at run time errors become ours

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ConfigError(f"This calibration is not valid: {_problems(error)}") from error

    @field_validator("created")
    @classmethod
    def _is_a_day(cls, value: str) -> str:
        if date.fromisoformat(value).isoformat() != value:
            raise ValueError("write the day as YYYY-MM-DD")
        return value

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        try:
            score = find_score(self.score, self.aggregate)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        if self.k < score.min_k:
            raise ValueError(f"the score {self.score!r} needs k >= {score.min_k}, this says {self.k}")
        if self.accepted > self.n:
            raise ValueError(f"accepted ({self.accepted}) is larger than n ({self.n})")
        check_evidence(self.promises, self.certified)
        if self.certified and self.threshold is not None and self.evidence is None:
            raise ValueError(f"the threshold {self.threshold} is not among the certified ones")
        if self.promises and self.promises[0].alpha != self.alpha:
            raise ValueError(f"alpha ({self.alpha}) is not that of the first promise ({self.promises[0].alpha})")
        if self.method == MANUAL:
            promised = [name for name in ("risk", "alpha", "delta", "bound") if getattr(self, name) is not None]
            if promised or self.threshold is None:
                raise ValueError(
                    "a manual calibration has a threshold and promises nothing: "
                    f"{', '.join(promised) or 'threshold'} {'must be left out' if promised else 'is missing'}"
                )
            return self
        unbound = [
            name for name in ("draft_model", "agent_model", "draft_prompt", "data") if getattr(self, name) is None
        ]
        if unbound or self.n == 0:
            missing = ", ".join([*unbound, *["n"] * (self.n == 0)])
            raise ValueError(f"a calibration that was not set by hand also names {missing}")
        return self

    @classmethod
    def manual(
        cls,
        threshold: float,
        *,
        score: str = "separability",
        k: int = 64,
        aggregate: str = "min",
        screen_threshold: float = 0.5,
        draft_model: str | None = None,
        agent_model: str | None = None,
        notes: str = "",
    ) -> Calibration:
        """A threshold set by hand. It promises nothing.

        `threshold` is on the raw score; for one on the published scale pass `unsquash(0.98)`. Raises
        ConfigError.
        """
        return cls(
            threshold=threshold,
            score=score,
            k=k,
            aggregate=aggregate,
            screen_threshold=screen_threshold,
            draft_model=draft_model,
            agent_model=agent_model,
            method=MANUAL,
            notes=notes,
        )

    @property
    def feasible(self) -> bool:
        """False where the gate must accept nothing."""
        return self.threshold is not None

    @property
    def squashed_threshold(self) -> float | None:
        """The threshold between 0 and 1, on the scale of `Confidence.squashed`."""
        if self.threshold is None:
            return None
        return float(find_score(self.score, self.aggregate).squash(self.threshold))

    @property
    def digest(self) -> str:
        """Hash of the content; two calibrations with the same one are the same."""
        return _digest(self._content())

    @property
    def evidence(self) -> CertifiedThreshold | None:
        """What the threshold was certified on; None where the file does not say."""
        return next((passed for passed in self.certified if passed.threshold == self.threshold), None)

    def tightened(self) -> Calibration:
        """The same with the next stricter certified threshold, or with none, and then the gate accepts nothing.

        The guarantee stays: it covers all certified thresholds at once. Raises ConfigError for one that was set by
        hand, which has no guarantee to keep.
        """
        stricter = [c for c in self.certified if self.threshold is not None and c.threshold > self.threshold]
        content = {name: getattr(self, name) for name in type(self).model_fields}
        if not stricter:
            return Calibration(
                **content | {"threshold": None, "accepted": 0, "risk": None, "bound": None, "interval": None}
            )
        return Calibration(**content | stricter[-1].summary())

    def _content(self) -> dict[str, Any]:
        content = self.model_dump()
        for since, names in ((2, _SINCE_2), (3, _SINCE_3)):
            if self._format < since:
                for name in names:
                    del content[name]
        return content

    @property
    def _format(self) -> int:
        """The earliest that has all fields that are set."""
        if any(getattr(self, name) for name in _SINCE_3):
            return 3
        return 2 if any(getattr(self, name) for name in _SINCE_2) else 1

    def check(self, **in_use: str | int | None) -> None:
        """Refuse any other use than the one that this was made for.

        Args:
            in_use: What is in use, under the names in `BOUND_FIELDS`. Fields that are not named are not
                compared, and neither are fields that this calibration leaves open (None).

        Raises:
            CalibrationMismatch: Names every field that differs, what was expected and what was found.
            ConfigError: A name that is not in `BOUND_FIELDS`.
        """
        unknown = sorted(set(in_use) - set(BOUND_FIELDS))
        if unknown:
            raise ConfigError(
                f"A calibration is not bound to {', '.join(unknown)}. It can be checked for: {', '.join(BOUND_FIELDS)}."
            )
        bound = {name: getattr(self, name) for name in BOUND_FIELDS if name in in_use}
        if "max_depth" in bound and self.method != MANUAL:  # what does not say is not open here: it is from a glance
            bound["max_depth"], in_use["max_depth"] = self.max_depth or 0, in_use["max_depth"] or 0
        differing = [
            f"  {name}: calibrated for {expected!r}, in use is {in_use[name]!r}"
            for name, expected in bound.items()
            if expected is not None and expected != in_use[name]
        ]
        if differing:
            raise CalibrationMismatch(
                "\n".join(
                    [
                        f"This calibration ({self.method}, {self.created}) was made for something else:",
                        *differing,
                        "Its threshold means nothing here. Calibrate for what is in use, or use what it was made for.",
                    ]
                )
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON in one step: a reader sees the old file or the new. ConfigError where that fails."""
        target = Path(path)
        content = {"format": self._format, **self._content(), "digest": self.digest}
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            partial.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise ConfigError(f"Cannot write the calibration {target}: {error.strerror or error}.") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what `save` wrote. ConfigError where it is missing, damaged, edited, or of another format."""
        source = Path(path)
        content = read_object(source, "calibration")
        if content.get("format") not in range(1, FORMAT + 1):
            raise ConfigError(
                f"The calibration {source} has the format {content.get('format')!r}; "
                f"this version reads 1 to {FORMAT}. Use the version that made it, or calibrate again."
            )
        written = content.pop("digest", None)
        del content["format"]
        if written != _digest(content):
            raise ConfigError(
                f"The calibration {source} was changed after it was made: its content does not match its "
                "digest. Restore the file or calibrate again. To set a threshold by hand, use "
                "Calibration.manual(...), which promises nothing."
            )
        try:
            return cls(**content)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from error


def _digest(content: dict[str, Any]) -> str:
    return fingerprint(json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False))


def _problems(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"])
        what = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{where}: {what}" if where else what)
    return "; ".join(lines).removesuffix(".") + "."
