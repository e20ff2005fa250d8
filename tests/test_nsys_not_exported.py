"""Recordings, raw data and compressed files are answered with what to do: one line, exit code 2."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest
from commands import assert_refused, quick
from nsys_exports import plain


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdrep"])
@pytest.mark.parametrize("given", ["file", "folder"])
def test_a_recording_is_answered_with_the_command_that_exports_it(
    tmp_path, monkeypatch, suffix, given
):
    path = tmp_path / f"my rank0{suffix}"
    path.write_bytes(b"x")
    done = quick(monkeypatch, path if given == "file" else tmp_path)
    # nsys 2021 and older, which write .qdrep, refuse the options.
    payloads = "" if suffix == ".qdrep" else "--include-blobs=true --include-json=true "
    assert_refused(
        done,
        f"nsys export --type=sqlite {payloads}--output "
        f"'{tmp_path}/my rank0.sqlite' '{tmp_path}/my rank0{suffix}'",
    )


@pytest.mark.parametrize("suffix", [".sqlite", ".nsys-rep", ".qdrep", ".qdstrm"])
@pytest.mark.parametrize(
    "packed", [(".gz", "gunzip -k"), (".zip", "unzip"), (".zst", "unzstd"), (".xz", "unxz -k")]
)
@pytest.mark.parametrize("given", ["file", "folder"])
def test_a_packed_file_is_answered_with_the_command_that_unpacks_it(
    tmp_path, monkeypatch, suffix, packed, given
):
    packer, command = packed
    path = tmp_path / f"my rank0{suffix}{packer}"
    path.write_bytes(b"x")
    done = quick(monkeypatch, path if given == "file" else tmp_path)
    assert_refused(done, "is compressed", f"unpack it first: {command} '{path}'")


@pytest.mark.parametrize("name", ["rank0.gz", "rank0.json.gz", "rank0"])
def test_a_packed_export_is_told_by_its_content_whatever_its_name(tmp_path, monkeypatch, name):
    path = plain().write(tmp_path / "x")
    (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    assert_refused(quick(monkeypatch, tmp_path / name), name, "is compressed", "gunzip")


@pytest.mark.parametrize("name", ["my rank0.sqlite", "my rank0.nsys-rep", "my rank0.qdrep"])
@pytest.mark.parametrize(
    ("packer", "command"),
    [(gzip, "gunzip -c"), (bz2, "bunzip2 -c"), (lzma, "xz -dc")],
    ids=["gzip", "bzip2", "xz"],
)
def test_a_packed_file_with_the_name_of_an_unpacked_one_is_told_by_its_content(
    tmp_path, monkeypatch, name, packer, command
):
    path = plain().write(tmp_path / "x")
    (tmp_path / name).write_bytes(packer.compress(path.read_bytes()))
    done = quick(monkeypatch, tmp_path / name)
    unpacked = f"{tmp_path}/unpacked_{name}"
    assert_refused(done, name, "is compressed", f"{command} '{tmp_path / name}' > '{unpacked}'")


@pytest.mark.parametrize("head", [b"PK\x03\x04", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh9"])
def test_an_archive_of_traces_is_told_by_its_content(tmp_path, monkeypatch, head):
    (tmp_path / "rank0.json").write_bytes(head + b"\x01\x02" * 50)
    assert_refused(quick(monkeypatch, tmp_path), "rank0.json", "unpack it first")


@pytest.mark.parametrize("name", ["rank0.sqlite.gz", "rank0.nsys-rep.gz"])
def test_a_packed_file_beside_what_it_holds_is_not_spoken_of(tmp_path, monkeypatch, name):
    plain().write(tmp_path / "rank0.sqlite")
    (tmp_path / name).write_bytes(b"x")
    done = quick(monkeypatch, tmp_path)
    assert (done.returncode, ".gz" in done.stdout) == (0, False)
    (tmp_path / "rank0.sqlite").unlink()
    (tmp_path / "rank0.nsys-rep").write_bytes(b"x")
    assert ("rank0.nsys-rep.gz" in quick(monkeypatch, tmp_path).stderr) is False


def test_a_packed_export_beside_other_ranks_is_said(tmp_path, monkeypatch):
    plain(0).recorder(0).write(tmp_path / "rank0.sqlite")
    (tmp_path / "rank1.sqlite.gz").write_bytes(b"x")
    done = quick(monkeypatch, tmp_path)
    assert "rank1.sqlite.gz: left out, since it is compressed" in done.stdout
    assert "1 of 2 ranks are here; missing: 1" in done.stdout


OLD = [b"NVIDIA Tegra Profiler Report 1.", b"NVIDIA Tegra Profiler Report 2023@4@4@54-2344v0."]
NEW = [b"NVIDIA Tegra Profiler Report 2025@3@2@474-2535v0.", b"something else"]


@pytest.mark.parametrize("head", OLD + NEW)
def test_the_command_that_exports_is_one_that_the_nsys_that_recorded_knows(
    tmp_path, monkeypatch, head
):
    """nsys 2022.4 and 2023.4 answer "unrecognised option '--include-blobs=true'"."""
    (tmp_path / "rank0.nsys-rep").write_bytes(b"\x0a\x20" + head + b"\0" * 9)
    done = quick(monkeypatch, tmp_path)
    assert_refused(done, "nsys export --type=sqlite ")
    assert ("--include-blobs=true --include-json=true" in done.stderr) == (head in NEW)


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdrep", ".qdstrm", ".sqlite"])
def test_an_empty_file_is_said_to_be_empty_whatever_it_should_hold(tmp_path, monkeypatch, suffix):
    (tmp_path / f"rank0{suffix}").touch()
    assert_refused(quick(monkeypatch, tmp_path), f"rank0{suffix}: the file is empty (0 bytes)")


def test_raw_data_is_answered_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "rank0.qdstrm").write_bytes(b"x")
    assert_refused(quick(monkeypatch, tmp_path), "rank0.qdstrm", "QdstrmImporter", "libdw.so.1")


def test_a_recording_beside_its_export_is_not_spoken_of(tmp_path, monkeypatch):
    for suffix in (".nsys-rep", ".qdstrm"):
        (tmp_path / f"rank0{suffix}").write_bytes(b"x")
    plain().write(tmp_path / "rank0.sqlite")
    done = quick(monkeypatch, tmp_path)
    assert done.returncode == 0
    assert "nsys export" not in done.stdout


def test_a_recording_without_its_export_beside_other_ranks_is_said(tmp_path, monkeypatch):
    plain(0).recorder(0).write(tmp_path / "rank0.sqlite")
    (tmp_path / "rank1.nsys-rep").write_bytes(b"x")
    done = quick(monkeypatch, tmp_path)
    assert "rank1.nsys-rep: left out" in done.stdout
    assert "nsys export" in done.stdout
    assert "1 of 2 ranks are here; missing: 1" in done.stdout
