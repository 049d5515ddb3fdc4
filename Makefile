# SPDX-License-Identifier: BSD-3-Clause
#
#   make            the shim, the agent, portusctl: into build/
#   make check      all tests              (scripts/check installs what they need first)
#   make check-world      other projects' tests, all of them, with every file captured (hours)
#   make check-sanitize   the agent and unit tests under ASan, UBSan, TSan
#   make check-errors     a save with each of its system calls failing in turn
#   make fuzz       each of the following for ten minutes (FUZZ_SECONDS=60); all but the first need clang
#   make fuzz-calls   random programs plainly and with the shim (F='--seconds 60')
#   make fuzz-parsers   what reads text, files and packets of others (F=-max_total_time=60)
#   make fuzz-pool  hostile pool images, and a portusd that shows one
#   make fuzz-far   hostile clients of a store on another machine; fuzz-store: of portusd on this one
#   make fuzz-ring  clients that lie in their rings and messages, and a store that lies to the agent
#   make fuzz-carrier   a store on another machine that lies
#   make check-kills   kills at every system call, 10,000 of them (K='--kills 500')
#   make check-vm     50 power cuts on each kind of emulated persistent memory, in QEMU (CYCLES=3 in `check`), and faults of networks
#   make check-zoo   programs and preloaded libraries of many kinds: see sh scripts/install-deps zoo
#   make soak       an hour of saves with random kills, and 1,000 saves (SECONDS=86400)
#   make check-site  wheel, .deb, containers, Slurm; as root
#   make check-cuda  programs and scripts on an emulated GPU for which check has no time
#   make check-schedules  10,000 random schedules of copies from an emulated GPU's memory (SCHEDULES=500)
#   make bench      the measured table     (ratios of one run)
#   make install    DESTDIR= PREFIX=/usr/local
#   make dist       a source archive
#   make deb        Debian packages, build/dist/*.deb: see scripts/deb
#   make wheel      a Python wheel, build/dist/portus_shim-*.whl: see scripts/wheel
#
# Variants: make B=build-asan SANITIZE=address,undefined   (agent, portusctl, unit tests)
#           make CC=clang
#           make LIBC_ONLY=yes   no portusd, and a portusctl without the commands of a pool: needs libc only

CC       ?= gcc
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib/portus
UNITDIR  ?= $(PREFIX)/lib/systemd/system
SYSCONFDIR ?= /etc
B        ?= build
VERSION  := $(shell sed -n 's/.*PORTUS_VERSION "\(.*\)"/\1/p' include/portus/portus.h)

WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
            -Wpointer-arith -Wvla -Wno-unused-parameter
CFLAGS   ?= -O2 -g
BASE     := -std=gnu11 -fPIC -fvisibility=hidden -fno-strict-aliasing -pthread -MMD -MP \
            -D_GNU_SOURCE -Iinclude -Isrc $(WARN)
SANFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)

sources   = $(wildcard $(addsuffix /*.c,$(1)))
objects   = $(patsubst %.c,$(B)/%.o,$(call sources,$(1)))

COMMON   := $(call objects,src/common)
CLIENT   := $(call objects,src/client)
FORMAT   := $(call objects,src/format)
AGENT    := $(call objects,src/agent)
CARRIER  := $(call objects,src/carrier)
TRANSPORT := $(call objects,src/transport)
STORE    := $(call objects,src/store)
CTL      := $(filter-out %/storeless.o,$(call objects,src/ctl))
POOL     := $(patsubst %,$(B)/src/store/%.o,badblocks body catalogue change draft guard index intake keep key land map medium original owner pool ranges read recover remote room scrub size space view)
SHIM     := $(call objects,preload)
# All that speaks verbs is in a plug-in, which is built where rdma-core's headers are.
VERBS    := $(call objects,src/rdma)
HAS_RDMA := $(shell printf '\043include <rdma/rdma_cma.h>\n' | $(CC) -E - >/dev/null 2>&1 && echo yes)

UNIT     := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/*_test.c))
SHIMTEST := $(patsubst tests/shim/%.c,$(B)/tests/shim/%,$(wildcard tests/shim/*.c)) \
            $(patsubst tests/shim/%.cc,$(B)/tests/shim/%,$(wildcard tests/shim/*.cc))
BENCH    := $(patsubst tests/bench/%.c,$(B)/tests/bench/%,$(wildcard tests/bench/*.c))
FUZZ     := $(B)/tests/fuzz/calls
FUZZERS  := parsers ring far store carrier pool
FUZZ_SECONDS ?= 600
FAULTS   := $(B)/tests/faults/inject $(B)/tests/faults/saves
KILL     := $(B)/tests/kill/step $(B)/tests/kill/saves $(B)/tests/kill/record $(B)/tests/kill/kept
VM       := $(B)/tests/vm/save $(B)/tests/vm/poison
# An emulated CUDA driver, for tests of what a GPU would do; see tests/emu/README.
EMUTEST  := $(patsubst tests/emu/%.c,$(B)/tests/emu/%,$(wildcard tests/emu/*_test.c))
EMU      := $(B)/tests/emu/libcuda.so.1 $(B)/tests/emu/libcudart.so.12 $(B)/tests/emu/libcudart.so.13 $(B)/tests/emu/libnvidia-ml.so.1 $(EMUTEST) $(B)/tests/emu/schedule
MAN      := $(patsubst man/%.scd,$(B)/man/%,$(wildcard man/*.scd))

PROGRAMS := $(B)/portus-agent $(B)/portusd $(B)/portus-carrier $(B)/portusctl
CTLPARTS := $(POOL) $(filter-out %/main.o,$(CARRIER)) $(TRANSPORT)
CTLLIBS  := -lpmem2 -larchive -lssl -lcrypto -ldl
# The plug-in's double, for what goes by it where there is no RDMA; and what stops its two ends at a step.
VERBSTEST := $(B)/tests/verbs/portus_rdma.so $(B)/tests/verbs/steps.so
ifeq ($(HAS_RDMA),yes)
PROGRAMS += $(B)/portus_rdma.so
VM       += $(B)/tests/vm/pull
endif
# Of portusctl's files those that need one; scripts/device-check reads this line, too.
OF_STORES := badblocks complete deposit dial diff doctor_rdma doctor_store export import keep key names pool portable restore scrub vault versions
LIBC_ONLY ?= no
ifeq ($(LIBC_ONLY),yes)
CTL      := $(filter-out $(patsubst %,$(B)/src/ctl/%.o,$(OF_STORES)),$(CTL)) $(B)/src/ctl/storeless.o
PROGRAMS := $(B)/portus-agent $(B)/portusctl
CTLPARTS :=
CTLLIBS  :=
endif
ifeq ($(SANITIZE),)
PROGRAMS += $(B)/libportus_shim.so
endif

.PHONY: all man tests check check-sanitize check-unit check-errors check-kills check-vm check-site check-zoo soak check-schedules check-cuda check-world \
  fuzz fuzz-calls $(addprefix fuzz-,$(FUZZERS)) bench install dist deb wheel clean format tidy
.DELETE_ON_ERROR:
all: $(PROGRAMS) $(B)/portus-run

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(SANFLAGS) -c -o $@ $<

$(B)/portus-agent: $(AGENT) $(COMMON)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -pthread -o $@ $^

$(B)/portusd: $(STORE) $(TRANSPORT) $(COMMON)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -pthread -o $@ $^ -lpmem2 -lmicrohttpd -lssl -lcrypto -ldl

$(B)/portus-carrier: $(CARRIER) $(TRANSPORT) $(COMMON)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -pthread -o $@ $^ -lssl -lcrypto -ldl

$(B)/portusctl: $(CTL) $(CTLPARTS) $(CLIENT) $(COMMON)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -pthread -o $@ $^ $(CTLLIBS) -lm

$(B)/portus_rdma.so: $(VERBS)
	$(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -shared -Wl,-z,defs -o $@ $^ -lrdmacm -libverbs

# The shim exports what hooks.def lists and nothing else. What it calls is looked up
# when it is called (lazy), as most programs that have it loaded never save anything;
# libdl and libpthread are not named, see preload/versions.h. Of what it exports it calls its
# own (symbolic), whatever else was loaded first: that may have called it. syscall and clone
# are to be the real ones there (wrap).
$(B)/shim.map: preload/hooks.def preload/cuda_hooks.def scripts/shim-map
	@mkdir -p $(@D)
	sh scripts/shim-map preload/hooks.def preload/cuda_hooks.def >$@

# A line that scripts/device-check reads, too.
SHIMFLAGS := -shared -Wl,-z,defs,-z,lazy,-z,relro,-z,noseparate-code,-z,nodelete,-Bsymbolic-functions,--wrap=syscall,--wrap=clone,-soname,libportus_shim.so
SHIMLINK  = $(CC) $(CFLAGS) $(LDFLAGS) $(SHIMFLAGS) -Wl,--version-script=$(1) -o $@ \
	  $(filter-out %/listing.o %/host.o %/metrics.o %/scribe.o,$(filter %.o,$^))

$(B)/libportus_shim.so: $(SHIM) $(CLIENT) $(FORMAT) $(COMMON) $(B)/shim.map
	$(call SHIMLINK,$(B)/shim.map)

# The shim without one line of cuda_hooks.def: test shim/cuda_without.
$(B)/tests/without/%/libportus_shim.so: $(filter-out %/hooks_cuda.o,$(SHIM)) $(CLIENT) $(FORMAT) $(COMMON) \
  preload/hooks_cuda.c preload/cuda_hooks.def preload/hooks.def scripts/shim-map
	@mkdir -p $(@D)
	sed '/^CUDA_[A-Z]*($*,/d' preload/cuda_hooks.def >$(@D)/cuda_hooks.def
	sh scripts/shim-map preload/hooks.def $(@D)/cuda_hooks.def >$(@D)/shim.map
	cp preload/hooks_cuda.c $(@D)
	$(CC) $(filter-out -MMD -MP,$(BASE)) $(CFLAGS) -Ipreload -c -o $(@D)/hooks_cuda.o $(@D)/hooks_cuda.c
	$(call SHIMLINK,$(@D)/shim.map) $(@D)/hooks_cuda.o

$(B)/portus-run: scripts/portus-run
	@mkdir -p $(@D)
	cp $< $@ && chmod 755 $@

# No such device here: what libpmem2 tells of one is the test's.
$(B)/tests/unit/pool_badblocks_test: LDFLAGS += -Wl,--wrap=pmem2_badblock_context_new,--wrap=pmem2_badblock_next,--wrap=pmem2_badblock_clear,--wrap=pmem2_badblock_context_delete

$(B)/tests/unit/rdma_wait_test: $(filter %/lane.o %/rdma.o %/rdma_fetch.o %/rdma_files.o %/rdma_offer.o %/rdma_buffers.o,$(TRANSPORT))
$(B)/tests/unit/pool_evict_test: $(B)/src/store/evict.o
$(filter $(B)/tests/unit/pool_%,$(UNIT)): $(B)/%: %.c $(POOL) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $< $(filter %.o,$^) -lcmocka -lpmem2

$(B)/tests/unit/%: tests/unit/%.c $(CLIENT) $(FORMAT) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $< $(filter %.o,$^) -lcmocka

$(B)/tests/shim/cuda_%: LDLIBS = -L$(B)/tests/emu -l:libcuda.so.1 -Wl,-rpath,'$$ORIGIN/../emu'
$(filter $(B)/tests/shim/cuda_%,$(SHIMTEST)): $(B)/tests/emu/libcuda.so.1
$(B)/tests/shim/cuda_calls $(B)/tests/shim/cuda_shapes: LDLIBS += -l:libcudart.so.13
$(B)/tests/shim/cuda_closed: LDLIBS = # it opens it
$(B)/tests/shim/cuda_pinned: LDLIBS += -luring
$(B)/tests/shim/cuda_calls $(B)/tests/shim/cuda_shapes: $(B)/tests/emu/libcudart.so.13
$(B)/tests/shim/libaio: LDLIBS = -laio
$(B)/tests/shim/uring: LDLIBS = -luring
$(B)/tests/shim/%: tests/shim/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Wno-unused-value -pthread -MMD -MP -o $@ $< $(LDLIBS)

$(B)/tests/shim/%: tests/shim/%.cc
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Werror -pthread -MMD -MP -o $@ $<

$(B)/tests/kill/kept $(B)/tests/vm/poison: $(B)/%: %.c $(POOL) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) -lpmem2

$(B)/tests/kill/%: tests/kill/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -MMD -MP -o $@ $<

$(B)/tests/verbs/portus_rdma.so: tests/verbs/double.c
$(B)/tests/verbs/steps.so: tests/verbs/steps.c
$(VERBSTEST):
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -fPIC -Isrc -Iinclude -Wall -Wextra -Werror \
	  -Wno-unused-parameter -MMD -MP -shared -o $@ $<

$(B)/tests/vm/pull: tests/vm/pull.c $(B)/src/transport/verbs_load.o $(COMMON)
	@mkdir -p $(@D)
	ln -sf ../../portus_rdma.so $(@D)
	$(CC) $(BASE) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) -lpmem2 -ldl

$(B)/tests/vm/%: tests/vm/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -MMD -MP -o $@ $<

$(B)/tests/fuzz/%: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Wno-unused-value -pthread -MMD -MP -o $@ $<

$(B)/tests/faults/%: tests/faults/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Wno-unused-parameter -MMD -MP -o $@ $<

EMUFLAGS := -std=gnu11 -D_GNU_SOURCE -O1 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror \
            -Wno-unused-parameter -pthread -MMD -MP

$(B)/tests/emu/%.o: tests/emu/%.c
	@mkdir -p $(@D)
	$(CC) $(EMUFLAGS) -c -o $@ $<

$(B)/tests/emu/libcuda.so.1: $(call objects,tests/emu/driver)
	$(CC) -shared -pthread -Wl,-z,defs,-Bsymbolic,-soname,$(@F) -o $@ $^

$(B)/tests/emu/libnvidia-ml.so.1: $(B)/tests/emu/nvml.o
	$(CC) -shared -Wl,-z,defs,-soname,$(@F) -o $@ $^

$(B)/tests/emu/runtime12/%.o: tests/emu/runtime/%.c
	@mkdir -p $(@D)
	$(CC) $(EMUFLAGS) -DEMU_RUNTIME=12 -c -o $@ $<

# As NVIDIA's, its symbols have a version: that of its name.
$(B)/tests/emu/libcudart.so.12: $(patsubst $(B)/tests/emu/runtime/%,$(B)/tests/emu/runtime12/%,$(call objects,tests/emu/runtime))
$(B)/tests/emu/libcudart.so.13: $(call objects,tests/emu/runtime)
$(B)/tests/emu/libcudart.so.12 $(B)/tests/emu/libcudart.so.13:
	echo '$(@F) { global: cuda*; __cuda*; local: *; };' >$@.map
	$(CC) -shared -pthread -Wl,-z,defs,-Bsymbolic,-soname,$(@F),--version-script=$@.map -o $@ $^

$(B)/tests/emu/schedule: tests/emu/schedule.c $(B)/tests/emu/libcuda.so.1
	$(CC) $(EMUFLAGS) -o $@ $(filter %.c %.so.1,$^) -Wl,-rpath,'$$ORIGIN'

$(B)/tests/emu/runtime_test: $(B)/tests/emu/libcudart.so.13
$(B)/tests/emu/%_test: tests/emu/%_test.c $(B)/tests/emu/libcuda.so.1
	$(CC) $(EMUFLAGS) -o $@ $(filter %.c %.so.1 %.so.13,$^) -Wl,-rpath,'$$ORIGIN' -lcmocka

$(B)/tests/bench/pool: tests/bench/pool.c $(POOL) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) -lpmem2

$(B)/tests/bench/promise: $(CLIENT)
$(B)/tests/bench/%: tests/bench/%.c $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(LDFLAGS) -o $@ $< $(filter %.o,$^)

$(B)/man/%: man/%.scd
	@mkdir -p $(@D)
	scdoc <$< >$@

man: $(MAN)
tests: all $(UNIT) $(SHIMTEST) $(FUZZ) $(FAULTS) $(KILL) $(VM) $(EMU) $(VERBSTEST)

check: tests $(MAN)
	B=$(B) python3 tests/run

# The agent and the unit tests under ASan and UBSan, then under TSan.
check-sanitize: tests
	B=$(B) sh tests/sanitize

# What tests/world runs a part of in `check`.
check-world: tests
	CHECK=check-world WORLD=all B=$(B) python3 tests/run -v --timeout 7200 world/

check-unit: $(UNIT)
	@set -e; for t in $(UNIT); do $$t; done

fuzz: fuzz-calls $(addprefix fuzz-,$(FUZZERS))

# Random programs of file calls, plainly and with the shim.
fuzz-calls: all $(FUZZ)
	B=$(B) tests/fuzz/fuzz $(or $(F),--seconds $(FUZZ_SECONDS))

check-kills: all $(KILL)
	B=$(B) tests/kill/sweep $(K)
	B=$(B) tests/kill/sweep --stop --kills 600 -j 8
	B=$(B) tests/kill/sweep --store --kills 2000

# Guests in QEMU: see tests/lib/guest.py.
check-vm: all $(KILL) $(VM) $(VERBSTEST)
	CHECK=check-vm CYCLES=$${CYCLES:-50} B=$(B) python3 tests/run -v --timeout 14400 vm/ app/store_net app/store_rdma_kill app/store_rdma_steps app/store_tcp_kill app/store_tcp_steps

# Packages, containers and a scheduler; wants root, the network, and sh scripts/install-deps site.
check-site: all
	CHECK=check-site B=$(B) python3 tests/run -v --timeout 1500 site/

# Programs and preloaded libraries of many kinds, all of each.
check-zoo: tests
	CHECK=check-zoo B=$(B) python3 tests/run -v --timeout 3600 zoo/

# Saves and kills for SECONDS; what that takes of the machine must come to rest.
soak: all
	CHECK=soak SECONDS=$${SECONDS:-3600} B=$(B) python3 tests/run -v --timeout 90000 app/keep_last app/soak

# On the emulated GPU: more frameworks, the shim without each of its lines, scripts/device-check.
check-cuda: tests
	CHECK=check-cuda B=$(B) python3 tests/run -v --timeout 3600 app/cuda_ app/device_check shim/cuda_a shim/cuda_many shim/cuda_without

# Of streams, copies, writes and forks, on the emulated GPU.
check-schedules: all $(EMU)
	SCHEDULES=$${SCHEDULES:-10000} B=$(B) python3 tests/run -v --timeout 36000 emu/schedule

check-errors: all $(FAULTS)
	B=$(B) python3 tests/faults/faults $(F)
	B=$(B) python3 tests/faults/faults --store $(F)

# By clang's libFuzzer, each for FUZZ_SECONDS; what they share is compiled once. Corpora stay in $(B)/fuzz/corpus.
fuzzed    = $(patsubst $(B)/%.o,$(B)/fuzz/%.o,$(1))
$(B)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	clang $(BASE) -Wno-missing-prototypes -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -c -o $@ $<

# What reads text, files and packets of others.
$(B)/fuzz/parsers: $(call fuzzed,$(addprefix $(B)/src/,ctl/advise.o ctl/elf.o ctl/json.o ctl/look.o ctl/portable.o ctl/text.o \
  ctl/try_saves.o store/config.o transport/key.o transport/wire.o) $(FORMAT) $(CLIENT) $(COMMON))
$(B)/fuzz/parsers: FUZZLIBS = -Wl,--wrap=open,--wrap=syscall,--wrap=SSL_read -lssl -lcrypto -lm
# The agent, and what clients have in their rings; what they and a store say.
$(B)/fuzz/ring: $(call fuzzed,$(filter-out %/main.o,$(AGENT)) $(COMMON))
$(B)/fuzz/ring: FUZZLIBS = -Wl,--wrap=_exit,--wrap=pwritev2
# portusd, and what a client on another machine may say to it; and one on this machine.
$(B)/fuzz/far: $(call fuzzed,$(filter-out %/main.o %/wire.o,$(STORE) $(TRANSPORT)) $(COMMON))
$(B)/fuzz/store: $(call fuzzed,$(filter-out %/main.o,$(STORE)) $(TRANSPORT) $(COMMON))
$(B)/fuzz/far $(B)/fuzz/store: FUZZLIBS = -lpmem2 -lmicrohttpd -lssl -lcrypto -ldl
# portus-carrier, and a store that lies to it.
$(B)/fuzz/carrier: $(call fuzzed,$(filter-out %/main.o %/join.o,$(CARRIER)) $(filter-out %/wire.o,$(TRANSPORT)) $(COMMON))
$(B)/fuzz/carrier: FUZZLIBS = -lcrypto -ldl
# The pool's images, and a portusd that shows them.
$(B)/fuzz/pool: $(call fuzzed,$(POOL) $(COMMON))
$(B)/fuzz/pool: FUZZLIBS = -Wl,--wrap=portus_message_send,--wrap=portus_message_receive_bytes -lpmem2

$(addprefix $(B)/fuzz/,$(FUZZERS)): $(B)/fuzz/%: $(B)/fuzz/tests/fuzz/%_fuzz.o
	clang -pthread -fsanitize=fuzzer,address,undefined -o $@ $(filter %.o,$^) $(FUZZLIBS)

LIMITS_parsers := -timeout=10 -max_len=4096
LIMITS_ring    := -timeout=20 -max_len=800 -len_control=0
LIMITS_far     := -timeout=20 -max_len=2000
LIMITS_store   := -timeout=20 -max_len=2000 -len_control=0
LIMITS_carrier := -timeout=20 -max_len=2000
# A bitmap of 64 TiB takes no memory, but what the sanitizer knows of it.
LIMITS_pool    := -timeout=10 -max_len=600 -malloc_limit_mb=1000000 -rss_limit_mb=4096
$(addprefix fuzz-,$(FUZZERS)): fuzz-%: $(B)/fuzz/%
	@mkdir -p $(B)/fuzz/corpus/$*
	python3 tests/fuzz/seeds.py $* $(B)/fuzz/corpus/$*
	cd $(B)/fuzz && ./$* $(LIMITS_$*) $(or $(F),-max_total_time=$(FUZZ_SECONDS)) corpus/$*

bench: all $(BENCH) $(EMU)
	B=$(B) python3 tests/bench/bench.py

install: all man
	install -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	  $(DESTDIR)$(PREFIX)/share/man/man7 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(B)/libportus_shim.so $(B)/portus-agent $(B)/portusd $(B)/portus-carrier \
	  scripts/slurm-task $(DESTDIR)$(LIBDIR)
	if [ -e $(B)/portus_rdma.so ]; then install -m 755 $(B)/portus_rdma.so $(DESTDIR)$(LIBDIR); fi
	install -m 755 $(B)/portusctl $(B)/portus-run $(DESTDIR)$(PREFIX)/bin
	ln -sf $(PREFIX)/bin/portusctl $(DESTDIR)$(LIBDIR)/portusctl
	for m in $(MAN); do install -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}; done
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSCONFDIR)/portus
	sed 's|@LIBDIR@|$(LIBDIR)|' scripts/systemd/portusd.service.in >$(DESTDIR)$(UNITDIR)/portusd.service
	install -m 644 scripts/systemd/portusd.socket $(DESTDIR)$(UNITDIR)
	test -e $(DESTDIR)$(SYSCONFDIR)/portus/portusd.conf || \
	  install -m 644 scripts/systemd/portusd.conf $(DESTDIR)$(SYSCONFDIR)/portus
	install -d $(DESTDIR)$(PREFIX)/share/portus
	install -m 644 scripts/prometheus/portus.rules.yml $(DESTDIR)$(PREFIX)/share/portus
	install -m 644 scripts/portusctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/portusctl

dist:
	git archive --prefix=portus-$(VERSION)/ -o portus-$(VERSION).tar.gz HEAD

deb:
	sh scripts/deb

wheel:
	sh scripts/wheel

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

tidy:
	clang-tidy --quiet $$(git ls-files 'src/*.c' 'preload/*.c') -- -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc

clean:
	rm -rf build build-*

-include $(shell find $(B) -name '*.d' 2>/dev/null)
