/* manifest.c - the parts of a folder of prebuilt machine code: SHA-256, and the text of the manifest. */
#include "handle.h"
#include "cache/prebuilt/prebuilt.h"

/* ---- SHA-256 ------------------------------------------------------------------------------------ */

/* The examples of FIPS 180-4, and a million times 'a' from the same source. */
TEST_WITH(test_sha256, NULL, NULL)
{
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    uint8_t digest[PTXPACK_SHA256_BYTES], parsed[PTXPACK_SHA256_BYTES];
    char    hex[PTXPACK_SHA256_HEX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ptxpack_sha256(cases[i].text, strlen(cases[i].text), digest);
        ptxpack_sha256_hex(digest, hex);
        assert_string_equal(hex, cases[i].hex);
        assert_true(ptxpack_sha256_parse(hex, parsed));
        assert_memory_equal(digest, parsed, sizeof digest);
        hex[PTXPACK_SHA256_HEX - 1] = 'A';
        assert_false(ptxpack_sha256_parse(hex, parsed));
    }
    ptxpack_sha256_state sum;
    ptxpack_sha256_begin(&sum);
    for (int i = 0; i < 1000; i++) {
        char piece[1000];
        memset(piece, 'a', sizeof piece);
        ptxpack_sha256_add(&sum, piece, sizeof piece);
    }
    ptxpack_sha256_end(&sum, digest);
    ptxpack_sha256_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* ---- the manifest's text ------------------------------------------------------------------------ */

static ptxpack_manifest_entry listed(const char *name, uint64_t bytes, const char *label)
{
    ptxpack_manifest_entry e;
    memset(&e, 0, sizeof e);
    memset(e.name, *name, PTXPACK_CACHE_HEX);
    snprintf(e.label, sizeof e.label, "%s", label);
    ptxpack_sha256(name, strlen(name), e.sha256);
    e.bytes = bytes;
    return e;
}

static char *example(size_t *bytes)
{
    ptxpack_manifest             m = {.library = "1.2.3"};
    const ptxpack_manifest_entry entries[] = {listed("b", 12, "second"), listed("a", 7, "fir\nst"),
                                              listed("c", UINT64_MAX, ""), listed("b", 99, "second again")};
    for (size_t i = 0; i < 4; i++)
        assert_true(ptxpack_manifest_add(&m, &entries[i]));
    assert_int_equal(m.count, 3);
    char *text = ptxpack_manifest_text(&m, bytes);
    assert_non_null(text);
    ptxpack_manifest_free(&m);
    return text;
}

static bool readable(const char *text, size_t bytes)
{
    char             line[PTXPACK_CACHE_LINE] = "";
    ptxpack_manifest m;
    bool             good = ptxpack_manifest_read(text, bytes, &m, line);
    assert_int_equal(strncmp(line, "line ", 5) == 0, !good);
    if (!good)
        assert_true(m.count == 0 && m.entries == NULL);
    ptxpack_manifest_free(&m);
    return good;
}

TEST_WITH(test_manifest_round_trip, NULL, NULL)
{
    char             line[PTXPACK_CACHE_LINE];
    ptxpack_manifest m;
    size_t           bytes, again_bytes;
    char            *text = example(&bytes);
    assert_true(ptxpack_manifest_read(text, bytes, &m, line));
    assert_string_equal(m.library, "1.2.3");
    assert_string_equal(m.entries[0].label, "fir?st");
    assert_string_equal(m.entries[1].label, "second again");
    assert_int_equal(m.entries[1].bytes, 99);
    assert_true(m.entries[2].bytes == UINT64_MAX);
    assert_ptr_equal(ptxpack_manifest_find(&m, m.entries[2].name), &m.entries[2]);
    assert_null(ptxpack_manifest_find(&m, "00000000000000000000000000000000"));
    char *again = ptxpack_manifest_text(&m, &again_bytes);
    assert_string_equal(text, again);
    ptxpack_manifest_remove(&m, m.entries[0].name);
    assert_int_equal(m.count, 2);
    ptxpack_manifest_free(&m);
    free(again);
    free(text);
}

/* No byte can be changed, omitted or added, even if the last line is changed to fit. */
TEST_WITH(test_manifest_is_strict, NULL, NULL)
{
    size_t bytes;
    char  *text = example(&bytes);
    assert_true(readable(text, bytes));
    for (size_t i = 0; i < bytes; i++) {
        assert_false(readable(text, i));
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            assert_false(readable(text, bytes));
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    }
    /* clang-format off */
    static const char *const bodies[] = {
        "ptxpack-manifest 1\n", "ptxpack-manifest 2\nlibrary 1\n", "ptxpack-manifest 1\nlibrary 1",
        "ptxpack-manifest 1\nlibrary 1\n\n", "ptxpack-manifest 1\nlibrary 1\nlibrary 1\n",
        "ptxpack-manifest 1\nlibrary 1\nentry 12\n", "ptxpack-manifest 1\r\nlibrary 1\r\n",
        "ptxpack-manifest 1\nlibrary 1234567890123456789012345678901234567890\n", "",
    };
    /* clang-format on */
    for (size_t i = 0; i <= sizeof bodies / sizeof bodies[0]; i++) {
        char        whole[512], hex[PTXPACK_SHA256_HEX + 1];
        uint8_t     digest[PTXPACK_SHA256_BYTES];
        const bool  good = i == sizeof bodies / sizeof bodies[0];
        const char *body = good ? "ptxpack-manifest 1\nlibrary 1\n" : bodies[i];
        ptxpack_sha256(body, strlen(body), digest);
        ptxpack_sha256_hex(digest, hex);
        int n = snprintf(whole, sizeof whole, "%ssha256 %s\n", body, hex);
        assert_int_equal(readable(whole, (size_t)n), good);
    }
    free(text);
}

/* Numbers, order and names have one spelling, whatever the last line says. */
TEST_WITH(test_manifest_lines, NULL, NULL)
{
    static const char a[] = "0123456789abcdef0123456789abcdef", b[] = "1123456789abcdef0123456789abcdef";
    static const char sum[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    char              lines[12][256], body[1024], whole[1200], hex[PTXPACK_SHA256_HEX + 1];
    uint8_t           digest[PTXPACK_SHA256_BYTES];
    int               n = 0;
    snprintf(lines[n++], 256, "entry %s 5 %s.entry x\nentry %s 5 %s.entry x\n", sum, a, sum, b); /* good */
    snprintf(lines[n++], 256, "entry %s 5 %s.entry x\nentry %s 5 %s.entry x\n", sum, b, sum, a);
    snprintf(lines[n++], 256, "entry %s 5 %s.entry x\nentry %s 5 %s.entry x\n", sum, a, sum, a);
    snprintf(lines[n++], 256, "entry %s 05 %s.entry x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s +5 %s.entry x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s 0 %s.entry x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s -1 %s.entry x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s 99999999999999999999999 %s.entry x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s 5 ../%s.entry x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s 5 %s.entr x\n", sum, a);
    snprintf(lines[n++], 256, "entry %s 5 %s.entry\n", sum, a);
    snprintf(lines[n++], 256, "entry  %s 5 %s.entry x\n", sum, a);
    for (int i = 0; i < n; i++) {
        snprintf(body, sizeof body, "ptxpack-manifest 1\nlibrary 1\n%.900s", lines[i]);
        ptxpack_sha256(body, strlen(body), digest);
        ptxpack_sha256_hex(digest, hex);
        int count = snprintf(whole, sizeof whole, "%ssha256 %s\n", body, hex);
        if (readable(whole, (size_t)count) != (i == 0))
            fail_msg("%s", lines[i]);
    }
}

RUN_TESTS(NULL, NULL)
