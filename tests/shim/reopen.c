/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reopen.c -- close, then O_TRUNC and rewrite the same file at once, 20 times
 * run: captures=1 captures-all=20
 *
 * Right: nothing of an older save is written over a newer one.
 */
#include "helper.h"

int main(void)
{
    for (unsigned i = 0; i < 20; i++) {
        save("a.ckpt", BIG + (i % 3) * MIB - i, i);
        if (i % 7 == 3)
            show("a.ckpt");
    }
    save("b.ckpt", BIG, 1);
    close(must(open("b.ckpt", O_WRONLY | O_TRUNC)));
    printf("%lld\n", size_of("b.ckpt"));
    return 0;
}
