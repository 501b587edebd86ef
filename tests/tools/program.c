/* program.c - "ptxpack ptx" and "ptxpack nvrtc": kernels that do not end, sweeps, watching, machine code, CUDA
 * C++, and the parser of arguments.  Results and refusals are in tests/golden/ptx.txt. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "command_fixture.h"
#include "tools/problem/npy.h"
#include "tools/workbench/args.h"
#include "tools/problem/random.h"
#include "tools/workbench/sass.h"

enum { SEED = 20261122 };
#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

/* ---- helpers -------------------------------------------------------------------------------------- */
/* Writes a new file that replaces the old one, as editors do. */
static void write_text(const char *name, const char *text)
{
    char  path[8192];
    FILE *file;
    snprintf(path, sizeof path, "%s", scratch_path(name));
    file = fopen(scratch_path("editor.tmp"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(scratch_path("editor.tmp"), path), 0);
}

/* Returns the text of one of tests/golden/files; the caller frees it. */
static char *kernel_text(const char *name)
{
    char  path[256], *text = (char *)calloc(1, 4096);
    FILE *file;
    snprintf(path, sizeof path, "tests/golden/files/%s", name);
    file = fopen(path, "rb");
    assert_true(file != NULL && text != NULL);
    assert_in_range(fread(text, 1, 4095, file), 1, 4094);
    fclose(file);
    return text;
}

static void restore(const char *as, const char *name)
{
    char *text = kernel_text(name);
    write_text(as, text);
    free(text);
}

static char binary[PATH_MAX]; /* the path of the command */

/* Runs in the scratch folder, so that file names in messages are short. */
static int run_in_folder(const char *subcommand, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int run_in_folder(const char *subcommand, const char *format, ...)
{
    char    arguments[16384], line[32768];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    int bytes = snprintf(line, sizeof line, "cd %s && %s %s %s >out 2>err", scratch_folder, binary, subcommand,
                         arguments);
    assert_in_range(bytes, 1, sizeof line - 1);
    int status = system(line);
    read_output("out", output);
    read_output("err", errors);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect(int status, const char *wanted)
{
    if (status != 0)
        fail_msg("status %d: %s", status, errors);
    if (wanted != NULL && strstr(output, wanted) == NULL)
        fail_msg("no \"%s\" in: %s", wanted, output);
}

#define RUN_SCALE "scale.ptx -D BLOCK=64 --device emu --grid '(N+BLOCK-1)/BLOCK' --block BLOCK "

/* ---- kernels that do not end ------------------------------------------------------------------------- */
static void what_does_not_end_is_ended(void **state)
{
    struct timespec from, to;
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(run_in_folder("ptx", "loop.ptx --emu --grid 1 --block 32 --timeout 0.3"), 1);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_string_equal(errors,
                        "ptxpack ptx: spin did not end within 0.3 s and was ended by force (--timeout)\n");
    assert_string_equal(output, "");
    assert_true(to.tv_sec - from.tv_sec < 20);
}

/* ---- sweeps --------------------------------------------------------------------------------------- */
static void a_sweep_is_sorted_by_what_is_executed(void **state)
{
    (void)state;
    /* more threads than a block may have cannot run; the fewer blocks, the fewer instructions are executed */
    int status = run_in_folder("ptx",
                               "scale.ptx --emu --sweep BLOCK=2048,32,64,128 --sweep STAGES=2,3 --smem STAGES "
                               "--grid '(N+BLOCK-1)/BLOCK' --block BLOCK -DN=4000 --arg out:f32:N "
                               "--arg iota:f32:N --arg f32:2 --arg u32:N");
    expect(status,
           "     BLOCK      STAGES  registers  spills  instructions  wavefronts  over best  checksum\n");
    long        before = 0, executed, wavefronts;
    int         rows = 0, failed = 0;
    char        checksum[16] = "";
    const char *line = strstr(output, "STAGES");
    for (line = strchr(line, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        long   block, stages;
        char   registers[16], spills[16], sum[16];
        double over;
        if (sscanf(line, "%ld %ld failed: %15s", &block, &stages, registers) == 3) {
            assert_int_equal(block, 2048);
            failed++;
            continue;
        }
        assert_int_equal(failed, 0); /* those come last */
        assert_int_equal(sscanf(line, "%ld %ld %15s %15s %ld %ld %lf %15s", &block, &stages, registers, spills,
                                &executed, &wavefronts, &over, sum),
                         8);
        assert_true(executed >= before && over >= 1);
        assert_true(*checksum == '\0' || strcmp(checksum, sum) == 0);
        snprintf(checksum, sizeof checksum, "%s", sum);
        before = executed;
        rows++;
    }
    assert_int_equal(rows, 6);
    assert_int_equal(failed, 2);
    /* a kernel that is ended by force does not affect the others */
    write_text("some.ptx", HEAD
               ".visible .entry spin ()\n{\n.if SPIN\nAGAIN:\n        bra AGAIN;\n.endif\n        ret;\n}\n");
    status = run_in_folder("ptx", "some.ptx --emu --sweep SPIN=1,0,2 --grid 1 --block 32 --timeout 0.5");
    expect(status, "did not end within 0.5 s");
    assert_non_null(strstr(output, "         0  "));
}

/* ---- watching ------------------------------------------------------------------------------------- */
/* Waits until the file has `text`, at most 20 s. */
static void await_output(const char *name, const char *text, const char *what)
{
    for (int i = 0; i < 2000; i++) {
        read_output(name, output);
        if (strstr(output, text) != NULL)
            return;
        usleep(10000);
    }
    fail_msg("%s: no \"%s\" in %s: %s", what, text, name, output);
}

static pid_t start_watching(const char *arguments)
{
    char line[16384];
    snprintf(line, sizeof line, "cd %s && exec %s %s >out 2>err", scratch_folder, binary, arguments);
    unlink(scratch_path("out"));
    write_text("out", "");
    write_text("err", "");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void watching_shows_what_changed(void **state)
{
    char changed[8192], *scale_text = kernel_text("scale.ptx");
    int  status;
    (void)state;
    restore("op.ptx", "op.ptx");
    pid_t child = start_watching("ptx " RUN_SCALE
                                 "-DN=8 --watch --arg out:f32:N --arg iota:f32:N --arg f32:2 --arg u32:N");
    await_output("out", "0 2 4 6 8 10 12 14", "the first run");
    await_output("out", "watching  scale.ptx", "the first run");
    assert_null(strstr(output, "changed"));
    /* an included file, replaced */
    write_text("op.ptx",
               ".macro OP v, a\n        mul.f32 \\v, \\v, \\a;\n        add.f32 \\v, \\v, \\a;\n.endm\n");
    await_output("out", "2 4 6 8 10 12 14 16", "an included file");
    await_output("out", "outputs differ", "an included file");
    await_output("out", "instructions 16 -> 17 (+1)", "an included file");
    assert_non_null(strstr(output, "changed   executed instructions "));
    /* an error is shown, and watching goes on */
    snprintf(changed, sizeof changed, "%s.error \"not yet\"\n", scale_text);
    write_text("scale.ptx", changed);
    await_output("err", "not yet", "an error");
    restore("op.ptx", "op.ptx");
    snprintf(changed, sizeof changed, "// repaired\n%s", scale_text);
    write_text("scale.ptx", changed);
    await_output("out", "instructions 17 -> 16 (-1)", "the repair");
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    restore("scale.ptx", "scale.ptx");
    free(scale_text);
}

/* Ctrl-C ends the command while an endless kernel runs. */
static void watching_survives_what_does_not_end(void **state)
{
    int status;
    (void)state;
    restore("watched.ptx", "loop.ptx");
    pid_t child = start_watching("ptx watched.ptx --emu --watch --grid 1 --block 32 --timeout 0.3");
    await_output("err", "did not end within 0.3 s", "a loop");
    restore("watched.ptx", "trap.ptx");
    await_output("err", "stop failed", "a trap");
    write_text("watched.ptx", HEAD ".visible .entry fine ()\n{\n        ret;\n}\n");
    await_output("out", "entry     fine", "the repair");
    restore("watched.ptx", "loop.ptx");
    usleep(200000);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* An ELF file with the sections "", .shstrtab and .text.k: three instructions, a branch, two NOPs. */
struct small_elf {
    Elf64_Ehdr    header;
    Elf64_Shdr    sections[3];
    char          names[32];
    unsigned char code[6][16];
};

static void make_elf(struct small_elf *elf)
{
    static const char names[32] = "\0.shstrtab\0.text.k";
    static const int  opcodes[6] = {0x7919, 0x7224, 0x794d, 0x7947, 0x7918, 0x7918};
    memset(elf, 0, sizeof *elf);
    memcpy(elf->header.e_ident, ELFMAG, SELFMAG);
    elf->header.e_ident[EI_CLASS] = ELFCLASS64;
    elf->header.e_shoff = offsetof(struct small_elf, sections);
    elf->header.e_shnum = 3;
    elf->header.e_shstrndx = 1;
    elf->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                    .sh_type = SHT_STRTAB,
                                    .sh_size = sizeof names,
                                    .sh_offset = offsetof(struct small_elf, names)};
    elf->sections[2] = (Elf64_Shdr){.sh_name = 11,
                                    .sh_type = SHT_PROGBITS,
                                    .sh_size = sizeof elf->code,
                                    .sh_offset = offsetof(struct small_elf, code)};
    memcpy(elf->names, names, sizeof names);
    for (int i = 0; i < 6; i++) {
        elf->code[i][0] = (unsigned char)opcodes[i];
        elf->code[i][1] = (unsigned char)(opcodes[i] >> 8);
    }
}

static void instructions_are_counted(void **state)
{
    struct small_elf elf;
    random_state     random = random_start(SEED);
    (void)state;
    make_elf(&elf);
    assert_int_equal(sass_count(&elf, sizeof elf, "k"), 3);
    assert_int_equal(sass_count(&elf, sizeof elf, "other"), 0);
    assert_int_equal(sass_count("this is no machine code", 23, "k"), 0);
    for (int i = 0; i < 100000; i++) { /* of exactly its size, so that a memory checker finds reads beyond it */
        size_t         bytes = random_below(&random, sizeof elf + 1);
        unsigned char *part = (unsigned char *)malloc(bytes + 1);
        assert_non_null(part);
        memcpy(part, &elf, bytes);
        for (uint64_t n = random_below(&random, 4); n > 0 && bytes > 0; n--)
            part[random_below(&random, bytes)] = (unsigned char)random_bits(&random);
        assert_in_range(sass_count(part, bytes, "k"), 0, 6);
        free(part);
    }
}

static bool print_to_file(int code, const char *entry, char line[SASS_LINE])
{
    int kept = dup(STDOUT_FILENO), file = open(scratch_path("sass"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    fflush(stdout);
    assert_true(kept >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    bool ok = sass_print(code, entry, line);
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    close(file);
    read_output("sass", output);
    return ok;
}

static void a_disassembler_shows_the_code(void **state)
{
    char line[SASS_LINE] = "", path[4096];
    int  code;
    (void)state;
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    write_text("code", "what is to be shown\n");
    write_text("tool", "#!/bin/sh\n[ \"$1\" = -c ] || exit 3\n"
                       "echo '//---------- .text.other ----------'\necho hidden\n"
                       "echo '//---------- .text.k ----------'\ncat \"$3\"\n"
                       "echo '//---------- .text.k2 ----------'\necho hidden\n");
    assert_int_equal(chmod(scratch_path("tool"), 0700), 0);
    code = open(scratch_path("code"), O_RDONLY);
    assert_true(code >= 0);
    setenv("PTXPACK_NVDISASM", scratch_path("tool"), 1);
    assert_true(print_to_file(code, "k", line));
    assert_string_equal(output, "//---------- .text.k ----------\nwhat is to be shown\n");
    assert_true(print_to_file(code, NULL, line));
    assert_int_equal(lines_of(output), 6);
    setenv("PTXPACK_NVDISASM", "/nowhere/nvdisasm", 1);
    assert_false(print_to_file(code, "k", line));
    assert_string_equal(line, "PTXPACK_NVDISASM: /nowhere/nvdisasm: No such file or directory");
    setenv("PTXPACK_NVDISASM", "/bin/false", 1);
    assert_false(print_to_file(code, "k", line));
    assert_string_equal(line, "/bin/false failed");
    unsetenv("PTXPACK_NVDISASM");
    setenv("PATH", scratch_folder, 1);
    assert_false(print_to_file(code, "k", line));
    assert_non_null(strstr(line, "neither is in PATH, "));
    /* of the PATH, cuobjdump where there is no nvdisasm; it chooses the function itself */
    write_text("cuobjdump", "#!/bin/sh\necho \"$1 $3 $4\"\n");
    assert_int_equal(chmod(scratch_path("cuobjdump"), 0700), 0);
    assert_true(print_to_file(code, "k", line));
    assert_string_equal(output, "-sass -fun k\n");
    setenv("PATH", path, 1);
    close(code);
}

#define RUN_CU "scale.cu --emu --grid 2 --block BLOCK -DBLOCK=32 "
/* There are more entries than are shown, and a name that is too long to show. */
static void many_entries(void)
{
    char text[8192];
    int  bytes = snprintf(text, sizeof text, "%s", "extern \"C\" {\n");
    for (int i = 0; i < 70; i++)
        bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "__global__ void k%d() {}\n", i);
    snprintf(text + bytes, sizeof text - (size_t)bytes, "}\n");
    write_text("many.cu", text);
    expect(run_in_folder("nvrtc", "many.cu --arch sm_90"), "          and 6 more entries\n");
    expect(run_in_folder("nvrtc", "many.cu --arch sm_90 --entry k69"), "entry     k69: ");
    assert_null(strstr(output, "k68"));
    assert_null(strstr(output, "more entries"));
    snprintf(text, sizeof text, "extern \"C\" __global__ void %0600d() {}\n", 0);
    text[strcspn(text, "0")] = 'n';
    write_text("long.cu", text);
    assert_int_equal(run_in_folder("nvrtc", "long.cu --arch sm_90"), 1);
    assert_non_null(strstr(errors, "long.cu: no name of an entry has less than 512 letters"));
}

static void with_nvrtc(void **state)
{
    (void)state;
    int status = run_in_folder("nvrtc", RUN_CU "--entry 'scale<float>' --arg out:f32:50 --arg iota:f32:50 "
                                               "--arg f32:3 --arg s32:50");
    if (status == 1 && strstr(errors, "no NVRTC library could be loaded") != NULL) {
        printf("SKIP: CUDA C++: %s", errors);
        skip();
    }
    expect(status, "0 3 6 9 12 15 18 21 ...");
    assert_non_null(strstr(output, "NVRTC"));
    expect(run_in_folder("nvrtc",
                         RUN_CU "--entry 'scale<double>' --arg out:f64:50 --arg iota:f64:50 --arg f64:0.5 "
                                "--arg s32:50"),
           "0 0.5 1 1.5 2 2.5 3 3.5 ...");
    expect(run_in_folder("nvrtc", RUN_CU "--entry plain --grid 1 --arg out:s32:32"), "0 1 2 3 4 5 6 7 ...");
    assert_int_equal(run_in_folder("nvrtc", RUN_CU "--entry 'scale<float>' --arg out:f32:50"), 2);
    assert_non_null(strstr(errors, "has no --arg: 1 were given, 4 are wanted"));
    assert_int_equal(run_in_folder("nvrtc", RUN_CU "--entry 'scale<float>' --arg out:f32:50 --arg f32:1"), 2);
    assert_non_null(strstr(errors, "has 8 bytes, not 4"));
    expect(run_in_folder("nvrtc", RUN_CU "--entry plain --grid 1 --arg out:s32:32 --option --use_fast_math"),
           NULL);
    assert_int_equal(run_in_folder("nvrtc", RUN_CU "--entry nothing --arg out:s32:32"), 1);
    expect(run_in_folder("nvrtc", "scale.cu -DBLOCK=32 --arch sm_90 --entry plain"), "entry     ");
    assert_int_equal(run_in_folder("nvrtc", "scale.cu -DBLOCK=32 --arch sm_90 --entry nothing"), 1);
    assert_non_null(strstr(errors, "scale.cu has no entry \"nothing\"; it has "));
    many_entries();
    assert_int_equal(run_in_folder("nvrtc", "scale.ptx --emu --grid 1 --block 1"), 1);
    assert_non_null(strstr(errors, "scale.ptx"));
}

/* ---- the parser of arguments ---------------------------------------------------------------------- */
static void fuzzed_arguments(void **state)
{
    static const char *const seeds[] = {
        "in:f16:128*64",
        "out:f32:(N+3)/4:y.npy",
        "inout:x.npy:y.npy",
        "u32:0x7f",
        "bytes:00ff",
        "s64:-9223372036854775808",
        "iota:s8:2*3",
        "f16:-1.5e3",
        "in:bf16:x.npy",
        "zero:u64:1048576",
        "e4m3:448",
        "u8:((((1))))",
        "inout:e4m3:N*N*N:z.npy",
        "+in:f16:N",
    };
    static const char alphabet[] = "0123456789abcdefx:*/+-%()., npyiutosfNzer\t\x01\xff";
    program_symbols   symbols = {.count = 1};
    random_state      random = random_start(SEED);
    size_t            good = 0, bad = 0;
    (void)state;
    symbols.list[0] = (ptxpack_symbol){"N", 12};
    for (int i = 0; i < 200000; i++) {
        char        spec[128], line[PROGRAM_LINE] = "";
        program_arg arg;
        snprintf(spec, sizeof spec, "%s", seeds[random_below(&random, sizeof seeds / sizeof seeds[0])]);
        for (size_t n = random_below(&random, 4); n > 0 && spec[0] != '\0'; n--) {
            size_t at = random_below(&random, strlen(spec)), length = strlen(spec);
            char   c = alphabet[random_below(&random, sizeof alphabet - 1)];
            switch (random_below(&random, 3)) {
            case 0:
                spec[at] = c;
                break;
            case 1:
                memmove(spec + at, spec + at + 1, length - at);
                break;
            default:
                memmove(spec + at + 1, spec + at, length - at + 1);
                spec[at] = c;
            }
        }
        if (program_arg_parse(spec, &symbols, &arg, line)) {
            good++;
            assert_true(arg.value != NULL || arg.from != NULL || arg.count > 0);
            assert_true(arg.count <= (size_t)1 << 40);
            size_t product = 1;
            for (int k = 0; k < arg.rank; k++)
                product *= (size_t)arg.shape[k];
            if (program_arg_is_buffer(&arg) && arg.from == NULL && product != arg.count)
                fail_msg("%s: a shape of %zu elements, not %zu", spec, product, arg.count);
        } else {
            bad++;
            if (strncmp(line, "--arg ", 6) != 0 || strstr(line, spec) == NULL)
                fail_msg("%s: \"%s\"", spec, line);
        }
        program_arg_free(&arg);
    }
    assert_true(good > 20000 && bad > 20000); /* both kinds are frequent */
}

static int start(void **state)
{
    char        line[8192];
    const char *named = getenv("PTXPACK_BINARY");
    if (scratch_open(state) != 0 || realpath(named != NULL ? named : "build/ptxpack", binary) == NULL)
        return -1;
    setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
    snprintf(line, sizeof line, "cp tests/golden/files/* %s", scratch_folder);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_end_is_ended),
        cmocka_unit_test(a_sweep_is_sorted_by_what_is_executed),
        cmocka_unit_test(watching_shows_what_changed),
        cmocka_unit_test(watching_survives_what_does_not_end),
        cmocka_unit_test(instructions_are_counted),
        cmocka_unit_test(a_disassembler_shows_the_code),
        cmocka_unit_test(with_nvrtc),
        cmocka_unit_test(fuzzed_arguments),
    };
    return cmocka_run_group_tests(tests, start, scratch_close);
}
