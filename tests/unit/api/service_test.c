/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/service.h"
#include "tests/support/cmocka.h"

static const struct {
    const char *json;
    int rc;
    const char *address; /**< or what is wrong */
    unsigned port;
} rows[] = {
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"clusterIP\":\"10.0.0.7\","
     "\"ports\":[{\"port\":80},{\"name\":\"http\",\"port\":9890},{\"port\":81}]}}",
     0, "10.0.0.7", 9890},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"clusterIP\":\"fd00::7\","
     "\"ports\":[{\"port\":80},{\"port\":81}]}}",
     0, "fd00::7", 80},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"clusterIP\":\"10.0.0.7\","
     "\"ports\":[{\"port\":80},{\"name\":\"https\",\"port\":9443}]}}",
     0, "10.0.0.7", 9443},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"clusterIP\":\"None\"}}", 0, "",
     0},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"clusterIP\":\"h/@x\"}}", 0, "",
     0},
    {"{\"metadata\":{\"name\":\"x\"},\"spec\":{}}", -EBADMSG, "namespace", 0},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"}}", -EBADMSG, "spec", 0},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"ports\":[{\"port\":65536}]}}",
     -EBADMSG, "port", 0},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"ports\":[7]}}", -EBADMSG,
     "ports", 0},
    {"{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\"},\"spec\":{\"ports\":[{}]}}", -EBADMSG,
     "port", 0},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kw_service service = {.name = "untouched"};
        const char *why = "";
        int rc = kw_service_decode(rows[i].json, strlen(rows[i].json), &service, &why);

        assert_int_equal(rc, rows[i].rc);
        if (rc < 0) {
            assert_string_equal(why, rows[i].address);
            assert_string_equal(service.name, "untouched");
            continue;
        }
        assert_string_equal(service.name, "x");
        assert_string_equal(service.namespace_, "n");
        assert_string_equal(service.cluster_ip, rows[i].address);
        assert_int_equal(service.port, rows[i].port);
        assert_int_equal(service.https, service.port == 9443);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
