/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a number in its range, or leaves the output untouched; the parsers agree with each
 * other. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/num.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

static void check(int rc, uint64_t value, uint64_t min, uint64_t max)
{
    if (rc == 0 ? value < min || value > max : value != UNTOUCHED)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_free char *text = calloc(1, size + 1);
    if (text == NULL)
        abort();
    memcpy(text, data, size);

    uint64_t u64 = UNTOUCHED;
    int rc = kw_parse_u64(text, 10, UINT64_MAX - 10, &u64);
    check(rc, u64, 10, UINT64_MAX - 10);
    uint64_t other = UNTOUCHED;
    int other_rc = kw_parse_u64_span(text, strlen(text), 10, UINT64_MAX - 10, &other);
    if (rc != other_rc || u64 != other)
        abort();

    int64_t i64 = 0;
    if (kw_parse_i64(text, INT64_MIN, INT64_MAX, &i64) == 0) {
        char back[32];
        (void)snprintf(back, sizeof(back), "%lld", (long long)i64);
        int64_t again = 0;
        if (kw_parse_i64(back, i64, i64, &again) < 0 || again != i64)
            abort();
    }

    double real = -1;
    if (kw_parse_double(text, 0, 1e300, &real) == 0 ? !(real >= 0 && real <= 1e300)
                                                    : real > -1 || real < -1)
        abort();

    uint64_t ns = UNTOUCHED;
    int ns_rc = kw_parse_duration_ns(text, 1000, UINT64_C(1) << 60, &ns);
    check(ns_rc, ns, 1000, UINT64_C(1) << 60);
    uint64_t bytes = UNTOUCHED;
    int bytes_rc = kw_parse_bytes(text, 1, UINT64_MAX, &bytes);
    check(bytes_rc, bytes, 1, UINT64_MAX);
    /* whoever is a plain number is a size of as many bytes */
    if (rc == 0 && bytes != u64)
        abort();
    bool truth = false;
    (void)kw_parse_bool(text, &truth);
    return 0;
}
