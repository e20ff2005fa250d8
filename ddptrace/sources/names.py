"""The names of a file's events, asked once each however many events carry them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import Patterns, collective_operation, is_comm_name


@dataclass(frozen=True, slots=True)
class Names:
    """The distinct names of a file; their positions are the codes in its tables."""

    texts: tuple[str, ...]

    def where(self, question: Callable[[str], bool], codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return for each code whether its name answers the question with yes."""
        if not self.texts:
            return np.zeros(codes.size, np.bool_)
        return np.array([question(text) for text in self.texts], np.bool_)[codes]


def comm_rows(names: Names, name: NDArray[np.int32], patterns: Patterns) -> NDArray[np.bool_]:
    """Tell which kernels are communication: by their own name, or because the user says so."""

    def is_comm(text: str) -> bool:
        return is_comm_name(text) or any(pattern.search(text) for pattern in patterns)

    return names.where(is_comm, name)


def collective_codes(
    names: Names, name: NDArray[np.int32], told: NDArray[np.int32], words: Sequence[str | None]
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the code of each comm operation's collective, and the names behind `names` for them.

    `told` indexes `words`, the operations that the metadata tells; a code is -1 where neither they
    nor the name say which collective it is.
    """
    distinct, place = np.unique(np.stack((name, told), axis=1), axis=0, return_inverse=True)
    found = [collective_operation(names.texts[text], words[word]) for text, word in distinct]
    operations = tuple(dict.fromkeys(word for word in found if word is not None))
    codes = [-1 if word is None else len(names.texts) + operations.index(word) for word in found]
    return np.array(codes, np.int32)[place.reshape(-1)], operations
