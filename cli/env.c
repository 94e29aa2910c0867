/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

const char *cli_env(const struct cli_io *io, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; io->envp != NULL && io->envp[i] != NULL; i++) {
        const char *variable = io->envp[i];
        if (strncmp(variable, name, len) == 0 && variable[len] == '=')
            return variable[len + 1] != '\0' ? variable + len + 1 : NULL;
    }
    return NULL;
}

void cli_keep_standard_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2)
        (void)close(fd);
}
