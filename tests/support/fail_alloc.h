/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lets the nth allocation and all later ones fail. The test links with -Wl,--wrap=malloc and so on
 * (see its CMakeLists.txt); what shared libraries allocate inside themselves does not fail.
 */

/**
 * Runs `attempt` with its 1st, 2nd, 3rd ... allocation failing until it gets through; each failure
 * must be -ENOMEM. What was not freed, the leak sanitizer finds. @return how many failed before it
 * got through.
 */
unsigned kwt_fail_each(int (*attempt)(void *user), void *user);

/** Allocations fail once so many more have succeeded; negative: none does any more. */
void kwt_fail_after(int successes);
