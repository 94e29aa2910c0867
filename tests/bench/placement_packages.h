/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** Prints what is lost because nodes of two packages are priced as one. */
void placement_packages_tell(void);
