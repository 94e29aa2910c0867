/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/count_alloc.h"

static _Atomic size_t allocations;

/* clang-format off */
#define WRAP(name, params, args)   \
    void *__real_##name params;    \
    void *__wrap_##name params;    \
    void *__wrap_##name params     \
    {                              \
        allocations++;             \
        return __real_##name args; \
    }
WRAP(malloc, (size_t n), (n))
WRAP(calloc, (size_t n, size_t size), (n, size))
WRAP(realloc, (void *old, size_t n), (old, n))
WRAP(reallocarray, (void *old, size_t n, size_t size), (old, n, size))
/* clang-format on */

size_t kwt_allocations(void)
{
    return allocations;
}
