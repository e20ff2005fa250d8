# Two commands for a machine with Python and nothing else of ours.
PYTHON ?= python3
SAMPLE := sample_traces/two_ranks_one_gpu
# The capture needs torch; a build for CPUs is enough. noxfile.py reads the same variable.
DDPTRACE_TORCH ?= torch==2.13.0
TRAIN := capture/examples/train_ddp.py

.PHONY: demo test lint screenshots clean

demo: .venv/bin/ddptrace .venv/bin/torchrun
	@mkdir -p demo
	.venv/bin/ddptrace report $(SAMPLE) --html demo/report.html
	OMP_NUM_THREADS=1 .venv/bin/ddptrace capture --force --output demo/run -- \
		.venv/bin/torchrun --standalone --nproc-per-node 2 $(TRAIN) --steps 30 --device cpu
	.venv/bin/ddptrace report demo/run --html demo/captured.html
	@echo "The pages: $(CURDIR)/demo/report.html (two ranks on a GPU), demo/captured.html (just recorded)"

test: .venv/bin/nox
	.venv/bin/nox -s test

lint: .venv/bin/nox
	.venv/bin/nox -s lint

# Needs Chromium.
screenshots: .venv/bin/ddptrace
	.venv/bin/python -m pip install --quiet "playwright>=1.49" "pillow>=11"
	.venv/bin/python docs/pictures/take.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/bin/ddptrace: .venv/bin/python pyproject.toml
	.venv/bin/python -m pip install --quiet --editable .
	@touch $@

.venv/bin/torchrun: .venv/bin/ddptrace
	.venv/bin/python -m pip install --quiet "$(DDPTRACE_TORCH)"
	@touch $@

.venv/bin/nox: .venv/bin/python
	.venv/bin/python -m pip install --quiet "nox>=2025.2.9"
	@touch $@

clean:
	rm -rf .venv .nox demo
