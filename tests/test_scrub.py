"""An nsys SQLite without the environment, and with every kernel and range that it had."""

from __future__ import annotations

import sqlite3

import pytest

from ddptrace_capture import scrub as scrubbing
from ddptrace_capture.errors import CaptureError
from ddptrace_capture.scrub import scrub

OWN, SECOND, OTHER = 0x11_000100_000000, 0x11_000200_000000, 0x11_000300_000000
# The global ids of two recorded processes and of somebody else's; a thread's id is added.

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start           INTEGER NOT NULL, streamId INTEGER NOT NULL,
    correlationId   INTEGER,               -- REFERENCES CUPTI_ACTIVITY_KIND_RUNTIME(correlationId)
    globalPid       INTEGER,               -- Serialized GlobalId.
    demangledName   INTEGER NOT NULL       -- REFERENCES StringIds(id) -- Kernel function name
);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start           INTEGER NOT NULL, globalTid INTEGER,
    nameId          INTEGER NOT NULL       -- REFERENCES StringIds(id) -- Function name
);
CREATE TABLE NVTX_EVENTS (
    start           INTEGER NOT NULL, text TEXT, globalTid INTEGER,
    textId          INTEGER,               -- REFERENCES StringIds(id) -- Registered NVTX string
    jsonText        TEXT                   -- One of possible payload value union members.
);
CREATE TABLE OSRT_CALLCHAINS (
    id              INTEGER NOT NULL,      -- Part of the key.
    module          INTEGER                -- REFERENCES StringIds(id) -- Module name
);
CREATE TABLE ThreadNames (
    nameId          INTEGER NOT NULL,      -- REFERENCES StringIds(id) -- Thread name
    globalTid       INTEGER                -- Serialized GlobalId.
);
CREATE TABLE ProcessStreams (
    globalPid       INTEGER NOT NULL,      -- Serialized GlobalId.
    filenameId      INTEGER NOT NULL,      -- REFERENCES StringIds(id) -- File name
    contentId       INTEGER NOT NULL       -- REFERENCES StringIds(id) -- Stream content
);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, text TEXT, globalPid INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, uuid TEXT, ctrlDevPath TEXT);
CREATE TABLE TARGET_INFO_NIC_INFO (nicId INTEGER, name TEXT, hostName TEXT, GUID TEXT);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
"""

ENVIRONMENT = "HOME=/home/planted\0API_TOKEN=planted-token-1\0LANG=C"
KERNEL, RANGE, CALL = "ncclDevKernel(/src/x/planted.cu)", "step 3", "cudaLaunchKernel"

ROWS = {
    "StringIds": [
        (1, KERNEL),
        (2, RANGE),
        (3, CALL),
        (4, "/home/planted/env/lib/libtorch.so"),
        (5, "pt_autograd_0"),
        (6, "planted-other-thread"),
        (7, "/tmp/planted/pid_1_stdout.log"),
        (8, "loaded the model of planted-customer\n"),
        (9, ENVIRONMENT),
        (70, "planted-unused-whose-id-is-a-stream"),
    ],
    "CUPTI_ACTIVITY_KIND_KERNEL": [(100, 70, 5, OWN, 1), (200, 70, 6, OWN, 1)],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [(90, OWN + 11, 3), (95, SECOND + 21, 3)],
    "NVTX_EVENTS": [(80, "/data/set/range", OWN + 11, None, '{"a": "/x/y/z"}'),
                    (85, None, OWN + 11, 2, None)],
    "OSRT_CALLCHAINS": [(1, 4)],
    "ThreadNames": [(5, OWN + 11), (5, SECOND + 22), (6, OTHER + 31)],
    "ProcessStreams": [(OWN, 7, 8)],
    "PROCESSES": [(OWN, 1, "/home/planted/bin/python3"), (SECOND, 2, "python3"),
                  (OTHER, 3, "planted-other-process")],
    "DIAGNOSTIC_EVENT": [(0, "Not all events: see /tmp/planted/log, or stop", OTHER)],
    "TARGET_INFO_GPU": [(0, "NVIDIA H200", "GPU-1234", "/dev/planted0")],
    "TARGET_INFO_NIC_INFO": [(0, "mlx5_0", "planted-host", "planted-guid")],
    "TARGET_INFO_SYSTEM_ENV": [
        (1, "CpuCores", "16"),
        (1, "NvDriverVersion", "580.65.06"),
        (1, "OsDescription", "Ubuntu 24.04"),
        (1, "DeviceEnvironment", ENVIRONMENT.replace("\0", ";")),
        (1, "Hostname", "planted-host"),
        (1, "TargetInstallDir", "/opt/planted/nsys"),
        (1, "SomethingOfANewerVersion", "planted and free text"),
    ],
    "META_DATA_CAPTURE": [
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("RUN_DURATION_MS", "222"),
        ("INCLUDE_CHILDREN", "true"),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
        ("PROCESS_0:COMMAND", "planted-command"),
        ("PROCESS_0:ARGUMENT_0", "--password=planted"),
        ("PROCESS_0:ARGUMENT_1", "555123"),
        ("PROCESS_0:WORKING_DIR", "/home/planted"),
        ("PROCESS_0:USER_NAME", "planted"),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="3"'),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'WORLD_SIZE="8"'),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'CUDA_VISIBLE_DEVICES="0,1"'),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'API_TOKEN="planted-token-1"'),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'TRICK="planted;RANK=5"'),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'MY_RANK="4111"'),
        ("DEVICE_DISPLAY_NAME", "planted-host"),
        ("PACKAGE_NAME", ""),
    ],
    "META_DATA_EXPORT": [
        ("EXPORT_PRODUCT_VERSION", "2025.3.2.0"),
        ("EXPORT_SCHEMA_VERSION", "3.20.3"),
        ("EXPORT_TIME", "0.03 sec"),
        ("EXPORT_USER", "planted"),
        ("EXPORT_PARAM_INPUT_PATH_ABS", "/home/planted/rank0.nsys-rep"),
    ],
}  # fmt: skip


def write(path, schema=SCHEMA, rows=None):
    """Write the example, or other rows of its tables."""
    database = sqlite3.connect(path)
    database.executescript(f"PRAGMA synchronous = OFF; {schema}")
    for table, values in (ROWS if rows is None else rows).items():
        marks = ", ".join("?" * len(values[0]))
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    database.commit()
    database.close()
    return path


def table(path, query):
    database = sqlite3.connect(path)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def named_events(path):
    """Return all events with the strings that they refer to."""
    joined = "SELECT e.*, s.value FROM {} e LEFT JOIN StringIds s ON s.id = e.{}"
    kernels = joined.format("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName")
    calls = joined.format("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId")
    ranges = joined.format("NVTX_EVENTS", "textId")
    return [table(path, query) for query in (kernels, calls, ranges)]


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "rank0.sqlite")


def test_of_what_was_planted_only_the_kernels_name_is_in_the_bytes_of_the_file(file):
    assert file.read_bytes().count(b"planted") > 20
    scrub(file)
    assert file.read_bytes().count(b"planted") == file.read_bytes().count(KERNEL.encode()) == 1
    assert b"555123" not in file.read_bytes()
    assert b"4111" not in file.read_bytes()


def test_what_was_deleted_before_is_gone_from_the_bytes_too(file):
    database = sqlite3.connect(file)
    database.execute("PRAGMA secure_delete = OFF")
    database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_USER', 'removed-earlier')")
    database.execute("DELETE FROM META_DATA_EXPORT WHERE value = 'removed-earlier'")
    database.commit()
    database.close()
    assert b"removed-earlier" in file.read_bytes()
    scrub(file)
    assert b"removed-earlier" not in file.read_bytes()


def test_the_events_and_their_names_are_what_they_were(file):
    before = named_events(file)
    scrub(file)
    assert named_events(file) == before
    assert [len(rows) for rows in before] == [2, 2, 2]


def test_the_variables_that_tell_the_rank_and_its_device_stay(file):
    scrub(file)
    kept = "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT%'"
    assert table(file, kept) == [
        ('RANK="3"',),
        ('WORLD_SIZE="8"',),
        ('CUDA_VISIBLE_DEVICES="0,1"',),
    ]


def test_versions_numbers_and_switches_stay_and_any_other_text_of_nsys_goes(file):
    scrub(file)
    settings = table(
        file,
        "SELECT name, value FROM TARGET_INFO_SYSTEM_ENV UNION ALL "
        "SELECT name, value FROM META_DATA_EXPORT UNION ALL SELECT name, value "
        "FROM META_DATA_CAPTURE WHERE name NOT LIKE '%ENVIRONMENT%'",
    )
    assert settings == [
        ("CpuCores", "16"),
        ("NvDriverVersion", "580.65.06"),
        ("OsDescription", "Ubuntu 24.04"),
        ("EXPORT_PRODUCT_VERSION", "2025.3.2.0"),
        ("EXPORT_SCHEMA_VERSION", "3.20.3"),
        ("EXPORT_TIME", "0.03 sec"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("RUN_DURATION_MS", "222"),
        ("INCLUDE_CHILDREN", "true"),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
        ("PACKAGE_NAME", ""),
    ]


def test_of_the_processes_those_with_events_keep_their_names_without_folders(file):
    scrub(file)
    assert table(file, "SELECT pid, name FROM PROCESSES") == [(1, "…/python3"), (2, "python3")]
    assert table(file, "SELECT globalTid FROM ThreadNames") == [(OWN + 11,), (SECOND + 22,)]


def test_of_the_strings_those_in_use_stay_and_no_id_of_another_kind_keeps_one(file):
    scrub(file)
    assert table(file, "SELECT * FROM StringIds ORDER BY id") == [
        (1, KERNEL), (2, RANGE), (3, CALL), (4, "…/libtorch.so"), (5, "pt_autograd_0"),
    ]  # fmt: skip


def test_a_string_that_an_event_shares_with_an_output_stays(tmp_path):
    rows = {**ROWS, "ProcessStreams": [(OWN, 1, 2)]}
    file = write(tmp_path / "rank0.sqlite", rows=rows)
    before = named_events(file)
    scrub(file)
    assert named_events(file) == before


def test_a_library_that_is_also_a_kernels_name_keeps_its_folder(tmp_path):
    rows = {**ROWS, "OSRT_CALLCHAINS": [(1, 1)]}
    file = write(tmp_path / "rank0.sqlite", rows=rows)
    scrub(file)
    assert table(file, "SELECT value FROM StringIds WHERE id = 1") == [(KERNEL,)]


def test_messages_lose_folders_and_devices_keep_what_tells_them_apart(file):
    scrub(file)
    messages = table(file, "SELECT text FROM DIAGNOSTIC_EVENT")
    assert messages == [("Not all events: see …/log, or stop",)]
    assert table(file, "SELECT * FROM TARGET_INFO_GPU") == [(0, "NVIDIA H200", "GPU-1234", "")]
    assert table(file, "SELECT * FROM TARGET_INFO_NIC_INFO") == [(0, "mlx5_0", "", "")]


def test_a_schema_without_nsyss_comments_is_understood_by_its_columns(tmp_path):
    plain = "\n".join(line.partition("--")[0] for line in SCHEMA.splitlines())
    file = write(tmp_path / "rank0.sqlite", plain)
    before = named_events(file)
    scrub(file)
    assert named_events(file) == before
    assert file.read_bytes().count(b"planted") == 1


def test_the_tables_of_the_first_versions_are_cleaned_too(tmp_path):
    schema = SCHEMA.replace("META_DATA_EXPORT", "EXPORT_META_DATA")
    rows = {key.replace("META_DATA_EXPORT", "EXPORT_META_DATA"): ROWS[key] for key in ROWS}
    file = write(tmp_path / "rank0.sqlite", schema, rows)
    scrub(file)
    assert file.read_bytes().count(b"planted") == 1


def test_what_was_taken_out_is_counted_in_one_line(file):
    told = scrub(file)
    assert (told.settings, told.processes, told.outputs, told.strings) == (15, 2, 1, 5)
    assert str(told) == (
        "removed 15 settings and variables, 2 names of processes and threads, 1 outputs of "
        "programs, 5 unused strings, 6 folders"
    )


def test_a_clean_file_is_left_with_the_same_rows(file):
    def rows():
        database = sqlite3.connect(file)
        try:
            return list(database.iterdump())
        finally:
            database.close()

    scrub(file)
    once = rows()
    assert str(scrub(file)) == "clean already"
    assert rows() == once


def test_texts_that_are_not_utf_8_survive(tmp_path):
    file = write(tmp_path / "rank0.sqlite")
    database = sqlite3.connect(file)
    odd = b"/home/planted/\xff\xfe.so"
    database.execute("UPDATE StringIds SET value = CAST(? AS TEXT) WHERE id = 4", (odd,))
    database.execute("UPDATE StringIds SET value = CAST(? AS TEXT) WHERE id = 1", (odd,))
    database.commit()
    database.close()
    scrub(file)
    database = sqlite3.connect(file)
    database.text_factory = bytes
    strings = database.execute("SELECT value FROM StringIds WHERE id IN (1, 4)").fetchall()
    database.close()
    assert strings == [(odd,), ("…/".encode() + b"\xff\xfe.so",)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("login planted-token-1", ("API_TOKEN",)),
        ("login planted-token-2", ()),
        ("a short one", ()),  # MODE_KEY is "short"
        ("home is /home/planted", ()),
    ],
)
def test_a_secret_in_the_name_of_a_range_is_told_by_its_variables_name_alone(tmp_path, text, told):
    environment = [*ROWS["META_DATA_CAPTURE"], ("P:ENVIRONMENT_VARIABLE", 'MODE_KEY="short"')]
    ranges = [(80, text, OWN + 11, None, None)]
    rows = {**ROWS, "NVTX_EVENTS": ranges, "META_DATA_CAPTURE": environment}
    scrubbed = scrub(write(tmp_path / "rank0.sqlite", rows=rows))
    assert scrubbed.left == told
    assert ("DO NOT SHARE IT: values of API_TOKEN" in str(scrubbed)) == bool(told)
    assert "planted" not in str(scrubbed)


def test_a_file_without_any_event_is_cleaned(tmp_path):
    rows = {key: ROWS[key] for key in ("StringIds", "PROCESSES", "META_DATA_CAPTURE")}
    file = write(tmp_path / "rank0.sqlite", rows=rows)
    scrub(file)
    assert b"planted" not in file.read_bytes()


def refused(path, *words):
    """Check that a file is refused in one line with these words, and is as it was."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(CaptureError) as error:
        scrub(path)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value).splitlines()) == 1
    for word in words:
        assert word in str(error.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    if path.parent.is_dir():
        assert not list(path.parent.glob(".scrub-*"))


def test_what_is_not_there_or_no_file_is_refused(tmp_path):
    refused(tmp_path / "missing.sqlite", "cannot be read: No such file")
    refused(tmp_path, "cannot be read: Is a directory")


@pytest.mark.parametrize("content", [b"", b"{}", b"SQLite"])
def test_a_file_that_is_not_sqlite_is_refused(tmp_path, content):
    (tmp_path / "rank0.sqlite").write_bytes(content)
    refused(tmp_path / "rank0.sqlite", "not an SQLite file")


def test_the_sqlite_of_another_program_is_refused(tmp_path):
    refused(
        write(tmp_path / "a.sqlite", "CREATE TABLE StringIds (id, value)", {}), "not one of nsys"
    )
    refused(
        write(tmp_path / "b.sqlite", "CREATE TABLE META_DATA_EXPORT (a)", {}), "not one of nsys"
    )


def test_a_report_is_refused_with_the_way_to_its_sqlite(tmp_path):
    (tmp_path / "rank0.nsys-rep").write_bytes(b"report")
    refused(tmp_path / "rank0.nsys-rep", "nsys export --type=sqlite")


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_file_that_another_program_writes_is_refused(file, suffix):
    file.with_name(file.name + suffix).touch()
    refused(file, "another program has it open")


@pytest.mark.parametrize("length", [100, 5000, 20000])
def test_a_cut_file_is_refused_and_left_as_it_is(file, length):
    file.write_bytes(file.read_bytes()[:length])
    refused(file)


def test_a_failure_at_the_very_end_leaves_the_file_as_it_was(file, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scrubbing, "_still_there", fails)
    refused(file, "cannot be cleaned and was left as it was", "No space left")


def test_a_link_stays_a_link_and_the_mode_stays(file, tmp_path):
    file.chmod(0o640)
    link = tmp_path / "link.sqlite"
    link.symlink_to(file)
    scrub(link)
    assert link.is_symlink()
    assert file.read_bytes().count(b"planted") == 1
    assert file.stat().st_mode & 0o777 == 0o640
