/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels_ptx.h -- the kernels of driver/kernel.c for a real device
 *
 * The emulated driver takes any image for a module that has them. So that the same tests run on
 * hardware (scripts/device-check), the image that they load is this. Each thread takes every n-th
 * element, so that the grid means nothing there, either.
 */
#ifndef EMU_KERNELS_PTX_H
#define EMU_KERNELS_PTX_H

#define KERNEL_BLOCKS 64
#define KERNEL_THREADS 256

/* %rd1: of this thread the first element; %rd2: how far the next one is. */
#define EACH                                                                                       \
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"                        \
    "  mad.lo.u32 %r4, %r1, %r2, %r3; cvt.u64.u32 %rd1, %r4;\n"                                    \
    "  mov.u32 %r5, %nctaid.x; mul.lo.u32 %r6, %r5, %r2; cvt.u64.u32 %rd2, %r6;\n"
#define REGISTERS "  .reg .pred %p<4>; .reg .u32 %r<12>; .reg .u64 %rd<12>;\n"

static const char kernels_ptx[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"

    ".visible .entry stamp(.param .u64 to, .param .u64 count, .param .u32 seed) {\n" REGISTERS EACH
    "  ld.param.u64 %rd3, [to]; ld.param.u64 %rd4, [count]; ld.param.u32 %r7, [seed];\n"
    "loop:\n"
    "  setp.ge.u64 %p1, %rd1, %rd4; @%p1 bra over;\n"
    "  cvt.u32.u64 %r8, %rd1; mad.lo.u32 %r9, %r8, 2654435761, %r7;\n"
    "  shl.b64 %rd5, %rd1, 2; add.u64 %rd6, %rd3, %rd5; st.global.u32 [%rd6], %r9;\n"
    "  add.u64 %rd1, %rd1, %rd2; bra loop;\n"
    "over:\n  ret;\n}\n"

    ".visible .entry add(.param .u64 to, .param .u64 from, .param .u64 count) {\n" REGISTERS EACH
    "  ld.param.u64 %rd3, [to]; ld.param.u64 %rd4, [from]; ld.param.u64 %rd5, [count];\n"
    "loop:\n"
    "  setp.ge.u64 %p1, %rd1, %rd5; @%p1 bra over;\n"
    "  shl.b64 %rd6, %rd1, 2; add.u64 %rd7, %rd3, %rd6; add.u64 %rd8, %rd4, %rd6;\n"
    "  ld.global.u32 %r7, [%rd7]; ld.global.u32 %r8, [%rd8]; add.u32 %r9, %r7, %r8;\n"
    "  st.global.u32 [%rd7], %r9;\n"
    "  add.u64 %rd1, %rd1, %rd2; bra loop;\n"
    "over:\n  ret;\n}\n"

    ".visible .entry spin(.param .u64 nanoseconds) {\n" REGISTERS
    "  ld.param.u64 %rd3, [nanoseconds]; mov.u64 %rd4, %globaltimer;\n"
    "loop:\n"
    "  mov.u64 %rd5, %globaltimer; sub.u64 %rd6, %rd5, %rd4;\n"
    "  setp.lt.u64 %p1, %rd6, %rd3; @%p1 bra loop;\n"
    "  ret;\n}\n"

    /* For ten seconds at most: whoever was to let it go may have died. */
    ".visible .entry hold(.param .u64 flag, .param .u32 value) {\n" REGISTERS
    "  ld.param.u64 %rd3, [flag]; ld.param.u32 %r7, [value]; mov.u64 %rd4, %globaltimer;\n"
    "loop:\n"
    "  ld.volatile.global.u32 %r8, [%rd3]; setp.eq.u32 %p1, %r8, %r7; @%p1 bra over;\n"
    "  mov.u64 %rd5, %globaltimer; sub.u64 %rd6, %rd5, %rd4;\n"
    "  setp.lt.u64 %p2, %rd6, 10000000000; @%p2 bra loop;\n"
    "over:\n  ret;\n}\n"

    ".visible .entry fault() {\n" REGISTERS
    "  mov.u64 %rd1, 4096; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1;\n"
    "  ret;\n}\n";

#undef EACH
#undef REGISTERS

#endif
