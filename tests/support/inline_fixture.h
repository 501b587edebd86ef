/* inline_fixture.h - runs CUDA C++ through NVRTC on the emulated driver, for the tests of ptx/inline. */
#ifndef PTXPACK_INLINE_FIXTURE_H
#define PTXPACK_INLINE_FIXTURE_H
#include <stdio.h>
#include "tools/device.h"
#include "loader/build/program.h"

extern device inline_gpu;

/* Returns 0, or the exit status of the program `test`, after a line that says why: 77 where there is no NVRTC.
 * The emulated GPU is of sm_90. */
int  inline_open(const char *test);
void inline_close(void);

/* Fails the test with the line of the device or of the handle, if a call failed. */
void inline_must(bool ok);

/* A source that is being written: write to `out`, then load it. */
typedef struct inline_text {
    FILE  *out;
    char  *at;
    size_t bytes;
} inline_text;
void                    inline_begin(inline_text *t);
void                    inline_append(inline_text *t, const char *path); /* appends the text of a file */
ptxpack_program        *inline_load(inline_text *t);
const ptxpack_function *inline_function_of(ptxpack_program *program, const char *name);

/* Device memory with these bytes, and room for an answer; each is valid until the next call for the same
 * slot. */
enum { INLINE_INPUTS = 5 };
uint64_t inline_give(int slot, const void *from, size_t bytes);
uint64_t inline_room(size_t bytes);
/* Fills the answer's room with poison before a launch; reads its bytes after all launches have ended. */
void inline_poison(void);
void inline_fetch(void *answer, const char *name);
/* Poisons the room, launches so many blocks in x and y, and fetches the answer; `name` is for messages. */
void inline_run(const ptxpack_function *f, size_t x, size_t y, uint32_t threads, size_t shared_bytes,
                void *const *parameters, void *answer, const char *name);
#endif
