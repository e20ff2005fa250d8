# Two commands for a machine with Python and nothing else of ours.
PYTHON ?= python3
SAMPLE := sample_traces/two_ranks_one_gpu

.PHONY: demo test lint clean

demo: .venv/bin/ddptrace
	@mkdir -p demo
	.venv/bin/ddptrace report $(SAMPLE) --html demo/report.html
	@echo "The page: $(CURDIR)/demo/report.html"

test: .venv/bin/nox
	.venv/bin/nox -s test

lint: .venv/bin/nox
	.venv/bin/nox -s lint

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/bin/ddptrace: .venv/bin/python pyproject.toml
	.venv/bin/python -m pip install --quiet --editable .
	@touch $@

.venv/bin/nox: .venv/bin/python
	.venv/bin/python -m pip install --quiet "nox>=2025.2.9"
	@touch $@

clean:
	rm -rf .venv .nox demo
