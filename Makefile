# SPDX-License-Identifier: GPL-2.0-only
# One file, no recursion; all output lies in $(O). `make help` lists the targets.

O ?= build
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
LLVM_STRIP ?= llvm-strip
CLANG_FORMAT ?= clang-format
PREFIX ?= /usr/local
DESTDIR ?=
T ?=
V ?= 0
SAN ?= 0

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n' $(1) $(2))

.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

# Debian packages; the README says why each is there.
DEPS_BUILD := gcc make pkg-config libc6-dev clang llvm bpftool libbpf-dev libipt-dev libelf-dev \
	libdw-dev libiberty-dev libzydis-dev libjson-c-dev zlib1g-dev
DEPS_TEST := g++ linux-perf valgrind gdb python3 clang-format protobuf-compiler libclang-rt-14-dev \
	util-linux procps binutils rustc
DEPS_STAMP := $(O)/deps.stamp
# Nothing is compiled before the packages are there, with -j too.
DEPS_FIRST := $(if $(filter demo test,$(MAKECMDGOALS)),$(DEPS_STAMP))

# --dirty writes .git/index, which under sudo would then belong to root.
VERSION := $(shell git describe --tags --always $(if $(SUDO_UID),,--dirty) 2>/dev/null || echo 0)
PKGS := libbpf libelf libdw json-c zlib
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror
BASE_CFLAGS = -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DPTBPF_VERSION='"$(VERSION)"' \
	$(WARN) -Iuser -I$(O) $(CFLAGS) -MMD -MP
LIBS = -lbpf -lelf -ldw -lipt -lZydis -ljson-c -liberty -llzma -lz -lm -lpthread
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

SRCS := $(sort $(wildcard user/*.c user/*/*.c user/*/*/*.c))
BPF_SRCS := $(sort $(wildcard bpf/*.bpf.c))
SKELS := $(BPF_SRCS:bpf/%.bpf.c=$(O)/bpf/%.skel.h)
UNIT_SRCS := $(sort $(wildcard tests/unit/test_*.c tests/bpf/test_*.c))
TOOL_SRCS := $(sort $(wildcard tests/tools/*.c))
PROGRAM_SRCS := $(sort $(wildcard tests/programs/*.c tests/programs/*.cc tests/programs/*.rs \
	tests/programs/*.S))
PROGRAMS := $(addprefix $(O)/programs/,$(basename $(notdir $(PROGRAM_SRCS)))) \
	$(patsubst tests/programs/lib/%.c,$(O)/programs/%.so,$(wildcard tests/programs/lib/*.c))

all: $(O)/ptbpf ## the binary, at build/ptbpf

## --- BPF objects and skeletons ---
BPF_CFLAGS := -g -O2 -target bpf -mcpu=v3 -D__bpf__ -D__TARGET_ARCH_x86 -Wall -Wextra -Werror \
	-Wno-unused-parameter -Ivmlinux -Ibpf -MMD -MP
define build_bpf
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
	$(Q)$(LLVM_STRIP) -g $@
endef
define build_skeleton
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst .,_,$*)_bpf > $@
endef
$(O)/bpf/%.bpf.o: bpf/%.bpf.c | $(DEPS_FIRST)
	$(build_bpf)
$(O)/bpf/%.skel.h: $(O)/bpf/%.bpf.o
	$(build_skeleton)

# A recorder that differs in one BPF program only: its trigger never fires. What it still fires on
# did not come from BPF.
$(O)/never/bpf/%.bpf.o: tests/bpf/never/%.bpf.c | $(DEPS_FIRST)
	$(build_bpf)
$(O)/never/bpf/%.skel.h: $(O)/never/bpf/%.bpf.o
	$(build_skeleton)
$(O)/never/evaluator.o: user/record/evaluator.c $(O)/never/bpf/trigger.skel.h | $(SKELS)
	$(call say,CC,$@)
	$(Q)$(CC) -I$(O)/never $(BASE_CFLAGS) -c $< -o $@
$(O)/ptbpf-never: $(O)/never/evaluator.o \
		$(filter-out $(O)/obj/user/record/evaluator.o,$(SRCS:%.c=$(O)/obj/%.o))
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) -o $@

## --- objects: the plain build in obj/, the sanitized one in san/ ---
$(O)/obj/%.o: %.c | $(SKELS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -c $< -o $@

$(O)/san/%.o: %.c | $(SKELS)
	$(call say,CC-SAN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -O1 $(SAN_FLAGS) -c $< -o $@

$(O)/ptbpf: $(if $(filter 1,$(SAN)),$(SRCS:%.c=$(O)/san/%.o),$(SRCS:%.c=$(O)/obj/%.o))
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(filter 1,$(SAN)),$(SAN_FLAGS)) $(LDFLAGS) $^ $(LIBS) -o $@

$(O)/ptbpf-san: $(SRCS:%.c=$(O)/san/%.o)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_FLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

## --- unit and bpf tests: each links only the objects that its `links:` line declares ---
links = $(shell sed -n 's|^ \* links: *||p;s|^// links: *||p' $(1))
define unit_rule
$(O)/tests/$(1): $(O)/obj/tests/$(1).o $(patsubst %,$(O)/obj/user/%.o,$(call links,tests/$(1).c))
	$$(call say,LINK,$$@)
	$(Q)mkdir -p $$(@D)
	$(Q)$(CC) $(LDFLAGS) $$^ $(LIBS) -o $$@
$(O)/tests-san/$(1): $(O)/san/tests/$(1).o $(patsubst %,$(O)/san/user/%.o,$(call links,tests/$(1).c))
	$$(call say,LINK,$$@)
	$(Q)mkdir -p $$(@D)
	$(Q)$(CC) $(SAN_FLAGS) $(LDFLAGS) $$^ $(LIBS) -o $$@
endef
UNIT_IDS := $(UNIT_SRCS:tests/%.c=%)
$(foreach u,$(UNIT_IDS) $(TOOL_SRCS:tests/%.c=%),$(eval $(call unit_rule,$(u))))
UNITS := $(UNIT_IDS:%=$(O)/tests/%)
UNITS_SAN := $(filter $(O)/tests-san/unit/%,$(UNIT_IDS:%=$(O)/tests-san/%))
TOOLS := $(TOOL_SRCS:tests/%.c=$(O)/tests/%)
TOOLS_SAN := $(TOOL_SRCS:tests/%.c=$(O)/tests-san/%)

## --- test programs (targets to trace), and the shared objects that they load ---
PROGRAM_FLAGS = $(shell sed -n 's|^ \* flags: *||p;s|^// flags: *||p' $<)
PROGRAM_DEPS = -MMD -MP -MT $@ -MF $@.d
$(O)/programs/%: tests/programs/%.c | $(DEPS_FIRST)
	$(call say,PROG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -g -O1 -Wall -Wextra $(PROGRAM_DEPS) $< -o $@ \
		$(PROGRAM_FLAGS) -pthread
$(O)/programs/%: tests/programs/%.S | $(DEPS_FIRST)
	$(call say,PROG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -g $< -o $@ $(PROGRAM_FLAGS)
$(O)/programs/%: tests/programs/%.cc | $(DEPS_FIRST)
	$(call say,PROG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -g -O1 -Wall -Wextra $(PROGRAM_DEPS) $< -o $@ $(PROGRAM_FLAGS) -pthread
$(O)/programs/%: tests/programs/%.rs | $(DEPS_FIRST)
	$(call say,PROG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)env -u MAKEFLAGS -u MFLAGS rustc -g -C opt-level=1 $< -o $@ $(PROGRAM_FLAGS)
$(O)/programs/%.so: tests/programs/lib/%.c | $(DEPS_FIRST)
	$(call say,PROG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -g -O1 -Wall -Wextra -shared -fPIC $(PROGRAM_DEPS) $< \
		-o $@ $(PROGRAM_FLAGS)
programs: $(PROGRAMS)

## --- running tests ---
RUN = O=$(O) T='$(T)' V=$(V) tests/run
owner = $(if $(SUDO_UID),@chown -R $(SUDO_UID):$(SUDO_GID) $(O) 2>/dev/null || true)

test: deps $(O)/ptbpf $(O)/ptbpf-san $(O)/ptbpf-never $(UNITS) $(UNITS_SAN) $(TOOLS) $(TOOLS_SAN) $(PROGRAMS) ## every test (what CI runs); T=unit/budget runs one, V=1 shows its output
	$(Q)$(RUN) check unit san golden bpf e2e fuzz; s=$$?; \
		$(if $(SUDO_UID),chown -R $(SUDO_UID):$(SUDO_GID) $(O) || true;) exit $$s
unit: $(UNITS) $(UNITS_SAN) ## pure logic, each test linked with its declared objects only, plain and sanitized
	$(Q)$(RUN) unit san
golden: $(TOOLS) $(TOOLS_SAN) ## PT bytes or branch events in, text out
	$(Q)$(RUN) golden
bpf: $(UNITS) $(PROGRAMS) ## BPF programs on the running kernel
	$(Q)$(RUN) bpf
e2e: $(O)/ptbpf $(O)/ptbpf-san $(O)/ptbpf-never $(TOOLS) $(PROGRAMS) ## the built binary on real programs, against oracles
	$(Q)$(RUN) e2e
check: ## format, layers, sizes, names
	$(Q)$(RUN) check
fuzz: ## parsers under libFuzzer for a short while
	$(Q)FUZZ_SECONDS=$${FUZZ_SECONDS:-60} FUZZ_SEED=$${FUZZ_SEED:-0} $(RUN) fuzz
bench: $(O)/ptbpf $(TOOLS) $(PROGRAMS) ## measure, side by side in one run
	$(Q)for b in $(sort $(wildcard tests/bench/*.sh)); do O=$(O) $$b || exit 1; done

demo: deps $(O)/ptbpf $(O)/programs/demo ## install, build, record a small program, show what its threads did
	$(Q)O=$(O) tests/demo.sh; s=$$?; \
		$(if $(SUDO_UID),chown -R $(SUDO_UID):$(SUDO_GID) $(O) || true;) exit $$s

deps: $(DEPS_STAMP) ## install the Debian packages that are missing
$(DEPS_STAMP): Makefile
	$(Q)mkdir -p $(@D)
	$(Q)tests/install-deps $(DEPS_BUILD) $(DEPS_TEST)
	$(Q)touch $@

check-vmlinux: ## compare vmlinux/vmlinux.h with the running kernel's BTF
	$(Q)vmlinux/check

fmt: ## format every source file in place
	$(Q)git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r $(CLANG_FORMAT) -i

install: $(O)/ptbpf ## into $(DESTDIR)$(PREFIX)
	$(Q)install -D -m 755 $(O)/ptbpf $(DESTDIR)$(PREFIX)/bin/ptbpf
	$(Q)install -D -m 644 docs/ptbpf.1 $(DESTDIR)$(PREFIX)/share/man/man1/ptbpf.1

clean: ## remove $(O)
	$(Q)rm -rf $(O)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile
	@echo "  switches: V=1 (commands, test output)  SAN=1 (sanitized build/ptbpf)  T=ID (one test)  O=DIR"

.PHONY: all test unit golden bpf e2e check bench fuzz demo deps install clean help fmt programs check-vmlinux

-include $(shell find $(O)/obj $(O)/san $(O)/bpf $(O)/never $(O)/programs -name '*.d' 2>/dev/null)
