"""What the collectives library attaches to its NVTX ranges."""

from __future__ import annotations

import json
import struct
from contextlib import closing
from pathlib import Path

import pytest
from nsys_exports import Nsys, plain

from ddptrace import kernels
from ddptrace.sources.nsys_collectives import Payload, payload, read_schemas, told_rank
from ddptrace.sources.nsys_ranges import read_ranges
from ddptrace.sources.nsys_sqlite import SqliteStore

SCHEMA = 16777221
ENTRIES = (("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8), ("Root", 5, 16))


def binary(*values, schema=SCHEMA, count=1):
    """State a binary payload: how many, then schema, size and place, then the content."""
    content = struct.pack("<QQi4x", *values)
    return struct.pack("<QQQQ", count, schema, len(content), 32) + content


def with_schema(nsys, entries=ENTRIES, domain=1):
    for number, (name, kind, offset) in enumerate(entries):
        nsys.row(
            "NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=domain, schemaId=SCHEMA, idx=number,
            name=name, type=kind, offset=offset,
        )  # fmt: skip
    return nsys


def payloads(folder: Path, nsys: Nsys) -> list[Payload]:
    """Return what the ranges of the library in an export tell."""
    with closing(SqliteStore(nsys.write(folder / "rank0.sqlite"))) as store:
        schemas = read_schemas(store)
        ranges = read_ranges(store, kernels.step_range_patterns(None), usual=True)
        return [payload(one, schemas) for one in ranges if kernels.is_collective_range(one.name)]


def test_a_payload_as_json_tells_communicator_and_size(tmp_path):
    told = {"NCCL communicator ID": 1404042137466844913, "Message size [bytes]": 4194304}
    nsys = Nsys().range("ncclAllReduce", 0, 9, jsonText=json.dumps(told), domainId=1)
    assert payloads(tmp_path, nsys) == [Payload(1404042137466844913, 4194304)]


def test_json_may_be_a_registered_string(tmp_path):
    nsys = Nsys()
    told = nsys.string(json.dumps({"Message size [bytes]": 8}))
    nsys.range("ncclAllReduce", 0, 9, jsonTextId=told, domainId=1, registered=True)
    assert payloads(tmp_path, nsys) == [Payload(size_bytes=8)]


def test_a_binary_payload_tells_the_same(tmp_path):
    nsys = with_schema(Nsys()).range("ncclReduce", 0, 9, binaryData=binary(77, 64, 3), domainId=1)
    assert payloads(tmp_path, nsys) == [Payload(77, 64)]


def test_every_process_says_the_schemas_again(tmp_path):
    nsys = with_schema(with_schema(Nsys()))
    nsys.range("ncclReduce", 0, 9, binaryData=binary(77, 64, 3), domainId=1)
    assert payloads(tmp_path, nsys) == [Payload(77, 64)]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"jsonText": ""},
        {"jsonText": "no json"},
        {"jsonText": "[1, 2]"},
        {"jsonText": '{"Message size [bytes]": "many"}'},
        {"jsonText": '{"Message size [bytes]": -1}'},
        {"jsonText": '{"Message size [bytes]": true}'},
        {"binaryData": b""},
        {"binaryData": b"\x01" * 20},
        {"binaryData": binary(77, 64, 3)[:40]},
        {"binaryData": binary(77, 64, 3, schema=5)},
        {"binaryData": binary(77, 64, 3), "domainId": 2},
    ],
)
def test_what_cannot_be_read_tells_nothing_of_it(tmp_path, values):
    nsys = with_schema(Nsys()).range("ncclReduce", 0, 9, **{"domainId": 1} | values)
    (found,) = payloads(tmp_path, nsys)
    assert found.size_bytes is None


def test_other_ranges_are_not_asked(tmp_path):
    nsys = plain().range("aten::add", 0, 9, jsonText='{"Message size [bytes]": 8}')
    assert payloads(tmp_path, nsys) == []


def test_the_rank_is_that_in_the_largest_communicator():
    parts = [Payload(1, None, ranks=2, rank=1), Payload(2, None, ranks=8, rank=5), Payload(3, 64)]
    assert told_rank(parts) == parts[1]
    assert told_rank(parts[2:]) == Payload()
