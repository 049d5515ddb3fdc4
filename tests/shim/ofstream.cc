/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofstream.cc -- std::ofstream: header and tensor, seekp to patch, no close, an exception
 * run: captures=3
 *
 * Right: the same bytes; tellp counts them.
 */
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

static std::vector<char> some(std::size_t n, unsigned seed)
{
    std::vector<char> v(n);
    for (std::size_t i = 0; i < n; i++)
        v[i] = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
    return v;
}

static void save(std::ostream &out, unsigned seed)
{
    const auto v = some(3u << 20 | 17, seed);
    out.write("header  ", 8);
    for (int i = 0; i < 5; i++) {
        out.write("tensor", 6);
        out.write(v.data() + i, static_cast<std::streamsize>(v.size()) - i);
        out << "padding " << i;
    }
    std::cout << out.tellp();
    out.seekp(0);
    out.write("HEADER", 6);
    out.seekp(0, std::ios::end);
    out.write(v.data(), 100);
    std::cout << ' ' << out.tellp() << ' ' << out.good() << '\n';
}

int main()
{
    {
        std::ofstream a("a.ckpt", std::ios::binary);
        save(a, 1);
        a.close();
        std::ifstream r("a.ckpt", std::ios::binary | std::ios::ate);
        std::cout << r.tellg() << '\n';
    }
    {
        std::vector<char> room(1 << 20);
        std::fstream b;
        b.rdbuf()->pubsetbuf(room.data(), static_cast<std::streamsize>(room.size()));
        b.open("b.ckpt", std::ios::in | std::ios::out | std::ios::trunc | std::ios::binary);
        save(b, 2);
        b.seekg(0);
        std::string head(14, ' ');
        b.read(head.data(), 14);
        std::cout << head << '\n';
    }
    try {
        std::ofstream c("c.ckpt", std::ios::binary);
        save(c, 3);
        throw std::runtime_error("in mid-save");
    } catch (const std::exception &e) {
        std::cout << e.what() << '\n';
    }
    static std::ofstream d("d.ckpt", std::ios::binary);
    save(d, 4); /* closed by its destructor at exit */
    return std::rename("c.ckpt", "e.ckpt");
}
