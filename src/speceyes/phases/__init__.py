"""The four phases and nothing else: screen, speculate, gate, fall back."""

from speceyes.phases.fall_back import AgentModel, fall_back
from speceyes.phases.gate import gate, gate_screening
from speceyes.phases.screen import screen
from speceyes.phases.speculate import DraftModel, speculate, speculate_closer

__all__ = ["AgentModel", "DraftModel", "fall_back", "gate", "gate_screening", "screen", "speculate", "speculate_closer"]
