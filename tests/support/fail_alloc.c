/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fail_alloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/cmocka.h"

/* A parser of small texts allocates less often; a higher count is a loop. */
#define MAX_ALLOCATIONS 1000

static int left = -1; /* allocations that still succeed; negative: all do */
static bool failed_one;

static bool fails(void)
{
    if (left != 0) {
        left -= left > 0;
        return false;
    }
    failed_one = true;
    return true;
}

/* clang-format off */
#define WRAP(type, name, params, args)              \
    type __real_##name params;                      \
    type __wrap_##name params;                      \
    type __wrap_##name params                       \
    {                                               \
        return fails() ? NULL : __real_##name args; \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *old, size_t n), (old, n))
WRAP(void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size))
WRAP(void *, aligned_alloc, (size_t align, size_t n), (align, n))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t n), (text, n))
/* clang-format on */

/* by either name: which one a caller's headers make of it depends on _FILE_OFFSET_BITS */
void *__real_mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t offset)
{
    if (!fails())
        return __real_mmap64(at, n, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off64_t offset)
    __attribute__((alias("__wrap_mmap64")));

int __wrap_asprintf(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list args;

    if (fails())
        return -1;
    va_start(args, format);
    int n = vasprintf(ret, format, args);
    va_end(args);
    return n;
}

unsigned kwt_fail_each(int (*attempt)(void *user), void *user)
{
    for (int n = 0; n < MAX_ALLOCATIONS; n++) {
        left = n;
        failed_one = false;
        int r = attempt(user);
        left = -1;
        if (r == 0 && !failed_one)
            return (unsigned)n;
        if (r != -ENOMEM)
            fail_msg("allocation %d: %d", n, r);
    }
    fail_msg("more than %d allocations", MAX_ALLOCATIONS);
    return 0;
}

void kwt_fail_after(int successes)
{
    left = successes;
    failed_one = false;
}
