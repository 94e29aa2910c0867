/* SPDX-License-Identifier: Apache-2.0 */
/* The Lease as an object, when it may be taken, and a server that hangs. What replicas do with a
 * real API server: e2e/recommender_lease_test.py. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/kube_lease.h"
#include "common/kube_lease_impl.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_script.h"

#define S KW_NS_PER_S

static const char full[] =
    "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"l\","
    "\"namespace\":\"n\",\"resourceVersion\":\"41\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
    "\"holderIdentity\":\"other\",\"leaseDurationSeconds\":15,\"acquireTime\":"
    "\"2026-01-01T00:00:00.000000Z\",\"renewTime\":\"2026-01-01T00:00:07.000000Z\","
    "\"leaseTransitions\":3,\"strategy\":\"OldestEmulationVersion\"}}";

static struct kw_lease_object *parse(const char *text)
{
    struct kw_lease_object *object = NULL;
    struct kw_err err = {0};

    if (kw_lease_object_parse(text, strlen(text), &object, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    return object;
}

static void deciding(void **state)
{
    static const struct {
        const char *holder;
        uint64_t duration_ns, seen_ns, now_ns;
        enum kw_lease_step want;
        uint64_t wait_ns;
    } rows[] = {
        {"me", 15 * S, 0, 0, KW_LEASE_STEP_RENEW, 0},
        {"me", 15 * S, 0, 1000 * S, KW_LEASE_STEP_RENEW, 0}, /* nobody took it */
        {"", 15 * S, 100 * S, 100 * S, KW_LEASE_STEP_TAKE, 0},
        {"other", 15 * S, 100 * S, 100 * S, KW_LEASE_STEP_WAIT, 15 * S},
        {"other", 15 * S, 100 * S, 114 * S, KW_LEASE_STEP_WAIT, S},
        {"other", 15 * S, 100 * S, 115 * S - 1, KW_LEASE_STEP_WAIT, 1},
        {"other", 15 * S, 100 * S, 115 * S, KW_LEASE_STEP_TAKE, 0},
        {"other", 15 * S, 100 * S, 99 * S, KW_LEASE_STEP_WAIT, 15 * S},
        {"other", 3600 * S, 100 * S, 200 * S, KW_LEASE_STEP_WAIT,
         3500 * S},                                            /* its own word counts */
        {"other", 0, 100 * S, 119 * S, KW_LEASE_STEP_WAIT, S}, /* it says nothing: ours */
        {"other", 0, 100 * S, 120 * S, KW_LEASE_STEP_TAKE, 0},
        {"ME", 15 * S, 100 * S, 101 * S, KW_LEASE_STEP_WAIT, 14 * S},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        const struct kw_lease_record record = {.holder = rows[i].holder,
                                               .duration_ns = rows[i].duration_ns};
        uint64_t wait_ns = 0;
        if (kw_lease_decide(&record, "me", rows[i].seen_ns, rows[i].now_ns, 20 * S, &wait_ns) !=
                rows[i].want ||
            wait_ns != rows[i].wait_ns)
            fail_msg("row %zu", i);
    }
}

static void reading(void **state)
{
    static const struct {
        const char *spec, *holder;
        uint64_t duration_s, transitions;
    } rows[] = {
        {"{}", "", 0, 0},
        {"{\"holderIdentity\":null}", "", 0, 0},
        {"{\"holderIdentity\":7,\"leaseDurationSeconds\":\"x\",\"leaseTransitions\":{}}", "", 0, 0},
        {"{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1}", "", 1, 0},
        {"{\"holderIdentity\":\"a\",\"leaseDurationSeconds\":-5,\"leaseTransitions\":-1}", "a", 0,
         0},
        {"{\"holderIdentity\":\"a\",\"leaseDurationSeconds\":2147483647}", "a", 2147483647, 0},
        {"{\"holderIdentity\":\"a\",\"leaseDurationSeconds\":2147483648}", "a", 0, 0},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        char text[256];
        struct kw_lease_record record;
        (void)snprintf(text, sizeof(text), "{\"metadata\":{},\"spec\":%s}", rows[i].spec);
        kw_cleanup(kw_lease_object_free) struct kw_lease_object *object = parse(text);
        kw_lease_object_read(object, &record);
        assert_string_equal(record.holder, rows[i].holder);
        assert_int_equal(record.duration_ns, rows[i].duration_s * S);
        assert_int_equal(record.transitions, rows[i].transitions);
    }
}

static void what_is_no_lease(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "1",
                                        "{}",
                                        "{\"metadata\":1}",
                                        "{\"metadata\":{},\"spec\":[]}",
                                        "{\"metadata\":{},\"metadata\":{}}"};
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        struct kw_lease_object *object = NULL;
        struct kw_err err = {0};
        assert_int_equal(kw_lease_object_parse(texts[i], strlen(texts[i]), &object, &err), -EPROTO);
        assert_null(object);
        assert_true(err.text[0] != '\0');
    }
}

/* Only the spec counts: who labels a lease does not renew it. */
static void sameness(void **state)
{
    (void)state;
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *a =
        parse("{\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"x\":1,\"renewTime\":\"a\"}}");
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *b =
        parse("{\"metadata\":{\"resourceVersion\":\"2\"},\"spec\":{\"renewTime\":\"a\",\"x\":1}}");
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *c =
        parse("{\"metadata\":{\"resourceVersion\":\"2\"},\"spec\":{\"renewTime\":\"b\",\"x\":1}}");
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *none = parse("{\"metadata\":{}}");
    assert_true(kw_lease_object_same(a, b));
    assert_false(kw_lease_object_same(a, c));
    assert_false(kw_lease_object_same(a, none));
    assert_true(kw_lease_object_same(none, none));
    assert_false(kw_lease_object_same(a, NULL));
    assert_true(kw_lease_object_same(NULL, NULL));
}

static void claim(const struct kw_lease_object *object, enum kw_lease_claim what, const char *want)
{
    kw_cleanup_free char *text = NULL;
    size_t len = 0;

    /* 2026-11-30T05:06:07.000089Z */
    assert_int_equal(kw_lease_object_claim(object, what, "me", 15 * S - 1,
                                           INT64_C(1796015167000089), &text, &len),
                     0);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
}

static void claims(void **state)
{
    (void)state;
#define META                                                                                      \
    "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"l\"," \
    "\"namespace\":\"n\",\"resourceVersion\":\"41\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *object = parse(full);
    claim(object, KW_LEASE_TAKE,
          META "\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"acquireTime\":"
               "\"2026-11-30T05:06:07.000089Z\",\"renewTime\":\"2026-11-30T05:06:07.000089Z\","
               "\"leaseTransitions\":4,\"strategy\":\"OldestEmulationVersion\"}}");
    claim(object, KW_LEASE_RENEW,
          META "\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"acquireTime\":"
               "\"2026-01-01T00:00:00.000000Z\",\"renewTime\":\"2026-11-30T05:06:07.000089Z\","
               "\"leaseTransitions\":3,\"strategy\":\"OldestEmulationVersion\"}}");
    claim(object, KW_LEASE_RELEASE,
          META "\"leaseDurationSeconds\":1,\"acquireTime\":\"2026-11-30T05:06:07.000089Z\","
               "\"renewTime\":\"2026-11-30T05:06:07.000089Z\",\"leaseTransitions\":3,"
               "\"strategy\":\"OldestEmulationVersion\"}}");
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *fresh = NULL;
    assert_int_equal(kw_lease_object_make("ns", "name", &fresh), 0);
    claim(fresh, KW_LEASE_TAKE,
          "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
          "\"namespace\":\"ns\",\"name\":\"name\"},\"spec\":{\"holderIdentity\":\"me\","
          "\"leaseDurationSeconds\":15,\"renewTime\":\"2026-11-30T05:06:07.000089Z\","
          "\"acquireTime\":\"2026-11-30T05:06:07.000089Z\",\"leaseTransitions\":0}}");
}

/* ---- a server of the test's ---- */

struct fixture {
    struct kwt_http_server server;
    char folder[64], config[96];
    bool stall; /* answers nothing */
};

static void answer(void *user, unsigned n, const char *request, int fd)
{
    struct fixture *f = user;

    (void)n;
    if (f->stall)
        kwt_http_stall(fd);
    else if (strncmp(request, "GET ", 4) == 0)
        kwt_http_answer(fd, 404, "{\"kind\":\"Status\",\"code\":404}");
    else
        kwt_http_answer(fd, 201, strchr(request, '{'));
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char text[512];

    assert_non_null(f);
    kwt_http_start(&f->server, answer, f);
    (void)snprintf(f->folder, sizeof(f->folder), "/tmp/kwatt-lease-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->config, sizeof(f->config), "%s/config", f->folder);
    (void)snprintf(text, sizeof(text),
                   "{clusters: [{name: c, cluster: {server: '%s'}}], users: [{name: u, user: {}}],"
                   " contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}",
                   f->server.url);
    assert_int_equal(kw_file_write_atomic(f->config, text, strlen(text), 0600), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    kwt_http_stop(&f->server);
    (void)unlink(f->config);
    (void)rmdir(f->folder);
    free(f);
    return 0;
}

static struct kw_kube_lease_conf conf_of(const struct fixture *f)
{
    return (struct kw_kube_lease_conf){
        .kube.kubeconfig = f->config,
        .settings = {.enabled = true,
                     .namespace_ = "ns",
                     .name = "name",
                     .duration_ns = 4 * S,
                     .renew_deadline_ns = S,
                     .retry_ns = S / 10},
    };
}

static void wait_until_held(const struct kw_kube_lease *lease, bool held)
{
    for (unsigned i = 0; i < 3000 && kw_kube_lease_held(lease) != held; i++)
        (void)usleep(10000);
    assert_true(kw_kube_lease_held(lease) == held);
}

/* A leader whose server hangs stops by its clock alone, and is told of; stopping does not wait for
 * the server. */
static void a_server_that_hangs(void **state)
{
    struct fixture *f = *state;
    struct kw_kube_lease_conf conf = conf_of(f);
    struct kw_kube_lease_status holding, status;
    struct kw_kube_lease *lease = NULL;
    struct kw_err err = {0};

    if (kw_kube_lease_start(&conf, &lease, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(kw_kube_lease_name(lease), "ns/name");
    wait_until_held(lease, true);
    kw_kube_lease_status(lease, &holding);
    f->stall = true;
    wait_until_held(lease, false);
    for (unsigned i = 0; i < 3000; i++) {
        kw_kube_lease_status(lease, &status);
        if (status.error[0] != '\0')
            break;
        (void)usleep(10000);
    }
    assert_true(status.error[0] != '\0' && status.known && !status.held);
    assert_true(holding.holder[0] != '\0');
    assert_string_equal(status.holder, holding.holder);
    uint64_t begin_ns = kw_now_ns();
    kw_kube_lease_stop(&lease);
    assert_true(kw_now_ns() - begin_ns < 30 * S);
    assert_null(lease);
}

static void bad_settings(void **state)
{
    struct fixture *f = *state;
    struct kw_kube_lease_conf conf = conf_of(f);
    struct kw_kube_lease *lease = NULL;
    struct kw_err err = {0};

    conf.settings.renew_deadline_ns = conf.settings.duration_ns;
    assert_int_equal(kw_kube_lease_start(&conf, &lease, &err), -EINVAL);
    assert_non_null(strstr(err.text, "renew deadline"));
    conf = conf_of(f);
    conf.settings.retry_ns = conf.settings.renew_deadline_ns;
    assert_int_equal(kw_kube_lease_start(&conf, &lease, &err), -EINVAL);
    assert_non_null(strstr(err.text, "retry period"));
    conf = conf_of(f);
    conf.settings.namespace_ = NULL;
    conf.kube.secrets_dir = f->folder;
    assert_int_equal(kw_kube_lease_start(&conf, &lease, &err), -EINVAL);
    assert_non_null(strstr(err.text, "namespace"));
    conf = conf_of(f);
    conf.kube.kubeconfig = "/nonexistent";
    assert_true(kw_kube_lease_start(&conf, &lease, &err) < 0);
    assert_null(lease);
}

static void the_pods_own_namespace(void **state)
{
    struct fixture *f = *state;
    struct kw_kube_lease_conf conf = conf_of(f);
    struct kw_kube_lease *lease = NULL;
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/namespace", f->folder);
    assert_int_equal(kw_file_write_atomic(path, "energy\n", 7, 0600), 0);
    conf.settings.namespace_ = NULL;
    conf.kube.secrets_dir = f->folder;
    assert_int_equal(kw_kube_lease_start(&conf, &lease, NULL), 0);
    assert_string_equal(kw_kube_lease_name(lease), "energy/name");
    kw_kube_lease_stop(&lease);
    (void)unlink(path);
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deciding),         cmocka_unit_test(reading),
        cmocka_unit_test(what_is_no_lease), cmocka_unit_test(sameness),
        cmocka_unit_test(claims),           WITH_SERVER(a_server_that_hangs),
        WITH_SERVER(bad_settings),          WITH_SERVER(the_pods_own_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
