/* emu_test.h - what the tests of the emulated GPU share: cmocka, and the check of a run's end. */
#ifndef EMU_TEST_H
#define EMU_TEST_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emu_fixture.h"
#include "unit.h"

static const enum emu_async_policy emu_policies[] = {EMU_ASYNC_EARLIEST, EMU_ASYNC_LATEST, EMU_ASYNC_RANDOM};
enum { EMU_POLICIES = 3 };

/* A run must end with this result and this part of the log, or with an empty log if `part` is NULL.  `what` is
 * printed with a failure. */
static inline void emu_must_end(unsigned int result, unsigned int wanted, const char *part, const char *what)
{
    const char *log = emu_log();
    if (result != wanted || (part != NULL ? strstr(log, part) == NULL : *log != '\0'))
        fail_msg("result %u, wanted %u and \"%s\"; log: %s\nof %s", result, wanted, part != NULL ? part : "",
                 log, what);
}
#endif
