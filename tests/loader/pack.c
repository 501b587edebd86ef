/* pack.c - the embedded pack: each text is the file's but for comments and blanks at the ends of lines, whoever reads it
 * first, and also where somebody has begun to unpack it and never ends. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loader/files.h"
#include "loader/pack/pack.h"

enum { THREADS = 8, FILLING = 1, MOST = 1 << 20 };

/* The file as the Makefile packs it. */
static char *source_of(const char *path)
{
    char   full[256];
    size_t bytes;
    snprintf(full, sizeof full, "ptx/%s", path);
    char *text = ptxpack_read_file(full, MOST, &bytes), *to = text;
    if (text == NULL)
        fail_msg("%s cannot be read", full);
    for (char *line = text, *next; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n") + 1;
        next[-1] = '\0';
        char *comment = strstr(line, "//"), *end = comment != NULL ? comment : next - 1;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        memmove(to, line, (size_t)(end - line));
        to += end - line;
        *to++ = '\n';
    }
    *to = '\0';
    return text;
}

static void expect_file(struct ptxpack_pack *pack, const char *path)
{
    size_t      bytes = 0;
    char       *wanted = source_of(path);
    const char *text = ptxpack_pack_read(pack, path, &bytes);
    assert_non_null(text);
    assert_int_equal(bytes, strlen(wanted));
    assert_string_equal(text, wanted);
    assert_ptr_equal(ptxpack_pack_read(pack, path, &bytes), text);
    free(wanted);
}

static void a_text_that_is_never_filled_is_read(void **state)
{
    struct ptxpack_pack       pack = {.dir = NULL};
    struct ptxpack_pack_file *f = ptxpack_pack_files;
    (void)state;
    atomic_store(&f->state, FILLING);
    expect_file(&pack, f->path);
    assert_int_equal(atomic_load(&f->state), FILLING);
    assert_non_null(pack.texts);
    ptxpack_pack_free(&pack);
    atomic_store(&f->state, 0);
}

static void *read_all(void *sum)
{
    struct ptxpack_pack pack = {.dir = NULL};
    for (struct ptxpack_pack_file *f = ptxpack_pack_files; f->path != NULL; f++) {
        size_t      bytes = 0;
        const char *text = ptxpack_pack_read(&pack, f->path, &bytes);
        for (size_t i = 0; text != NULL && i <= bytes; i++)
            *(uint64_t *)sum = *(uint64_t *)sum * 31 + (unsigned char)text[i];
    }
    ptxpack_pack_free(&pack);
    return NULL;
}

static void threads_read_the_same(void **state)
{
    pthread_t thread[THREADS];
    uint64_t  sum[THREADS] = {0}, after = 0;
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_all, &sum[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    read_all(&after);
    for (int i = 0; i < THREADS; i++)
        assert_true(sum[i] == after);
}

static void texts_are_the_files(void **state)
{
    struct ptxpack_pack pack = {.dir = NULL};
    int                 files = 0;
    (void)state;
    for (struct ptxpack_pack_file *f = ptxpack_pack_files; f->path != NULL; f++, files++)
        expect_file(&pack, f->path);
    assert_true(files > 100);
    assert_null(pack.texts);
}

static void damage_is_noticed(void **state)
{
    size_t              bytes = 0;
    unsigned char      *packed;
    struct ptxpack_pack pack = {.dir = NULL};
    (void)state;
    struct ptxpack_pack_file *f = ptxpack_pack_files, kept = {f->path, f->begin, f->end, f->text, f->bytes, 0};
    const size_t              size = (size_t)(f->end - f->begin);
    packed = (unsigned char *)malloc(size);
    assert_non_null(packed);
    for (size_t at = 0; at < size; at += 1 + size / 50) {
        memcpy(packed, f->begin, size);
        packed[at] ^= 0x10;
        f->begin = packed;
        f->end = packed + size;
        atomic_store(&f->state, 0);
        const char *text = ptxpack_pack_read(&pack, f->path, &bytes);
        f->begin = kept.begin;
        f->end = kept.end;
        if (text != NULL) /* bytes of the header that mean nothing */
            expect_file(&pack, f->path);
    }
    free(packed);
    atomic_store(&f->state, 0);
    expect_file(&pack, f->path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_is_never_filled_is_read),
        cmocka_unit_test(threads_read_the_same),
        cmocka_unit_test(texts_are_the_files),
        cmocka_unit_test(damage_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
