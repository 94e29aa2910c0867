/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cmocka.h uses these without including them; in one place, since clang-format would sort it before
 * them. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
