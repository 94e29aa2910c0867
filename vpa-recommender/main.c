/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/confine.h"
#include "common/version.h"
#include "vpa-recommender/recommender.h"

/** Exit codes: 0 asked to stop, 1 could not go on, 2 wrong usage. */
int main(int argc, char **argv, char **envp)
{
    struct rec_settings settings = {0};
    struct rec_recommender *recommender = NULL;
    struct kw_err err = {0};
    int rc = kw_conf_load(&rec_program, argc, argv, envp, &settings, stdout, NULL, &err);

    if (rc == KW_CONF_DONE)
        return EXIT_SUCCESS;
    if (rc < 0) {
        (void)fprintf(stderr, "kwatt-vpa-recommender: %s\n", err.text);
        return 2;
    }
    kw_cleanup(kw_log_free) struct kw_log *log =
        kw_log_new("kwatt-vpa-recommender", (enum kw_log_level)settings.log_level, NULL);
    kw_log_info(log, "starting", kw_str("version", kw_version_text()));
    if (settings.seccomp && kw_confine(NULL, &err) < 0)
        kw_log_warn(log, "system calls are not confined", kw_str("cause", err.text));
    rc = rec_recommender_new(&settings, log, &recommender, &err);
    if (rc < 0)
        kw_log_error(log, "cannot start", kw_str("error", err.text));
    else
        rc = rec_recommender_run(recommender);
    rec_recommender_free(&recommender);
    kw_conf_free(&rec_program, &settings);
    return rc == -EINVAL ? 2 : rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
