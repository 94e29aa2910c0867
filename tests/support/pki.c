/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/pki.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "tests/support/cmocka.h"

#define MAX_ARGS 40

extern char **environ;

pid_t kwt_openssl_spawn(const char *folder, const char *line, int out)
{
    kw_cleanup_free char *copy = strdup(line);
    char *argv[MAX_ARGS + 1] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    size_t n = 0;
    char *rest = copy;

    assert_non_null(copy);
    for (char *word; n < MAX_ARGS && (word = strsep(&rest, " ")) != NULL;)
        argv[n++] = word;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addchdir_np(&actions, folder);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (out >= 0)
        (void)posix_spawn_file_actions_adddup2(&actions, out, 1);
    else
        (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, "openssl", &actions, NULL, argv, environ) != 0)
        pid = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

bool kwt_openssl(const char *folder, const char *line)
{
    pid_t pid = kwt_openssl_spawn(folder, line, -1);
    int status = 0;

    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void make(const char *folder, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void make(const char *folder, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (!kwt_openssl(folder, line))
        fail_msg("openssl failed: %s", line);
}

void kwt_pki_authority(const char *folder, const char *name)
{
    make(folder,
         "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout "
         "%s.key "
         "-out %s.pem -subj /CN=%s",
         name, name, name);
}

void kwt_pki_leaf(const char *folder, const char *name, const char *authority, int days,
                  const char *san)
{
    char path[128];
    char text[512];

    (void)snprintf(path, sizeof(path), "%s/%s.ext", folder, name);
    (void)snprintf(text, sizeof(text), "subjectAltName=%s\n", san);
    assert_int_equal(kw_file_write_atomic(path, text, strlen(text), 0600), 0);
    make(folder,
         "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key -out "
         "%s.csr -subj /CN=%s",
         name, name, name);
    make(folder,
         "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days %d -extfile "
         "%s.ext -out %s.pem",
         name, authority, authority, days, name, name);
}
