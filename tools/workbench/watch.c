/* watch.c - run again whenever the source or what it includes changes. */
#include "watch.h"

#include <stdlib.h>
#include <string.h>

#include "tools/device.h"
#include "files.h"
#include "report.h"
#include "sass.h"

enum { POLL_MS = 40, SETTLE_MS = 15 };

/* Until the contents are others, and an editor that writes in steps, or replaces the file by another, is
 * done.  False when interrupted.  *seen: when the change was. */
static bool wait_for_change(program_files *files, const program_settings *s, double *seen)
{
    uint64_t before = files->digest;
    for (;;) {
        while (!program_files_touched(files))
            if (!program_sleep(POLL_MS))
                return false;
        *seen = now_ms();
        do {
            program_files_free(files);
            program_files_find(files, s);
            if (!program_sleep(SETTLE_MS))
                return false;
        } while (program_files_touched(files) || !files->list[0].there);
        if (files->digest != before)
            return true;
    }
}

static void show(program_worker *w, const program_settings *s, const program_result *result,
                 const program_result *before, double since)
{
    char line[SASS_LINE];
    if (s->json)
        json_open(NULL, '{');
    program_report(s, result, before);
    if (s->json)
        json_close();
    else
        printf("done in   %.2f s from %s\n", 1e-3 * (now_ms() - since),
               before != NULL ? "the change" : "the start");
    if (s->sass && result->cubin_size > 0 &&
        !sass_print(program_worker_cubin(w), result->entries[0].name, line))
        command_fail(s->subcommand, "--sass: %s", line);
}

/* One run; `before` keeps the last result that was one. */
static void run_once(program_worker *w, const program_settings *s, program_result *before, bool *any,
                     double since)
{
    const program_job     job = {.symbols = s->symbols};
    const program_result *result = program_worker_run(w, &job);
    if (program_interrupted())
        return;
    if (result->status == COMMAND_OK) {
        show(w, s, result, *any ? before : NULL, since);
        *before = *result;
        *any = true;
    } else {
        command_fail(s->subcommand, "%s", result->line);
    }
    if (!s->json)
        printf("watching  %s\n\n", s->path);
    command_flush();
}

int program_watch(program_worker *w, const program_settings *s)
{
    program_files  *files = (program_files *)calloc(1, sizeof *files);
    program_result *before = (program_result *)calloc(1, sizeof *before);
    bool            any = false;
    double          since = now_ms();
    int             status = COMMAND_OK;
    program_catch_interrupts();
    if (files == NULL || before == NULL) {
        status = command_fail(s->subcommand, "out of memory");
    } else {
        program_files_find(files, s);
        if (!files->list[0].there)
            status = command_fail(s->subcommand, "%s cannot be read", s->path);
        else
            do
                run_once(w, s, before, &any, since);
            while (command_flush() && !program_interrupted() && wait_for_change(files, s, &since));
        program_files_free(files);
    }
    free(files);
    free(before);
    return status;
}
