/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/confine.h"
#include "common/version.h"
#include "extender/simulate.h"
#include "extender/state.h"

/** Exit codes: 0 asked to stop, 1 could not go on, 2 wrong usage. */
int main(int argc, char **argv, char **envp)
{
    if (argc > 1 && strcmp(argv[1], "simulate-placement") == 0)
        return ext_simulate(argc - 1, argv + 1, envp, stdout, stderr);
    struct ext_settings settings = {0};
    struct kw_err err = {0};
    const struct ext_launch launch = {argc, argv, envp};
    struct ext_state *state = NULL;
    int rc = kw_conf_load(&ext_program, argc, argv, envp, &settings, stdout, NULL, &err);

    if (rc == KW_CONF_DONE)
        return EXIT_SUCCESS;
    if (rc < 0) {
        (void)fprintf(stderr, "kwatt-extender: %s\n", err.text);
        return 2;
    }
    kw_cleanup(kw_log_free) struct kw_log *log =
        kw_log_new("kwatt-extender", (enum kw_log_level)settings.log_level, NULL);
    kw_log_info(log, "starting", kw_str("version", kw_version_text()));
    if (settings.seccomp && kw_confine(NULL, &err) < 0)
        kw_log_warn(log, "system calls are not confined", kw_str("cause", err.text));
    rc = ext_state_new(&settings, &launch, log, &state, &err);
    if (rc < 0)
        kw_log_error(log, "cannot start", kw_str("error", err.text));
    else
        rc = ext_state_run(state);
    ext_state_free(&state);
    kw_conf_free(&ext_program, &settings);
    return rc == -EINVAL ? 2 : rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
