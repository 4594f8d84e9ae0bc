"""What a trace shows of a run without a word in the script: phases, steps, figures, operators."""

from .session import Session
from .settings import Settings

__all__ = ["Session", "Settings"]
