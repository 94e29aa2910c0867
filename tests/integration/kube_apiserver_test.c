/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes client as a command, for e2e/kube_client_test.py to hold against a real API
 * server:
 *
 *   kube_apiserver_test KUBECONFIG get PATH
 *   kube_apiserver_test KUBECONFIG list PATH           one name a line, "restart", "version V"
 *   kube_apiserver_test KUBECONFIG patch PATH JSON     a JSON patch
 *   kube_apiserver_test KUBECONFIG watch PATH          one event a line, until standard input ends
 *
 * A failure is "error CODE TEXT" on standard output and exit code 1.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/kube.h"

static int report(int code, const struct kw_err *err)
{
    printf("error %s %s\n", strerrorname_np(-code), err->text);
    return 1;
}

/* "NAME VERSION\n" of an object */
static void print_object(const char *word, const char *json, size_t len)
{
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *metadata = json_object_get(root, "metadata");
    const char *name = json_string_value(json_object_get(metadata, "name"));
    const char *version = json_string_value(json_object_get(metadata, "resourceVersion"));

    printf("%s %s %s\n", word, name != NULL ? name : "?", version != NULL ? version : "?");
    json_decref(root);
}

static bool on_item(void *user, const char *json, size_t len)
{
    (void)user;
    print_object("item", json, len);
    return true;
}

static void on_restart(void *user)
{
    (void)user;
    printf("restart\n");
}

static void on_event(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    static const char *const words[] = {"begin",   "end",  "added", "modified",
                                        "deleted", "down", "up"};
    _Static_assert(KW_ARRAY_SIZE(words) == KW_KUBE__MAX, "one word each");
    (void)user;

    if (event == KW_KUBE_DOWN)
        printf("down %.*s\n", (int)len, json);
    else if (json != NULL)
        print_object(words[event], json, len);
    else
        printf("%s\n", words[event]);
    (void)fflush(stdout);
}

static int watch(const struct kw_kube_conf *conf, const char *path)
{
    struct kw_kube_watch *watch = NULL;
    struct kw_err err = {0};
    char byte;
    int r = kw_kube_watch_start(conf, path, NULL, on_event, NULL, &watch, &err);

    if (r < 0)
        return report(r, &err);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    uint64_t begin = kw_now_ns();
    kw_kube_watch_free(&watch);
    printf("stopped %u\n", (unsigned)((kw_now_ns() - begin) / KW_NS_PER_MS));
    return 0;
}

static int request(const struct kw_kube_conf *conf, const char *verb, const char *path,
                   const char *body)
{
    kw_cleanup(kw_kube_free) struct kw_kube *kube = NULL;
    kw_cleanup(kw_buf_free) struct kw_buf answer = {0};
    kw_cleanup_free char *version = NULL;
    struct kw_err err = {0};
    int r = kw_kube_new(conf, &kube, &err);

    if (r < 0)
        return report(r, &err);
    if (strcmp(verb, "get") == 0) {
        r = kw_kube_get(kube, path, &answer, &err);
    } else if (strcmp(verb, "list") == 0) {
        r = kw_kube_list(kube, path, NULL, on_item, on_restart, NULL, &version, &err);
        if (r == 0)
            printf("version %s\n", version);
    } else {
        r = kw_kube_send(kube, "PATCH", path, "application/json-patch+json", body, strlen(body),
                         &answer, &err);
    }
    if (r < 0)
        return report(r, &err);
    if (answer.data != NULL)
        print_object("object", answer.data, answer.len);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || (strcmp(argv[2], "patch") == 0 && argc < 5)) {
        fprintf(stderr, "usage: %s KUBECONFIG get|list|patch|watch PATH [JSON]\n", argv[0]);
        return 2;
    }
    const struct kw_kube_conf conf = {.kubeconfig = argv[1]};
    if (strcmp(argv[2], "watch") == 0)
        return watch(&conf, argv[3]);
    return request(&conf, argv[2], argv[3], argc > 4 ? argv[4] : "");
}
