/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks an extender many times on one connection, /filter and /prioritize by turns, and reads every
 * answer whole: an answer with another status than 200, of another size than the first, or none,
 * ends it with 1.
 *
 *   asker PORT CALLS NAMES OF      NAMES of OF nodes of fleet.h in each call
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "tests/bench/keepalive.h"
#include "tests/bench/question.h"

/** A score of 10 has a byte more than others: sizes of /prioritize lie that far apart. */
#define SPREAD 2

void kwt_die(const char *what)
{
    fprintf(stderr, "asker: %s: %s\n", what, strerror(errno));
    exit(1);
}

int main(int argc, char **argv)
{
    static const char *const verbs[] = {"filter", "prioritize"};
    struct kw_buf questions[2] = {0};
    size_t least[2] = {0};
    struct keepalive client = {0};
    uint64_t port = 0, calls = 0, names = 0, of = 0;

    if (argc != 5 || kw_parse_u64(argv[1], 1, 65535, &port) < 0 ||
        kw_parse_u64(argv[2], 1, 1000000000, &calls) < 0 ||
        kw_parse_u64(argv[3], 1, 100000, &names) < 0 ||
        kw_parse_u64(argv[4], names, 100000, &of) < 0) {
        fprintf(stderr, "usage: asker PORT CALLS NAMES OF\n");
        return 2;
    }
    const struct question_nodes nodes = {.n = (unsigned)names, .of = (unsigned)of};
    for (unsigned i = 0; i < 2; i++) {
        if (question_add(&questions[i], verbs[i], &nodes, 0) < 0)
            kwt_die("out of memory");
    }
    keepalive_connect(&client, (uint16_t)port);
    for (uint64_t i = 0; i < calls; i++) {
        const char *body;
        size_t len = keepalive_ask(&client, &questions[i % 2], &body);
        size_t *first = &least[i % 2];
        *first = *first == 0 ? len : *first;
        size_t apart = len > *first ? len - *first : *first - len;
        if (apart > (i % 2 == 0 ? 0 : SPREAD * names))
            kwt_die("an answer of another size");
    }
    keepalive_close(&client);
    for (unsigned i = 0; i < 2; i++)
        kw_buf_free(&questions[i]);
    return 0;
}
