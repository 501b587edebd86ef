# ptxpack: a C library and a command; needs gcc, make, libc, the headers of libxxhash-dev, and libmd-dev.
# `make help` lists the targets; V=1 shows the commands.

CC        ?= gcc
OBJCOPY   ?= objcopy
PREFIX    ?= /usr/local
B         := build
VERSION   := 0.1.0
SOVERSION := 0

# Another compiler may warn of more: an error only where it is asked for, as .ci/run does.
WERROR ?=
WARN   := -Wall -Wextra -Wpedantic -Wc++-compat -Wshadow -Wstrict-prototypes $(WERROR)
# The user's CFLAGS, CPPFLAGS and LDLIBS are added to, also those of the command line.
override CPPFLAGS += -D_GNU_SOURCE -I.
CFLAGS ?= -O2 -g
override CFLAGS += -std=c11 -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=off $(WARN)
override LDLIBS += -ldl -lpthread -lm

# ---- what there is: every file of a room belongs to it ------------------------------------------------
sources   = $(sort $(wildcard $(addsuffix /*.c,$(1))))
LIB_SRC   := $(call sources,cache cache/* loader loader/* host host/*)
TOOLS_SRC := $(call sources,tools $(addprefix tools/,commands notation workbench problem bench))
EMU_SRC   := $(call sources,tools/emu/*)
CHECK_SRC := $(call sources,tests/check tests/support)
# One program each, but for fakes of libraries, and the one that records data on a GPU.
TEST_SRC  := $(filter-out tests/check/% tests/support/% tests/fake/% tests/data/%,$(call sources,tests/* tests/*/*))
TEST_SH   := $(sort $(wildcard $(addsuffix /*.sh,tests/* tests/*/*)))
PTX_FILES      := $(patsubst ptx/%,%,$(sort $(wildcard ptx/*/*.ptx)))
INLINE_HEADERS := $(patsubst ptx/%,%,$(sort $(wildcard ptx/inline/*.h)))
PACK_FILES     := $(PTX_FILES) $(INLINE_HEADERS)
# Installed flat; everything else is private.
PUBLIC_HEADERS := cache/cache.h \
    $(addprefix loader/,status.h driver.h registry.h loader.h expand/expand.h build/program.h build/preload.h) \
    $(addprefix host/,ptxpack.h dtype.h preload_plan.h layout/layout.h layout/tensor.h) \
    $(addprefix host/atom/,atom.h copy_atom.h tiled.h banks.h wgmma.h tma.h) \
    $(addprefix host/,plan/instance.h attention/attention.h gemm/gemm.h vector/vector.h) \
    tools/emu/emu_api.h

objects   = $(patsubst %.c,$(B)/%.o,$(1))
LIB_OBJ   := $(call objects,$(LIB_SRC)) $(B)/pack_files.o $(B)/pack_identity.o
TOOLS_OBJ := $(call objects,$(TOOLS_SRC))
EMU_OBJ   := $(call objects,$(EMU_SRC))
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
SHARED  = $(CC) -shared -Wl,-soname,$(1) -Wl,-z,defs $(LDFLAGS)

.PHONY: all lib demo test test-programs check format install uninstall clean help deps test-deps emulated-libcuda
.DELETE_ON_ERROR:

all: lib $(B)/ptxpack $(B)/libptxpack-emu.so  ## build the library and the command (the default)
lib: $(B)/libptxpack.so $(B)/libptxpack.a $(B)/public/libptxpack.a headers

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(COMPILE) -c $< -o $@

# libmd's SHA-256 becomes part of this object, under local names: nothing else has to know of libmd.
$(B)/cache/prebuilt/sha256.o: cache/prebuilt/sha256.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(COMPILE) -MT $@ -MF $(@:.o=.d) -c $< -o $(@:.o=_alone.o)
	$(Q)$(CC) -r -nostdlib $(@:.o=_alone.o) -l:libmd.a -o $@ && \
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

# The pack: one object that carries every .ptx file and inline header under its path below ptx/, without
# comments, which nobody sees there; every line stays where it is, for messages.
$(B)/pack/%: ptx/%
	@mkdir -p $(@D)
	$(Q)sed -e 's|//.*||' -e 's|[[:space:]]*$$||' $< > $@
$(B)/pack_files.c: tools/install/embed.sh Makefile $(PACK_FILES:%=$(B)/pack/%)
	$(SAY) GEN $@
	$(Q)sh $< $(B)/pack $(PACK_FILES) > $@
# What the text of a kernel depends on beside its row and symbols: prebuilt machine code is of one such digest.
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
# The one that is installed: its hidden names are local, so that they meet no name of the program's own.
$(B)/public/libptxpack.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(SAY) AR $@
	$(Q)rm -f $@ && $(LD) -r $^ -o $(@D)/ptxpack.o && \
	  $(OBJCOPY) --localize-hidden --strip-debug $(@D)/ptxpack.o && \
	  ar rcs $@ $(@D)/ptxpack.o
# Hidden names but for the driver's own: a program may load it beside the real one.
$(B)/libptxpack-emu.so: $(EMU_OBJ)
	$(SAY) LINK $@
	$(Q)$(call SHARED,libptxpack-emu.so) $^ -lpthread -lm -o $@
# The same under the name that programs linked with -lcuda ask for.
$(B)/emulated/libcuda.so.1: $(EMU_OBJ)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(call SHARED,libcuda.so.1) $^ -lpthread -lm -o $@
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so
emulated-libcuda: $(B)/emulated/libcuda.so.1  ## the emulated driver as libcuda.so.1, in build/emulated/
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

# ---- tests --------------------------------------------------------------------------------------------
# A test program is one source file with the library, the helpers of the command and of the checker, and the
# emulated driver to be called from within; of these the linker takes what is used.
TEST_LIBS := $(addprefix $(B)/,libcheck.a libtools.a libptxpack.a libptxpack-emu.a)
RECORD    := tests/data/record_emu_vectors.c
$(foreach test,$(TEST_SRC) $(RECORD),$(eval $(call binary,$(test)): $(test:%.c=$(B)/%.o)))
$(TESTS) $(call binary,$(RECORD)): $(TEST_LIBS)
	$(SAY) TEST $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(TEST_LIBS) $(LDLIBS) -lcmocka -o $@
# Above the loader: a mock stands in for it and the GPU.
$(addprefix $(B)/tests/,host-attention-attention host-attention-refusals host-gemm-plan tools-checker): $(B)/tests/fake/loader.o
# cuda.h, where there is one, is somebody else's code: no warnings from it.
$(B)/tests/%.o: override CPPFLAGS += -idirafter /usr/local/cuda/include
# The inline headers as the preprocessor leaves them for sm_90a.
$(B)/tests/inline-text: $(B)/tests/inline.i
$(B)/tests/inline.i: $(INLINE_HEADERS:%=$(B)/include/ptxpack/%)
	@mkdir -p $(@D)
	$(Q)printf '#include <ptxpack/%s>\n' $(INLINE_HEADERS) | $(CC) -E -P -x c -I$(B)/include -D__device__= \
	  -D__forceinline__=inline -D__CUDA_ARCH__=900 -D__CUDA_ARCH_FEAT_SM90_ALL - -o $@
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

test-programs: all $(TESTS) $(FAKES) $(B)/ptxpack-check
test: test-deps  ## everything that can be tested on this machine
	@$(MAKE) --no-print-directory test-programs
	@tests/run.sh $(B) $(patsubst tests/%.c,%,$(TEST_SRC)) $(patsubst tests/%,%,$(TEST_SH))
check: all $(B)/ptxpack-check  ## only the device checker: every kernel against the reference, in full
	$(B)/ptxpack-check
format:  ## format every C file as .clang-format says
	@sh tests/house/format.sh --apply

-include $(patsubst %.o,%.d,$(LIB_OBJ) $(EMU_OBJ) $(TOOLS_OBJ) $(CHECK_OBJ) $(call objects,$(TEST_SRC) $(RECORD) tests/fake/loader.c))
-include $(FAKES:%=%.d)

# ---- what is needed from the distribution -------------------------------------------------------------
# $(call need,header,package): says what it is about to install, then does it, with sudo if not root.
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
test-deps: deps
	@$(call need,cmocka.h,libcmocka-dev)

demo: deps  ## attention on random input, verified, cold and warm from the cache
	@$(MAKE) --no-print-directory all
	@tools/demo.sh $(B)/ptxpack

# ---- the rest -----------------------------------------------------------------------------------------
# Where things go, all below DESTDIR; STRIP=no keeps the symbols for distributions that take them out themselves.
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PYTHONDIR  ?= $(PREFIX)/share/ptxpack/python
STRIP      ?= strip
INSTALL    := DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" BINDIR="$(BINDIR)" LIBDIR="$(LIBDIR)" INCLUDEDIR="$(INCLUDEDIR)" \
              PYTHONDIR="$(PYTHONDIR)" VERSION=$(VERSION) SOVERSION=$(SOVERSION) STRIP="$(STRIP)" tools/install/install.sh $(B)
install: all  ## into PREFIX (/usr/local), below DESTDIR
	@$(INSTALL) install
uninstall: headers  ## what install put there, with the same PREFIX, DESTDIR and folders
	@$(INSTALL) uninstall

clean:  ## remove build/
	rm -rf $(B)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' Makefile | expand -t 24
