/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/snapshot.h"
#include "tests/support/cmocka.h"

#define ALIVE UINT64_C(0xa11fe)

/* All words hold `serial`: a reader who sees two different ones sees a torn or freed value. */
struct value {
    uint64_t alive;
    uint64_t words[16];
};

static atomic_int live_values;

static void free_value(void *pointer)
{
    struct value *value = pointer;
    assert_true(value->alive == ALIVE);
    value->alive = 0;
    (void)atomic_fetch_sub(&live_values, 1);
    free(value);
}

static struct value *new_value(uint64_t serial)
{
    struct value *value = calloc(1, sizeof(*value));
    assert_non_null(value);
    value->alive = ALIVE;
    for (size_t i = 0; i < KW_ARRAY_SIZE(value->words); i++)
        value->words[i] = serial;
    (void)atomic_fetch_add(&live_values, 1);
    return value;
}

static void nothing_is_held_before_the_first_publication(void **state)
{
    (void)state;
    kw_cleanup(kw_snapshot_free) struct kw_snapshot *snapshot = NULL;
    assert_int_equal(kw_snapshot_new(2, free_value, &snapshot), 0);
    size_t slot = 0;
    assert_null(kw_snapshot_acquire(snapshot, &slot));
    kw_snapshot_release(snapshot, slot);
    kw_snapshot_publish(snapshot, NULL);
    assert_null(kw_snapshot_acquire(snapshot, &slot));
    kw_snapshot_release(snapshot, slot);
}

static void old_values_live_as_long_as_they_are_held(void **state)
{
    (void)state;
    struct kw_snapshot *snapshot = NULL;
    assert_int_equal(kw_snapshot_new(2, free_value, &snapshot), 0);
    kw_snapshot_publish(snapshot, new_value(1));
    size_t first;
    const struct value *one = kw_snapshot_acquire(snapshot, &first);
    assert_int_equal(one->words[0], 1);
    kw_snapshot_publish(snapshot, new_value(2));
    kw_snapshot_publish(snapshot, new_value(3));
    assert_int_equal(atomic_load(&live_values), 2); /* 2 was held by nobody */
    assert_int_equal(one->words[15], 1);

    size_t second;
    const struct value *three = kw_snapshot_acquire(snapshot, &second);
    assert_int_equal(three->words[0], 3);
    size_t none;
    assert_null(kw_snapshot_acquire(snapshot, &none)); /* every slot is taken */
    kw_snapshot_release(snapshot, none);
    kw_snapshot_release(snapshot, first);
    kw_snapshot_publish(snapshot, NULL);
    assert_int_equal(atomic_load(&live_values), 1);
    kw_snapshot_release(snapshot, second);
    kw_snapshot_free(&snapshot);
    kw_snapshot_free(&snapshot);
    assert_int_equal(atomic_load(&live_values), 0);
}

static void no_readers_still_means_one_slot(void **state)
{
    (void)state;
    kw_cleanup(kw_snapshot_free) struct kw_snapshot *snapshot = NULL;
    assert_int_equal(kw_snapshot_new(0, free_value, &snapshot), 0);
    kw_snapshot_publish(snapshot, new_value(1));
    size_t slot;
    assert_non_null(kw_snapshot_acquire(snapshot, &slot));
    kw_snapshot_release(snapshot, slot);
}

#define READERS      6
#define PUBLICATIONS 20000

struct load {
    struct kw_snapshot *snapshot;
    atomic_bool done;
    atomic_ulong reads;
    atomic_ulong refused;
    atomic_ulong faults;
};

static void *read_under_load(void *arg)
{
    struct load *load = arg;
    uint64_t newest = 0;
    while (!atomic_load(&load->done)) {
        size_t slot;
        const struct value *value = kw_snapshot_acquire(load->snapshot, &slot);
        if (value == NULL) {
            (void)atomic_fetch_add(&load->refused, 1);
            continue;
        }
        uint64_t serial = value->words[0];
        unsigned long faults = value->alive != ALIVE || serial < newest;
        for (size_t i = 0; i < KW_ARRAY_SIZE(value->words); i++)
            faults += value->words[i] != serial;
        newest = serial;
        kw_snapshot_release(load->snapshot, slot);
        (void)atomic_fetch_add(&load->faults, faults);
        (void)atomic_fetch_add(&load->reads, 1);
    }
    return NULL;
}

/* With fewer slots than readers some are refused; nobody ever sees a freed or an older value. */
static void hold_under_load(size_t slots, bool all_served)
{
    static struct load load;
    load = (struct load){0};
    assert_int_equal(kw_snapshot_new(slots, free_value, &load.snapshot), 0);
    kw_snapshot_publish(load.snapshot, new_value(0));
    pthread_t threads[READERS];
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_under_load, &load), 0);
    for (uint64_t serial = 1; serial <= PUBLICATIONS; serial++) {
        kw_snapshot_publish(load.snapshot, new_value(serial));
        /* the published one and at most one for each slot */
        assert_true((size_t)atomic_load(&live_values) <= slots + 1);
    }
    while (atomic_load(&load.reads) < 1000)
        (void)usleep(1000);
    atomic_store(&load.done, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&load.faults), 0);
    if (all_served)
        assert_int_equal(atomic_load(&load.refused), 0);
    kw_snapshot_free(&load.snapshot);
    assert_int_equal(atomic_load(&live_values), 0);
}

static void readers_never_see_a_freed_value(void **state)
{
    (void)state;
    hold_under_load(READERS, true);
}

static void too_few_slots_refuse_but_stay_safe(void **state)
{
    (void)state;
    hold_under_load(2, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_held_before_the_first_publication),
        cmocka_unit_test(old_values_live_as_long_as_they_are_held),
        cmocka_unit_test(no_readers_still_means_one_slot),
        cmocka_unit_test(readers_never_see_a_freed_value),
        cmocka_unit_test(too_few_slots_refuse_but_stay_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
