/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/extender/service_fixture.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "tests/unit/extender/nodes.h"

const struct ext_policy kwt_policy = {
    .stale_after_ns = UINT64_C(30000000000), .assumptions = {100, 100}, .own_namespace = "kwatt"};

int kwt_service_set_up(void **state)
{
    struct kwt_service *f = calloc(1, sizeof(*f));
    struct kw_curve cheap = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 60000, 0}}};
    struct kw_curve dear = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 180000, 0}}};
    struct ext_node nodes[] = {kwt_node("barn-a", &dear, 1000), kwt_node("barn-b", &cheap, 1000),
                               kwt_node("barn-stale", &cheap, 0), kwt_node("barn-blank", NULL, 0)};

    nodes[2].fresh_ns = INT64_C(-1000000000000);
    if (f == NULL || ext_service_init(&f->service, 2, &kwt_policy) < 0)
        return -1;
    f->snapshot = ext_snapshot_new(nodes, KW_ARRAY_SIZE(nodes), 99, kwt_policy.stale_after_ns);
    *state = f;
    return f->snapshot == NULL ? -1 : 0;
}

int kwt_service_tear_down(void **state)
{
    struct kwt_service *f = *state;

    ext_snapshot_free(&f->snapshot);
    ext_service_clear(&f->service);
    kw_buf_free(&f->out);
    free(f);
    return 0;
}

unsigned kwt_ask(struct kwt_service *f, enum ext_verb verb, const char *body, size_t len)
{
    kw_buf_reset(&f->out);
    return ext_service_answer(&f->service, verb, f->snapshot, 0, body, len, &f->out);
}
