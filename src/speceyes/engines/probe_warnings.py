"""From a probe's findings to sentences for the person who runs the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from speceyes.engines.findings import NOT_ASKED, Feature, Finding, Outcome


def warnings(findings: Sequence[Finding], model: str, k: int) -> list[str]:
    """What the gate with K log-probs, and the agent, need and do not get; the worst first."""
    by_feature = {finding.feature: finding for finding in findings}
    chat = by_feature[Feature.CHAT]
    said = [_models(by_feature[Feature.MODELS], model)]
    if chat.outcome is not Outcome.YES:
        said.append(f"The model does not answer: {chat.detail}")
    else:
        said.append(_logprobs(by_feature, k))
        said += [
            sentence(by_feature[feature])
            for feature, sentence in _SENTENCES.items()
            if by_feature[feature].outcome is Outcome.NO
        ]
        said += [_sentinels(by_feature[Feature.SENTINELS]), _cache_unknown(by_feature[Feature.PREFIX_CACHE])]
    return [sentence for sentence in said if sentence]


def _models(finding: Finding, model: str) -> str:
    if finding.outcome is not Outcome.NO:
        return ""
    return f"The server has no model named {model!r} in its list: {finding.detail}."


def _logprobs(by_feature: dict[Feature, Finding], k: int) -> str:
    sent, count = by_feature[Feature.LOGPROBS], by_feature[Feature.LOGPROB_COUNT]
    if sent.outcome is Outcome.NO:
        return (
            f"The server sends no log-probs ({sent.detail}): the gate can accept no draft, and every query "
            "goes to the agent. Take a server that sends `top_logprobs`; look for a proxy that drops them."
        )
    got = count.number
    if count.detail == NOT_ASKED:
        return ""
    if got is None:
        return f"How many log-probs the server sends is not known: {count.detail}."
    if got >= k:
        return ""
    if count.outcome is Outcome.YES:
        return f"Only {got} log-probs a token were tried, and the gate needs {k}: probe again with {k}."
    return (
        f"The gate needs {k} log-probs a token and gets {got} ({count.detail}). Start vLLM with "
        f"`--max-logprobs {k + 1}`, or use K = {got} with a calibration made for it."
    )


def _sentinels(finding: Finding) -> str:
    if finding.outcome is not Outcome.YES:
        return ""
    return f"Some log-probs are no numbers ({finding.detail}): the gate leaves them out and may find too few."


def _cache_unknown(finding: Finding) -> str:
    if finding.outcome is not Outcome.UNKNOWN or finding.detail == NOT_ASKED:
        return ""
    return (
        f"Whether the agent's image prefix is cached is not known ({finding.detail}). vLLM tells with "
        "`--enable-prompt-tokens-details`."
    )


_SENTENCES: dict[Feature, Callable[[Finding], str]] = {
    Feature.RAW_LOGPROBS: lambda finding: (
        f"The log-probs are processed ({finding.detail}), so scores change with the sampling options. "
        "Start vLLM with `--logprobs-mode raw_logprobs`."
    ),
    Feature.IMAGES: lambda finding: f"The model gets no image: {finding.detail}.",
    Feature.TWO_IMAGES: lambda finding: (
        f"Two images in a request do not work ({finding.detail}): the agent cannot see what its tool shows. "
        "vLLM allows more with `--limit-mm-per-prompt '{\"image\": 12}'`."
    ),
    Feature.TOOL_IMAGES: lambda finding: (
        "Images in tool messages do not work: use a dialect that sends them in a user message."
    ),
    Feature.PREFIX_CACHE: lambda finding: (
        f"The image is computed again for each question ({finding.detail}), so screening costs as much as a "
        "turn of the agent. vLLM caches with `--enable-prefix-caching`, in blocks of `--block-size` tokens "
        "(32 rather than 128 on CPU); llama.cpp needs enough slots."
    ),
    Feature.STOP: lambda finding: (
        f"Stop strings do not work ({finding.detail}): the agent would write its tool's results itself."
    ),
    Feature.CANCEL: lambda finding: (
        f"Cancelled requests run on ({finding.detail}): `hedged` plans and impatient clients cost full price."
    ),
    Feature.TOOLS_RENDERED: lambda finding: (
        f"Tools do not reach the prompt ({finding.detail}): the agent does not know that it may zoom. On "
        "vLLM leave `--exclude-tools-when-tool-choice-none` out, and look at the chat template."
    ),
}
