/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/loop.h"
#include "tests/support/cmocka.h"

#define MS KW_NS_PER_MS

struct fixture {
    struct kw_loop *loop;
    struct kw_source *a, *b, *c;
    int pipe_a[2], pipe_b[2];
    unsigned calls_a, calls_b, calls_c;
    uint64_t expirations;
    int signal_number;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){0};
    *state = &fixture;
    if (pipe(fixture.pipe_a) < 0 || pipe(fixture.pipe_b) < 0)
        return -1;
    return kw_loop_new(&fixture.loop);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    kw_loop_free(&f->loop);
    kw_loop_free(&f->loop);
    for (size_t i = 0; i < 2; i++) {
        (void)close(f->pipe_a[i]);
        (void)close(f->pipe_b[i]);
    }
    return 0;
}

static void on_end(void *user, uint64_t expirations)
{
    (void)expirations;
    kw_loop_stop(((struct fixture *)user)->loop, 7);
}

/* Runs the loop until everything due within `ns` has had its turn. */
static void run_for(struct fixture *f, uint64_t ns)
{
    struct kw_source *end;
    assert_int_equal(kw_loop_add_timer(f->loop, ns, 0, on_end, f, &end), 0);
    assert_int_equal(kw_loop_run(f->loop), 7);
    kw_source_free(&end);
    assert_null(end);
}

static void count_a(void *user, uint64_t expirations)
{
    struct fixture *f = user;
    f->calls_a++;
    f->expirations += expirations;
}

static void timers_run_once_or_again(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_timer(f->loop, 0, 0, count_a, f, &f->a), 0);
    run_for(f, 20 * MS);
    assert_int_equal(f->calls_a, 1);
    assert_int_equal(kw_source_set_timer(f->a, 0, MS), 0);
    run_for(f, 50 * MS);
    /* a slow machine may merge periods, never lose them */
    assert_true(f->expirations >= 20);
    assert_true(f->calls_a >= 2 && f->calls_a <= f->expirations);
}

static void sleep_long(void *user, uint64_t expirations)
{
    struct fixture *f = user;
    f->calls_a++;
    f->expirations += expirations;
    if (f->calls_a == 1)
        (void)usleep(30000);
    else
        kw_loop_stop(f->loop, 0);
}

static void missed_periods_come_as_one_call(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_timer(f->loop, 0, MS, sleep_long, f, &f->a), 0);
    assert_int_equal(kw_loop_run(f->loop), 0);
    assert_int_equal(f->calls_a, 2);
    assert_true(f->expirations >= 25);
}

static void a_far_timer_is_off(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_timer(f->loop, MS, 0, count_a, f, &f->a), 0);
    assert_int_equal(kw_source_set_timer(f->a, UINT64_MAX, UINT64_MAX), 0);
    run_for(f, 20 * MS);
    assert_int_equal(f->calls_a, 0);
}

static void read_a(void *user, uint32_t events)
{
    struct fixture *f = user;
    char byte;
    assert_true((events & EPOLLIN) != 0);
    assert_int_equal(read(f->pipe_a[0], &byte, 1), 1);
    f->calls_a++;
}

static void descriptors_are_watched_and_stay_the_callers(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_fd(f->loop, f->pipe_a[0], EPOLLIN, read_a, f, &f->a), 0);
    assert_int_equal(write(f->pipe_a[1], "xyz", 3), 3);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_a, 3);
    assert_int_equal(kw_source_set_events(f->a, 0), 0);
    assert_int_equal(write(f->pipe_a[1], "x", 1), 1);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_a, 3);
    assert_int_equal(kw_source_set_events(f->a, EPOLLIN), 0);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_a, 4);
    kw_source_free(&f->a);
    kw_source_free(&f->a);
    char byte = 'x';
    assert_int_equal(write(f->pipe_a[1], &byte, 1), 1);
    assert_int_equal(read(f->pipe_a[0], &byte, 1), 1);
}

static void bad_descriptors_are_named(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_fd(f->loop, -1, EPOLLIN, read_a, f, &f->a), -EBADF);
    kw_cleanup_file FILE *regular = tmpfile();
    assert_int_equal(kw_loop_add_fd(f->loop, fileno(regular), EPOLLIN, read_a, f, &f->a), -EPERM);
    assert_int_equal(kw_loop_add_fd(f->loop, f->pipe_a[0], EPOLLIN, read_a, f, &f->a), 0);
    assert_int_equal(kw_loop_add_fd(f->loop, f->pipe_a[0], EPOLLIN, read_a, f, &f->b), -EEXIST);
    assert_null(f->b);
    assert_int_equal(kw_source_set_timer(f->a, 1, 1), -EINVAL);
}

/* Whichever of a and b comes first frees both, and makes a new source in their place. */
static void free_everything(void *user, uint32_t events)
{
    (void)events;
    struct fixture *f = user;
    f->calls_b++;
    kw_source_free(&f->a);
    kw_source_free(&f->b);
    assert_int_equal(kw_loop_add_timer(f->loop, 0, 0, count_a, f, &f->c), 0);
}

static void sources_may_be_freed_with_events_pending(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_fd(f->loop, f->pipe_a[0], EPOLLIN, free_everything, f, &f->a), 0);
    assert_int_equal(kw_loop_add_fd(f->loop, f->pipe_b[0], EPOLLIN, free_everything, f, &f->b), 0);
    assert_int_equal(write(f->pipe_a[1], "x", 1), 1);
    assert_int_equal(write(f->pipe_b[1], "x", 1), 1);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_b, 1);
    assert_int_equal(f->calls_a, 1);
}

static void free_own_timer(void *user, uint64_t expirations)
{
    struct fixture *f = user;
    f->expirations += expirations;
    f->calls_a++;
    kw_source_free(&f->a);
    kw_source_free(&f->b);
    kw_source_free(&f->c);
}

static void timers_and_wakeups_may_free_each_other(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_timer(f->loop, 1, 1, free_own_timer, f, &f->a), 0);
    assert_int_equal(kw_loop_add_timer(f->loop, 1, 1, free_own_timer, f, &f->b), 0);
    assert_int_equal(kw_loop_add_timer(f->loop, 1, 1, free_own_timer, f, &f->c), 0);
    (void)usleep(1000);
    run_for(f, 5 * MS);
    assert_int_equal(f->calls_a, 1);
}

/* Two timers due in one batch: the first that runs re-arms the other, which then has nothing to
 * read. */
static void rearm_other(void *user, uint64_t expirations)
{
    (void)expirations;
    struct fixture *f = user;
    f->calls_a++;
    (void)kw_source_set_timer(f->a, UINT64_MAX, 0);
    (void)kw_source_set_timer(f->b, UINT64_MAX, 0);
}

static void a_timer_rearmed_in_its_batch_does_not_fire(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(kw_loop_add_timer(f->loop, 1, 0, rearm_other, f, &f->a), 0);
    assert_int_equal(kw_loop_add_timer(f->loop, 1, 0, rearm_other, f, &f->b), 0);
    (void)usleep(1000);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_a, 1);
}

static void on_signal(void *user, int number)
{
    struct fixture *f = user;
    f->calls_a++;
    f->signal_number = number;
}

static void on_signal_free(void *user, int number)
{
    on_signal(user, number);
    kw_source_free(&((struct fixture *)user)->a);
}

static void signals_arrive_in_the_loop(void **state)
{
    struct fixture *f = *state;
    static const int signals[] = {SIGUSR1, SIGUSR2, 0};
    assert_int_equal(kw_loop_add_signals(f->loop, signals, on_signal, f, &f->a), 0);
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_a, 1);
    assert_int_equal(f->signal_number, SIGUSR2);
    kw_source_free(&f->a);

    /* freed between two pending signals */
    assert_int_equal(kw_loop_add_signals(f->loop, signals, on_signal_free, f, &f->a), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    run_for(f, 10 * MS);
    assert_int_equal(f->calls_a, 2);
    static const int bad[] = {SIGUSR1, 9999, 0};
    assert_int_equal(kw_loop_add_signals(f->loop, bad, on_signal, f, &f->a), -EINVAL);
}

struct sender {
    struct fixture *fixture;
    atomic_bool done;
};

static void on_wakeup(void *user)
{
    ((struct fixture *)user)->calls_a++;
}

static void *send_many(void *arg)
{
    struct sender *sender = arg;
    for (int i = 0; i < 1000; i++)
        kw_loop_wakeup_send(sender->fixture->a);
    kw_loop_stop(sender->fixture->loop, 3);
    kw_loop_stop(sender->fixture->loop, 4);
    return NULL;
}

static void other_threads_wake_and_stop(void **state)
{
    struct fixture *f = *state;
    struct sender sender = {.fixture = f};
    assert_int_equal(kw_loop_add_wakeup(f->loop, on_wakeup, f, &f->a), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_many, &sender), 0);
    assert_int_equal(kw_loop_run(f->loop), 3);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(f->calls_a <= 1000);
    run_for(f, MS);
    assert_true(f->calls_a >= 1);
}

static void a_stop_before_the_run_counts(void **state)
{
    struct fixture *f = *state;
    kw_loop_stop(f->loop, 9);
    assert_int_equal(kw_loop_run(f->loop), 9);
    run_for(f, MS);
}

/* More sources than one batch, each freeing its neighbour: half of them run. */
#define MANY 300
struct many {
    struct fixture *fixture;
    struct kw_source *sources[MANY];
    unsigned calls;
};
struct one {
    struct many *many;
    size_t i;
};

static void free_neighbour(void *user)
{
    const struct one *one = user;
    one->many->calls++;
    kw_source_free(&one->many->sources[one->i ^ 1]);
}

static void more_sources_than_a_batch(void **state)
{
    struct fixture *f = *state;
    static struct many many;
    static struct one ones[MANY];
    many = (struct many){.fixture = f};
    for (size_t i = 0; i < MANY; i++) {
        ones[i] = (struct one){.many = &many, .i = i};
        assert_int_equal(kw_loop_add_wakeup(f->loop, free_neighbour, &ones[i], &many.sources[i]),
                         0);
        kw_loop_wakeup_send(many.sources[i]);
    }
    run_for(f, 100 * MS);
    assert_int_equal(many.calls, MANY / 2);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(timers_run_once_or_again),
        TEST(missed_periods_come_as_one_call),
        TEST(a_far_timer_is_off),
        TEST(descriptors_are_watched_and_stay_the_callers),
        TEST(bad_descriptors_are_named),
        TEST(sources_may_be_freed_with_events_pending),
        TEST(timers_and_wakeups_may_free_each_other),
        TEST(a_timer_rearmed_in_its_batch_does_not_fire),
        TEST(signals_arrive_in_the_loop),
        TEST(other_threads_wake_and_stop),
        TEST(a_stop_before_the_run_counts),
        TEST(more_sources_than_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
