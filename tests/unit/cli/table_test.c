/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, order and layout of the tables: cli/rows.h and cli/table.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "cli/text.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static struct kw_pod_record record(const char *id, uint64_t cpu_ns, uint64_t active_uj,
                                   int64_t t_unix_ms)
{
    return (struct kw_pod_record){.kind = KW_WORKLOAD_UNIT,
                                  .id = strdup(id),
                                  .name = strdup(id),
                                  .namespace_ = strdup(""),
                                  .cpu_ns = cpu_ns,
                                  .active_uj = active_uj,
                                  .t_unix_ms = t_unix_ms};
}

/** A node with workloads a (3 W) and b (1 W) over the second between `before` and `after`. */
static void make_views(struct kw_node_view *before, struct kw_node_view *after)
{
    *before = (struct kw_node_view){.n_pods = 2, .pods = calloc(2, sizeof(struct kw_pod_record))};
    *after = (struct kw_node_view){.n_pods = 3, .pods = calloc(3, sizeof(struct kw_pod_record))};
    before->sample = (struct kw_sample){.node = "n",
                                        .epoch = 1000,
                                        .seq = 1,
                                        .t_unix_ms = 11000,
                                        .n_packages = 1,
                                        .used_mcpu = 2500,
                                        .meter = "powercap"};
    before->sample.packages[0].cpu = (struct kw_energy){100000000, 50000000, 40000000, 10000000, 0};
    before->pods[0] = record("/b", 1000000000, 20000000, 11000);
    before->pods[1] = record("/a", 2000000000, 20000000, 11000);
    after->sample = before->sample;
    after->sample.seq = 2;
    after->sample.t_unix_ms = 12000;
    after->sample.packages[0].cpu = (struct kw_energy){110000000, 55000000, 44000000, 11000000, 0};
    after->pods[0] = record("/a", 3500000000, 23000000, 12000);
    after->pods[1] = record("/b", 1500000000, 21000000, 12000);
    after->pods[2] = record("/gone", 0, 0, 12000);
    after->pods[2].ended_unix_ms = 11500;
}

static void rates_are_differences(void **state)
{
    (void)state;
    struct kw_node_view before, after;
    kw_cleanup_free struct cli_row *rows = NULL;
    struct kw_container_advice container = {.target_mcpu = 250, .target_bytes = 1 << 20};
    struct kw_advice advice = {.workload = "/b", .n_containers = 1, .containers = &container};
    size_t n = 0;

    make_views(&before, &after);
    assert_int_equal(cli_rows_make(&after, &before, &advice, 1, &rows, &n), 0);
    assert_int_equal(n, 3); /* what ended and drew nothing is left out, the system is added */
    assert_string_equal(rows[2].kind, "system");
    assert_int_equal(rows[2].active_mw, 1000);
    assert_int_equal(rows[2].used_mcpu, 500);
    assert_int_equal(rows[0].active_mw, 3000);
    assert_int_equal(rows[0].used_mcpu, 1500);
    assert_int_equal(rows[1].active_mw, 1000);
    assert_int_equal(rows[1].active_uj, 21000000);
    assert_false(rows[0].has_advice);
    assert_int_equal(rows[1].advice_mcpu, 250);
    /* an agent that tells the system's parts has a row for each that ever did anything */
    before.sample.system = (struct kw_system_sample){
        .present = true, .has_kernel = true, .kernel_uj = 4000000, .root_uj = 6000000};
    after.sample.system = before.sample.system;
    after.sample.system.kernel_uj += 250000;
    after.sample.system.kernel_cpu_ns = 200000000;
    after.sample.system.other_uj = 750000;
    free(KW_TAKE_PTR(rows));
    assert_int_equal(cli_rows_make(&after, &before, NULL, 0, &rows, &n), 0);
    assert_int_equal(n, 5);
    assert_string_equal(rows[2].name, "(kernel threads)");
    assert_int_equal(rows[2].active_mw, 250);
    assert_int_equal(rows[2].used_mcpu, 200);
    assert_string_equal(rows[3].name, "(root cgroup)");
    assert_int_equal(rows[3].active_uj, 6000000);
    assert_string_equal(rows[4].name, "(other cgroups)");
    assert_int_equal(rows[4].active_mw, 750);
    after.sample.system.has_kernel = false;
    after.sample.system.kernel_uj = after.sample.system.kernel_cpu_ns = 0;
    free(KW_TAKE_PTR(rows));
    assert_int_equal(cli_rows_make(&after, &before, NULL, 0, &rows, &n), 0);
    assert_string_equal(rows[2].name, "(kernel and root cgroup)");
    struct cli_summary summary = cli_summary_make(&after, &before);
    assert_int_equal(summary.measured_mw, 10000);
    assert_int_equal(summary.idle_mw + summary.pods_mw + summary.system_mw, 10000);
    kw_node_view_clear(&before);
    kw_node_view_clear(&after);
}

static void without_an_earlier_view_rates_are_means(void **state)
{
    (void)state;
    struct kw_node_view before, after;
    kw_cleanup_free struct cli_row *rows = NULL, *other = NULL;
    size_t n = 0;

    make_views(&before, &after);
    assert_int_equal(cli_rows_make(&after, NULL, NULL, 0, &rows, &n), 0);
    assert_int_equal(rows[0].active_mw, 23000000 / 11000);
    before.sample.epoch = 999; /* an agent that was started again: nothing to subtract */
    assert_false(cli_rows_comparable(&after, &before));
    assert_int_equal(cli_rows_make(&after, &before, NULL, 0, &other, &n), 0);
    assert_int_equal(other[0].active_mw, rows[0].active_mw);
    kw_node_view_clear(&before);
    kw_node_view_clear(&after);
}

static void sorts_by_each_column(void **state)
{
    (void)state;
    struct cli_row rows[] = {
        {.name = "c",
         .namespace_ = "",
         .id = "1",
         .active_mw = 1,
         .used_mcpu = 30,
         .memory_bytes = 2,
         .active_uj = 9},
        {.name = "a",
         .namespace_ = "",
         .id = "2",
         .active_mw = 3,
         .used_mcpu = 20,
         .memory_bytes = 1,
         .active_uj = 7},
        {.name = "b",
         .namespace_ = "",
         .id = "3",
         .active_mw = 2,
         .used_mcpu = 10,
         .memory_bytes = 3,
         .active_uj = 8},
    };
    static const char *const orders[CLI_SORT__MAX] = {"abc", "cab", "bca", "cba", "abc"};

    for (unsigned sort = 0; sort < CLI_SORT__MAX; sort++) {
        cli_rows_sort(rows, 3, (enum cli_sort)sort);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(rows[i].name[0], orders[sort][i]);
    }
    cli_rows_sort(NULL, 0, CLI_SORT_WATTS);
}

/** Asserts that no line is wider than the table. @return lines. */
static unsigned check_lines(const char *text, unsigned columns)
{
    unsigned lines = 0;

    while (*text != '\0') {
        char line[512];
        size_t len = strcspn(text, "\n");
        assert_true(len < sizeof(line));
        memcpy(line, text, len);
        line[len] = '\0';
        assert_true(cli_text_width(line) <= columns);
        assert_int_equal(text[len], '\n');
        text += len + 1;
        lines++;
    }
    return lines;
}

/** A container outside Kubernetes is shown with what it was made of. */
static void containers_have_images(void **state)
{
    struct cli_row rows[] = {
        {.name = "web", .namespace_ = "", .image = "nginx:1", .kind = "container", .id = "a"},
        {.name = "db", .namespace_ = "", .image = "", .kind = "vm", .id = "b"}};
    struct cli_table_style style = {.columns = 120};
    kw_cleanup(kw_buf_free) struct kw_buf out = {0};

    (void)state;
    cli_table_workloads(&out, rows, 2, &style);
    assert_non_null(strstr(out.data, "web (nginx:1) "));
    assert_non_null(strstr(out.data, "db "));
    assert_null(strstr(out.data, "db ("));
}

static void every_width_holds_its_lines(void **state)
{
    (void)state;
    struct cli_row rows[] = {
        {.name = "a-workload-with-quite-a-long-name-0123456789",
         .namespace_ = "shop",
         .kind = "container",
         .id = "1",
         .running = true,
         .active_mw = 123456,
         .used_mcpu = 64000,
         .has_advice = true,
         .advice_mcpu = 1500,
         .advice_bytes = 1 << 30,
         .active_uj = 12345678901},
        {.name = "b\033[31m", .namespace_ = "", .kind = "unit", .id = "2", .running = false},
    };
    struct cli_summary summary = {
        .node = "n", .meter = "model", .method = "m", .accounting = "ebpf", .estimated = true};
    struct cli_node_line node = {.summary = summary, .age_ms = 99000};

    for (unsigned columns = 60; columns <= 200; columns += 7) {
        struct cli_table_style style = {.columns = columns};
        struct kw_buf out = {0};
        cli_table_summary(&out, &summary, &style);
        cli_table_workloads(&out, rows, 2, &style);
        unsigned lines = check_lines(out.data, columns);
        assert_true(lines >= 6 && lines <= 9);
        assert_null(strchr(out.data, '\033'));
        assert_non_null(strstr(out.data, "estimated"));
        assert_int_equal(strstr(out.data, "ADVISED-CPU") != NULL, columns >= 79);
        kw_buf_reset(&out);
        if (columns >= 75) {
            cli_table_nodes(&out, &node, 1, &style);
            assert_int_equal(check_lines(out.data, columns), 2);
            assert_non_null(strstr(out.data, "silent 99 s"));
        }
        kw_buf_free(&out);
    }
}

static void rows_beyond_the_limit_are_counted(void **state)
{
    (void)state;
    struct cli_row rows[5];
    struct cli_table_style style = {.columns = 80, .rows = 2};
    struct kw_buf out = {0};

    for (size_t i = 0; i < 5; i++)
        rows[i] = (struct cli_row){
            .name = "x", .namespace_ = "", .kind = "unit", .id = "x", .running = true};
    cli_table_workloads(&out, rows, 5, &style);
    assert_non_null(strstr(out.data, "... and 3 more\n"));
    assert_int_equal(check_lines(out.data, 80), 4);
    kw_buf_reset(&out);
    cli_table_workloads(&out, NULL, 0, &style);
    assert_non_null(strstr(out.data, "no workloads"));
    kw_buf_free(&out);
}

static void a_table_that_hides_all_in_the_system_says_what_to_do(void **state)
{
    (void)state;
    struct cli_row rows[] = {{.name = "s", .namespace_ = "", .kind = "system", .id = ""},
                             {.name = "a", .namespace_ = "", .kind = "unit", .id = "a"}};
    static const struct {
        size_t n;
        uint64_t system_mcpu, other_mcpu;
        bool hint;
    } cases[] = {{1, 0, 0, true},      {2, 1000, 10, true},   {2, 900, 100, true},
                 {2, 899, 101, false}, {2, 49, 0, false},     {2, 0, 0, false},
                 {2, 50, 0, true},     {2, 2000, 1900, false}};
    struct cli_table_style style = {.columns = 60};

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_buf out = {0};
        rows[0].used_mcpu = cases[i].system_mcpu;
        rows[1].used_mcpu = cases[i].other_mcpu;
        cli_table_hint(&out, rows, cases[i].n, "systemd-run --scope PROGRAM", &style);
        assert_int_equal(out.len > 0, cases[i].hint);
        if (cases[i].hint)
            assert_int_equal(check_lines(out.data, 60), 2);
        kw_buf_free(&out);
    }
}

static void a_bare_cgroup_is_shown_by_its_path(void **state)
{
    (void)state;
    struct kw_node_view before, after;
    kw_cleanup_free struct cli_row *rows = NULL;
    size_t n = 0;

    make_views(&before, &after);
    after.pods[0].kind = KW_WORKLOAD_CGROUP;
    free(after.pods[0].id);
    after.pods[0].id = strdup("/node1/system");
    assert_int_equal(cli_rows_make(&after, NULL, NULL, 0, &rows, &n), 0);
    assert_string_equal(rows[0].name, "node1/system");
    assert_string_equal(rows[1].name, "/b");
    kw_node_view_clear(&before);
    kw_node_view_clear(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_differences),
        cmocka_unit_test(without_an_earlier_view_rates_are_means),
        cmocka_unit_test(sorts_by_each_column),
        cmocka_unit_test(containers_have_images),
        cmocka_unit_test(every_width_holds_its_lines),
        cmocka_unit_test(rows_beyond_the_limit_are_counted),
        cmocka_unit_test(a_table_that_hides_all_in_the_system_says_what_to_do),
        cmocka_unit_test(a_bare_cgroup_is_shown_by_its_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
