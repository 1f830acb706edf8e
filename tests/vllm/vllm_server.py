"""A model behind `vllm serve`, as a process of its own, and what it says of itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

PROGRAM = Path(sys.executable).with_name("vllm")
"""Of the environment that `make test-vllm` makes; elsewhere it is not there."""
MODELS = Path(__file__).parents[2] / "models" / "nano" / "hf"
BLOCK = 32
"""Tokens of a block of the prefix cache. On a processor the default is 128, and short prompts would find nothing."""
CONTEXT = 2048
AT_A_TIME = 8
"""Requests that are worked on; more wait."""
FLAGS = (
    "--dtype=float32",
    f"--max-model-len={CONTEXT}",
    f"--max-num-seqs={AT_A_TIME}",
    f"--block-size={BLOCK}",
    "--max-logprobs=65",
    "--enable-prompt-tokens-details",
    '--limit-mm-per-prompt={"image": 12, "video": 0}',
    "--enforce-eager",  # compiling would take longer than all that is asked here
)
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    # Two servers share the cores, maybe with others: threads that wait for each other at every step would be slower.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
START_S = 900.0
END_S = 30.0
"""Seconds after which a start, or an end, has hung: no measure of speed."""


@dataclass
class VllmServer:
    """A server of one of the nano models.

    Attributes:
        name: `draft` or `agent`; the server knows it as `nano-draft` or `nano-agent`.
        url: Its base, without `/v1`.
        process: The API server. What it starts is of its process group.
        log: What it has said.
    """

    name: str
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, folder: Path) -> Self:
        """Start it, and do not wait; its log goes to the folder."""
        port, log = _free_port(), folder / f"vllm-{name}.log"
        command = [str(PROGRAM), "serve", str(MODELS / name), f"--served-model-name=nano-{name}"]
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*command, "--host=127.0.0.1", f"--port={port}", *FLAGS],
                cwd=folder,  # in `tests` it would take the folder of this file for its own package
                env=os.environ | ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(name, f"http://127.0.0.1:{port}", process, log)

    def until_ready(self) -> None:
        """Raises RuntimeError, with the end of its log, where it ends before, or takes for ever."""
        deadline = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/health", timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        end = self.log.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"`vllm serve` of the nano {self.name} did not come up; its log ends with\n{end}")

    def stop(self) -> None:
        """End it and all that it has started, by their process group, which is its own."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        with suppress(ProcessLookupError):  # all are gone
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    async def metric(self, name: str) -> int:
        """The value of one of vLLM's own metrics."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            lines = (await http.get(f"{self.url}/metrics")).text.splitlines()
        (value,) = (line.rpartition(" ")[2] for line in lines if line.startswith(f"vllm:{name}{{"))
        return int(float(value))

    async def tokens(self, text: str) -> int:
        """How many tokens a text has."""
        body = {"prompt": text, "add_special_tokens": False}
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            return int((await http.post(f"{self.url}/tokenize", json=body)).json()["count"])


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])
