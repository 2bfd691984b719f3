# Entry points for people and for continuous integration; the build itself is CMake's (CMakePresets.json).
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup build demo test check tidy asan tsan fuzz install uninstall clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s'|' 2>/dev/null || \
	  sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)

setup: ## install what the build lacks (tools/setup says first what and why)
	@tools/setup build

build: setup ## build the release into build/bin and build/lib
	@tools/step "configure" cmake --preset release -DVRAM_TESTS=OFF
	@tools/step "build" cmake --build build -j $(JOBS)

demo: build ## set up, build, and show a cap at work on the simulated GPU
	@tools/demo

test: ## set up and run everything that continuous integration runs
	@tools/test

check: ## format, layers, speech, table of calls, built libraries (needs a build)
	@tools/setup test
	@tools/check/all

tidy: ## clang-tidy over the source
	@tools/setup test
	@tools/step "tidy" tools/check/tidy

asan: ## build and test with the address and undefined-behaviour sanitizers
	@tools/setup test
	@tools/sanitize asan

tsan: ## build and test with the thread sanitizer
	@tools/setup test
	@tools/sanitize tsan

fuzz: ## run every fuzzer for FUZZ_SECONDS (10) seconds
	@tools/setup test
	@tools/fuzz

install: build ## install under PREFIX (/usr/local), with DESTDIR respected
	@tools/step "install" cmake --install build --prefix $(PREFIX)

uninstall: ## remove what the last install put there
	@tools/step "uninstall" cmake -DMANIFEST=build/install_manifest.txt -P cmake/Uninstall.cmake

clean: ## remove what was built; fetched headers stay
	@find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} + 2>/dev/null || true
