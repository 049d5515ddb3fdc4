// SPDX-License-Identifier: BSD-3-Clause
//
// other.go -- as other.c, in Go: system calls by Go's own runtime, from threads of its own
package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "other:", err)
		os.Exit(1)
	}
	return value
}

func done(err error) {
	if err != nil {
		fmt.Println(-1)
	} else {
		fmt.Println(0)
	}
}

func digest(f *os.File) {
	hash := fnv.New64a()
	total := must(io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{f}, make([]byte, 65536)))
	fmt.Printf("%d %016x\n", total, hash.Sum64())
}

func main() {
	verb, path := os.Args[1], os.Args[2]
	switch verb {
	case "digest":
		digest(must(os.Open(path)))
	case "patch":
		f := must(os.OpenFile(path, os.O_WRONLY, 0))
		n := must(f.WriteAt([]byte("patched"), 100))
		fmt.Println(n, must(f.Seek(0, io.SeekEnd)))
	case "append":
		f := must(os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0))
		n := must(f.Write([]byte("appended")))
		fmt.Println(n, must(f.Seek(0, io.SeekEnd)))
	case "truncate":
		done(os.Truncate(path, 5000001))
	case "rename":
		done(os.Rename(path, os.Args[3]))
	case "link":
		done(os.Link(path, os.Args[3]))
	case "unlink":
		done(os.Remove(path))
	case "inherited":
		f := os.NewFile(uintptr(must(strconv.Atoi(path))), "inherited")
		at := must(f.Seek(0, io.SeekCurrent))
		n := must(f.Write([]byte("inherited")))
		fmt.Println(at, n, must(f.WriteAt([]byte("too"), 1000)))
		must(f.Seek(0, io.SeekStart))
		digest(f)
	case "copy":
		from, to := must(os.Open(path)), must(os.Create(os.Args[3]))
		fmt.Println(must(io.Copy(to, from))) // copy_file_range, where the kernel has it
	}
}
