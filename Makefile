# ptxpack: a C library and a command; needs gcc, make, gzip, libc, the headers of libxxhash-dev, libmd-dev and
# zlib1g-dev.
# `make help` lists the targets; V=1 shows the commands.

# As many files at once as there are processors, unless -j says otherwise.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

CC        ?= gcc
OBJCOPY   ?= objcopy
PREFIX    ?= /usr/local
B         := build
VERSION   := $(shell sed -n 's/^.define PTXPACK_VERSION  *"\(.*\)"/\1/p' loader/version.h)
SOVERSION := 0

# Another compiler may warn of more: an error only where it is asked for, as .ci/run does.
WERROR ?=
WARN   := -Wall -Wextra -Wpedantic -Wc++-compat -Wshadow -Wstrict-prototypes $(WERROR)
# Checks that cost nothing that can be measured; who gives CFLAGS or LDFLAGS, gives these, too, or does without.
FORTIFIED := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
HARDENED  := -fstack-protector-strong $(FORTIFIED)
# -g1: lines for backtraces; variables, too, take a quarter of the time of a build.
# The user's CFLAGS, CPPFLAGS and LDLIBS are added to, also those of the command line.
override CPPFLAGS += -D_GNU_SOURCE -I.
OPTIMISED := -O2
CFLAGS  ?= $(OPTIMISED) -g1 $(HARDENED)
LDFLAGS ?= -Wl,-z,relro,-z,now
# Without tables for unwinding through C, 7 % of the library; debuggers have those of -g.
override CFLAGS += -pipe -std=c11 -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=off -fno-asynchronous-unwind-tables $(WARN)
override LDLIBS += -ldl -lpthread -lm

# ---- sources: every file of a room belongs to it ------------------------------------------------
sources   = $(sort $(wildcard $(addsuffix /*.c,$(1))))
LIB_SRC   := $(call sources,cache cache/* loader loader/* host host/* host/*/*)
# The model of the example is what `ptxpack bench model` runs; it includes the headers as they are installed.
MODEL_SRC := $(filter-out %/main.c,$(call sources,tools/examples/llama))
TOOLS_SRC := $(call sources,tools $(addprefix tools/,commands commands/decoder commands/parallel notation workbench problem problem/hooks bench bench/serving bench/parallel bench/model)) $(MODEL_SRC)
RUNTIME_SRC := $(call sources,tools/emu/runtime)
NCCL_SRC  := $(call sources,tools/emu/nccl)
EMU_SRC   := $(filter-out $(RUNTIME_SRC) $(NCCL_SRC),$(call sources,tools/emu/*))
CHECK_SRC := $(call sources,tests/check tests/check/* tests/support)
# Each file is a program, except the fakes of libraries and the file that records data on a GPU.
TEST_SRC  := $(filter-out tests/check/% tests/support/% tests/fake/% tests/data/%,$(call sources,tests/* tests/*/*))
TEST_SH   := $(sort $(wildcard $(addsuffix /*.sh,tests/* tests/*/*)))
PTX_FILES      := $(patsubst ptx/%,%,$(sort $(wildcard ptx/*/*.ptx ptx/*/*/*.ptx)))
INLINE_HEADERS := $(patsubst ptx/%,%,$(sort $(wildcard ptx/inline/*.h)))
PACK_FILES     := $(PTX_FILES) $(INLINE_HEADERS)
# These headers are installed flat; everything else is private.
PUBLIC_HEADERS := cache/cache.h \
    $(addprefix loader/,version.h status.h driver.h registry.h loader.h expand/expand.h build/program.h build/preload.h) \
    $(addprefix host/,ptxpack.h dtype.h preload_plan.h layout/layout.h layout/tensor.h) \
    $(addprefix host/atom/,atom.h copy_atom.h tiled.h banks.h wgmma.h tma.h) \
    $(addprefix host/,plan/instance.h attention/attention.h attention/append/append.h attention/merge/merge.h attention/blocks/blocks.h parallel/parallel.h gemm/gemm.h vector/vector.h norm/norm.h quantise/quantise.h gather/gather.h sampling/sampling.h experts/experts.h) \
    tools/emu/emu_api.h

objects   = $(patsubst %.c,$(B)/%.o,$(1))
LIB_OBJ   := $(call objects,$(LIB_SRC)) $(B)/pack_files.o $(B)/pack_identity.o
TOOLS_OBJ := $(call objects,$(TOOLS_SRC))
EMU_OBJ   := $(call objects,$(EMU_SRC))
RUNTIME_OBJ := $(call objects,$(RUNTIME_SRC))
NCCL_OBJ  := $(call objects,$(NCCL_SRC)) $(B)/tools/emu/compute/float_format.o
CHECK_OBJ := $(call objects,$(CHECK_SRC))
# tests/host/layout/coord.c becomes build/tests/host-layout-coord, beside the fake libraries.
binary     = $(B)/tests/$(subst /,-,$(patsubst tests/%.c,%,$(1)))
TESTS     := $(foreach test,$(TEST_SRC),$(call binary,$(test)))

# ---- rules --------------------------------------------------------------------------------------------
ifneq ($(V),1)
Q := @
SAY = @printf '  %-7s %s\n'
else
SAY = @true
endif
COMPILE = $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP
# Calls within the library do not go through its table of exported functions.
SHARED  = $(CC) -shared -Wl,-soname,$(1) -Wl,-z,defs,-Bsymbolic-functions $(LDFLAGS)

.PHONY: all lib docs demo test test-programs check format install uninstall clean help deps test-deps emulated-libcuda
.DELETE_ON_ERROR:

all: lib $(B)/ptxpack $(B)/libptxpack-emu.so docs  ## build the library and the command (the default)
lib: $(B)/libptxpack.so $(B)/libptxpack.a $(B)/public/libptxpack.a headers

# The algebra is calls of a few nanoseconds on arrays of fixed size: there the checks of the stack take 2 %.  Not where
# text is read.
$(call objects,$(filter-out %/text.c %/print_tensor.c,$(call sources,host/layout host/atom))): HARDENED := $(FORTIFIED)
# What runs once for a plan, or seldom, is small rather than fast: 48 KB less.  Fast: the algebra, the expander, what a
# launch runs, the references.
SMALL := $(filter-out loader/expand/% host/layout/% host/plan/% host/vector/% %/reference.c $(addprefix \
  loader/build/,kernel.c function.c) $(addprefix host/,attention/attention.c gemm/gemm.c),$(LIB_SRC)) \
  host/layout/text.c host/layout/print_tensor.c
$(call objects,$(SMALL)): OPTIMISED := -Os
# These are as fast with -O1 as with -O2, which takes longer and makes 16 KB more.
$(call objects,$(filter-out $(SMALL),$(call sources,host/layout loader/expand))): OPTIMISED := -O1
# Tools that wait for people, files or a device are compiled sooner with -O1, and what the emulator computes for 32 lanes, but for
# what attention does most; commands, what they print, and the emulated calls of the driver are not optimised at all, and do without
# the checks of libc's calls, which want optimisation.  That is a quarter of a build's time.
FREQUENT := $(addprefix tools/emu/compute/alu_,float.c approx.c compare.c select.c)
SOON := $(filter-out $(FREQUENT),$(TOOLS_SRC) $(call sources,$(addprefix tools/emu/,code compute decode machine ptx)))
$(call objects,$(SOON)): OPTIMISED := -O1
PLAIN := $(call sources,tools $(addprefix tools/,commands commands/parallel notation workbench emu/driver)) $(RUNTIME_SRC) $(NCCL_SRC)
$(call objects,$(PLAIN)): OPTIMISED := -O0
$(call objects,$(PLAIN)): HARDENED := -fstack-protector-strong
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(COMPILE) -c $< -o $@

$(call objects,$(MODEL_SRC) tools/bench/model/model.c): override CPPFLAGS += -I$(B)/include
$(call objects,$(MODEL_SRC) tools/bench/model/model.c): override CFLAGS += -Wno-c++-compat
$(call objects,$(MODEL_SRC) tools/bench/model/model.c): | headers

# libmd's SHA-256 and zlib's inflate become parts of these objects, under local names: nothing else needs libmd or zlib.
$(B)/cache/prebuilt/sha256.o: WITHIN := libmd.a
$(B)/loader/pack/unpack.o: WITHIN := libz.a
$(B)/cache/prebuilt/sha256.o $(B)/loader/pack/unpack.o: $(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(COMPILE) -MT $@ -MF $(@:.o=.d) -c $< -o $(@:.o=_alone.o)
	$(Q)$(CC) -r -nostdlib $(@:.o=_alone.o) -l:$(WITHIN) -o $@ && \
	  $(OBJCOPY) --wildcard --keep-global-symbol='ptxpack_*' $@

# The headers as they are installed: one folder, in which they include each other by name alone.
.PHONY: headers
headers: $(addprefix $(B)/include/ptxpack/,$(notdir $(PUBLIC_HEADERS)) $(INLINE_HEADERS))
flat = sed 's|^\#include ".*/|\#include "|'
$(B)/include/ptxpack/inline/%.h: ptx/inline/%.h
	@mkdir -p $(@D)
	$(Q)cp $< $@
define public_header
$(B)/include/ptxpack/$(notdir $(1)): $(1) Makefile
	@mkdir -p $$(@D)
	$$(Q)$$(flat) $(1) > $$@
endef
$(foreach header,$(PUBLIC_HEADERS),$(eval $(call public_header,$(header))))

# The pack: one object that carries every .ptx file and inline header under its path below ptx/, by gzip and without
# comments, which nobody sees there; every line keeps its number, for messages.
$(B)/pack/%: ptx/% Makefile
	@mkdir -p $(@D)
	$(Q)sed -e 's|//.*||' -e 's|[[:space:]]*$$||' $< > $@
.SECONDARY: $(PACK_FILES:%=$(B)/pack/%)
$(B)/pack/%.gz: $(B)/pack/%
	$(Q)gzip -9nc $< > $@
$(B)/pack_files.c: tools/install/embed.sh Makefile $(PACK_FILES:%=$(B)/pack/%.gz)
	$(SAY) GEN $@
	$(Q)sh $< $(B)/pack $(PACK_FILES) > $@
# The text of a kernel depends on this digest beside its row and symbols: prebuilt machine code belongs to one digest.
EXPANDER := $(sort $(wildcard loader/expand/*.[ch]))
$(B)/pack_identity.c: Makefile $(PTX_FILES:%=$(B)/pack/%) $(EXPANDER)
	$(SAY) GEN $@
	$(Q)pack=$$({ (cd $(B)/pack && sha256sum $(PTX_FILES)); sha256sum $(EXPANDER); } | sha256sum | cut -d' ' -f1); \
	{ printf '/* made by the Makefile */\n#include "loader/inspect.h"\n'; \
	  printf 'const char ptxpack_pack_identity[] = "%s";\n' $$pack; \
	  printf 'const char ptxpack_library_version[] = "%s (pack %.8s)";\n' $(VERSION) $$pack; } > $@
$(B)/pack_files.o $(B)/pack_identity.o: $(B)/%.o: $(B)/%.c
	$(SAY) CC $<
	$(Q)$(COMPILE) -c $< -o $@

$(B)/libptxpack.so: $(LIB_OBJ)
	$(SAY) LINK $@
	$(Q)$(call SHARED,libptxpack.so.$(SOVERSION)) $^ $(LDLIBS) -o $@
# This library is installed: its hidden names are local, so that they do not collide with names of the program.
$(B)/public/libptxpack.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(SAY) AR $@
	$(Q)rm -f $@ && $(LD) -r $^ -o $(@D)/ptxpack.o && \
	  $(OBJCOPY) --localize-hidden --strip-debug $(@D)/ptxpack.o && \
	  ar rcs $@ $(@D)/ptxpack.o
# All names except the driver's own are hidden: a program may load it beside the real driver.
$(B)/libptxpack-emu.so: $(EMU_OBJ)
	$(SAY) LINK $@
	$(Q)$(call SHARED,libptxpack-emu.so) $^ $(LDLIBS) -o $@
# The same library under the name that programs linked with -lcuda load.
$(B)/emulated/libcuda.so.1: $(EMU_OBJ)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(call SHARED,libcuda.so.1) $^ $(LDLIBS) -o $@
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so
# A small CUDA runtime that calls the library beside it.
$(B)/emulated/libcudart.so.13: $(RUNTIME_OBJ) tools/emu/runtime/exports.map $(B)/emulated/libcuda.so.1
	$(SAY) LINK $@
	$(Q)$(call SHARED,libcudart.so.13) -Wl,--version-script=tools/emu/runtime/exports.map -Wl,-rpath,'$$ORIGIN' $(RUNTIME_OBJ) \
	  $(B)/emulated/libcuda.so.1 -lpthread -o $@
# NCCL for the emulated driver that a program has loaded, under whatever name.
$(B)/emulated/libnccl.so.2: $(NCCL_OBJ)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(call SHARED,libnccl.so.2) $^ $(LDLIBS) -o $@
emulated-libcuda: $(addprefix $(B)/emulated/,libcuda.so.1 libcudart.so.13 libnccl.so.2)  ## build the emulated libcuda.so.1, libcudart.so.13 and libnccl.so.2, in build/emulated/
$(B)/libptxpack.a: $(LIB_OBJ)
$(B)/libptxpack-emu.a: $(EMU_OBJ)
$(B)/libtools.a: $(filter-out $(B)/tools/main.o,$(TOOLS_OBJ))
$(B)/libcheck.a: $(filter-out $(B)/tests/check/main.o,$(CHECK_OBJ))
$(B)/libptxpack.a $(B)/libptxpack-emu.a $(B)/libtools.a $(B)/libcheck.a:
	$(SAY) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/ptxpack: $(B)/tools/main.o $(B)/libtools.a $(B)/libptxpack.a
$(B)/ptxpack-check: $(B)/tests/check/main.o $(B)/libcheck.a $(B)/libtools.a $(B)/libptxpack.a
$(B)/ptxpack $(B)/ptxpack-check:
	$(SAY) LINK $@
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Manual pages and completions, from the tables of the command and from the texts of the house.
docs: $(B)/share/ptxpack.1
$(B)/share/ptxpack.1: tools/install/docs.sh tools/install/manual.sh $(B)/ptxpack loader/README.md tools/emu/README.md ptx/README.md
	@mkdir -p $(@D)
	$(Q)sh $< $(B)/ptxpack $(@D) $(VERSION)

# ---- tests --------------------------------------------------------------------------------------------
# A test program is one source file with the library, the helpers of the command and of the checker, and the
# emulated driver as a part of the program; the linker takes what is used.
TEST_LIBS := $(addprefix $(B)/,libcheck.a libtools.a libptxpack.a libptxpack-emu.a)
RECORD    := tests/data/record_emu_vectors.c
$(foreach test,$(TEST_SRC) $(RECORD),$(eval $(call binary,$(test)): $(test:%.c=$(B)/%.o)))
$(TESTS) $(call binary,$(RECORD)): $(TEST_LIBS)
	$(SAY) TEST $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(TEST_LIBS) $(LDLIBS) -lcmocka -o $@
# These tests are above the loader: a mock replaces it and the GPU.
$(addprefix $(B)/tests/,host-attention-attention host-attention-refusals host-attention-lengths host-attention-heads host-attention-bias host-attention-arrivals \
  host-gemm-plan \
  tools-checker): $(B)/tests/fake/loader.o
# cuda.h, if it is installed, is not our code: its warnings are not shown.
$(B)/tests/%.o: override CPPFLAGS += -idirafter /usr/local/cuda/include
# The inline headers as the preprocessor leaves them for all targets at once.
$(B)/tests/inline-text: $(B)/tests/inline.i
$(B)/tests/inline.i: $(INLINE_HEADERS:%=$(B)/include/ptxpack/%)
	@mkdir -p $(@D)
	$(Q)printf '#include <ptxpack/%s>\n' $(INLINE_HEADERS) | $(CC) -E -P -x c -I$(B)/include -D__device__= \
	  -D__forceinline__=inline -D__CUDA_ARCH__=1200 -D__CUDA_ARCH_FEAT_SM90_ALL -D__CUDA_ARCH_FEAT_SM120_ALL - -o $@
# Fake libraries for the tests of the loader: drivers of three ages, compilers without a build id.
FAKES := $(patsubst %,$(B)/tests/fake_%.so,driver driver_v1 driver_plain ptxjit nvrtc nvrtc_old nvrtc_broken)
$(foreach fake,$(FAKES),$(eval $(fake): tests/fake/$(word 2,$(subst _, ,$(basename $(notdir $(fake))))).c))
$(B)/tests/fake_driver_v1.so: override CPPFLAGS += -DFAKE_NO_V2
$(B)/tests/fake_driver_plain.so: override CPPFLAGS += -DFAKE_NO_PROC
$(B)/tests/fake_nvrtc_old.so: override CPPFLAGS += -DFAKE_NO_CUBIN
$(B)/tests/fake_nvrtc_broken.so: override CPPFLAGS += -DFAKE_NO_NAMES
$(filter-out %driver.so %v1.so %plain.so,$(FAKES)): override LDFLAGS += -Wl,--build-id=none
$(FAKES):
	@mkdir -p $(@D)
	$(SAY) FAKE $@
	$(Q)$(COMPILE) -MF $@.d -shared $(LDFLAGS) $(filter %.c,$^) -ldl -o $@

test-programs: all emulated-libcuda $(TESTS) $(FAKES) $(B)/ptxpack-check
test: test-deps  ## run all tests that this machine can run
	@$(MAKE) --no-print-directory test-programs
	@tests/run.sh $(B) $(patsubst tests/%.c,%,$(TEST_SRC)) $(patsubst tests/%,%,$(TEST_SH))
check: all $(B)/ptxpack-check  ## run only the device checker: every kernel against the reference, in full
	$(B)/ptxpack-check
format:  ## format every C file as .clang-format says
	@sh tests/house/format.sh --apply

-include $(patsubst %.o,%.d,$(LIB_OBJ) $(EMU_OBJ) $(RUNTIME_OBJ) $(NCCL_OBJ) $(TOOLS_OBJ) $(CHECK_OBJ) $(call objects,$(TEST_SRC) $(RECORD) tests/fake/loader.c))
-include $(FAKES:%=%.d)

# ---- what is needed from the distribution -------------------------------------------------------------
# $(call need,header,package): prints what it will install, then installs it, with sudo if not root.
need = echo '\#include <$(1)>' | $(CC) -E -x c - >/dev/null 2>&1 || { \
	echo "ptxpack: $(2) is missing; installing it with apt-get"; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get -qq install -y $(2) >/dev/null 2>&1 || \
	  { $$sudo apt-get -qq update && $$sudo apt-get -qq install -y $(2) >/dev/null; } || \
	  { echo "ptxpack: could not install $(2); install it by hand" >&2; exit 1; }; }
deps:
	@$(call need,stdio.h,libc6-dev)
	@$(call need,xxhash.h,libxxhash-dev)
	@$(call need,sha2.h,libmd-dev)
	@$(call need,zlib.h,zlib1g-dev)
test-deps: deps
	@$(call need,cmocka.h,libcmocka-dev)

demo: deps  ## run attention on random input, verified, cold and warm from the cache
	@$(MAKE) --no-print-directory all
	@tools/demo.sh $(B)/ptxpack

# ---- the rest -----------------------------------------------------------------------------------------
# The folders of the installation, all below DESTDIR; STRIP=no keeps the symbols for distributions that strip them.
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR    ?= $(PREFIX)/share
PYTHONDIR  ?= $(DATADIR)/ptxpack/python
STRIP      ?= strip
INSTALL    := DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" BINDIR="$(BINDIR)" LIBDIR="$(LIBDIR)" INCLUDEDIR="$(INCLUDEDIR)" \
              DATADIR="$(DATADIR)" PYTHONDIR="$(PYTHONDIR)" VERSION=$(VERSION) SOVERSION=$(SOVERSION) STRIP="$(STRIP)" tools/install/install.sh $(B)
install: all  ## install into PREFIX (/usr/local), below DESTDIR
	@$(INSTALL) install
uninstall: headers  ## remove what install put there, with the same PREFIX, DESTDIR and folders
	@$(INSTALL) uninstall

clean:  ## remove build/
	rm -rf $(B)

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' Makefile | expand -t 24
