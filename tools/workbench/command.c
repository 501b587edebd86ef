/* command.c - the command line of "ptxpack ptx" and "ptxpack nvrtc". */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "tools/device.h"
#include "repeat.h"
#include "report.h"
#include "run.h"
#include "worker.h"
#include "sass.h"

#define REFUSE(...) (command_fail(s->subcommand, __VA_ARGS__), COMMAND_USAGE)

static const char ptx_synopsis[] =
    "ptxpack ptx FILE.ptx --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg SPEC]... [options]\n" PROGRAM_ARGS_HELP;
static const char nvrtc_synopsis[] =
    "ptxpack nvrtc FILE.cu --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg SPEC]... [options]\n" PROGRAM_ARGS_HELP;

/* ---- checks --------------------------------------------------------------------------------------- */
static int check_device(program_settings *s)
{
    if (s->emu && s->device != NULL && strcmp(s->device, "emu") != 0)
        return REFUSE("--emu contradicts --device %s", s->device);
    if (!device_choice(s->device))
        return REFUSE("--device: '%s' is neither gpu nor emu", s->device);
    if (s->arch != NULL && (s->emu || s->device != NULL))
        return REFUSE(
            "--arch compiles for a device that need not be there: it goes without --device and --emu");
    if (s->profile && s->device != NULL && strcmp(s->device, "emu") != 0)
        return REFUSE("--profile counts on the emulated driver: it goes without --device %s", s->device);
    s->emu = s->emu || s->profile;
    s->line_info = s->line_info || s->profile;
    s->no_run = s->no_run || s->arch != NULL;
    return COMMAND_OK;
}

/* --time, --time=N */
static int check_time(program_settings *s)
{
    bool given = s->time != NULL || s->graph || s->sweeps.count > 0;
    s->launches = given ? OPTION_NOT_GIVEN : 0;
    if (s->time != NULL && *s->time != '\0' &&
        (!program_integer(s->time, &s->launches) || s->launches < 1 || s->launches > 1000000))
        return REFUSE("--time: \"%s\" is not a number of launches between 1 and 1000000", s->time);
    if (s->seed < 0)
        return REFUSE("--seed: %lld is negative", (long long)s->seed);
    if (s->timeout < 0 || s->timeout > 1e6)
        return REFUSE("--timeout: %g is not between 0 and 1000000 seconds", s->timeout);
    return COMMAND_OK;
}

static int check_modes(const program_settings *s)
{
    if (s->watch && s->sweeps.count > 0)
        return REFUSE("--watch and --sweep do not go together");
    if (s->sass && (s->json || s->sweeps.count > 0))
        return REFUSE("--sass prints text: it goes with neither --json nor --sweep");
    if (s->profile && (s->no_run || s->watch || s->sweeps.count > 0))
        return REFUSE("--profile is of one run: it goes with neither --watch, --sweep, --no-run nor --arch");
    if (s->lines < 0 || s->lines > 1000000)
        return REFUSE("--lines: %lld is not between 0 and 1000000", (long long)s->lines);
    if (s->errors < 0 || s->errors > 1000000)
        return REFUSE("--errors: %lld is not between 0 and 1000000", (long long)s->errors);
    if (s->no_run && s->args.count > 0)
        return REFUSE("--arg: nothing is run%s", s->arch != NULL ? ", for --arch only compiles" : "");
    if (!s->no_run && s->grid == NULL)
        return REFUSE("--grid is missing: how many blocks, as --grid 128 (--no-run only compiles)");
    if (!s->no_run && s->block == NULL)
        return REFUSE("--block is missing: how many threads, as --block 256 (--no-run only compiles)");
    if (s->args.count > PROGRAM_MAX_PARAMS)
        return REFUSE("more than %d --arg", PROGRAM_MAX_PARAMS);
    if (s->args.count > 0 && s->args.words[0][0] == '+')
        return REFUSE("--arg %.300s: + is the next member of a struct, and no --arg stands before",
                      s->args.words[0]);
    return COMMAND_OK;
}

/* Evaluate the numbers of the first run, so that typing errors are reported at once. */
static int check_numbers(const program_settings *s, const program_job *job)
{
    char     line[PROGRAM_LINE];
    uint32_t extents[3];
    int64_t  smem;
    if ((s->grid != NULL && !program_extents("--grid", s->grid, &job->symbols, extents, line)) ||
        (s->block != NULL && !program_extents("--block", s->block, &job->symbols, extents, line)) ||
        !program_smem(s->smem, &job->symbols, &smem, line))
        return REFUSE("%s", line);
    for (size_t i = 0; i < s->args.count; i++) {
        program_arg arg;
        bool        good = program_arg_parse(s->args.words[i], &job->symbols, &arg, line);
        program_arg_free(&arg);
        if (!good)
            return REFUSE("%s", line);
    }
    return COMMAND_OK;
}

static int check(program_settings *s, program_job *job)
{
    char line[PROGRAM_LINE];
    int  status = check_device(s);
    if (status == COMMAND_OK)
        status = check_time(s);
    if (status == COMMAND_OK)
        status = check_modes(s);
    if (status != COMMAND_OK)
        return status;
    if (!program_symbols_define(&s->symbols, &s->defines, &s->names, line) || !program_sweep_parse(s, line) ||
        !program_sweep_job(s, 0, job, line))
        return REFUSE("%s", line);
    return check_numbers(s, job);
}

/* ---- one run ---------------------------------------------------------------------------------------- */
static int show_sass(program_worker *w, const program_settings *s, const program_result *result)
{
    char line[SASS_LINE];
    if (result->cubin_size == 0)
        return command_fail(s->subcommand, "--sass: there is no machine code here%s",
                            result->device.emulated
                                ? ": the emulated driver executes PTX (--arch sm_90 compiles)"
                                : "");
    printf("\n");
    command_flush(); /* before the output of another program */
    if (!sass_print(program_worker_cubin(w), result->entry_count == 1 ? result->entries[0].name : NULL, line))
        return command_fail(s->subcommand, "--sass: %s", line);
    return COMMAND_OK;
}

static int run_once(program_worker *w, const program_settings *s, const program_job *job)
{
    const program_result *result = program_worker_run(w, job);
    if (result->status != COMMAND_OK)
        return program_report_failure(w, s, result);
    if (s->json)
        json_open(NULL, '{');
    program_report(s, result, NULL);
    int status = s->profile ? program_report_profile(w, s) : COMMAND_OK;
    if (s->json)
        json_close();
    if (status != COMMAND_OK)
        return status;
    return s->sass ? show_sass(w, s, result) : COMMAND_OK;
}

static int run(const program_settings *s, const program_job *job)
{
    program_worker *w = program_worker_open(s);
    int             status = w == NULL             ? COMMAND_FAILED
                             : s->watch            ? program_watch(w, s)
                             : s->sweeps.count > 0 ? program_sweep(w, s)
                                                   : run_once(w, s, job);
    program_worker_close(w);
    return status;
}

static int parse(int argc, char **argv, program_settings *s, program_job *job)
{
    bool         cuda = s->language == PTXPACK_LANGUAGE_CUDA;
    const option rows[] = {
        {"entry", OPTION_TEXT, &s->entry,
         cuda ? "NAME  the kernel, as scale or 'scale<float>'; may be left out where there is only one"
              : "NAME  the kernel; may be left out where there is only one"},
        {"grid", OPTION_TEXT, &s->grid, "X[,Y[,Z]]  blocks"},
        {"block", OPTION_TEXT, &s->block, "X[,Y[,Z]]  threads of a block"},
        {"smem", OPTION_TEXT, &s->smem, "BYTES  dynamic shared memory of a block (default 0)"},
        {"arg", OPTION_LIST, &s->args, "SPEC  what a parameter gets, see above"},
        {"D", OPTION_LIST, &s->defines,
         cuda ? "NAME=INTEGER  define a macro (without =INTEGER: as 1); any other by --option"
              : "SYMBOL=INTEGER  define a symbol as .set does (without =INTEGER: as 1)"},
        {"I", OPTION_LIST, &s->includes, "DIR  look there, too, for what is included"},
        {"time", OPTION_INLINE, &s->time, "[=N]  time N launches (20; emulated 1) by events: the median"},
        {"graph", OPTION_FLAG, &s->graph, "time graphs of 20 launches: without the gaps between launches"},
        {"sweep", OPTION_LIST, &s->sweeps,
         "SYMBOL=A,B,...  run each value, the fastest first (emulated: what executes least); several: each "
         "combination"},
        {"watch", OPTION_FLAG, &s->watch,
         "run again when the file or what it includes changes; end with Ctrl-C"},
        {"profile", OPTION_FLAG, &s->profile,
         "what each line executes, and bank conflicts, as the emulated driver counts them"},
        {"lines", OPTION_INT, &s->lines, "N  of --profile: the N lines executed most (default 30; 0: all)"},
        {"sass", OPTION_FLAG, &s->sass, "show machine code, by nvdisasm or cuobjdump (or PTXPACK_NVDISASM)"},
        {"no-run", OPTION_FLAG, &s->no_run, "only compile and load: registers, spills, instructions"},
        {"arch", OPTION_TEXT, &s->arch, "sm_90a  only compile, for that device; needs none"},
        {"errors", OPTION_INT, &s->errors, "N  show the first N errors of the compiler (default 5; 0: all)"},
        {"line-info", OPTION_FLAG, &s->line_info, "with lines of the source, for profilers and --sass"},
        {"seed", OPTION_INT, &s->seed, "N  of random buffers (default 1)"},
        {"timeout", OPTION_REAL, &s->timeout, "S  end a launch by force after S seconds (10; emulated 60)"},
        {"device", OPTION_TEXT, &s->device, DEVICE_OPTION_HELP},
        {"emu", OPTION_FLAG, &s->emu, "the same as --device emu"},
        {"json", OPTION_FLAG, &s->json, "print JSON"},
        /* the last row is for nvrtc only */
        {cuda ? "option" : NULL, OPTION_LIST, &s->options,
         "WORD  an option of NVRTC, as --option=--use_fast_math"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int words = 0;
    int status = command_options(argc, argv, cuda ? nvrtc_synopsis : ptx_synopsis, rows, &words);
    if (status >= 0)
        return status;
    if (words != 1)
        return REFUSE("expected one FILE (try --help)");
    s->path = argv[1];
    status = check(s, job);
    return status == COMMAND_OK ? -1 : status;
}

int program_command(int argc, char **argv, ptxpack_language language)
{
    program_settings *s = (program_settings *)calloc(1, sizeof *s);
    program_job      *job = (program_job *)calloc(1, sizeof *job);
    int               status;
    if (s == NULL || job == NULL) {
        status = command_fail(argv[0], "out of memory");
    } else {
        s->subcommand = argv[0];
        s->language = language;
        s->seed = 1;
        s->lines = 30;
        s->errors = 5;
        status = parse(argc, argv, s, job);
        if (status < 0)
            status = run(s, job);
    }
    free(s);
    free(job);
    return status;
}
