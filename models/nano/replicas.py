"""Data-parallel training on the cores of one machine: a process a core, gradients averaged after each step.

Small matrices do not keep two threads busy, and threads wait for each other after every operation; replicas wait once
a step.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn


def rank() -> int:
    """Number of this replica; 0 also saves, evaluates and reports."""
    return dist.get_rank() if dist.is_initialized() else 0


def count() -> int:
    """How many replicas there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def launch(main: Callable[..., None], replicas: int, *arguments: object) -> None:
    """Run `main(*arguments)` in each of `replicas` processes."""
    if replicas == 1:
        main(*arguments)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(_start, (replicas, port, main, arguments), nprocs=replicas)


def _start(number: int, replicas: int, port: int, main: Callable[..., None], arguments: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=number, world_size=replicas)
    try:
        main(*arguments)
    finally:
        dist.destroy_process_group()


def first_alone(work: Callable[[], None]) -> None:
    """Let replica 0 do something that leaves files behind, while the others wait."""
    if rank() == 0:
        work()
    if count() > 1:
        dist.barrier()


def align(module: nn.Module) -> None:
    """Give all replicas the weights of replica 0."""
    if count() > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, 0)


def average_gradients(weights: Iterable[Tensor]) -> None:
    """Replace each gradient by its mean over the replicas."""
    if count() == 1:
        return
    held = [w for w in weights if w.requires_grad]
    flat = torch.cat([(w.grad if w.grad is not None else torch.zeros_like(w)).flatten() for w in held])
    dist.all_reduce(flat)
    flat /= count()
    at = 0
    for w in held:
        w.grad = flat[at : at + w.numel()].view_as(w)
        at += w.numel()
