/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/perf_pmu.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"

/* A mantissa of 38 digits and powers of ten up to 10^38 fit 128 bits. */
#define DIGITS_MAX   38
#define EXPONENT_MAX 38
#define UJ_EXPONENT  6

static int kernel_open(void *user, uint32_t type, uint64_t config, unsigned cpu)
{
    struct perf_event_attr attr = {
        .type = type,
        .size = sizeof(attr),
        .config = config,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };

    (void)user;
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

static ssize_t kernel_read(void *user, int fd, uint64_t ret[3])
{
    (void)user;
    /* no pread: events have no position */
    ssize_t n = read(fd, ret, 3 * sizeof(*ret));
    return n >= 0 ? n : -errno;
}

const struct agent_perf_port agent_perf_kernel = {.open = kernel_open, .read = kernel_read};

static unsigned __int128 power_of_ten(unsigned exponent)
{
    unsigned __int128 value = 1;

    for (unsigned i = 0; i < exponent; i++)
        value *= 10;
    return value;
}

static unsigned __int128 common_divisor(unsigned __int128 a, unsigned __int128 b)
{
    while (b != 0) {
        unsigned __int128 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/** Reads "DIGITS[.DIGITS]" as mantissa x 10^exponent. @return characters read; 0 where there are no
 * digits or too many. */
static size_t read_mantissa(const char *text, size_t len, unsigned __int128 *ret, int *ret_exponent)
{
    unsigned __int128 value = 0;
    size_t i = 0, digits = 0, significant = 0;
    int exponent = 0;
    bool point = false;

    for (; i < len; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9')
            break;
        digits++;
        significant += significant > 0 || text[i] != '0';
        if (significant > DIGITS_MAX || digits > 2 * DIGITS_MAX)
            return 0;
        value = value * 10 + (unsigned)(text[i] - '0');
        exponent -= point;
    }
    if (digits == 0)
        return 0;
    *ret = value;
    *ret_exponent = exponent;
    return i;
}

/** Reads "[e[+-]DIGITS]" to the end. @return 0 or -EBADMSG. */
static int read_exponent(const char *text, size_t len, int *exponent)
{
    uint64_t value = 0;
    bool negative;

    if (len == 0)
        return 0;
    if (text[0] != 'e' && text[0] != 'E')
        return -EBADMSG;
    text++;
    len--;
    negative = len > 0 && text[0] == '-';
    if (len > 0 && (text[0] == '-' || text[0] == '+')) {
        text++;
        len--;
    }
    if (kw_parse_u64_span(text, len, 0, 1000, &value) < 0)
        return -EBADMSG;
    *exponent += negative ? -(int)value : (int)value;
    return 0;
}

static size_t without_line_end(const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
        len--;
    return len;
}

int agent_perf_scale_parse(const char *text, size_t len, uint64_t *ret_num, uint64_t *ret_den)
{
    unsigned __int128 num = 0, den = 1;
    int exponent = 0;

    len = without_line_end(text, len);
    size_t used = read_mantissa(text, len, &num, &exponent);
    if (used == 0 || read_exponent(text + used, len - used, &exponent) < 0)
        return -EBADMSG;
    exponent += UJ_EXPONENT;
    while (num != 0 && num % 10 == 0) {
        num /= 10;
        exponent++;
    }
    if (num == 0 || exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX)
        return -ERANGE;
    unsigned __int128 power = power_of_ten((unsigned)(exponent < 0 ? -exponent : exponent));
    if (exponent < 0)
        den = power;
    else if (num > (unsigned __int128)INT64_MAX / power)
        return -ERANGE;
    else
        num *= power;
    unsigned __int128 divisor = common_divisor(num, den);
    num /= divisor;
    den /= divisor;
    if (num > INT64_MAX || den > UINT64_MAX)
        return -ERANGE;
    *ret_num = (uint64_t)num;
    *ret_den = (uint64_t)den;
    return 0;
}

int agent_perf_config_parse(const char *text, size_t len, uint64_t *ret)
{
    static const char prefix[] = "event=0x";
    uint64_t value = 0;

    len = without_line_end(text, len);
    if (len < sizeof(prefix) || len > sizeof(prefix) - 1 + 16 ||
        memcmp(text, prefix, sizeof(prefix) - 1) != 0)
        return -EBADMSG;
    for (size_t i = sizeof(prefix) - 1; i < len; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL)
            return -EBADMSG;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *ret = value;
    return 0;
}

/** Reads one event. @return 1; 0 where there is none of this name; -errno with the file in `err`.
 */
static int read_event(int pmu_fd, const char *name, struct agent_perf_event *event,
                      struct kw_err *err)
{
    char path[64], text[96];
    ssize_t len;
    int rc;

    (void)snprintf(path, sizeof(path), "events/%s", name);
    len = kw_file_read_at(pmu_fd, path, text, sizeof(text));
    if (len == -ENOENT)
        return 0;
    rc = len < 0 ? (int)len : agent_perf_config_parse(text, (size_t)len, &event->config);
    if (rc == 0) {
        (void)snprintf(path, sizeof(path), "events/%s.scale", name);
        len = kw_file_read_at(pmu_fd, path, text, sizeof(text));
        rc = len < 0 ? (int)len
                     : agent_perf_scale_parse(text, (size_t)len, &event->num, &event->den);
    }
    if (rc == 0) {
        (void)snprintf(path, sizeof(path), "events/%s.unit", name);
        len = kw_file_read_at(pmu_fd, path, text, sizeof(text));
        rc = len < 0 ? (int)len : 0;
        if (len >= 0 &&
            (without_line_end(text, (size_t)len) != 6 || memcmp(text, "Joules", 6) != 0))
            rc = -EBADMSG;
    }
    event->name = name;
    return rc == 0
               ? 1
               : kw_err_set(err, rc, "perf: %s of the power PMU: %s", path,
                            rc == -EBADMSG ? "not in the form the kernel uses" : kw_errno_text(rc));
}

int agent_perf_pmu_read(const char *sysfs_root, struct agent_perf_pmu *ret, struct kw_err *err)
{
    static const struct agent_perf_event known[AGENT_PERF_EVENTS] = {
        {.kind = AGENT_DOMAIN_CPU, .name = "energy-pkg"},
        {.kind = AGENT_DOMAIN_DRAM, .name = "energy-ram"},
        {.kind = AGENT_DOMAIN_PLATFORM, .name = "energy-psys"},
    };
    char path[4096];
    struct agent_perf_pmu pmu = {0};
    uint64_t type = 0;
    int rc = kw_path_join(path, sizeof(path), sysfs_root, "bus/event_source/devices/power");
    kw_cleanup_close int pmu_fd = rc < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (pmu_fd < 0)
        return kw_err_set(err, rc < 0 ? rc : -errno,
                          "perf: no power PMU in %s; the hypervisor shows none, or the kernel "
                          "module rapl is not loaded",
                          path);
    rc = kw_file_read_u64_at(pmu_fd, "type", &type);
    if (rc == 0 && type > UINT32_MAX)
        rc = -EBADMSG;
    if (rc < 0)
        return kw_err_set(err, rc, "perf: type of the power PMU: %s", kw_errno_text(rc));
    pmu.type = (uint32_t)type;
    for (size_t i = 0; i < AGENT_PERF_EVENTS; i++) {
        struct agent_perf_event *event = &pmu.events[pmu.n_events];
        event->kind = known[i].kind;
        rc = read_event(pmu_fd, known[i].name, event, err);
        if (rc < 0)
            return rc;
        pmu.n_events += (size_t)rc;
    }
    if (pmu.n_events == 0 || pmu.events[0].kind != AGENT_DOMAIN_CPU)
        return kw_err_set(err, -ENODATA, "perf: the power PMU has no event energy-pkg");
    *ret = pmu;
    return 0;
}
