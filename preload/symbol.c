/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symbol.c -- dlsym behind ours
 *
 * The shim exports dlsym, because that is how CUDA's runtime reaches its driver
 * (hooks_cuda.c). So it cannot ask by that name itself, and looks into the tables of the
 * libraries behind it, in their order, as the linker would. Formats: the ELF gABI, "Dynamic
 * Section" and "Hash Table"; DT_GNU_HASH as glibc's dl-lookup.c has it.
 *
 * No function of libc's is called on the way: programs that were built with ASan or TSan
 * have their own strcmp and dl_iterate_phdr, which need dlsym before they work.
 *
 * Where dlsym is in a library that the program has not loaded (glibc before 2.34), libc's own
 * way to it is taken, which is gone since.
 */
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "real.h"

#define NAME "dlsym"

/* The loader's list of libraries, as debuggers read it: glibc's name for it, and musl's. */
extern struct r_debug _r_debug __attribute__((weak));
extern struct r_debug *_dl_debug_addr __attribute__((weak));

/* glibc has made pointers of these, others have not. */
static const void *at(const struct link_map *object, ElfW(Addr) value)
{
    return (const void *)(value < object->l_addr ? object->l_addr + value : value);
}

static bool is(const ElfW(Sym) * symbol, const char *strings)
{
    const char *name = strings + symbol->st_name;
    unsigned i = 0;

    if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
        return false;
    while (i < sizeof(NAME) && name[i] == NAME[i])
        i++;
    return i == sizeof(NAME);
}

static const ElfW(Sym) *
    by_gnu_hash(const uint32_t *table, const ElfW(Sym) * symbols, const char *strings)
{
    uint32_t hash = 5381, buckets = table[0], first = table[1];
    const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t number;

    for (const char *c = NAME; *c != '\0'; c++)
        hash = hash * 33 + (uint8_t)*c;
    number = buckets != 0 ? bucket[hash % buckets] : 0;
    if (number < first)
        return NULL;
    for (;; number++) {
        uint32_t here = chain[number - first];
        if ((here | 1) == (hash | 1) && is(&symbols[number], strings))
            return &symbols[number];
        if (here & 1)
            return NULL;
    }
}

static const ElfW(Sym) *
    by_hash(const uint32_t *table, const ElfW(Sym) * symbols, const char *strings)
{
    for (uint32_t number = 1; number < table[1]; number++)
        if (is(&symbols[number], strings))
            return &symbols[number];
    return NULL;
}

static symbol_function *look(const struct link_map *object)
{
    const ElfW(Sym) *symbols = NULL, *symbol = NULL;
    const uint32_t *gnu = NULL, *hash = NULL;
    const char *strings = NULL;

    for (const ElfW(Dyn) *dynamic = object->l_ld; dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            symbols = at(object, dynamic->d_un.d_ptr);
            break;
        case DT_STRTAB:
            strings = at(object, dynamic->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            gnu = at(object, dynamic->d_un.d_ptr);
            break;
        case DT_HASH:
            hash = at(object, dynamic->d_un.d_ptr);
            break;
        }
    if (symbols == NULL || strings == NULL)
        return NULL;
    if (gnu != NULL)
        symbol = by_gnu_hash(gnu, symbols, strings);
    else if (hash != NULL)
        symbol = by_hash(hash, symbols, strings);
    return symbol == NULL ? NULL : (symbol_function *)(object->l_addr + symbol->st_value);
}

/*
 * In the first library behind ours that has one. What the program was started with, libc
 * among it, stays in its place in the list, so it needs no lock up to there.
 */
static symbol_function *behind(void)
{
    const struct r_debug *debug = &_r_debug != NULL         ? &_r_debug
                                  : &_dl_debug_addr != NULL ? _dl_debug_addr
                                                            : NULL;
    const struct link_map *object = debug != NULL ? debug->r_map : NULL;
    symbol_function *found = NULL;

    while (object != NULL && object->l_ld != _DYNAMIC)
        object = object->l_next;
    while (object != NULL && found == NULL)
        if ((object = object->l_next) != NULL && object->l_ld != NULL)
            found = look(object);
    return found;
}

static void *nothing(void *library, const char *name)
{
    return NULL;
}

/* Jumped to by ours, with its caller's return address. */
__attribute__((visibility("hidden"))) symbol_function *_Atomic portus_real_dlsym;

symbol_function *real_dlsym(void)
{
    if (portus_real_dlsym == NULL) {
        symbol_function *found = behind();
        if (found == NULL)
            found = (symbol_function *)(uintptr_t)real_loader(NAME);
        portus_real_dlsym = found != NULL ? found : nothing;
    }
    return portus_real_dlsym;
}

void *real_symbol(void *library, const char *name)
{
    return real_dlsym()(library, name);
}
