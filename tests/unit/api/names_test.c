/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api/names.h"
#include "tests/support/cmocka.h"

static void test_keys_share_a_slot(void **state)
{
    (void)state;
    char key[KW_KEY_MAX];

    assert_int_equal(kw_key_node(key, "node-1.rack"), (int)strlen("kwatt:v1:node:{node-1.rack}"));
    assert_string_equal(key, "kwatt:v1:node:{node-1.rack}");
    assert_true(kw_key_pods(key, "n") > 0);
    assert_string_equal(key, "kwatt:v1:pods:{n}");
    assert_true(kw_key_attribution(key, "n") > 0);
    assert_string_equal(key, "kwatt:v1:attribution:{n}");
    assert_true(kw_key_advice(key, "n") > 0);
    assert_string_equal(key, "kwatt:v1:advice:{n}");
}

static void test_bad_names_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a b", "a{b", "a}b", "a\nb", "\x7f", " a", "a\t"};
    char key[KW_KEY_MAX] = "untouched";
    char name[KW_NODE_NAME_MAX + 2];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(kw_key_node(key, bad[i]), -EINVAL);
    memset(name, 'n', sizeof(name));
    name[KW_NODE_NAME_MAX + 1] = '\0';
    assert_int_equal(kw_key_advice(key, name), -EINVAL);
    assert_string_equal(key, "untouched");
    name[KW_NODE_NAME_MAX] = '\0';
    int len = kw_key_advice(key, name);
    assert_int_equal(len, (int)strlen(key));
    assert_int_equal(key[strlen(key) - 1], '}');
}

static void test_profiles(void **state)
{
    (void)state;
    char key[KW_KEY_MAX] = "untouched";
    char name[255];

    assert_int_equal(kw_key_profile(key, "orchard", "Bad Kind", "a"), -EINVAL);
    assert_int_equal(kw_key_profile(key, "orchard", "", "a"), -EINVAL);
    assert_int_equal(kw_key_profile(key, "orchard", "Job", "a/b"), -EINVAL);
    assert_int_equal(kw_key_profile(key, "", "Job", "a"), -EINVAL);
    memset(name, 'n', sizeof(name));
    name[254] = '\0';
    assert_int_equal(kw_key_profile(key, "orchard", "Job", name), -EINVAL);
    name[64] = '\0';
    assert_int_equal(kw_key_profile(key, name, "Job", "a"), -EINVAL);
    assert_string_equal(key, "untouched");
    int len = kw_key_profile(key, "orchard", "Deployment", "press");
    assert_int_equal(len, (int)strlen(key));
    assert_string_equal(key, "kwatt:v1:profile:orchard/Deployment/press");
    assert_string_equal(KW_KEY_PROFILE_MEMBER(key), "orchard/Deployment/press");
}

static void test_feeds(void **state)
{
    (void)state;
    char key[KW_KEY_MAX];

    /* computed apart, in Python */
    assert_int_equal(kw_feed_shard("a"), 4);
    assert_int_equal(kw_feed_shard("b"), 5);
    assert_int_equal(kw_feed_shard("c"), 2);
    assert_int_equal(kw_feed_shard("node-1"), 3);
    assert_int_equal(kw_feed_shard("ip-10-0-0-1.eu-central-1.compute.internal"), 4);
    kw_key_feed(key, KW_FEED_SHARDS - 1);
    assert_string_equal(key, "kwatt:v1:feed:7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_share_a_slot),
        cmocka_unit_test(test_bad_names_are_refused),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_feeds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
