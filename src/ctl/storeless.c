// SPDX-License-Identifier: BSD-3-Clause
/*
 * storeless.c -- the commands of a pool, in a portusctl that was built without the store
 *
 * For builds that may need no library but libc (make LIBC_ONLY=yes; the Python wheel), instead
 * of the files that have these commands. They are known there, and say where they are.
 */
#include "ctl/ctl.h"
#include "ctl/dial.h"
#include "ctl/doctor.h"

/* There is nothing here that would reach a store. */
void dial_setup(const char *key)
{
}

/* Nor is there a portus-carrier, which an agent reaches it by. */
void doctor_store(struct doctor *doctor, const char *list)
{
    doctor_say(doctor, SLOWER, "store", "use the package for the system, or make install",
               "%.200s: this is a build without stores on other machines: no versions are kept "
               "there",
               list);
}

static int elsewhere(const char *command)
{
    complain("%s: this portusctl was built without the store: use the one of `make install` or of "
             "the package for the system",
             command);
    return CTL_USAGE;
}

#define ELSEWHERE(name)                                                                            \
    int name(int argc, char **argv)                                                                \
    {                                                                                              \
        return elsewhere(argv[0]);                                                                 \
    }

ELSEWHERE(pool_main)
ELSEWHERE(ls_main)
ELSEWHERE(versions_main)
ELSEWHERE(restore_main)
ELSEWHERE(complete_main)
ELSEWHERE(verify_main)
ELSEWHERE(pin_main)
ELSEWHERE(unpin_main)
ELSEWHERE(rm_main)
ELSEWHERE(gc_main)
ELSEWHERE(scrub_main)
ELSEWHERE(diff_main)
ELSEWHERE(export_main)
ELSEWHERE(import_main)
ELSEWHERE(key_main)
