/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dial.h -- reaches stores on other machines
 */
#ifndef PORTUS_CTL_DIAL_H
#define PORTUS_CTL_DIAL_H

/* From here on tcp://HOST is a store like others. key: the path of this user's key, or "". */
void dial_setup(const char *key);

#endif
