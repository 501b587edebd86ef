/* run.h - one run of a caller's program: its settings, its job and its result.
 *
 * The settings are the command line; a job is what differs between runs.  The settings exist before the process
 * that runs jobs (worker.h) is started, so that pointers into them are valid in both processes.  A job and its
 * result are in memory that both processes share; they hold no other pointers. */
#ifndef PTXPACK_PROGRAM_RUN_H
#define PTXPACK_PROGRAM_RUN_H
#include <stdbool.h>
#include <stdint.h>
#include "tools/command.h"
#include "loader/build/program.h"
#include "args.h"
#include "params.h"
#include "symbols.h"

/* One --sweep NAME=a,b,c */
enum { PROGRAM_MAX_AXES = 8, PROGRAM_MAX_RUNS = 1024, PROGRAM_MAX_VALUES = 64 };
typedef struct program_axis {
    const char *name; /* of program_settings.axis_names */
    int64_t     values[PROGRAM_MAX_VALUES];
    size_t      count;
} program_axis;

typedef struct program_settings {
    const char      *subcommand; /* "ptx", "nvrtc" */
    ptxpack_language language;
    const char      *path, *entry, *grid, *block, *smem, *time, *device, *arch;
    option_list      defines, includes, args, sweeps, options;
    int64_t          seed;
    double           timeout; /* seconds; 0: the default */
    bool             emu, json, watch, sass, no_run, graph, line_info, profile;
    int64_t          lines;  /* of --profile; 0: all */
    int64_t          errors; /* of a compiler, that are shown; 0: all */
    /* computed from the options above */
    int64_t         launches; /* to be timed; 0: only the first; OPTION_NOT_GIVEN: depends on the device */
    program_symbols symbols;  /* -D */
    program_names   names, axis_names;
    program_axis    axes[PROGRAM_MAX_AXES];
    size_t          axis_count;
} program_settings;

typedef struct program_job {
    program_symbols symbols; /* those of -D, and in a sweep the values of this run */
} program_job;

/* ---- what came of it ------------------------------------------------------------------------------ */
typedef struct program_figures { /* of one entry; -1: unknown */
    char name[PROGRAM_NAME];
    int  registers, shared_bytes, local_bytes, constant_bytes, spill_bytes;
    long instructions;
    char remarks[480];
} program_figures;

enum { PROGRAM_SHOWN = 8, PROGRAM_OUTPUTS = 32 };
typedef struct program_output {
    int      argument; /* from 0 */
    char     type[8], file[PROGRAM_NAME];
    int      rank;
    int64_t  shape[NPY_MAX_RANK], count;
    char     first[PROGRAM_SHOWN][32]; /* elements as text */
    double   least, most, mean;        /* of the elements that are not NaN */
    int64_t  nans;
    uint64_t checksum; /* XXH3-64 of the bytes */
} program_output;

typedef struct program_result {
    int  status;                 /* COMMAND_OK, _FAILED or _USAGE */
    bool lost;                   /* the context is unusable: the process must end */
    bool misnamed;               /* -D or --sweep has a name that nothing uses: other values change nothing */
    char line[2 * PROGRAM_LINE]; /* why it failed */
    struct {
        char name[96], target[16], why[512];
        int  driver; /* 0: compiled only, without a driver */
        bool emulated;
    } device;
    struct {
        char   target[16], compiler[96], warnings[4096];
        bool   from_cache;
        double front_ms, compile_ms, cache_ms, load_ms, ready_ms; /* ready_ms: the whole, by the clock */
        size_t cubin_bytes;
    } program;
    program_figures entries[PROGRAM_MAX_ENTRIES];  /* the one that ran; or all */
    size_t          entry_count, entries_left_out; /* beyond the limit, or with too long a name */
    bool            machine_code;                  /* instructions are counted in machine code, not in PTX */
    bool            ran;
    uint32_t        grid[3], block[3];
    int64_t         smem, launches; /* launches timed; 0: the first and only one */
    double          ms, least_ms, most_ms;
    bool            counted; /* on the emulated driver; of the first launch: */
    int64_t         instructions, wavefronts;
    program_output  outputs[PROGRAM_OUTPUTS];
    size_t          output_count, outputs_left_out;
    size_t          cubin_size; /* bytes in the file of machine code; after a failed compilation 0, and */
    size_t          errors_size, error_count; /* the compiler's errors are in that file, one a line */
} program_result;

/* ---- doing it: in the worker's process ------------------------------------------------------------ */
typedef struct program_runner program_runner;
/* Called around everything that may hang: with true before waiting for a launch, with false after it. */
typedef void (*program_launching)(void *context, bool waiting);
/* cubin: a file for the machine code that --sass and --watch show, or for the errors of a compilation.  profile: a file for
 * the rows of --profile (profile_table.h). */
program_runner *program_runner_open(const program_settings *s, int cubin, int profile,
                                    program_launching launching, void *context);
void            program_runner_close(program_runner *r);
void            program_run(program_runner *r, const program_job *job, program_result *result);
#endif
