/* SPDX-License-Identifier: Apache-2.0 */
/* What single documents promise beyond tests/unit/api/codec_test.c: limits, rules between fields,
 * the arithmetic of samples. */
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/report.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/unit/api/samples.h"

#define SAMPLE_HEAD                                                                         \
    "{\"schema\":1,\"node\":\"n\",\"epoch\":1,\"seq\":1,\"t_unix_ms\":1,\"interval_ns\":1," \
    "\"watts_mw\":1,\"used_mcpu\":1,\"allocatable_mcpu\":1,\"idle_mw\":1,\"meter\":\"m\","
#define ENERGY "{\"measured_uj\":10,\"idle_uj\":4,\"pods_uj\":5,\"system_uj\":1}"

static int decode_sample(const char *text, struct kw_sample *ret, const char **ret_why)
{
    return kw_sample_decode(text, strlen(text), ret, ret_why);
}

static void test_sample_defaults(void **state)
{
    (void)state;
    struct kw_sample sample;
    const char *why = NULL;

    assert_int_equal(decode_sample(SAMPLE_HEAD "\"quality\":[\"wrapped\",\"of-tomorrow\",\"gap\"],"
                                               "\"packages\":[{\"package\":1,\"cpu\":" ENERGY "}]}",
                                   &sample, &why),
                     0);
    assert_int_equal(sample.quality,
                     KW_QUALITY_BIT(KW_QUALITY_WRAPPED) | KW_QUALITY_BIT(KW_QUALITY_GAP));
    assert_false(sample.packages[0].has_dram);
    assert_false(sample.platform.present);
    assert_string_equal(sample.boot_id, "");
    assert_int_equal(sample.packages[0].cpu.unattributed_uj, 0);
}

static void test_bad_samples_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *tail, *why;
    } rows[] = {
        {"\"packages\":[1]}", "packages"},
        {"\"packages\":[{\"cpu\":" ENERGY "}]}", "package"},
        {"\"packages\":[{\"package\":4294967296,\"cpu\":" ENERGY "}]}", "package"},
        {"\"packages\":[{\"package\":0}]}", "cpu"},
        {"\"packages\":[{\"package\":0,\"cpu\":{}}]}", "measured_uj"},
        {"\"packages\":[{\"package\":0,\"cpu\":" ENERGY ",\"dram\":null}]}", "dram"},
        {"\"packages\":[{\"package\":3,\"cpu\":" ENERGY "},{\"package\":3,\"cpu\":" ENERGY "}]}",
         "package"},
        {"\"packages\":[],\"quality\":[1]}", "quality"},
        {"\"packages\":[],\"platform\":{}}", "mw"},
        {"\"packages\":[],\"method\":\"a text of more than thirty-one bytes\"}", "method"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup_free char *text = NULL;
        struct kw_sample sample;
        const char *why = NULL;
        assert_true(asprintf(&text, "%s%s", SAMPLE_HEAD, rows[i].tail) > 0);
        assert_int_equal(decode_sample(text, &sample, &why), -EBADMSG);
        assert_string_equal(why, rows[i].why);
    }
}

static void test_more_packages_than_the_limit_are_refused(void **state)
{
    (void)state;
    struct kw_sample sample;
    const char *why = NULL;

    for (unsigned n = KW_PACKAGES_MAX; n <= KW_PACKAGES_MAX + 1; n++) {
        kw_cleanup_free char *text = calloc(1, 64 * 1024);
        assert_non_null(text);
        size_t len = (size_t)snprintf(text, 64 * 1024, "%s\"packages\":[", SAMPLE_HEAD);
        for (unsigned i = 0; i < n; i++)
            len += (size_t)snprintf(text + len, 64 * 1024 - len, "%s{\"package\":%u,\"cpu\":%s}",
                                    i ? "," : "", i, ENERGY);
        len += (size_t)snprintf(text + len, 64 * 1024 - len, "]}");
        assert_int_equal(kw_sample_decode(text, len, &sample, &why),
                         n <= KW_PACKAGES_MAX ? 0 : -EBADMSG);
    }
    assert_string_equal(why, "packages");
}

/* A digest is a sample, with all that is about the node as a whole. */
static void test_digests(void **state)
{
    (void)state;
    uint64_t seed = 5;

    for (unsigned i = 0; i < 50; i++) {
        struct kw_sample sample = kwt_sample(&seed);
        struct kw_sample back;
        char *text = NULL;
        size_t len;
        assert_int_equal(kw_sample_encode_digest(&sample, &text, &len), 0);
        assert_int_equal(kw_sample_decode(text, len, &back, NULL), 0);
        free(text);
        assert_string_equal(back.node, sample.node);
        assert_true(back.epoch == sample.epoch && back.seq == sample.seq);
        assert_true(back.t_unix_ms == sample.t_unix_ms && back.interval_ns == sample.interval_ns);
        assert_true(back.watts_mw == sample.watts_mw && back.used_mcpu == sample.used_mcpu);
        assert_int_equal(kw_sample_load_mcpu(&back), kw_sample_load_mcpu(&sample));
        assert_true(back.allocatable_mcpu == sample.allocatable_mcpu);
        assert_true(back.idle_mw == sample.idle_mw && back.quality == sample.quality);
        assert_true(back.platform.present == sample.platform.present);
        assert_true(!sample.platform.present || back.platform.mw == sample.platform.mw);
        assert_int_equal(back.n_packages, 0);
        assert_memory_equal(&back.totals, &sample.totals, sizeof(back.totals));
    }
}

/* Longest text that a codec takes. */
#define TEXT_MAX 4095

static void test_encoders_refuse_what_decoders_would(void **state)
{
    (void)state;
    uint64_t seed = 3;
    char *text = NULL;
    size_t len = 77;
    struct kw_sample sample = kwt_sample(&seed);
    struct kw_sample bad = sample;

    memset(bad.node, 'x', sizeof(bad.node)); /* no NUL */
    assert_int_equal(kw_sample_encode(&bad, &text, &len), -EINVAL);
    bad = sample;
    bad.n_packages = KW_PACKAGES_MAX + 1;
    assert_int_equal(kw_sample_encode(&bad, &text, &len), -EINVAL);
    bad = sample;
    bad.watts_mw = UINT64_C(1) << 63;
    assert_int_equal(kw_sample_encode(&bad, &text, &len), -EINVAL);
    bad = sample;
    bad.t_unix_ms = -1;
    assert_int_equal(kw_sample_encode(&bad, &text, &len), -EINVAL);
    bad = sample;
    memcpy(bad.meter, "\xff\xfe", 3);
    assert_int_equal(kw_sample_encode(&bad, &text, &len), -EINVAL);
    struct kw_curve curve = {.capacity_mcpu = 1, .n = 200};
    assert_int_equal(kw_curve_encode(&curve, &text, &len), -EINVAL);
    struct kw_pod_record record = {.kind = KW_WORKLOAD__MAX, .id = (char[]){"x"}};
    assert_int_equal(kw_pod_record_encode(&record, &text, &len), -EINVAL);
    record = (struct kw_pod_record){.id = (char[]){"x"}, .name = (char[]){"\xff"}};
    assert_int_equal(kw_pod_record_encode(&record, &text, &len), -EINVAL);
    char too_long[TEXT_MAX + 2];
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    record.name = too_long;
    assert_int_equal(kw_pod_record_encode(&record, &text, &len), -EINVAL);
    record = (struct kw_pod_record){.id = (char[]){"x"}, .cpu_ns = UINT64_C(1) << 63};
    assert_int_equal(kw_pod_record_encode(&record, &text, &len), -EINVAL);
    record = (struct kw_pod_record){.id = (char[]){"x"}, .t_unix_ms = -1};
    assert_int_equal(kw_pod_record_encode(&record, &text, &len), -EINVAL);
    struct kw_advice advice = {0};
    assert_int_equal(kw_advice_encode(&advice, &text, &len), -EINVAL);
    assert_null(text);
    assert_int_equal(len, 77);
}

static void test_totals_add_up_and_saturate(void **state)
{
    (void)state;
    struct kw_sample sample = {.n_packages = 2};
    sample.packages[0].cpu = (struct kw_energy){100, 40, 30, 20, 10};
    sample.packages[0].has_dram = true;
    sample.packages[0].dram = (struct kw_energy){10, 4, 3, 2, 1};
    sample.packages[1].cpu = (struct kw_energy){1000, 400, 300, 200, 100};
    sample.packages[1].dram.measured_uj = 5; /* not there: has_dram is false */

    struct kw_energy total = kw_sample_total(&sample);
    assert_int_equal(total.measured_uj, 1110);
    assert_int_equal(total.pods_uj, 333);
    assert_int_equal(kw_energy_error_uj(&total), 0);
    total.measured_uj--;
    assert_int_equal(kw_energy_error_uj(&total), -1);

    sample.packages[1].cpu.measured_uj = UINT64_MAX;
    total = kw_sample_total(&sample);
    assert_true(total.measured_uj == UINT64_MAX);
    assert_true(kw_energy_error_uj(&total) == INT64_MAX);
    total = (struct kw_energy){0, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
    assert_true(kw_energy_error_uj(&total) == INT64_MIN);
}

static void test_containers_are_sorted_and_unique(void **state)
{
    (void)state;
    static const char head[] =
        "{\"schema\":1,\"kind\":\"pod\",\"id\":\"u\",\"epoch\":1,\"t_unix_ms\":1,\"cpu_ns\":1,"
        "\"active_uj\":1,\"containers\":[{\"id\":\"b\",\"cpu_ns\":1,\"active_uj\":1},{\"id\":\"";
    static const char tail[] = "\",\"cpu_ns\":1,\"active_uj\":1}]}";
    struct kw_pod_record record;
    const char *why = NULL;
    char text[512];

    (void)snprintf(text, sizeof(text), "%sa%s", head, tail);
    assert_int_equal(kw_pod_record_decode(text, strlen(text), &record, &why), 0);
    assert_string_equal(record.containers[0].id, "a");
    assert_string_equal(record.containers[1].id, "b");
    assert_string_equal(record.namespace_, "");
    kw_pod_record_clear(&record);
    assert_null(record.id);
    (void)snprintf(text, sizeof(text), "%sb%s", head, tail);
    assert_int_equal(kw_pod_record_decode(text, strlen(text), &record, &why), -EBADMSG);
    assert_string_equal(why, "containers");
}

static void test_bad_records_are_named(void **state)
{
    (void)state;
    struct kw_pod_record record;
    kw_cleanup_free char *text = malloc(16384);
    const char *why = NULL;
    static const char format[] = "{\"schema\":1,\"kind\":\"%s\",\"id\":\"%s\",\"epoch\":1,"
                                 "\"t_unix_ms\":1,\"cpu_ns\":1,\"active_uj\":1}";
    char id[4098];

    (void)snprintf(text, 16384, format, "pod", "");
    assert_int_equal(kw_pod_record_decode(text, strlen(text), &record, &why), -EBADMSG);
    assert_string_equal(why, "id");
    (void)snprintf(text, 16384, format, "starship", "x");
    assert_int_equal(kw_pod_record_decode(text, strlen(text), &record, &why), -EBADMSG);
    assert_string_equal(why, "kind");
    memset(id, 'i', sizeof(id));
    id[4096] = '\0';
    (void)snprintf(text, 16384, format, "pod", id);
    assert_int_equal(kw_pod_record_decode(text, strlen(text), &record, &why), -EBADMSG);
    assert_string_equal(why, "id");
    id[4095] = '\0';
    (void)snprintf(text, 16384, format, "pod", id);
    assert_int_equal(kw_pod_record_decode(text, strlen(text), &record, &why), 0);
    kw_pod_record_clear(&record);
}

static struct kw_energy total_of(const json_t *root)
{
    const json_t *totals = json_object_get(root, "totals");

    return (struct kw_energy){
        (uint64_t)json_integer_value(json_object_get(totals, "measured_uj")),
        (uint64_t)json_integer_value(json_object_get(totals, "idle_uj")),
        (uint64_t)json_integer_value(json_object_get(totals, "pods_uj")),
        (uint64_t)json_integer_value(json_object_get(totals, "system_uj")),
        (uint64_t)json_integer_value(json_object_get(totals, "unattributed_uj")),
    };
}

static void test_report_holds_what_the_readme_lists(void **state)
{
    (void)state;
    struct kw_pod_record pods[2] = {
        {.kind = KW_WORKLOAD_UNIT,
         .id = (char[]){"/a"},
         .name = (char[]){"a"},
         .active_uj = 1500000,
         .watts_mw = 7,
         .cpu_ns = 2500000000},
        {.kind = KW_WORKLOAD_POD,
         .id = (char[]){"u"},
         .name = (char[]){"b"},
         .active_uj = 4500000,
         .ended_unix_ms = 1},
    };
    struct kw_container_advice container = {.name = "c", .target_mcpu = 25};
    struct kw_advice advice = {.workload = "u", .n_containers = 1, .containers = &container};
    struct kw_node_view view = {.n_pods = 2, .pods = pods};
    struct kw_report report = {
        .version = "1.2.3", .duration_s = 3, .view = &view, .advices = &advice, .n_advices = 1};
    kw_cleanup_free char *text = NULL;
    size_t len;

    view.sample.n_packages = 1;
    view.sample.packages[0].cpu = (struct kw_energy){10000000, 3000000, 6000000, 1000000, 0};
    view.sample.quality = KW_QUALITY_BIT(KW_QUALITY_ESTIMATED);
    assert_int_equal(kw_report_encode(&report, &text, &len), 0);
    assert_int_equal(text[len - 1], '\n');
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    struct kw_energy total = total_of(root);
    assert_memory_equal(&total, &view.sample.packages[0].cpu, sizeof(total));
    assert_true(json_is_true(json_object_get(root, "estimated")));
    assert_int_equal(json_integer_value(json_object_get(root, "conservation_error_uj")), 0);
    const json_t *first = json_array_get(json_object_get(root, "workloads"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), "u"); /* most joules */
    assert_true(json_is_false(json_object_get(first, "running")));
    assert_true(json_real_value(json_object_get(first, "watts")) == 1.5);
    assert_true(json_is_object(json_object_get(first, "advice")));
    const json_t *second = json_array_get(json_object_get(root, "workloads"), 1);
    assert_true(json_is_null(json_object_get(second, "advice")));
    assert_true(json_real_value(json_object_get(second, "cpu_s")) == 2.5);
    json_decref(root);

    free(text);
    text = NULL;
    report.duration_s = 0; /* top: the present watts */
    assert_int_equal(kw_report_encode(&report, &text, &len), 0);
    assert_null(strstr(text, "duration_s"));
    assert_non_null(strstr(text, "\"watts\": 0.007"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample_defaults),
        cmocka_unit_test(test_bad_samples_are_named),
        cmocka_unit_test(test_more_packages_than_the_limit_are_refused),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_encoders_refuse_what_decoders_would),
        cmocka_unit_test(test_totals_add_up_and_saturate),
        cmocka_unit_test(test_containers_are_sorted_and_unique),
        cmocka_unit_test(test_bad_records_are_named),
        cmocka_unit_test(test_report_holds_what_the_readme_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
