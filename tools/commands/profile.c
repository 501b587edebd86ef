/* profile.c - `ptxpack profile`: shows what a kernel executes, per source line and per warp of a block, as the
 * emulated driver counts it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/problem/attention_problem.h"
#include "tools/problem/attention_run.h"
#include "tools/command.h"
#include "tools/device.h"
#include "tools/profile_table.h"

static int run(device *d, attention_problem *p, const attention_settings *s, int64_t lines)
{
    profile_calls calls;
    profile_table table;
    if (!profile_calls_find(d, &calls))
        return command_fail("profile", "%s", d->line);
    calls.start();
    int status = attention_run(d, p, s);
    calls.stop();
    if (status != COMMAND_OK)
        return status;
    profile_table_begin(&table);
    calls.read(profile_table_add, &table);
    if (table.failed)
        status = command_fail("profile", "out of memory");
    else if (s->json)
        profile_table_json(&table);
    else
        profile_table_print(&table, (size_t)lines);
    profile_table_free(&table);
    return status;
}

static int run_problem(const attention_settings *s, int64_t lines)
{
    attention_problem p = {.ms = 0};
    device            gpu = {.handle = NULL};
    int               status = attention_problem_make(s, &p);
    if (status == COMMAND_OK && device_open_as(&gpu, "emu", NULL) != PTXPACK_OK)
        status = command_fail("profile", "%s", gpu.line);
    if (status == COMMAND_OK) {
        if (s->json)
            json_open(NULL, '{');
        status = run(&gpu, &p, s, lines);
        if (s->json)
            json_close();
    }
    device_close(&gpu);
    attention_problem_free(&p);
    return status;
}

int cmd_profile(int argc, char **argv)
{
    int64_t            lines = 30;
    attention_settings s = attention_settings_of("profile");
    s.otherwise.batch = s.otherwise.heads_q = s.seed = s.repeat = 1;
    s.otherwise.seqlen_q = 256;
    const option rows[] = {
        ATTENTION_OPTIONS(&s, "1", "256", "1"),
        {"dtype", OPTION_TEXT, &s.dtype, "f16|bf16|e4m3  (default f16)"},
        {"lines", OPTION_INT, &lines, "N  print the N lines that are executed most (default 30; 0: all)"},
        {"json", OPTION_FLAG, &s.json, "print JSON: a row for each instruction and warp"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int words = 0;
    int status = command_options(argc, argv, "ptxpack profile attention [options]", rows, &words);
    if (status >= 0)
        return status;
    if (words != 1 || strcmp(argv[1], "attention") != 0)
        return command_fail("profile", "name what to profile: attention"), COMMAND_USAGE;
    if (lines < 0 || lines > 1000000)
        return command_fail("profile", "--lines: %lld is not between 0 and 1000000", (long long)lines),
               COMMAND_USAGE;
    return run_problem(&s, lines);
}
