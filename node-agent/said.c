/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/said.h"

#include <errno.h>

/** Says once that a part failed, and once that it works again. */
static void say_state(struct kw_log *log, bool *failed, int rc, const char *lost,
                      const char *regained)
{
    if ((rc < 0) == *failed)
        return;
    *failed = rc < 0;
    if (rc < 0)
        kw_log_warn(log, lost, kw_errno(rc));
    else
        kw_log_info(log, regained);
}

void agent_say(struct agent_said *said, struct kw_log *log, const struct agent_sample_notes *notes,
               const char *meter)
{
    say_state(log, &said->accounting_failed, notes->accounting_error,
              "cpu time cannot be read; energy counts as unattributed meanwhile",
              "cpu time can be read again");
    say_state(log, &said->meter_failed, notes->meter_error,
              "the meter cannot be read; no energy is counted meanwhile",
              "the meter can be read again");
    say_state(log, &said->meter_frozen, notes->meter_frozen ? -ENODATA : 0,
              "a counter of the meter stands still; its energy is missing meanwhile",
              "all counters of the meter move again");
    if (notes->meter_left_out != said->meter_left_out) {
        said->meter_left_out = notes->meter_left_out;
        kw_log_warn(log,
                    "the machine shows more energy domains than can be held; the energy of those "
                    "left out is not counted",
                    kw_u64("left_out", notes->meter_left_out));
    }
    say_state(log, &said->meters_doubtful, notes->meter_doubtful ? -EBADMSG : 0,
              "meters contradict each other; one of them is wrong",
              "meters no longer contradict each other");
    if (notes->meter_changed)
        kw_log_warn(log, "another meter from now on", kw_str("meter", meter));
    if (notes->booking_error < 0)
        kw_log_warn(log, "new workloads could not be taken in", kw_errno(notes->booking_error));
    if (notes->cgroups_error < 0)
        kw_log_warn(log, "the cgroup tree could not be followed", kw_errno(notes->cgroups_error));
}
