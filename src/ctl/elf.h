/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elf.h -- what kind of program a file is
 */
#ifndef PORTUS_CTL_ELF_H
#define PORTUS_CTL_ELF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_facts {
    unsigned bits;    /* 64, 32 */
    unsigned machine; /* EM_* of <elf.h> */
    bool program;     /* an executable (or a shared object), no relocatable or core file */
    bool dynamic;     /* it has a dynamic section */
    char interpreter[PATH_MAX]; /* PT_INTERP: what loads it; "": nothing does */
    bool go;                    /* made by the Go compiler, which makes system calls itself */
    unsigned glibc[2];          /* highest version GLIBC_a.b that it needs; 0, 0: none */
};

/*
 * Reads path; of a file for another machine only bits, machine and program. Returns 0, -ENOEXEC if
 * it is no ELF file or a damaged one, or another negative errno.
 */
int elf_read(struct elf_facts *facts, const char *path);

/*
 * Reads the first line of a script: "#!interpreter argument". Both are "" if it
 * has none. Returns 0, -ENOEXEC if path is no script, or another negative errno.
 */
int script_read(const char *path, char interpreter[PATH_MAX], char argument[PATH_MAX]);

/* Takes the two numbers of "GLIBC_2.34" or "2.34". Returns whether there are two. */
bool glibc_version(unsigned version[2], const char *text);

#endif
