/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * habit.h -- what this program does with a checkpoint when it has written it
 */
#ifndef PORTUS_PRELOAD_HABIT_H
#define PORTUS_PRELOAD_HABIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a file that is being captured will probably be synced, or take another file's
 * place, as soon as it is written. Remembers the file for habit_rename.
 */
bool habit_hurries(const char *path, uint64_t inode);

/* A captured file is closed; synced: by the program, meanwhile. */
void habit_closed(bool synced);

/*
 * Before a file is renamed; see renameat(2). Where it takes another's place, it is sent
 * on its way to the disk first. Keeps errno.
 */
void habit_rename(int from_at, const char *from, int to_at, const char *to);

/* The program locks a file: we must not open and close it any more. */
void habit_locked(uint64_t inode);

#endif
