/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

/**
 * Starts a program in a process group of its own that the kernel kills when the calling thread
 * ends, however it ends. stdin is /dev/null; no descriptor but 0, 1, 2 passes.
 * @param argv argv[0] is an absolute path; ends with NULL. @param envp ends with NULL.
 * @param out_fd, err_fd stdout and stderr of the program.
 * @return 0; -errno, also where the program cannot be executed.
 */
int cli_spawn(char *const *argv, char *const *envp, int out_fd, int err_fd, pid_t *ret_pid);

/**
 * Runs a program to its end and takes its stdout; stderr goes nowhere.
 * @param timeout_ms after it the program is killed. @param limit_bytes more output ends it too.
 * @param ret_status as waitpid gives it. @return 0; -ETIMEDOUT; -EFBIG; -errno.
 */
int cli_spawn_capture(char *const *argv, char *const *envp, unsigned timeout_ms, size_t limit_bytes,
                      struct kw_buf *ret_out, int *ret_status);
