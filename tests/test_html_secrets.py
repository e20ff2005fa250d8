"""What of a command is hidden in a page, and what is left to be read."""

import pytest

from ddptrace.outputs.html.secrets import of_command

S = "Hunter2hunter2Hunter2"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ([f"https://h/x?sig={S}&access_token={S}"], ["https://h/x?sig=***&access_token=***"]),
        ([f"https://h/x?a=1&Signature={S}#key={S}"], ["https://h/x?a=1&Signature=***#key=***"]),
        ([f"--data=s3://b/x?X-Amz-Date={S}&y=2"], ["--data=s3://b/x?X-Amz-Date=***&y=2"]),
        ([f"https://me:{S}@h/x?token={S}"], ["https://***@h/x?token=***"]),
        ([f"https://h/x?accessToken={S}&pwd={S}"], ["https://h/x?accessToken=***&pwd=***"]),
        (["login", f"hf_{S}"], ["login", "***"]),
        (["login", f"--with=ghp_{S}"], ["login", "--with=***"]),
        ([f"github_pat_{S}_{S}", f"glpat-{S}"], ["***", "***"]),
        ([f"xoxb-1-{S}", f"sk-proj-{S}", "AKIAABCDEFGHIJKLMNOP"], ["***"] * 3),
        (["eyJhbGciOi.eyJzdWIi.c2ln"], ["***"]),
        (["mysql", "-p", S], ["mysql", "-p", "***"]),
        (["curl", "-u", f"me:{S}"], ["curl", "-u", "***"]),
        (["Authorization:", "Bearer", S], ["Authorization: ***", "Bearer", "***"]),
        ([f"A=1 HF_TOKEN={S} train --token {S} -x"], ["A=1 HF_TOKEN=*** train --token *** -x"]),
        ([f"A=1 PASSWORD='a {S}' train --pwd \"a {S}\""], ["A=1 PASSWORD=*** train --pwd ***"]),
        ([f"sh -c x=https://h/x?sig={S}#a"], ["sh -c x=https://h/x?sig=***"]),
        (["--api-key", S, f"--token={S}"], ["--api-key", "***", "--token=***"]),
    ],
)
def test_what_looks_secret_is_hidden(command, shown):
    assert of_command(command) == shown


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-u", "train.py", "--lr=0.1", "--tokenizer", "gpt2", "--keyboard=us"],
        ["docker", "-p", "8080:80", "-p", "0.5", "-p", "--verbose"],
        ["https://h/x?page=2&design=a", "s3://bucket/tokenized/a=1"],
        ["hf_cache", "--loader=hf_transformers", "sk-learn", "disk-A12345678", "task-12345678"],
        ["AKIA", "eyJ", "design=1"],
    ],
)
def test_what_does_not_look_secret_is_shown(command):
    assert of_command(command) == command
