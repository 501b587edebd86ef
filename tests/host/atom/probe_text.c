/* probe_text.c - the probe of every atom as PTX: it contains exactly the instruction of the table, and the
 * installed compiler accepts it, for the atom's lowest architecture and for an H200. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/probe.h"
#include "tests/support/scratch.h"

typedef struct run {
    ptxpack *handle; /* offline, for one target */
    int      arch;   /* of the target; with the suffix a */
    int      count, too_new;
    bool     compile, no_compiler;
} run;

static void open_run(run *r, int arch, bool specific, bool compile)
{
    char            target[16];
    ptxpack_options options = {.size = sizeof options,
                               .offline = true,
                               .arch = target,
                               .cache_dir = scratch_folder};
    snprintf(target, sizeof target, "sm_%d%s", arch, specific ? "a" : "");
    *r = (run){.arch = arch, .compile = compile};
    if (ptxpack_open(&options, &r->handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
}

/* The text must contain the instruction and its operands. */
static void expect_text(run *r, const char *name, const char *ptx, const probe_kernel *k)
{
    ptxpack_expansion *e = NULL;
    char               wanted[200];
    if (ptxpack_kernel_expand(r->handle, k->variant, k->symbols, k->symbol_count, &e) != PTXPACK_OK)
        fail_msg("%s: %s", name, ptxpack_detail(r->handle));
    const char *text = ptxpack_expansion_text(e, NULL);
    snprintf(wanted, sizeof wanted, "\n        %.*s ", (int)strcspn(ptx, ";"), ptx); /* the first of two */
    if (strstr(text, wanted) == NULL)
        fail_msg("%s: the probe has no \"%s\"", name, ptx);
    ptxpack_expansion_free(e);
}

static void expect_code(run *r, const char *name, const probe_kernel *k)
{
    ptxpack_kernel_info info;
    ptxpack_status      status = r->no_compiler ? PTXPACK_E_NO_JIT
                                                : ptxpack_kernel_compile(r->handle, k->variant, k->symbols,
                                                                         k->symbol_count, &info, NULL, NULL);
    if (status == PTXPACK_E_NO_JIT)
        r->no_compiler = true;
    else if (status == PTXPACK_E_ISA)
        r->too_new++;
    else if (status != PTXPACK_OK)
        fail_msg("%s for sm_%d: %s", name, r->arch, ptxpack_detail(r->handle));
    else if (strstr(info.resources.remarks, "(C75") != NULL || info.resources.spill_store_bytes > 0)
        fail_msg("%s: %s %d bytes of spills", name, info.resources.remarks, info.resources.spill_store_bytes);
}

static void one(run *r, const char *name, const char *ptx, const probe_kernel *k)
{
    r->count++;
    if (r->compile)
        expect_code(r, name, k);
    else
        expect_text(r, name, ptx, k);
}

static bool is_wgmma(const ptxpack_mma_atom *atom) { return strncmp(atom->ptx, "wgmma.", 6) == 0; }

/* Runs every probe whose lowest architecture is the run's target, or all up to it. */
static void mma_probes(run *r, bool lowest)
{
    ptxpack_mma_atom atom;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++) {
        probe_mma    mma;
        probe_kernel k;
        char         line[PROBE_LINE];
        if (is_wgmma(&atom) || !probe_mma_of(&atom, &mma, line))
            continue;
        probe_mma_kernel(&atom, atom.arch, &k);
        if (lowest ? k.variant->arch == r->arch : k.variant->arch <= r->arch)
            one(r, atom.name, atom.ptx, &k);
    }
}

static void copy_probes(run *r, bool lowest)
{
    ptxpack_copy_atom atom;
    for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++) {
        probe_kernel k;
        if (!probe_copy_known(&atom))
            continue;
        probe_copy_kernel(&atom, atom.arch, &k);
        if (lowest ? k.variant->arch == r->arch : k.variant->arch <= r->arch)
            one(r, atom.name, atom.ptx, &k);
    }
}

static void suffix_probes(run *r)
{
    ptxpack_copy_atom copy;
    ptxpack_mma_atom  mma;
    probe_mma         probe;
    probe_kernel      k;
    char              line[PROBE_LINE];
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        if (copy.arch_specific) {
            probe_copy_kernel(&copy, r->arch, &k);
            one(r, copy.name, copy.ptx, &k);
        }
    for (size_t i = 0; ptxpack_mma_atom_at(i, &mma); i++)
        if (mma.arch_specific && mma.arch <= r->arch && !is_wgmma(&mma) && probe_mma_of(&mma, &probe, line)) {
            probe_mma_kernel(&mma, r->arch, &k);
            one(r, mma.name, mma.ptx, &k);
        }
}

/* Runs the probes of all widths, or of one. */
static void wgmma_probes(run *r, int n)
{
    ptxpack_mma_atom atom;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        for (int majors = 0; majors < 4 && is_wgmma(&atom) && (n == 0 || atom.n == n); majors++) {
            ptxpack_wgmma_major a = (ptxpack_wgmma_major)(majors / 2), b = (ptxpack_wgmma_major)(majors % 2);
            probe_kernel        k;
            if ((a == PTXPACK_WGMMA_MN && atom.a_major != '*') ||
                (b == PTXPACK_WGMMA_MN && atom.b_major != '*'))
                continue;
            probe_wgmma_kernel(&atom, a, b, &k);
            one(r, atom.name, atom.ptx, &k);
        }
}

/* ---- the cases ------------------------------------------------------------------------------------- */
static void probes_have_the_instruction_of_the_table(void **state)
{
    run r;
    (void)state;
    open_run(&r, 90, true, false);
    mma_probes(&r, false);
    assert_true(r.count >= 2 + 8 + 3 + 63 + 8 + 3); /* sm_61 to sm_90, without complex numbers */
    wgmma_probes(&r, 8);
    wgmma_probes(&r, 256);
    copy_probes(&r, false);
    ptxpack_close(r.handle);
}

/* Closes the handle, and reports what could not be compiled. */
static void end_compiling(run *r)
{
    ptxpack_close(r->handle);
    assert_true(r->count > 0);
    if (r->too_new > 0)
        print_message("SKIP: test_probe_text: %d probes are too new for the compiler at hand\n", r->too_new);
    if (r->no_compiler) {
        print_message("SKIP: test_probe_text: no compiler of PTX\n");
        skip();
    }
}

static void probes_compile_for_an_h200(void **state)
{
    run r;
    (void)state;
    open_run(&r, 90, true, true);
    mma_probes(&r, false);
    copy_probes(&r, false);
    end_compiling(&r);
}

static void wgmma_probes_compile(void **state)
{
    run r;
    (void)state;
    open_run(&r, 90, true, true);
    wgmma_probes(&r, 64);
    end_compiling(&r);
}

/* Atoms that need a suffix, for each GPU that has them. */
static void probes_compile_with_a_suffix(void **state)
{
    static const int arches[] = {100, 103, 110, 120, 121};
    (void)state;
    for (size_t i = 0; i < sizeof arches / sizeof arches[0]; i++) {
        run r;
        open_run(&r, arches[i], true, true);
        suffix_probes(&r);
        r.compile = false;
        suffix_probes(&r);
        assert_int_equal(r.count, 2 * (arches[i] >= 120 ? 11 + 3 * 25 + 3 : 11));
        end_compiling(&r);
    }
}

static void probes_compile_for_their_lowest_architecture(void **state)
{
    static const int arches[] = {75, 80, 89, 90};
    (void)state;
    for (size_t i = 0; i < sizeof arches / sizeof arches[0]; i++) {
        run r;
        open_run(&r, arches[i], false, true);
        mma_probes(&r, true);
        copy_probes(&r, true);
        end_compiling(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_have_the_instruction_of_the_table),
        cmocka_unit_test(probes_compile_for_an_h200),
        cmocka_unit_test(wgmma_probes_compile),
        cmocka_unit_test(probes_compile_for_their_lowest_architecture),
        cmocka_unit_test(probes_compile_with_a_suffix),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
