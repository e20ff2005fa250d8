"""Sizes and bandwidths of collectives, held against the formulas of NCCL's own tests."""

from __future__ import annotations

import pytest
from ranks import comm, rank, report
from traces import Kineto

from ddptrace import analyze, load_run
from ddptrace.kernels import whole_elements
from ddptrace.model import Group

MB = 10**6


def eight(**told):
    """State 8 ranks with one collective that takes 1 ms on the fastest of them."""
    group = Group("0", tuple(range(8)), 8)
    return report(
        *(rank(number, comm(number * 10, 1070, group=group, **told)) for number in range(8))
    ).collectives[0]


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("all_reduce", 2 * 7 / 8),
        ("all_gather", 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_to_all", 7 / 8),
        ("gather", 7 / 8),
        ("scatter", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
    ],
)
def test_the_bus_bandwidth_is_that_of_nccl_tests(operation, factor):
    """80 MB in 1 ms are 80 GB/s."""
    found = eight(op=operation, size=80 * MB)
    assert found.transfer_ns == 1_000_000
    assert found.algbw_gb_s == pytest.approx(80)
    assert found.busbw_gb_s == pytest.approx(80 * factor)


@pytest.mark.parametrize(
    ("operation", "parts"),
    [
        ("all_reduce", 1),
        ("broadcast", 1),
        ("all_gather", 8),
        ("reduce_scatter", 8),
        ("all_to_all", 8),
    ],
)
def test_where_a_call_is_given_a_part_the_whole_is_that_of_all_ranks(operation, parts):
    assert eight(op=operation, part=10 * MB).size_bytes == parts * 10 * MB


def test_a_part_of_an_unknown_number_of_ranks_tells_no_size():
    group = Group("communicator 0x1")
    made = report(
        *(rank(number, comm(0, 10, op="all_gather", part=MB, group=group)) for number in (0, 1)),
        world_size=3,
    )
    assert (made.collectives[0].size_bytes, made.collectives[0].group_size) == (None, None)


def test_what_has_no_factor_or_no_size_has_no_bandwidth():
    assert eight(op="barrier", size=4).busbw_gb_s is None
    assert eight(op="all_reduce").algbw_gb_s is None
    assert eight(op="all_reduce", size=0).algbw_gb_s is None


def test_a_transfer_of_two_ranks_counts_once():
    pair = Group("pp", (0, 1), 2)
    (found,) = report(
        rank(0, comm(0, 1000, op="send", destination=1, size=MB, group=pair)),
        rank(1, comm(0, 1000, op="recv", source=0, size=MB, group=pair)),
    ).collectives
    assert found.busbw_gb_s == found.algbw_gb_s == pytest.approx(1)


# --- what PyTorch's metadata tells


@pytest.mark.parametrize(
    ("operation", "given", "received", "whole"),
    [
        ("all_reduce", 100, 100, 100),
        ("all_gather", 100, 400, 400),
        ("all_gather", 100, -1, 400),
        ("all_gather", -1, 400, 400),
        ("all_gather", 90, 400, 400),  # the others' parts are larger
        ("reduce_scatter", 400, 100, 400),
        ("reduce_scatter", -1, 100, 400),
        ("gather", 100, 0, 400),  # not the root: nothing comes in
        ("scatter", 0, 100, 400),
        ("all_to_all", 400, 400, 400),
        ("broadcast", 100, 100, 100),
        (None, 100, -1, 100),
        ("all_reduce", -1, -1, None),
    ],
)
def test_the_whole_array_of_four_ranks(operation, given, received, whole):
    assert whole_elements(operation, given, received, 4) == whole


def metadata(**changed):
    told = {
        "Collective name": "allreduce",
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
        "dtype": "BFloat16",
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    return told | {name.replace("_", " "): value for name, value in changed.items()}


def read(folder, *calls, config=None):
    for number in (0, 1):
        kineto = Kineto(rank=number).step(1, 0, 1000).gpu(0, 50)
        if config is not None:
            kineto.header["distributedInfo"]["pg_config"] = config
        for at, args in enumerate(calls):
            kineto.comm(100 * at + 100, 100 * at + 150, **args)
        kineto.write(folder / f"rank{number}.json")
    return analyze(load_run(folder))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("BFloat16", 2000),
        ("Half", 2000),
        ("Float", 4000),
        ("Double", 8000),
        ("Byte", 1000),
        ("?", None),
    ],
)
def test_bytes_are_elements_times_the_size_of_their_type(tmp_path, dtype, size):
    assert read(tmp_path, metadata(dtype=dtype)).collectives[0].size_bytes == size


@pytest.mark.parametrize("count", [None, "many", -4, 1.5, [7], 1 << 80])
def test_counts_that_are_none_tell_no_size(tmp_path, count):
    args = metadata() | {"In msg nelems": count, "Out msg nelems": count}
    assert read(tmp_path, args).collectives[0].size_bytes is None


def test_counts_may_be_texts(tmp_path):
    args = metadata() | {"In msg nelems": "1000", "Out msg nelems": "1000", "Group size": "2"}
    (found,) = read(tmp_path, args).collectives
    assert (found.size_bytes, found.group_size) == (2000, 2)


def test_a_list_of_ranks_that_was_cut_short_is_looked_up_in_the_header(tmp_path):
    config = [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}]
    args = metadata() | {"Process Group Ranks": "[0, ..., 1]"}
    (found,) = read(tmp_path, args, config=config).collectives
    assert (found.group, found.group_size, len(found.ranks)) == ("0", 2, 2)


def test_without_metadata_the_group_is_the_only_one_of_the_header(tmp_path):
    one = [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}]
    two = [*one, {"pg_name": "1", "pg_size": 1, "ranks": [0]}]
    assert read(tmp_path / "one", {}, config=one).collectives[0].group == "0"
    assert read(tmp_path / "two", {}, config=two).collectives[0].group is None


@pytest.mark.parametrize(
    "config", ["no list", [1, None], [{"pg_name": None}], [{"pg_name": "0", "ranks": "x"}]]
)
def test_a_list_of_groups_that_cannot_be_read_tells_nothing(tmp_path, config):
    assert read(tmp_path, {}, config=config).collectives[0].transfer_ns == 50_000


def test_sequence_numbers_and_partners_are_read(tmp_path):
    told = {"Collective name": "send", "Dst Rank": 1, "Seq": 4}
    kineto = Kineto(rank=0).step(1, 0, 1000).gpu(0, 50)
    kineto.comm(100, 150, **metadata() | told).write(tmp_path / "rank0.json")
    (trace,) = load_run(tmp_path).traces
    table = trace.collectives
    assert (table.sequence[0], table.source[0], table.destination[0]) == (4, -1, 1)
    assert trace.names[table.operation[0]] == "send"
