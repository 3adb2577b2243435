# Thin on purpose: what each target does lies in CMakePresets.json and tools/.
#
#   make run          install what is missing, build, fetch the model, serve in the foreground (PORT=, MODEL=, ARGS=)
#   make test         install what is missing, build, run all tests        make test-all   the long ones too
#   make build        install what is missing, build build/espalier        make setup      only install
#   make docs         docs/, README.md and CONTRIBUTING.md -> build/site/index.html; dead links are errors
#   make soak         everything at once for SOAK_HOURS (8), then: did memory, descriptors, threads stay flat? (SOAK_ARGS=, bench/soak.py)
#   make package      wheel, tarball, .deb, chart and list of parts in build/package/dist, tried in clean roots; PARTS=
#   make cuda         the kernels for NVIDIA's GPUs, put beside the program; ARCHS="80 90a": for which (tools/cuda.sh)
#   make mpi          ranks of several hosts over MPI, put beside the program; MPICXX=: of which MPI (tools/mpi.sh)
#   make page         the page's sources (web/) -> web/built/page.html, which is committed; needs node and npm
#   make format lint test-asan test-tsan test-neon check-macos fuzz bench clean        JOBS= compilations at a time
PORT  ?= 30000
MODEL ?= smollm2-135m
ARGS  ?=
JOBS  ?= $(shell nproc)
FUZZ_SECONDS ?= 60
SOAK_HOURS ?= 8
SOAK_ARGS ?=
export JOBS FUZZ_SECONDS

.PHONY: run build cuda mpi page docs soak package test test-all test-asan test-tsan test-neon check-macos format lint fuzz bench setup clean

run: build
	exec build/espalier serve $(MODEL) --port $(PORT) $(ARGS)

build: setup
	@tools/build.sh release espalier

cuda:
	@tools/setup.sh cuda
	@tools/cuda.sh

mpi:
	@tools/setup.sh mpi
	@tools/mpi.sh

page:
	@tools/page.sh

docs:
	@tools/docs.sh

soak: build
	@python3 bench/soak.py --hours $(SOAK_HOURS) $(SOAK_ARGS)

package: setup
	@tools/setup.sh package
	@tools/package.sh $(PARTS)

test: setup
	@tools/test.sh release

test-all: setup
	@tools/setup.sh lint
	@tools/setup.sh browser
	@ESPALIER_LONG_TESTS=1 tools/test.sh release asan tsan
	@tools/test-neon.sh
	@tools/fuzz.sh

test-asan: setup
	@tools/test.sh asan

test-tsan: setup
	@tools/test.sh tsan

test-neon: setup
	@tools/test-neon.sh

fuzz: setup
	@tools/setup.sh lint
	@tools/fuzz.sh

lint: setup
	@tools/setup.sh lint
	@tools/lint.sh

check-macos: setup
	@tools/check-macos.sh

format:
	@tools/setup.sh lint
	@tools/lint.sh --fix-format

bench: setup
	@tools/bench.sh

setup:
	@tools/setup.sh build

clean:
	rm -rf build
