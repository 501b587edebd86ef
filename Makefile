# ptxpack: a C library and a command; needs gcc, make, libc, the headers of libxxhash-dev, and libmd-dev.
# `make help` lists the targets; V=1 shows the commands.

CC       ?= gcc
OBJCOPY  ?= objcopy
PREFIX   ?= /usr/local
B        := build
VERSION  := 0.1.0
SOVERSION := 0

# Another compiler may warn of more: an error only where it is asked for, as .ci/run does.
WERROR   ?=
WARN     := -Wall -Wextra -Wpedantic -Wc++-compat -Wshadow -Wstrict-prototypes $(WERROR)
# The user's CFLAGS, CPPFLAGS and LDLIBS are added to, also those of the command line.
override CPPFLAGS += -D_GNU_SOURCE
CFLAGS   ?= -O2 -g
override CFLAGS += -std=c11 -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=off $(WARN)
override LDLIBS += -ldl -lpthread -lm

# ---- what there is, by folder -------------------------------------------------------------------
CACHE_SRC  := cache/key.c cache/place.c cache/entry.c cache/store.c cache/walk.c cache/evict.c cache/cache.c \
              cache/sha256.c cache/manifest.c cache/prebuilt.c cache/filling.c cache/folders.c
LOADER_SRC := loader/status.c loader/detail.c loader/registry.c \
              loader/driver.c loader/target.c \
              loader/files.c loader/pack.c \
              loader/ptxcompiler.c loader/ptxas.c loader/compile_log.c loader/jit.c \
              loader/flight.c loader/code.c loader/notes.c loader/assemble.c \
              loader/image.c loader/open.c loader/source.c loader/shipped.c loader/stand_in.c loader/preload.c loader/kernel.c \
              loader/ptx_text.c loader/nvrtc_find.c loader/nvrtc.c loader/include.c loader/cuda_source.c \
              loader/program_source.c loader/program_build.c loader/program.c loader/function.c \
              loader/expand.c loader/expand_text.c loader/expand_file.c loader/expand_line.c \
              loader/expand_expr.c \
              loader/expand_program.c loader/expand_paste.c loader/expand_macro.c loader/expand_call.c \
              loader/expand_substitute.c loader/expand_loop.c loader/expand_cond.c loader/expand_directive.c \
              loader/expand_map.c loader/expand_loc.c
HOST_SRC   := host/dtype.c host/instance.c host/builds.c host/preload_plan.c \
              host/attention.c host/attention_check.c host/attention_reference.c \
              host/attention_layout.c host/attention_symbols.c host/thread_symbols.c host/row_memo.c host/tensor_map.c \
              host/attention_fp8_layout.c \
              host/attention_cost.c host/attention_mma.c host/attention_wgmma.c \
              host/attention_wgmma_layout.c host/attention_wgmma_symbols.c \
              host/gemm.c host/gemm_check.c host/gemm_wgmma.c host/gemm_wgmma_layout.c host/gemm_wgmma_symbols.c \
              host/gemm_mma.c host/gemm_mma_layout.c host/gemm_mma_symbols.c \
              host/vector.c \
              host/layout_tuple.c host/layout_int.c host/layout_compare.c host/layout_coord.c \
              host/layout.c host/layout_build.c host/layout_modes.c host/layout_slice.c host/layout_cast.c \
              host/layout_algebra.c host/layout_compact.c host/layout_compose.c host/layout_divide.c \
              host/layout_swizzle.c \
              host/layout_sum.c host/layout_text.c \
              host/tensor.c host/banks.c host/shared_swizzle.c \
              host/atom.c host/atom_find.c host/atom_near.c host/copy_atom.c \
              host/tiled_mma.c host/tiled_copy.c \
              host/wgmma.c host/tma.c
TOOLS_SRC  := tools/main.c tools/command.c tools/device.c tools/emulator.c tools/random.c tools/npy.c tools/verify.c \
              tools/cmd_gemm.c tools/gemm_problem.c tools/gemm_reference.c \
              tools/cmd_info.c tools/cmd_list.c tools/cmd_expand.c tools/cmd_cache.c tools/warm.c tools/prebuilt_report.c \
              tools/cmd_attention.c tools/attention_problem.c tools/attention_mask.c tools/attention_run.c tools/cmd_plan.c tools/cmd_plan_mma.c tools/cmd_plan_wgmma.c tools/cmd_plan_gemm.c tools/cmd_vector_add.c \
              tools/cmd_profile.c tools/profile_table.c \
              tools/cmd_ptx.c tools/cmd_nvrtc.c tools/program_command.c tools/program_symbols.c \
              tools/program_element.c tools/program_args.c tools/program_params.c tools/program_buffers.c \
              tools/program_time.c tools/program_run.c tools/program_worker.c tools/program_report.c \
              tools/program_sweep.c tools/program_files.c tools/program_watch.c tools/sass.c \
              tools/program_extents.c tools/program_figures.c \
              tools/cmd_bench.c tools/bench_attention.c tools/bench_gemm.c tools/bench_rounds.c \
              tools/bench_vector_add.c tools/bench_start_up.c \
              tools/bench_layout.c tools/bench_emu.c \
              tools/cmd_layout.c tools/layout_expr.c tools/layout_calls.c \
              tools/cmd_atom.c tools/atom_show.c \
              tools/draw.c tools/draw_panel.c tools/draw_grid.c tools/draw_latex.c tools/draw_svg.c

# The emulated driver: a library of its own, which links with none of the above.
EMU_SRC    := tools/emu/access_words.c tools/emu/alu_approx.c tools/emu/alu_bits.c tools/emu/alu_carry.c \
              tools/emu/alu_compare.c tools/emu/alu_cvt.c tools/emu/alu_double.c tools/emu/alu_float.c \
              tools/emu/alu_half.c tools/emu/alu_int.c tools/emu/alu_minmax.c tools/emu/alu_select.c \
              tools/emu/api_capture.c tools/emu/api_compile.c tools/emu/api_context.c \
              tools/emu/api_copy.c tools/emu/api_device.c tools/emu/api_event.c tools/emu/api_function.c \
              tools/emu/api_graph.c tools/emu/api_graph_exec.c tools/emu/api_handle.c \
              tools/emu/api_init.c tools/emu/api_launch.c tools/emu/api_library.c tools/emu/api_link.c \
              tools/emu/api_memory.c tools/emu/api_module.c tools/emu/api_occupancy.c \
              tools/emu/api_stream.c tools/emu/api_tensor_map.c tools/emu/api_work.c tools/emu/arena.c \
              tools/emu/async.c tools/emu/async_wait.c tools/emu/atomic.c tools/emu/barrier.c \
              tools/emu/bulk.c tools/emu/bulk_reduce.c tools/emu/bulk_tensor.c tools/emu/cluster.c \
              tools/emu/compiler.c tools/emu/container.c tools/emu/control.c tools/emu/cp_async.c \
              tools/emu/cvt_float.c tools/emu/cvt_int.c tools/emu/cvt_narrow.c tools/emu/decode.c \
              tools/emu/decode_cp.c tools/emu/decode_operand.c tools/emu/decode_tables.c \
              tools/emu/faults.c tools/emu/fence.c tools/emu/float_format.c tools/emu/float_round.c \
              tools/emu/grid.c tools/emu/intrinsics.c tools/emu/judge.c tools/emu/judge_async.c \
              tools/emu/judge_cell.c tools/emu/judge_clock.c tools/emu/judge_line.c \
              tools/emu/judge_message.c tools/emu/judge_shadow.c tools/emu/judge_strong.c \
              tools/emu/judge_vector.c tools/emu/load_store.c tools/emu/load_store_address.c \
              tools/emu/matrix_load.c tools/emu/mbarrier.c tools/emu/mbarrier_ops.c tools/emu/memory.c \
              tools/emu/memory_banks.c tools/emu/memory_range.c tools/emu/memory_text.c tools/emu/mma.c \
              tools/emu/module.c tools/emu/profile.c tools/emu/ptx_constant.c tools/emu/ptx_debug.c \
              tools/emu/ptx_function.c tools/emu/ptx_initial.c tools/emu/ptx_lex.c tools/emu/ptx_memory.c \
              tools/emu/ptx_module.c tools/emu/ptx_number.c tools/emu/ptx_operand.c tools/emu/ptx_place.c \
              tools/emu/ptx_special.c tools/emu/ptx_statement.c tools/emu/ptx_symbol.c \
              tools/emu/ptx_token.c tools/emu/ptx_type.c tools/emu/ptx_variable.c tools/emu/registers.c \
              tools/emu/report.c tools/emu/settings.c tools/emu/special.c tools/emu/st_async.c \
              tools/emu/tensor_float.c tools/emu/tensor_fragment.c tools/emu/tensor_integer.c \
              tools/emu/tensor_map.c tools/emu/tensor_number.c tools/emu/tensor_quad.c tools/emu/warp.c \
              tools/emu/warp_ops.c tools/emu/wgmma.c tools/emu/wgmma_descriptor.c tools/emu/wmma.c

# Every .ptx file, embedded under its path below ptx/.
PTX_FILES  := atom/cp_async.ptx atom/ldmatrix.ptx atom/stmatrix.ptx atom/mma_sync.ptx atom/wgmma.ptx \
              atom/mbarrier.ptx atom/named_barrier.ptx atom/tma.ptx atom/pack.ptx atom/pack_e4m3.ptx \
              atom/name.ptx atom/mma_any.ptx atom/copy_any.ptx atom/wgmma_any.ptx \
              kernel/probe_mma.ptx kernel/probe_copy.ptx kernel/probe_wgmma.ptx kernel/probe_transpose.ptx \
              step/layout.ptx step/tile_load.ptx step/mask.ptx step/softcap.ptx step/softmax.ptx step/epilogue.ptx \
              step/softmax_speculative.ptx step/ring.ptx step/tile_order.ptx step/tile_message.ptx \
              atom/cluster.ptx step/activation.ptx step/matrix_tile.ptx step/store_matrix.ptx step/share_sums.ptx kernel/gemm_wgmma.ptx \
              step/operand_load.ptx step/gemm_epilogue.ptx kernel/gemm_mma.ptx \
              step/produce.ptx step/produce_fp8.ptx step/transpose_v.ptx step/store_tile.ptx \
              kernel/attention_mma.ptx kernel/attention_wgmma.ptx kernel/vector_add.ptx
# The inline-assembly twins of atom/*.ptx, embedded likewise; installed as <ptxpack/inline/NAME>.
INLINE_HEADERS := inline/types.h inline/ldmatrix.h inline/stmatrix.h inline/mma_sync.h inline/wgmma.h \
              inline/cp_async.h inline/mbarrier.h inline/tma.h inline/cluster.h inline/named_barrier.h \
              inline/shuffle.h inline/fast_math.h
PACK_FILES := $(PTX_FILES) $(INLINE_HEADERS)

# cmocka programs; each prints its own report.  Status 77 means skipped.
UNIT_TESTS := tests/test_cache tests/test_cache_damage tests/test_cache_evict tests/test_cache_place \
              tests/test_cache_shared tests/test_prebuilt tests/test_warm tests/test_preload \
              tests/test_expand tests/test_expand_as \
              tests/test_registry tests/test_driver_abi tests/test_loader \
              tests/test_jit tests/test_flight tests/test_compile_log tests/test_nvrtc tests/test_program \
              tests/test_layout_tuple tests/test_layout_int tests/test_layout_coord tests/test_layout_text \
              tests/test_layout_algebra tests/test_layout_modes tests/test_layout_divide \
              tests/test_layout_swizzle tests/test_layout_limits \
              tests/test_seed_figures tests/test_tensor tests/test_banks \
              tests/test_atom tests/test_tiled tests/test_tiled_copy tests/test_wgmma tests/test_tma \
              tests/test_probe tests/test_probe_text tests/test_inline_text tests/test_inline_others \
              tests/test_host tests/test_fp8 tests/test_attention_layout tests/test_attention_wgmma_layout \
              tests/test_attention_cost tests/test_gemm tests/test_gemm_layout tests/test_gemm_plan tests/test_gemm_command \
              tests/test_attention_plan tests/test_npy tests/test_checker \
              tests/test_command tests/test_layout_command tests/test_atom_command tests/test_plan_command \
              tests/test_draw tests/test_transpose_v \
              tests/test_emu_parse tests/test_emu_core tests/test_emu_int tests/test_emu_select \
              tests/test_emu_warp_ops tests/test_emu_memory tests/test_emu_atomic \
              tests/test_emu_api tests/test_emu_module tests/test_emu_graph tests/test_emu_faults \
              tests/test_emu_abi tests/test_emu_async tests/test_emu_mbarrier tests/test_emu_tma \
              tests/test_emu_tensor tests/test_emu_vectors tests/test_emu_mma tests/test_emu_wgmma \
              tests/test_emu_float tests/test_emu_cvt tests/test_emu_judge tests/test_emu_bad \
              tests/test_emu_programs tests/test_emu_command tests/test_program_command
# Programs and scripts that judge the rest; the device checker is last because it takes longest.
OTHER_TESTS := tests/readme.sh tests/examples.sh tests/headers.sh tests/install.sh tests/embed.sh \
               tests/python_module.sh tests/program_examples.sh tests/inline_compilers.sh tests/test_inline \
               tests/fuzz_expand tests/fuzz_layout tests/fuzz_ptx tests/fuzz_emu \
               tests/test_emu_attention tests/test_emu_wgmma_rows tests/test_emu_gemm_rows tests/emu_ctypes.sh \
               tests/stress_cache \
               tests/generations.sh tests/check_generations tests/check_ptxas

PUBLIC_HEADERS := cache/cache.h \
                  loader/status.h loader/expand.h loader/registry.h loader/driver.h loader/loader.h loader/program.h loader/preload.h \
                  host/layout.h host/tensor.h host/banks.h \
                  host/atom.h host/copy_atom.h host/tiled.h host/wgmma.h host/tma.h \
                  host/dtype.h host/instance.h host/attention.h host/gemm.h host/vector.h host/preload_plan.h host/ptxpack.h \
                  tools/emu/emu_api.h

# ---- rules ----------------------------------------------------------------------------------------
ifneq ($(V),1)
Q := @
SAY = @printf '  %-7s %s\n'
else
SAY = @true
endif

LIB_SRC   := $(CACHE_SRC) $(LOADER_SRC) $(HOST_SRC)
LIB_OBJ   := $(LIB_SRC:%.c=$(B)/%.o) $(B)/pack_files.o $(B)/pack_identity.o
TOOLS_OBJ := $(TOOLS_SRC:%.c=$(B)/%.o)
EMU_OBJ   := $(EMU_SRC:%.c=$(B)/%.o)
UNIT_BIN  := $(UNIT_TESTS:%=$(B)/%)
OTHER_BIN := $(addprefix $(B)/,$(filter-out %.sh,$(OTHER_TESTS)))

# The arrows between the folders: each sees itself and those before it.
$(B)/cache/%.o:  FOLDERS := -Icache
$(B)/loader/%.o $(B)/pack_files.o $(B)/pack_identity.o: FOLDERS := -Icache -Iloader
$(B)/host/%.o:   FOLDERS := -Icache -Iloader -Ihost
$(B)/tools/%.o $(B)/tests/%: FOLDERS := -Icache -Iloader -Ihost -Itools
$(EMU_OBJ): FOLDERS := -Iloader -Itools/emu

.PHONY: emulated-libcuda all lib demo test check install uninstall clean help deps test-deps
.DELETE_ON_ERROR:

all: lib $(B)/ptxpack $(B)/libptxpack-emu.so  ## build the library and the command (the default)
lib: $(B)/libptxpack.so $(B)/libptxpack.a $(B)/public/libptxpack.a

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(CC) $(FOLDERS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# libmd's SHA-256 becomes part of this object, under local names: nothing else has to know of libmd.
$(B)/cache/sha256.o: cache/sha256.c Makefile
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(CC) $(FOLDERS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $(@:.o=_alone.o)
	$(Q)$(CC) -r -nostdlib $(@:.o=_alone.o) -l:libmd.a -o $@ && \
	  $(OBJCOPY) --wildcard --keep-global-symbol='ptxpack_*' $@

# The pack: one object that carries every .ptx file and inline header.
$(B)/pack_files.c: Makefile
	@mkdir -p $(@D)
	$(SAY) GEN $@
	$(Q){ printf '/* made by the Makefile from PACK_FILES */\n#include "pack.h"\n'; \
	  printf '#define FILE_TEXT(i, path) __asm__(".section .rodata\\n.hidden text_" #i ", end_" #i \\\n'; \
	  printf '    "\\n.global text_" #i ", end_" #i \\\n'; \
	  printf '    "\\ntext_" #i ": .incbin \\"$(B)/pack/" path "\\"\\nend_" #i ": .byte 0\\n.previous"); \\\n'; \
	  printf '    extern const char text_##i[], end_##i[];\n'; \
	  i=0; for f in $(PACK_FILES); do printf 'FILE_TEXT(%d, "%s")\n' $$i $$f; i=$$((i+1)); done; \
	  printf 'const struct ptxpack_pack_file ptxpack_pack_files[] = {\n'; \
	  i=0; for f in $(PACK_FILES); do printf '    {"%s", text_%d, end_%d},\n' $$f $$i $$i; i=$$((i+1)); done; \
	  printf '    {0, 0, 0}};\n'; } > $@
$(B)/pack_identity.o: $(B)/pack_identity.c
	$(SAY) CC $<
	$(Q)$(CC) $(FOLDERS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
# Without comments, which nobody sees there; every line stays where it is, for messages.
$(B)/pack/%: ptx/%
	@mkdir -p $(@D)
	$(Q)sed -e 's|//.*||' -e 's|[[:space:]]*$$||' $< > $@
$(B)/pack_files.o: $(B)/pack_files.c $(PACK_FILES:%=$(B)/pack/%)
	$(SAY) CC $<
	$(Q)$(CC) $(FOLDERS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# What the text of a kernel depends on beside its row and symbols: prebuilt machine code is of one such digest.
EXPANDER := $(sort $(wildcard loader/expand*.[ch]))
$(B)/pack_identity.c: Makefile $(PTX_FILES:%=$(B)/pack/%) $(EXPANDER)
	@mkdir -p $(@D)
	$(SAY) GEN $@
	$(Q)pack=$$({ (cd $(B)/pack && sha256sum $(PTX_FILES)); sha256sum $(EXPANDER); } | sha256sum | cut -d' ' -f1); \
	{ printf '/* made by the Makefile */\n#include "shipped.h"\n'; \
	  printf 'const char ptxpack_pack_identity[] = "%s";\n' $$pack; \
	  printf 'const char ptxpack_library_version[] = "%s (pack %.8s)";\n' $(VERSION) $$pack; } > $@

$(B)/libptxpack.so: $(LIB_OBJ)
	$(SAY) LINK $@
	$(Q)$(CC) -shared -Wl,-soname,libptxpack.so.$(SOVERSION) -Wl,-z,defs $(LDFLAGS) $^ \
	  $(LDLIBS) -o $@
$(B)/libptxpack.a: $(LIB_OBJ)
	$(SAY) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^
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
	$(Q)$(CC) -shared -Wl,-soname,libptxpack-emu.so -Wl,-z,defs $(LDFLAGS) $^ -lpthread -lm -o $@
# The same under the name that programs linked with -lcuda ask for.
$(B)/emulated/libcuda.so.1: $(EMU_OBJ)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs $(LDFLAGS) $^ -lpthread -lm -o $@
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so
$(B)/libptxpack-emu.a: $(EMU_OBJ)
	$(SAY) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/ptxpack: $(TOOLS_OBJ) $(B)/libptxpack.a
	$(SAY) LINK $@
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

# A test program is one source file (plus what its own line below adds) and the static library.
$(UNIT_BIN) $(OTHER_BIN): $(B)/tests/%: $(B)/tests/%.o $(B)/libptxpack.a
	$(SAY) TEST $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -lcmocka -o $@

# Fake libraries for the tests of the loader: drivers of three ages, compilers without a build id.
FAKE_NVRTCS := $(addprefix $(B)/tests/,fake_nvrtc.so fake_nvrtc_old.so fake_nvrtc_broken.so)
FAKES := $(addprefix $(B)/tests/,fake_driver.so fake_driver_v1.so fake_driver_plain.so fake_ptxjit.so) $(FAKE_NVRTCS)
$(FAKE_NVRTCS): tests/fake_nvrtc.c
$(FAKE_NVRTCS): override LDFLAGS += -Wl,--build-id=none
$(B)/tests/fake_nvrtc_old.so: override CPPFLAGS += -DFAKE_NO_CUBIN
$(B)/tests/fake_nvrtc_broken.so: override CPPFLAGS += -DFAKE_NO_NAMES
$(B)/tests/fake_driver.so $(B)/tests/fake_driver_v1.so $(B)/tests/fake_driver_plain.so: tests/fake_driver.c
$(B)/tests/fake_ptxjit.so: tests/fake_ptxjit.c
$(B)/tests/fake_driver_v1.so: override CPPFLAGS += -DFAKE_NO_V2
$(B)/tests/fake_driver_plain.so: override CPPFLAGS += -DFAKE_NO_PROC
$(B)/tests/fake_ptxjit.so: override LDFLAGS += -Wl,--build-id=none
$(FAKES):
	@mkdir -p $(@D)
	$(SAY) FAKE $@
	$(Q)$(CC) $(FOLDERS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MF $@.d -shared $(LDFLAGS) $(filter %.c,$^) -ldl -o $@
$(addprefix $(B)/tests/,test_loader test_jit test_warm test_preload test_flight test_nvrtc test_attention_plan test_command test_program_command check_generations): $(FAKES)
# cuda.h, where there is one, is somebody else's code: no warnings from it.
$(B)/tests/test_driver_abi.o $(B)/tests/test_tma.o $(B)/tests/test_emu_abi.o: override CPPFLAGS += -idirafter /usr/local/cuda/include

# The device checker shares the command's helpers.
PROBE_SRC := tests/probe_value.c tests/probe_mma.c tests/probe_copy.c tests/probe_wgmma.c tests/probe_kernel.c
CHECK_SRC := tests/check.c tests/check_main.c tests/check_attention.c tests/check_gemm.c tests/check_vector.c \
             tests/check_tensor.c tests/check_far.c tests/check_far_gemm.c tests/check_self_test.c tests/check_atom.c $(PROBE_SRC)
CHECK_OBJ := $(CHECK_SRC:%.c=$(B)/%.o) \
             $(filter-out $(B)/tools/main.o $(B)/tools/cmd_%.o $(B)/tools/bench_%.o,$(TOOLS_OBJ))
$(B)/ptxpack-check: $(CHECK_OBJ) $(B)/libptxpack.a
	$(SAY) LINK $@
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Tests of the emulated driver through its API load it; those below the API link with its objects.
EMU_API_TESTS := $(addprefix tests/test_emu_,api module graph faults programs command)
$(EMU_API_TESTS:%=$(B)/%): $(B)/libptxpack-emu.so
$(EMU_API_TESTS:%=$(B)/%.o): FOLDERS := -Icache -Iloader -Ihost -Itools -Itools/emu
EMU_TESTS := $(filter-out tests/test_emu_attention tests/test_emu_wgmma_rows tests/test_emu_gemm_rows $(EMU_API_TESTS), \
    $(filter tests/test_emu_% tests/fuzz_ptx tests/fuzz_emu,$(UNIT_TESTS) $(OTHER_TESTS)))
$(EMU_TESTS:%=$(B)/%): $(B)/tests/emu_fixture.o $(B)/libptxpack-emu.a
$(EMU_TESTS:%=$(B)/%.o) $(B)/tests/emu_%.o $(B)/tests/record_emu_vectors.o: FOLDERS := -Itools/emu -Icache -Iloader -Ihost -Itools
$(B)/tests/test_emu_vectors $(B)/tests/test_emu_mma: $(B)/tests/emu_vectors.o
$(B)/tests/test_emu_mma: $(B)/tests/emu_vectors_kernel.o
$(B)/tests/test_emu_wgmma: $(B)/tests/probe_wgmma.o $(B)/tests/probe_value.o $(B)/tools/random.o
# Not a test: writes tests/data/emu_vectors.bin on a GPU of sm_90.
$(B)/tests/record_emu_vectors: $(B)/tests/record_emu_vectors.o $(B)/tests/emu_vectors.o \
    $(B)/tests/emu_vectors_kernel.o $(B)/libptxpack-emu.a
	$(SAY) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Above the loader: a mock stands in for it and the GPU.
HELPERS := $(B)/tools/command.o $(B)/tools/device.o $(B)/tools/emulator.o $(B)/tools/random.o $(B)/tools/verify.o
$(B)/tests/test_host $(B)/tests/test_gemm_plan: $(B)/tests/mock_loader.o $(HELPERS)
$(B)/tests/test_probe $(B)/tests/test_probe_text $(B)/tests/test_inline_text: $(PROBE_SRC:%.c=$(B)/%.o) $(B)/tools/random.o
$(B)/tests/test_inline_text: $(B)/tests/inline_source.o $(B)/tests/inline.i
# The inline headers as the preprocessor leaves them for sm_90a.
$(B)/tests/inline.i: $(INLINE_HEADERS:%=ptx/%) Makefile
	@mkdir -p $(@D)/include
	$(Q)ln -sfn $(CURDIR)/ptx $(@D)/include/ptxpack
	$(Q)printf '#include <ptxpack/%s>\n' $(INLINE_HEADERS) | $(CC) -E -P -x c -I$(@D)/include -D__device__= \
	  -D__forceinline__=inline -D__CUDA_ARCH__=900 -D__CUDA_ARCH_FEAT_SM90_ALL - -o $@
$(addprefix $(B)/tests/,test_inline test_inline_others): $(B)/tests/inline_fixture.o $(HELPERS) $(B)/libptxpack-emu.so
$(B)/tests/test_inline: $(PROBE_SRC:%.c=$(B)/%.o)
$(B)/tests/test_fp8: $(B)/tools/random.o $(B)/tools/verify.o
$(B)/tests/test_npy $(B)/tests/test_gemm_command: $(B)/tools/npy.o
$(B)/tests/test_warm: $(B)/tools/warm.o $(HELPERS) $(B)/ptxpack $(B)/libptxpack-emu.so
$(B)/tests/test_transpose_v.o: FOLDERS := -Itools/emu -Icache -Iloader -Ihost -Itools
$(B)/tests/test_transpose_v: $(B)/tests/emu_fixture.o $(B)/tools/random.o $(B)/libptxpack-emu.a
$(B)/tests/test_emu_attention $(B)/tests/test_emu_wgmma_rows $(B)/tests/test_emu_gemm_rows: $(filter-out $(B)/tools/main.o $(B)/tools/cmd_%.o $(B)/tools/bench_%.o,$(TOOLS_OBJ)) \
    $(B)/libptxpack-emu.so
$(B)/tests/test_draw $(B)/tests/test_seed_figures: $(filter $(B)/tools/draw%.o,$(TOOLS_OBJ))
$(B)/tests/fuzz_layout: $(B)/tools/layout_expr.o $(B)/tools/layout_calls.o
$(B)/tests/test_command: $(B)/tools/command.o $(B)/tools/npy.o $(B)/tools/random.o \
    $(B)/ptxpack $(B)/ptxpack-check
$(B)/tests/test_nvrtc $(B)/tests/test_program: $(B)/libptxpack-emu.so
$(addprefix $(B)/tests/,test_layout_command test_atom_command test_plan_command test_emu_command test_gemm_command): $(B)/ptxpack
$(B)/tests/test_program_command: $(addprefix $(B)/tools/,program_args.o program_symbols.o program_element.o sass.o \
    npy.o random.o verify.o) $(B)/ptxpack $(B)/libptxpack-emu.so
$(B)/tests/test_checker: $(B)/tests/mock_loader.o $(HELPERS) $(B)/tools/gemm_reference.o \
    $(filter-out $(B)/tests/check_main.o,$(CHECK_SRC:%.c=$(B)/%.o))

# ---- what is needed from the distribution -----------------------------------------------------------
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

# ---- the two commands of README ---------------------------------------------------------------------
demo: deps  ## attention on random input, verified, cold and warm from the cache
	@$(MAKE) --no-print-directory all
	@tools/demo.sh $(B)/ptxpack

test: test-deps  ## everything that can be tested on this machine
	@$(MAKE) --no-print-directory all test-programs
	@tests/run.sh $(B) $(UNIT_TESTS) $(OTHER_TESTS)
.PHONY: test-programs
test-programs: $(UNIT_BIN) $(OTHER_BIN) $(B)/ptxpack-check

-include $(LIB_OBJ:.o=.d) $(EMU_OBJ:.o=.d) $(TOOLS_OBJ:.o=.d) $(CHECK_OBJ:.o=.d) $(UNIT_BIN:%=%.d) $(OTHER_BIN:%=%.d)
-include $(B)/tests/mock_loader.d $(FAKES:%=%.d) $(wildcard $(B)/tests/emu_*.d $(B)/tests/inline_*.d)

# ---- the rest -----------------------------------------------------------------------------------------
check: all $(B)/ptxpack-check  ## only the device checker: every kernel against the reference, in full
	$(B)/ptxpack-check

# Where things go, all below DESTDIR; STRIP=no keeps the symbols for distributions that take them out themselves.
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PYTHONDIR  ?= $(PREFIX)/share/ptxpack/python
STRIP      ?= strip
STRIPPED   := $(if $(filter-out no,$(STRIP)),-s --strip-program="$(STRIP)")
FILL       := DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" INCLUDEDIR="$(INCLUDEDIR)" \
              PYTHONDIR="$(PYTHONDIR)" VERSION=$(VERSION) SOVERSION=$(SOVERSION) tools/install/fill.sh
install: lib $(B)/ptxpack $(B)/libptxpack-emu.so  ## into PREFIX (/usr/local), below DESTDIR
	install -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(LIBDIR)" "$(DESTDIR)$(INCLUDEDIR)/ptxpack/inline"
	install -m 644 $(PUBLIC_HEADERS) "$(DESTDIR)$(INCLUDEDIR)/ptxpack/"
	install -m 644 $(INLINE_HEADERS:%=ptx/%) "$(DESTDIR)$(INCLUDEDIR)/ptxpack/inline/"
	install -m 644 $(B)/public/libptxpack.a "$(DESTDIR)$(LIBDIR)/"
	install -m 755 $(STRIPPED) $(B)/libptxpack.so "$(DESTDIR)$(LIBDIR)/libptxpack.so.$(VERSION)"
	ln -sf libptxpack.so.$(VERSION) "$(DESTDIR)$(LIBDIR)/libptxpack.so.$(SOVERSION)"
	ln -sf libptxpack.so.$(SOVERSION) "$(DESTDIR)$(LIBDIR)/libptxpack.so"
	install -m 755 $(STRIPPED) $(B)/ptxpack "$(DESTDIR)$(BINDIR)/"
	install -m 755 $(STRIPPED) $(B)/libptxpack-emu.so "$(DESTDIR)$(LIBDIR)/"
	$(FILL) tools/install/ptxpack.pc.in "$(LIBDIR)/pkgconfig" ptxpack.pc
	$(FILL) tools/install/ptxpack-config.cmake.in "$(LIBDIR)/cmake/ptxpack" ptxpack-config.cmake
	$(FILL) tools/install/ptxpack-config-version.cmake.in "$(LIBDIR)/cmake/ptxpack" ptxpack-config-version.cmake
	$(FILL) tools/python/ptxpack.py "$(PYTHONDIR)" ptxpack.py
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig || true # so that programs find the library

emulated-libcuda: $(B)/emulated/libcuda.so.1  ## the emulated driver as libcuda.so.1, in build/emulated/

# $(call emptied,folder,files): these files of it are gone; $(call taken,folder,files): and so is it, when it is empty.
emptied = [ ! -d "$(DESTDIR)$(1)" ] || (cd "$(DESTDIR)$(1)" && rm -f $(2))
taken   = $(call emptied,$(1),$(2)) && { rmdir "$(DESTDIR)$(1)" 2>/dev/null || true; }
uninstall:  ## what install put there, with the same PREFIX, DESTDIR and folders
	$(call taken,$(INCLUDEDIR)/ptxpack/inline,$(notdir $(INLINE_HEADERS)))
	$(call taken,$(INCLUDEDIR)/ptxpack,$(notdir $(PUBLIC_HEADERS)))
	$(call taken,$(LIBDIR)/cmake/ptxpack,ptxpack-config.cmake ptxpack-config-version.cmake)
	$(call taken,$(PYTHONDIR)/__pycache__,ptxpack.*.pyc)
	$(call taken,$(PYTHONDIR),ptxpack.py)
	$(call taken,$(PREFIX)/share/ptxpack,)
	$(call emptied,$(LIBDIR),libptxpack.a libptxpack-emu.so pkgconfig/ptxpack.pc \
	  libptxpack.so libptxpack.so.$(SOVERSION) libptxpack.so.$(VERSION))
	$(call emptied,$(BINDIR),ptxpack)

clean:  ## remove build/
	rm -rf $(B)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' Makefile | expand -t 24
