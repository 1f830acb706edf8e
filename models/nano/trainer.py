"""The training loop: one-cycle AdamW, progress on the screen, a checkpoint that a killed run resumes from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import replicas
import torch
from torch import Tensor, nn

StepLoss = Callable[[int], dict[str, Tensor]]
"""Step number to named losses; their sum is minimised."""


def train(
    name: str,
    modules: nn.Module,
    groups: list[dict],
    losses: StepLoss,
    *,
    steps: int,
    folder: Path,
    evaluate: Callable[[], str] | None = None,
    evaluate_every: int = 500,
    warmup: float = 0.05,
) -> None:
    """Run `steps` steps, or what is left of them, and save the weights as `folder/name.pt`.

    Args:
        name: Name of the stage; its checkpoint is `folder/name.checkpoint.pt`.
        modules: What is trained and saved.
        groups: AdamW parameter groups, each with its peak `lr`.
        losses: Computes the losses of a step. It must draw its batch from the step and the replica's number alone, so
            that a resumed run sees the batches that the broken one would have seen.
    """
    final, checkpoint = folder / f"{name}.pt", folder / f"{name}.checkpoint.pt"
    if final.exists():
        modules.load_state_dict(torch.load(final))
        _say(f"{name}: done before, loaded {final}")
        return
    optimizer = torch.optim.AdamW(groups, weight_decay=0.02, betas=(0.9, 0.98))
    peaks = [group["lr"] for group in optimizer.param_groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peaks, total_steps=steps, pct_start=warmup)
    start = 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        modules.load_state_dict(state["modules"])
        optimizer.load_state_dict(state["optimizer"])
        # only where it was, not how long it was to be: a resumed run may be given another number of steps
        schedule.load_state_dict({k: state["schedule"][k] for k in ("last_epoch", "_step_count")})
        start = state["step"]
        _say(f"{name}: resume at step {start}")
    replicas.align(modules)
    weights = [p for group in groups for p in group["params"]]
    smooth: dict[str, float] = {}
    began = saved = time.monotonic()
    for step in range(start, steps):
        terms = losses(step)
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        replicas.average_gradients(weights)
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        for key, value in terms.items():
            smooth[key] = 0.96 * smooth.get(key, value.item()) + 0.04 * value.item()
        now = time.monotonic()
        if step % 50 == 49 or step == start:
            rate = (now - began) / (step + 1 - start)
            left = (steps - step - 1) * rate / 60
            shown = " ".join(f"{k} {v:.3f}" for k, v in smooth.items())
            _say(f"{name} {step + 1}/{steps}  {shown}  {rate:.2f} s/step  {left:.1f} min left")
        if replicas.rank() > 0:
            continue
        if evaluate and (step + 1) % evaluate_every == 0:
            _say(f"{name} {step + 1}  {evaluate()}")
        if now - saved > 120:
            _save(checkpoint, modules, optimizer, schedule, step + 1)
            saved = now

    def finish() -> None:
        _save_to(final, modules.state_dict())
        checkpoint.unlink(missing_ok=True)

    replicas.first_alone(finish)


def _say(line: str) -> None:
    if replicas.rank() == 0:
        print(line, flush=True)


def _save(path: Path, modules: nn.Module, optimizer: object, schedule: object, step: int) -> None:
    state = {
        "modules": modules.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "step": step,
    }
    _save_to(path, state)


def _save_to(path: Path, state: object) -> None:
    # a kill while writing must not cost the checkpoint that was there
    fresh = path.with_suffix(".writing")
    torch.save(state, fresh)
    os.replace(fresh, path)
