/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/proc_stat.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/num.h"

/* Fields behind the name, as proc(5) counts them. */
enum { STATE = 3, UTIME = 14, STIME = 15, STARTTIME = 22 };

/** The name is in brackets and may hold brackets, blanks and line ends itself: the last one counts.
 */
static bool take_comm(const char *text, size_t len, char out[AGENT_COMM_MAX], size_t *ret_end)
{
    static const char worker[] = "kworker/";
    const char *open = memchr(text, '(', len);
    const char *close = open != NULL ? memrchr(open, ')', len - (size_t)(open - text)) : NULL;

    if (close == NULL)
        return false;
    size_t n = (size_t)(close - open) - 1;
    if (n >= sizeof(worker) - 1 && memcmp(open + 1, worker, sizeof(worker) - 1) == 0) {
        size_t doing = 0; /* "kworker/0:1-events", "kworker/0:1+events" */
        while (doing < n && open[1 + doing] != '-' && open[1 + doing] != '+')
            doing++;
        n = doing;
    }
    if (n >= AGENT_COMM_MAX)
        n = AGENT_COMM_MAX - 1;
    (void)memcpy(out, open + 1, n);
    out[n] = '\0';
    *ret_end = (size_t)(close - text) + 1;
    return true;
}

int agent_proc_stat_parse(const char *text, size_t len, struct agent_proc_stat *ret)
{
    struct agent_proc_stat stat = {0};
    uint64_t numbers[STARTTIME + 1] = {0};
    int field = STATE;
    size_t at = 0;

    if (!take_comm(text, len, stat.comm, &at))
        return -EBADMSG;
    while (field <= STARTTIME) {
        if (at >= len || text[at] != ' ')
            return -EBADMSG;
        at++;
        size_t end = at;
        while (end < len && text[end] != ' ' && text[end] != '\n')
            end++;
        bool wanted = field == UTIME || field == STIME || field == STARTTIME;
        if (wanted &&
            kw_parse_u64_span(text + at, end - at, 0, UINT64_MAX / 2, &numbers[field]) < 0)
            return -EBADMSG;
        at = end;
        field++;
    }
    stat.used_ticks = numbers[UTIME] + numbers[STIME];
    stat.start_ticks = numbers[STARTTIME];
    *ret = stat;
    return 0;
}
