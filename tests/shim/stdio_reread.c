/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_reread.c -- a stream's old bytes are written over, and at once the last of them read
 * run: captures=1
 *
 * Right: the new ones.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1), *q = bytes(BIG, 2), back[100];
    FILE *f = fopen("a.ckpt", "w+");
    check(f != NULL);
    for (size_t i = 0; i < 20; i++) {
        rewind(f);
        check(fwrite(p, 1, BIG, f) == BIG);
        rewind(f);
        check(fwrite(q, 1, 2 * MIB + 100 + i, f) == 2 * MIB + 100 + i);
        check(fseek(f, -50, SEEK_CUR) == 0 && fread(back, 1, 50, f) == 50);
        printf("%d\n", memcmp(back, q + 2 * MIB + 50 + i, 50) == 0);
    }
    check(fclose(f) == 0);
    show("a.ckpt");
    return 0;
}
