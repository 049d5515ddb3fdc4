// SPDX-License-Identifier: BSD-3-Clause
/*
 * ctl_elf_test.c -- a program's kind, from whole, cut and changed files
 */
#include "ctl/elf.c" // NOLINT(bugprone-suspicious-include)

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char *image;
static size_t length;

/* What elf_read says of the image with `bytes` at `offset` changed and the file cut to size. */
static int look(struct elf_facts *facts, size_t offset, const void *bytes, size_t count,
                size_t size)
{
    char path[] = "/tmp/portus-elf-XXXXXX";
    int fd = mkstemp(path), error;

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, image, size, 0), size);
    if (count != 0)
        assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), count);
    error = elf_read(facts, path);
    close(fd);
    unlink(path);
    return error;
}

static int load(void **state)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    struct stat status;

    assert_int_equal(fstat(fd, &status), 0);
    length = (size_t)status.st_size;
    image = malloc(length);
    assert_int_equal(read(fd, image, length), length);
    close(fd);
    return 0;
}

static int unload(void **state)
{
    free(image);
    return 0;
}

static void whole(void **state)
{
    struct elf_facts facts;

    assert_int_equal(look(&facts, 0, NULL, 0, length), 0);
    assert_int_equal(facts.bits, 64);
    assert_true(facts.program && facts.dynamic && !facts.go);
    assert_non_null(strstr(facts.interpreter, "/ld-"));
    assert_int_equal(facts.glibc[0], 2);
    assert_true(facts.glibc[1] > 2);
}

static void other_machines(void **state)
{
    struct elf_facts facts;

    assert_int_equal(look(&facts, EI_CLASS, "\1", 1, length), 0);
    assert_int_equal(facts.bits, 32);
    assert_true(facts.program);
    assert_string_equal(facts.interpreter, "");
    assert_int_equal(look(&facts, EI_DATA, OWN_ORDER == ELFDATA2LSB ? "\2" : "\1", 1, length), 0);
    assert_int_equal(facts.machine, __builtin_bswap16(((Elf64_Ehdr *)image)->e_machine));
    assert_int_equal(look(&facts, EI_CLASS, "\3", 1, length), -ENOEXEC);
    assert_int_equal(look(&facts, 0, "#!", 2, length), -ENOEXEC);
}

/* Right is any answer; ASan watches. */
static void damaged(void **state)
{
    static const uint64_t values[] = {0,       1,          0x7f,      0xffff,
                                      1 << 24, UINT32_MAX, INT64_MAX, UINT64_MAX};
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    struct elf_facts facts;
    size_t sections = header->e_shoff, at = 0;

    for (size_t i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *section = (const Elf64_Shdr *)(image + sections) + i;

        if (section->sh_type == SHT_GNU_verneed)
            at = section->sh_offset;
    }
    assert_true(at != 0);
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        for (size_t byte = 0; byte < sizeof(*header); byte += 2)
            look(&facts, byte, &values[i], 2, length);
        for (size_t byte = 0; byte < 8 * sizeof(Elf64_Phdr); byte += 8)
            look(&facts, header->e_phoff + byte, &values[i], 8, length);
        for (size_t byte = 0; byte < header->e_shnum * sizeof(Elf64_Shdr); byte += 8)
            look(&facts, sections + byte, &values[i], 8, length);
        for (size_t byte = 0; byte < 96; byte += 2)
            look(&facts, at + byte, &values[i], 4, length);
    }
    for (size_t size = 0; size < 4096; size += 7)
        look(&facts, 0, NULL, 0, size);
    assert_int_equal(look(&facts, 0, NULL, 0, 40), -ENOEXEC);
    assert_int_equal(look(&facts, 0, NULL, 0, 70), -ENOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(damaged),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
