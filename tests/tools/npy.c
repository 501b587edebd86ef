/* npy.c - .npy files: files are written as the format says, and checked when they are read. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tools/problem/npy.h"
#include "tests/support/scratch.h"

/* Writes `bytes` of `data` to the scratch file x.npy; returns its path. */
static const char *spill(const void *data, size_t bytes)
{
    const char *path = scratch_path("x.npy");
    FILE       *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Makes a file of format `major`.0 with this header text (a newline is added) and `data` bytes of zeros. */
static size_t make_file(char *out, int major, const char *header, size_t data)
{
    size_t length = strlen(header) + 1, at = major == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)major;
    out[7] = 0;
    for (size_t i = 8; i < at; i++)
        out[i] = (char)(length >> (8 * (i - 8)) & 0xff);
    memcpy(out + at, header, length - 1);
    out[at + length - 1] = '\n';
    memset(out + at + length, 0, data);
    return at + length + data;
}

static void every_type_and_rank_comes_back(void **state)
{
    (void)state;
    for (int type = NPY_F16; type < NPY_TYPE_COUNT; type++)
        for (int rank = 0; rank <= 5; rank++) {
            unsigned char data[8 * 2 * 3 * 4 * 5 * 6];
            npy_array     a = {.type = (npy_type)type, .rank = rank, .count = 1, .data = data}, b;
            char          line[NPY_LINE];
            for (int i = 0; i < rank; i++) {
                a.shape[i] = i + 2;
                a.count *= (size_t)i + 2;
            }
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = (unsigned char)(i * 37 + 11);
            const char *path = scratch_path("roundtrip.npy");
            if (!npy_write(path, &a, line) || !npy_read(path, &b, line))
                fail_msg("%s", line);
            assert_int_equal(b.type, type);
            assert_int_equal(b.rank, rank);
            assert_int_equal(b.count, a.count);
            assert_memory_equal(b.shape, a.shape, sizeof a.shape);
            assert_memory_equal(b.data, data, a.count * npy_element_bytes(a.type));
            npy_free(&b);
        }
}

/* The bytes that numpy.save writes for numpy.arange(3, dtype=numpy.uint16). */
static void the_bytes_are_numpys(void **state)
{
    (void)state;
    uint16_t   data[3] = {0, 1, 2};
    npy_array  a = {.type = NPY_U16, .rank = 1, .shape = {3}, .count = 3, .data = data};
    char       line[NPY_LINE], want[128 + 6], got[256];
    const char text[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }";
    memset(want, ' ', sizeof want);
    memcpy(want, text, sizeof text - 1);
    want[127] = '\n';
    memcpy(want + 128, data, sizeof data);
    const char *path = scratch_path("numpy.npy");
    assert_true(npy_write(path, &a, line));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), sizeof want);
    fclose(file);
    assert_memory_equal(got, want, sizeof want);
}

static const struct {
    int         major;
    const char *header;
    size_t      data;
    const char *line; /* NULL: it is valid */
} headers[] = {
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 12, NULL},
    {2, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }   ", 12, NULL},
    {3, "{'shape': (2, 3), 'descr': '<f4', 'fortran_order': False}", 24, NULL},
    {1, "{\"descr\":\"<u2\",\"fortran_order\":False,\"shape\":(7,)}", 14, NULL},
    {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }", 7, NULL},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3,), }", 12, NULL},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (), }", 2, NULL},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 9223372036854775807), }", 0, NULL},
    {4, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 12, "format 4.0"},
    {1, "{'descr': '>f2', 'fortran_order': False, 'shape': (2, 3), }", 12, "big-endian"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 48, NULL},
    {1, "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 3), }", 6, NULL},
    {1, "{'descr': '<u8', 'fortran_order': False, 'shape': (2, 3), }", 48, NULL},
    {1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", 48, "descr"},
    {1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }", 6, "descr"},
    {1, "{'descr': '<f2x', 'fortran_order': False, 'shape': (2, 3), }", 12, "descr"},
    {1, "{'descr': [('a', '<f2')], 'fortran_order': False, 'shape': (2, 3), }", 12, "structured"},
    {1, "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }", 12, "fortran_order is True"},
    {1, "{'descr': '<f2', 'fortran_order': 0, 'shape': (2, 3), }", 12, "fortran_order"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (3), }", 6, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': 3, }", 6, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (-3,), }", 6, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (03,), }", 6, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (3 3), }", 6, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (,), }", 6, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3)", 12, "malformed"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3", 12, "tuple"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0, "too large"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0,
     "the product of the extents is too large"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 0,
     "the product of the extents is too large"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }", 0, "bytes of data"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 11,
     "needs 12 bytes of data, but the file has 11"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 13, "the file has 13"},
    {1, "{'descr': '<f2', 'fortran_order': False, }", 12, "lacks"},
    {1, "{'descr': '<f2', 'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 12, "repeats"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", 12, "unknown key"},
    {1, "{'descr': '<f2' 'fortran_order': False, 'shape': (2, 3), }", 12, "malformed"},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), } x", 12, "text after the dictionary"},
    {1, "['descr']", 12, "dictionary"},
    {1, "", 12, "dictionary"},
    {1, "{'descr': '<f\\x32', 'fortran_order': False, 'shape': (2, 3), }", 12, "structured"},
    {1,
     "{'descr': '<f2', 'fortran_order': False, 'shape': "
     "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
     "1,1,1,1), }",
     2, "32 dimensions"},
};

static void headers_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        char        bytes[1024], line[NPY_LINE] = "";
        npy_array   a;
        size_t      size = make_file(bytes, headers[i].major, headers[i].header, headers[i].data);
        const char *path = spill(bytes, size);
        bool        ok = npy_read(path, &a, line);
        if (ok != (headers[i].line == NULL) || (!ok && strstr(line, headers[i].line) == NULL))
            fail_msg("%s: \"%s\"", headers[i].header, line);
        assert_true(ok || strstr(line, path) == line); /* names the file first */
        assert_null(strchr(line, '\n'));
        npy_free(&a);
    }
}

/* Every truncation is refused; every changed byte is refused or read within bounds (under a sanitizer). */
static void damage_is_survived(void **state)
{
    (void)state;
    char   bytes[1024], line[NPY_LINE];
    size_t refused = 0,
           size = make_file(bytes, 1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 12);
    for (size_t cut = 0; cut < size; cut++) {
        npy_array a;
        assert_false(npy_read(spill(bytes, cut), &a, line));
        assert_null(a.data);
    }
    for (size_t i = 0; i < size - 12; i++)
        for (int bit = 0; bit < 8; bit++) {
            npy_array a;
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            bool ok = npy_read(spill(bytes, size), &a, line);
            refused += !ok;
            if (ok)
                assert_int_equal(a.count * npy_element_bytes(a.type), 12);
            npy_free(&a);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
        }
    assert_true(refused > 300);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    char      line[NPY_LINE], huge[] = "\x93NUMPY\x02\x00\xff\xff\xff\x7f";
    npy_array a;
    assert_false(npy_read(scratch_path("missing.npy"), &a, line));
    assert_non_null(strstr(line, "No such file"));
    assert_false(npy_read(scratch_folder, &a, line));
    assert_non_null(strstr(line, "not a regular file"));
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    assert_false(npy_read(scratch_path("pipe"), &a, line));
    assert_false(npy_read(spill("hello, world", 12), &a, line));
    assert_non_null(strstr(line, "not a .npy file"));
    assert_false(npy_read(spill(huge, sizeof huge - 1), &a, line));
    assert_non_null(strstr(line, "claims 2147483647 bytes"));
}

static void writing_is_all_or_nothing(void **state)
{
    (void)state;
    uint16_t  data[2] = {1, 2}, other[2] = {3, 4};
    npy_array a = {.type = NPY_U16, .rank = 1, .shape = {2}, .count = 2, .data = data}, b;
    char      line[NPY_LINE];
    assert_false(npy_write(scratch_path("no/such/folder.npy"), &a, line));
    assert_non_null(strstr(line, "No such file"));
    assert_false(npy_write("/dev/null", &a, line));
    assert_non_null(strstr(line, "not a regular file"));
    assert_true(npy_write(scratch_path("target.npy"), &a, line));
    assert_int_equal(symlink("target.npy", scratch_path("link.npy")), 0);
    a.data = other;
    assert_true(npy_write(scratch_path("link.npy"), &a, line)); /* through the link */
    struct stat info;
    assert_int_equal(lstat(scratch_path("link.npy"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_true(npy_read(scratch_path("target.npy"), &b, line));
    assert_memory_equal(b.data, other, sizeof other);
    npy_free(&b);
    if (access("/dev/full", W_OK) == 0) {
        assert_false(npy_write("/dev/full", &a, line));
        assert_int_equal(access("/dev/full", F_OK), 0);
    }
}

/* ---- replacing files ------------------------------------------------------------------------------ */
static bool write_one(const char *path, char line[NPY_LINE])
{
    uint16_t  data[2] = {1, 2};
    npy_array a = {.type = NPY_U16, .rank = 1, .shape = {2}, .count = 2, .data = data};
    return npy_write(path, &a, line);
}

static struct stat status_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info;
}

static void mode_and_owner_are_kept(void **state)
{
    (void)state;
    char        line[NPY_LINE];
    const char *path = scratch_path("kept.npy");
    mode_t      before = umask(027);
    assert_true(write_one(path, line));
    assert_int_equal(status_of(path).st_mode & 07777, 0640); /* a new file, as the umask says */
    umask(before);
    assert_int_equal(chmod(path, 0604), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(path, 1234, 5678), 0);
    struct stat old = status_of(path);
    assert_true(write_one(path, line));
    struct stat now = status_of(path);
    assert_int_not_equal(now.st_ino, old.st_ino); /* it is another file */
    assert_int_equal(now.st_mode, old.st_mode);
    assert_int_equal(now.st_uid, old.st_uid);
    assert_int_equal(now.st_gid, old.st_gid);
}

static void bad_targets_are_refused(void **state)
{
    (void)state;
    char line[NPY_LINE];
    assert_int_equal(symlink("nowhere.npy", scratch_path("dangling.npy")), 0);
    assert_false(write_one(scratch_path("dangling.npy"), line));
    assert_non_null(strstr(line, "it is a link to a file that is not there"));
    assert_int_equal(symlink("loop.npy", scratch_path("loop.npy")), 0);
    assert_false(write_one(scratch_path("loop.npy"), line));
    assert_non_null(strstr(line, "symbolic links"));
    assert_false(write_one(scratch_folder, line));
    assert_non_null(strstr(line, "not a regular file"));
    if (geteuid() != 0) { /* root may write everything */
        assert_true(write_one(scratch_path("protected.npy"), line));
        assert_int_equal(chmod(scratch_path("protected.npy"), 0444), 0);
        assert_false(write_one(scratch_path("protected.npy"), line));
        assert_non_null(strstr(line, "Permission denied"));
    }
}

static size_t files_in(const char *folder)
{
    size_t         count = 0;
    struct dirent *e;
    DIR           *dir = opendir(folder);
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return count;
}

/* Starts a child that writes the same large file again and again. */
static pid_t start_writer(const char *path)
{
    static float data[1 << 18];
    npy_array    a = {.type = NPY_F32, .rank = 1, .shape = {1 << 18}, .count = 1 << 18, .data = data};
    char         line[NPY_LINE];
    pid_t        child = fork();
    assert_true(child >= 0);
    while (child == 0)
        if (!npy_write(path, &a, line))
            _exit(1);
    return child;
}

/* Several processes write the same file and are killed: the file is whole, and no other file is left. */
static void signals_leave_nothing(void **state)
{
    (void)state;
    enum { WRITERS = 3, ROUNDS = 8 };
    char      line[NPY_LINE];
    pid_t     writers[WRITERS];
    npy_array a;
    char      folder[8192], path[8300];
    snprintf(folder, sizeof folder, "%s", scratch_path("signals"));
    snprintf(path, sizeof path, "%s/x.npy", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WRITERS; i++)
            writers[i] = start_writer(path);
        usleep(20000 + 1000 * (unsigned)round);
        for (int i = 0; i < WRITERS; i++) {
            int status = 0;
            assert_int_equal(kill(writers[i], SIGTERM), 0);
            assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        }
    }
    assert_int_equal(files_in(folder), 1);
    assert_true(npy_read(path, &a, line));
    npy_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_rank_comes_back),
        cmocka_unit_test(the_bytes_are_numpys),
        cmocka_unit_test(headers_are_judged),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(writing_is_all_or_nothing),
        cmocka_unit_test(mode_and_owner_are_kept),
        cmocka_unit_test(bad_targets_are_refused),
        cmocka_unit_test(signals_leave_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
