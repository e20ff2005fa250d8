"""The names of a file's events, asked once each however many events carry them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import Patterns, is_comm_name


@dataclass(frozen=True, slots=True)
class Names:
    """The distinct names of a file; their positions are the codes in its tables."""

    texts: tuple[str, ...]

    def where(self, question: Callable[[str], bool], codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return for each code whether its name answers the question with yes."""
        answers = np.array([question(text) for text in self.texts], np.bool_)
        if not answers.any():
            return np.zeros(codes.size, np.bool_)
        return answers[codes]


def comm_rows(names: Names, name: NDArray[np.int32], patterns: Patterns) -> NDArray[np.bool_]:
    """Tell which kernels are communication: by their own name, or because the user says so."""

    def is_comm(text: str) -> bool:
        return is_comm_name(text) or any(pattern.search(text) for pattern in patterns)

    return names.where(is_comm, name)
