/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kube_time.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

static bool digits(const char *text, size_t n, int *ret)
{
    int value = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *ret = value;
    return true;
}

int64_t kw_time_parse_ms(const char *text)
{
    struct tm tm = {0};

    /* the API server prints UTC always; a fraction is of no use here */
    if (strlen(text) < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
        text[13] != ':' || text[16] != ':' || text[strlen(text) - 1] != 'Z')
        return 0;
    if (!digits(text, 4, &tm.tm_year) || !digits(text + 5, 2, &tm.tm_mon) ||
        !digits(text + 8, 2, &tm.tm_mday) || !digits(text + 11, 2, &tm.tm_hour) ||
        !digits(text + 14, 2, &tm.tm_min) || !digits(text + 17, 2, &tm.tm_sec))
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    time_t seconds = timegm(&tm);
    return seconds > 0 ? (int64_t)seconds * 1000 : 0;
}
