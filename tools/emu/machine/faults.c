/* faults.c - reading PTXPACK_EMU_FAULT, and counting. */
#include "faults.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[FAULT_COUNT] = {
#define FAULT_WORD(name, word) word,
    FAULT_MAP(FAULT_WORD)
#undef FAULT_WORD
};

/* Those that take no number. */
static bool always(int fault)
{
    return fault == FAULT_NO_DEVICE || fault == FAULT_STUB || fault == FAULT_NO_JIT ||
           fault == FAULT_JIT_DISABLED || fault == FAULT_NO_PEERS;
}

/* The fault at the start of `at`, up to the next comma; FAULT_COUNT: unknown, or its number is malformed. */
static enum fault one_fault(const char *at, size_t bytes, long *value)
{
    const char *equals = (const char *)memchr(at, '=', bytes);
    size_t      word = equals != NULL ? (size_t)(equals - at) : bytes;
    *value = 0;
    if (equals != NULL) {
        size_t digits = strspn(equals + 1, "0123456789");
        if (digits == 0 || digits > 9 || word + 1 + digits != bytes)
            return FAULT_COUNT;
        *value = strtol(equals + 1, NULL, 10);
    }
    for (int i = 0; i < FAULT_COUNT; i++)
        if (strlen(words[i]) == word && memcmp(words[i], at, word) == 0)
            return equals != NULL && always(i) ? FAULT_COUNT : (enum fault)i;
    return FAULT_COUNT;
}

bool faults_check(const char *list, char *line, size_t cap)
{
    long value;
    for (const char *at = list; at != NULL && *at;) {
        size_t bytes = strcspn(at, ",");
        if (one_fault(at, bytes, &value) == FAULT_COUNT) {
            snprintf(line, cap, "PTXPACK_EMU_FAULT has '%.*s', which is not a fault",
                     (int)(bytes < 60 ? bytes : 60), at);
            return false;
        }
        at += bytes + (at[bytes] == ',');
    }
    return true;
}

bool faults_value(const char *list, enum fault fault, long *value)
{
    for (const char *at = list; at != NULL && *at;) {
        size_t bytes = strcspn(at, ",");
        if (one_fault(at, bytes, value) == fault)
            return true;
        at += bytes + (at[bytes] == ',');
    }
    *value = 0;
    return false;
}

bool faults_now(const char *list, enum fault fault)
{
    static atomic_long asked[FAULT_COUNT];
    long               value = 0;
    if (list == NULL || !faults_value(list, fault, &value))
        return false;
    return atomic_fetch_add(&asked[fault], 1) + 1 == value || value == 0;
}
