# Everything a newcomer needs: `make demo`, then `make test`. `make help` lists the rest.

PYTHON ?= python3
CARGO ?= cargo
# The oldest that works is 1.24 (ort's API floor); this one is what the figures were made with.
ORT_VERSION := 1.31.1
RUNTIME := .runtime
VENV := .venv

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-embed bench-memory runtime model-static model-minilm test-graphs compat asan deny advisories clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

demo: runtime ## ingest the sample, ask it questions, show the recall table
	$(CARGO) build --release
	@./datasets/sample/demo.sh target/release/mnemon

test: runtime ## every test, format, clippy, docs
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --all-features -- -D warnings
	$(CARGO) clippy --lib --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features
	$(CARGO) test --all-features

bench: runtime ## criterion benches, then the harness's figures as JSON
	$(CARGO) bench
	$(CARGO) run --release -- bench flush
	$(CARGO) run --release -- bench recall
	$(CARGO) run --release -- bench memory

MINILM := models/all-MiniLM-L6-v2

$(MINILM)/manifest.toml: | $(VENV)/ready
	$(VENV)/bin/python models/make_minilm.py

bench-embed: runtime $(MINILM)/manifest.toml ## models beside fastembed's defaults and Python, on the same texts
	$(CARGO) build --release
	@mkdir -p target/bench
	$(VENV)/bin/python -B benches/embed.py --out target/bench/embed-python.json $(MINILM)
	target/release/mnemon bench embed --model static-en-256,$(MINILM),$(MINILM)-int8 --fastembed $(MINILM) \
		--peers target/bench/embed-python.json

# Three times the sample: once does not fill LlamaIndex's buffer.
bench-memory: runtime $(VENV)-compat/ready ## a session's memory beside LlamaIndex's, on the same conversation
	$(CARGO) build --release
	@mkdir -p target/bench; cat datasets/sample/messages.jsonl datasets/sample/messages.jsonl datasets/sample/messages.jsonl \
		> target/bench/conversation.jsonl
	target/release/mnemon bench memory --messages target/bench/conversation.jsonl
	$(VENV)-compat/bin/python -B tests/compat/bench_memory.py target/bench/conversation.jsonl
	target/release/mnemon bench memory --messages target/bench/conversation.jsonl

# ONNX Runtime's shared library, taken out of its PyPI wheel. Nothing is fetched if ORT_DYLIB_PATH names one. The wheel
# of any Python version carries the same library.
runtime: ## get ONNX Runtime into .runtime, unless it is there
	@if [ -n "$$ORT_DYLIB_PATH" ] || [ -f $(RUNTIME)/$(ORT_VERSION) ]; then exit 0; fi; \
	set -e; rm -rf $(RUNTIME); mkdir -p $(RUNTIME)/wheel; \
	echo "fetching ONNX Runtime $(ORT_VERSION)"; \
	$(PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
		--dest $(RUNTIME)/wheel onnxruntime==$(ORT_VERSION); \
	$(PYTHON) -m zipfile -e $(RUNTIME)/wheel/*.whl $(RUNTIME)/wheel; \
	mv $(RUNTIME)/wheel/onnxruntime/capi/libonnxruntime.* $(RUNTIME)/wheel/onnxruntime/LICENSE \
		$(RUNTIME)/wheel/onnxruntime/ThirdPartyNotices.txt $(RUNTIME)/; \
	rm -rf $(RUNTIME)/wheel; touch $(RUNTIME)/$(ORT_VERSION)

$(VENV)/ready: models/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r models/requirements.txt
	touch $@

model-static: $(VENV)/ready ## distil models/static-en-256 again
	$(VENV)/bin/python models/make_static.py

model-minilm: $(VENV)/ready ## build models/all-MiniLM-L6-v2 and its int8 twin
	$(VENV)/bin/python models/make_minilm.py

test-graphs: $(VENV)/ready ## make the graphs of the tests again
	$(VENV)/bin/python -B tests/it/fixtures/make_rerankers.py
	$(VENV)/bin/python -B tests/it/fixtures/make_external.py
	$(VENV)/bin/python -B tests/it/fixtures/make_embedders.py

$(VENV)-compat/ready: tests/compat/requirements.txt
	$(PYTHON) -m venv $(VENV)-compat
	$(VENV)-compat/bin/pip install --quiet --disable-pip-version-check -r tests/compat/requirements.txt
	touch $@

compat: $(VENV)-compat/ready ## record the other libraries' outcomes again, and compare with the committed ones
	rm -rf $(VENV)-compat/fixtures
	$(VENV)-compat/bin/python -B tests/compat/generate.py --out $(VENV)-compat/fixtures
	diff -r $(VENV)-compat/fixtures tests/compat/fixtures && echo "the same as committed"

# The switch is a nightly one, which RUSTC_BOOTSTRAP opens; Miri needs a nightly toolchain, and is not run.
asan: ## the code with unsafe in it, and the graph, under AddressSanitizer (Linux on x86-64)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/asan \
		$(CARGO) test --target x86_64-unknown-linux-gnu --no-default-features --lib index::


deny: ## licences, bans, sources
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

advisories: ## known vulnerabilities (needs the advisory database from the network)
	$(CARGO) deny check advisories

clean: ## build output and what was fetched
	$(CARGO) clean
	rm -rf $(RUNTIME) $(VENV) $(VENV)-compat models/.cache
