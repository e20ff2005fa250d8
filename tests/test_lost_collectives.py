"""Collectives that some ranks lost: which ones are paired, and what is said of the rest; in µs."""

from __future__ import annotations

from ranks import comm, rank, report


def told_first(made):
    return {
        each.rank: each.message.partition("(the first: ")[2].partition(")")[0]
        for each in made.run.warnings
        if each.code == "unmatched_collectives"
    }


def test_the_first_without_a_partner_is_named_in_the_order_of_the_rank():
    """Numbers of rank 1 are one behind, so no sizes agree; its first has no partner, either."""
    sizes = [4000, 8000, 12_000, 16_000, 20_000, 24_000]
    marks = [(at * 200, at * 200 + 200, at + 1) for at in range(3)]
    made = report(
        *(
            rank(
                number,
                *(
                    comm(at * 100 + 10, at * 100 + 50, size=size, seq=at + 5 - number, group="0")
                    for at, size in enumerate(sizes)
                ),
                marks=marks,
            )
            for number in (0, 1)
        )
    )
    assert told_first(made) == dict.fromkeys((0, 1), "all_reduce of 4,000 bytes in step 1")
