/* SPDX-License-Identifier: Apache-2.0 */
/* What docker and podman write about their containers, of the machine and of a user. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/engine_store.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

#define ID_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID_B "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define ID_C "1111111111111111111111111111111111111111111111111111111111111111"

#define SYSTEM_SCOPE "/system.slice/docker-x.scope"
#define USER_SCOPE   "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-x.scope"

static struct kwt_tree tree;

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

static int docker(const char *json, struct agent_engine_container *ret)
{
    return agent_engine_docker(json, strlen(json), ret);
}

static void test_docker_files(void **state)
{
    struct agent_engine_container container = {0};

    (void)state;
    assert_int_equal(docker("{\"StreamConfig\":{},\"State\":{\"Running\":true},\"ID\":\"" ID_A
                            "\",\"Config\":{\"Hostname\":\"h\",\"Env\":[\"NAME=x\"],\"Image\":"
                            "\"nginx:1.25\",\"Labels\":{\"Image\":\"no\"}},\"Image\":\"sha256:ff\","
                            "\"Name\":\"/web_1\"}",
                            &container),
                     0);
    assert_string_equal(container.id, ID_A);
    assert_string_equal(container.name, "web_1");
    assert_string_equal(container.image, "nginx:1.25");
    /* the image is not known: the name counts all the same */
    assert_int_equal(docker("{\"ID\":\"" ID_A "\",\"Name\":\"/a\",\"Config\":null}", &container),
                     0);
    assert_string_equal(container.image, "");
    assert_int_equal(
        docker("{\"ID\":\"" ID_A "\",\"Name\":\"/a\",\"Config\":{\"Image\":7}}", &container), 0);
}

static void test_docker_files_that_are_none(void **state)
{
    static const char *const files[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"ID\":\"" ID_A "\"}",
        "{\"Name\":\"/a\"}",
        "{\"ID\":\"short\",\"Name\":\"/a\"}",
        "{\"ID\":\"" ID_A "\",\"Name\":\"\"}",
        "{\"ID\":\"" ID_A "\",\"Name\":\"/\"}",
        "{\"ID\":\"" ID_A "\",\"Name\":\"/a\\u0000b\"}",
        "{\"ID\":\"" ID_A "\",\"Name\":\"/a\\u001b[2J\"}",
        "{\"ID\":\"" ID_A "\",\"Name\":[\"/a\"]}",
        "{\"ID\":\"" ID_A "\",\"Name\":\"/a\"",
        "{\"ID\":\"" ID_A "\",\"Name\":\"/a\"} x",
        "{\"ID\":\"../../../../etc/passwd\",\"Name\":\"/a\"}",
    };
    struct agent_engine_container container = {.name = "untouched"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        assert_int_equal(docker(files[i], &container), -EBADMSG);
    assert_string_equal(container.name, "untouched");
}

static char seen[1024];

static void note(void *user, const struct agent_engine_container *container)
{
    size_t len = strlen(seen);

    (void)user;
    (void)snprintf(seen + len, sizeof(seen) - len, "%.4s=%s(%s) ", container->id, container->name,
                   container->image);
}

static int storage(const char *json)
{
    seen[0] = '\0';
    return agent_engine_storage(json, strlen(json), note, NULL);
}

static void test_storage_lists(void **state)
{
    (void)state;
    assert_int_equal(
        storage(
            "[{\"id\":\"" ID_A "\",\"names\":[\"web\",\"other\"],\"image\":\"ff\",\"metadata\":"
            "\"{\\\"image-name\\\":\\\"docker.io/library/nginx:1.25\\\",\\\"name\\\":\\\"web\\\"}"
            "\",\"flags\":{\"a\":[1]}},"
            "{\"id\":\"" ID_B "\",\"names\":[\"db\"],\"metadata\":\"no object\"},"
            "{\"id\":\"" ID_C "\",\"names\":[]},{\"id\":7,\"names\":[\"x\"]},{}]"),
        0);
    assert_string_equal(seen, "0123=web(docker.io/library/nginx:1.25) fedc=db() ");
    assert_int_equal(storage("[]"), 0);
    assert_int_equal(storage("{}"), -EBADMSG);
    assert_int_equal(storage("[1]"), -EBADMSG);
    assert_int_equal(storage("[{\"id\":\"" ID_A "\",\"names\":[\"web\"]}"), -EBADMSG);
    assert_string_equal(seen, "0123=web() ");
}

static void test_folders_that_are_configured(void **state)
{
    char root[64] = "";
    static const char daemon[] = "{\"log-driver\":\"json-file\",\"data-root\":\"/data/docker\"}";
    static const char old[] = "{\"graph\":\"/old\"}";
    static const char conf[] = "[storage]\n# graphroot = \"/no\"\ndriver = \"overlay\"\n"
                               "  graphroot=\"/data/podman\" # here\n";

    (void)state;
    assert_int_equal(agent_engine_docker_root(daemon, strlen(daemon), root, sizeof(root)), 0);
    assert_string_equal(root, "/data/docker");
    assert_int_equal(agent_engine_docker_root(old, strlen(old), root, sizeof(root)), 0);
    assert_string_equal(root, "/old");
    assert_int_equal(agent_engine_docker_root("{}", 2, root, sizeof(root)), -ENOENT);
    assert_int_equal(agent_engine_docker_root("{\"graph\":\"x\"}", 13, root, sizeof(root)),
                     -EBADMSG);
    assert_int_equal(agent_engine_docker_root(daemon, strlen(daemon), root, 5), -ENAMETOOLONG);
    assert_int_equal(agent_engine_storage_root(conf, strlen(conf), root, sizeof(root)), 0);
    assert_string_equal(root, "/data/podman");
    assert_int_equal(agent_engine_storage_root("graphroot", 9, root, sizeof(root)), -ENOENT);
    assert_int_equal(agent_engine_storage_root("graphroot=/x", 12, root, sizeof(root)), -EBADMSG);
}

static void test_homes(void **state)
{
    char home[64] = "";
    static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\nbad line\n:::::\n"
                                 "eve:x:1000:1000:,,,:/srv/eve:/bin/sh\nno:x:1001:1:g:home:\n";

    (void)state;
    assert_int_equal(agent_engine_home(passwd, strlen(passwd), 1000, home, sizeof(home)), 0);
    assert_string_equal(home, "/srv/eve");
    assert_int_equal(agent_engine_home(passwd, strlen(passwd), 7, home, sizeof(home)), -ENOENT);
    assert_int_equal(agent_engine_home(passwd, strlen(passwd), 1001, home, sizeof(home)), -EBADMSG);
    assert_int_equal(agent_engine_home("", 0, 0, home, sizeof(home)), -ENOENT);
}

static void find(struct agent_engine_query *query)
{
    agent_engine_find(tree.root, query, 1);
}

static void write_docker(const char *root, const char *id, const char *name)
{
    char path[512], json[512];

    (void)snprintf(path, sizeof(path), "%s/containers/%s/config.v2.json", root, id);
    (void)snprintf(json, sizeof(json),
                   "{\"ID\":\"%s\",\"Name\":\"/%s\",\"Config\":{\"Image\":\"i\"}}", id, name);
    kwt_tree_write(&tree, path, json);
}

static void test_docker_of_the_machine(void **state)
{
    struct agent_engine_query query = {.id = ID_A, .cgroup = SYSTEM_SCOPE, .runtime = "docker"};

    (void)state;
    find(&query);
    assert_false(query.found);
    write_docker("var/lib/docker", ID_A, "web");
    find(&query);
    assert_true(query.found);
    assert_string_equal(query.container.name, "web");
    /* renamed */
    write_docker("var/lib/docker", ID_A, "shop");
    find(&query);
    assert_string_equal(query.container.name, "shop");
    /* a file that speaks of another */
    write_docker("var/lib/docker", ID_A, "x");
    kwt_tree_delete(&tree, "var/lib/docker");
    kwt_tree_write(&tree, "var/lib/docker/containers/" ID_A "/config.v2.json",
                   "{\"ID\":\"" ID_B "\",\"Name\":\"/x\"}");
    find(&query);
    assert_false(query.found);
    kwt_tree_write(&tree, "etc/docker/daemon.json", "{\"data-root\":\"/data/docker\"}");
    write_docker("data/docker", ID_A, "moved");
    find(&query);
    assert_string_equal(query.container.name, "moved");
}

static void test_podman_of_the_machine(void **state)
{
    struct agent_engine_query queries[] = {
        {.id = ID_A, .cgroup = "/machine.slice/libpod-x.scope", .runtime = "podman"},
        {.id = ID_B, .cgroup = "/x", .runtime = ""},
        {.id = ID_C, .cgroup = "/x", .runtime = "docker"},
        {.id = ID_C, .cgroup = "/jobs/x", .runtime = "containerd"},
    };

    (void)state;
    kwt_tree_write(&tree, "var/lib/containers/storage/overlay-containers/containers.json",
                   "[{\"id\":\"" ID_A "\",\"names\":[\"a\"]},{\"id\":\"" ID_C
                   "\",\"names\":[\"c\"]}]");
    kwt_tree_write(&tree, "run/containers/storage/overlay-containers/volatile-containers.json",
                   "[{\"id\":\"" ID_B "\",\"names\":[\"b\"]}]");
    agent_engine_find(tree.root, queries, 4);
    assert_string_equal(queries[0].container.name, "a");
    assert_string_equal(queries[1].container.name, "b");
    assert_false(queries[2].found);
    assert_string_equal(queries[3].container.name, "c");
}

static void test_a_users_own(void **state)
{
    struct agent_engine_query queries[] = {
        {.id = ID_A, .cgroup = USER_SCOPE, .runtime = "podman"},
        {.id = ID_B, .cgroup = "/user.slice/user-1000.slice/x.scope", .runtime = "docker"},
        {.id = ID_C, .cgroup = "/user.slice/user-1001.slice/x.scope", .runtime = "podman"},
        {.id = ID_B, .cgroup = SYSTEM_SCOPE, .runtime = ""},
    };

    (void)state;
    kwt_tree_write(&tree, "etc/passwd", "eve:x:1000:1000::/srv/eve:/bin/sh\n");
    write_docker("srv/eve/.local/share/docker", ID_B, "mine");
    kwt_tree_write(
        &tree, "srv/eve/.local/share/containers/storage/overlay-containers/containers.json",
        "[{\"id\":\"" ID_A "\",\"names\":[\"a\"]},{\"id\":\"" ID_C "\",\"names\":[\"c\"]}]");
    agent_engine_find(tree.root, queries, 4);
    assert_string_equal(queries[0].container.name, "a");
    assert_string_equal(queries[1].container.name, "mine");
    /* a user names no containers of others, nor of the machine */
    assert_false(queries[2].found);
    assert_false(queries[3].found);
}

/** A user may put anything into the own home; nothing of it is waited for. */
static void test_no_files(void **state)
{
    struct agent_engine_query query = {.id = ID_A, .cgroup = USER_SCOPE, .runtime = ""};
    char path[512];

    (void)state;
    kwt_tree_write(&tree, "etc/passwd", "eve:x:1000:1000::/srv/eve:/bin/sh\n");
    kwt_tree_mkdir(&tree, "srv/eve/.local/share/docker/containers/" ID_A);
    (void)snprintf(path, sizeof(path),
                   "%s/srv/eve/.local/share/docker/containers/" ID_A "/config.v2.json", tree.root);
    assert_int_equal(mkfifo(path, 0600), 0);
    find(&query);
    assert_false(query.found);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    find(&query);
    assert_false(query.found);
    assert_int_equal(unlink(path), 0);
    /* larger than any */
    kwt_tree_write(&tree, "srv/eve/.local/share/docker/containers/" ID_A "/config.v2.json", "{");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    find(&query);
    assert_false(query.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_docker_files),
        cmocka_unit_test(test_docker_files_that_are_none),
        cmocka_unit_test(test_storage_lists),
        cmocka_unit_test(test_folders_that_are_configured),
        cmocka_unit_test(test_homes),
        cmocka_unit_test_setup_teardown(test_docker_of_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_podman_of_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_users_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
