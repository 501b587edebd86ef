/* run.h - one run of a caller's program: what is wanted, what came of it, and how it is done.
 *
 * Settings are the command line; a job is what differs from run to run.  Settings are made before the process
 * that runs jobs is (worker.h), so that pointers into them hold in both; a job and its result lie in
 * memory that both share, and hold no other pointers. */
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
    bool             emu, json, watch, sass, no_run, graph, line_info;
    /* made from these */
    int64_t         launches; /* timed; 0: only the first is; OPTION_NOT_GIVEN: as the device has it */
    program_symbols symbols;  /* -D */
    program_names   names, axis_names;
    program_axis    axes[PROGRAM_MAX_AXES];
    size_t          axis_count;
} program_settings;

typedef struct program_job {
    program_symbols symbols; /* -D, and of a sweep the values of this run */
} program_job;

/* ---- what came of it ------------------------------------------------------------------------------ */
typedef struct program_figures { /* of one entry; -1: not known */
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
    double   least, most, mean;        /* of those that are numbers */
    int64_t  nans;
    uint64_t checksum; /* XXH3-64 of the bytes */
} program_output;

typedef struct program_result {
    int  status;                 /* COMMAND_OK, _FAILED or _USAGE */
    bool lost;                   /* the context is unusable: the process must end */
    char line[2 * PROGRAM_LINE]; /* why it failed */
    struct {
        char name[96], target[16], why[512];
        int  driver; /* 0: compiled only, without a driver */
        bool emulated;
    } device;
    struct {
        char   target[16], compiler[96], warnings[4096];
        bool   from_cache;
        double front_ms, compile_ms, cache_ms, load_ms, ready_ms; /* ready: all of it, by the clock */
        size_t cubin_bytes;
    } program;
    program_figures entries[PROGRAM_MAX_ENTRIES];  /* the one that ran; or all */
    size_t          entry_count, entries_left_out; /* too many, or of too long a name */
    bool            machine_code;                  /* instructions are the machine's, not PTX's */
    bool            ran;
    uint32_t        grid[3], block[3];
    int64_t         smem, launches; /* launches timed; 0: the first and only one */
    double          ms, least_ms, most_ms;
    program_output  outputs[PROGRAM_OUTPUTS];
    size_t          output_count, outputs_left_out;
    size_t          cubin_size; /* of what lies in the file for it */
} program_result;

/* ---- doing it: in the worker's process ------------------------------------------------------------ */
typedef struct program_runner program_runner;
/* Told around everything that may hang: that a launch is waited for (true), and that it has ended. */
typedef void (*program_launching)(void *context, bool waiting);
/* cubin: a file for machine code, when --sass or --watch want to see it; -1: none. */
program_runner *program_runner_open(const program_settings *s, int cubin, program_launching launching,
                                    void *context);
void            program_runner_close(program_runner *r);
void            program_run(program_runner *r, const program_job *job, program_result *result);
#endif
