/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rename.c -- a temporary file renamed onto the same name 50 times, read back each time
 * run: captures=1 captures-all=50
 *
 * Right: each time the new bytes; the temporary name is gone.
 */
#include "helper.h"

int main(void)
{
    for (unsigned i = 0; i < 50; i++) {
        save("new.ckpt", MIB + 4097 * i + 3, i);
        must(i % 3 == 0   ? rename("new.ckpt", "a.ckpt")
             : i % 3 == 1 ? renameat(AT_FDCWD, "new.ckpt", AT_FDCWD, "a.ckpt")
                          : renameat2(AT_FDCWD, "new.ckpt", AT_FDCWD, "a.ckpt", 0));
        show("a.ckpt");
    }
    save("b.ckpt", BIG, 7);
    errno = 0;
    printf("%d %d\n", renameat2(AT_FDCWD, "b.ckpt", AT_FDCWD, "a.ckpt", RENAME_NOREPLACE), errno);
    must(renameat2(AT_FDCWD, "b.ckpt", AT_FDCWD, "a.ckpt", RENAME_EXCHANGE));
    show("a.ckpt");
    return access("new.ckpt", F_OK) == 0;
}
