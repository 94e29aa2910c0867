/* SPDX-License-Identifier: Apache-2.0 */
/* Holds a pod's namespaces: waits to be ended, and reaps what the pod orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number)
{
    (void)number;
    _exit(0);
}

static void reap(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

int main(void)
{
    (void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
    (void)sigaction(SIGINT, &(struct sigaction){.sa_handler = end}, NULL);
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = reap, .sa_flags = SA_NOCLDSTOP},
                    NULL);
    for (;;)
        (void)pause();
}
