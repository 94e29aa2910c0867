/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/programs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_programs_own_dir(char out[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
    char *slash;

    if (len < 0)
        return -errno;
    out[len] = '\0';
    slash = strrchr(out, '/');
    if (slash == NULL)
        return -ENOENT;
    slash[1] = '\0';
    return 0;
}

static bool runnable(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

int cli_programs_in_path(const struct cli_io *io, const char *name, char out[PATH_MAX])
{
    const char *path = cli_env(io, "PATH");

    while (path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");
        char candidate[PATH_MAX];
        /* an empty or relative entry would mean the working folder: not trusted */
        if (len > 0 && path[0] == '/' &&
            snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)len, path, name) < PATH_MAX &&
            runnable(candidate)) {
            (void)snprintf(out, PATH_MAX, "%s", candidate);
            return 0;
        }
        path += len + (path[len] == ':');
    }
    return -ENOENT;
}

int cli_programs_find(const struct cli_io *io, const char *own_dir, const char *name,
                      char out[PATH_MAX])
{
    /* in the build tree each program lies in its component's folder: kwatt-node-agent in node-agent
     */
    const char *component = strncmp(name, "kwatt-", 6) == 0 ? name + 6 : name;
    char candidate[PATH_MAX];

    if (snprintf(candidate, sizeof(candidate), "%s%s", own_dir, name) < PATH_MAX &&
        runnable(candidate)) {
        (void)snprintf(out, PATH_MAX, "%s", candidate);
        return 0;
    }
    if (snprintf(candidate, sizeof(candidate), "%s../%s/%s", own_dir, component, name) < PATH_MAX &&
        runnable(candidate)) {
        (void)snprintf(out, PATH_MAX, "%s", candidate);
        return 0;
    }
    return cli_programs_in_path(io, name, out);
}
