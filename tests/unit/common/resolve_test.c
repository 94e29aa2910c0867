/* SPDX-License-Identifier: Apache-2.0 */
/* The system's resolver is replaced by one that can be as slow as a dead name server. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/clock.h"
#include "common/resolve.h"
#include "tests/support/cmocka.h"

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret);

static atomic_bool dead; /* name server: it answers only once this is false again */
static atomic_int waiting;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret)
{
    if ((hints->ai_flags & AI_NUMERICHOST) != 0)
        return __real_getaddrinfo(host, port, hints, ret);
    struct addrinfo numeric = *hints;
    numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    (void)atomic_fetch_add(&waiting, 1);
    while (atomic_load(&dead))
        (void)poll(NULL, 0, 5);
    int rc = strcmp(host, "good.example") == 0
                 ? __real_getaddrinfo("192.0.2.7", port, &numeric, ret)
                 : EAI_NONAME;
    (void)atomic_fetch_sub(&waiting, 1);
    return rc;
}

static uint64_t in_a_minute(void)
{
    return kw_now_ns() + 60 * KW_NS_PER_S;
}

static void check_address(const char *host, const char *want)
{
    struct addrinfo *list = NULL;
    const char *cause = NULL;
    char text[INET6_ADDRSTRLEN] = "";

    assert_int_equal(kw_resolve(host, 6379, in_a_minute(), &list, &cause), 0);
    assert_int_equal(
        getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST),
        0);
    assert_string_equal(text, want);
    freeaddrinfo(list);
}

static void test_numbers_need_no_resolver(void **state)
{
    (void)state;
    atomic_store(&dead, true);
    check_address("192.0.2.1", "192.0.2.1");
    check_address("2001:db8::1", "2001:db8::1");
    atomic_store(&dead, false);
}

static void test_names(void **state)
{
    struct addrinfo *list = NULL;
    const char *cause = NULL;

    (void)state;
    check_address("good.example", "192.0.2.7");
    assert_int_equal(kw_resolve("bad.example", 1, in_a_minute(), &list, &cause), -EHOSTUNREACH);
    assert_null(list);
    assert_string_equal(cause, gai_strerror(EAI_NONAME));
}

static void test_a_dead_name_server_costs_the_deadline(void **state)
{
    struct addrinfo *list = NULL;
    const char *cause = NULL;

    (void)state;
    atomic_store(&dead, true);
    assert_int_equal(kw_resolve("good.example", 1, kw_now_ns() + 50 * KW_NS_PER_MS, &list, &cause),
                     -ETIMEDOUT);
    assert_int_equal(kw_resolve("good.example", 1, 0, &list, &cause), -ETIMEDOUT);
    assert_null(list);
    assert_non_null(cause);
    /* what was left behind ends by itself, and frees what it found */
    atomic_store(&dead, false);
    check_address("good.example", "192.0.2.7");
    while (atomic_load(&waiting) > 0)
        (void)poll(NULL, 0, 5);
    (void)poll(NULL, 0, 50); /* for the last lines of their threads */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_need_no_resolver),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_dead_name_server_costs_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
