// SPDX-License-Identifier: BSD-3-Clause
//
// other.rs -- as other.c, by system calls of its own, as crates like rustix make them: no libc is asked
use std::arch::asm;
use std::env;
use std::ffi::CString;

fn call(number: i64, a: i64, b: i64, c: i64, d: i64) -> i64 {
    let result: i64;
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
             in("r10") d, out("rcx") _, out("r11") _);
    }
    result
}

fn text(word: &str) -> CString {
    CString::new(word).unwrap()
}

fn open(path: &str, flags: i64) -> i64 {
    let name = text(path);
    let fd = call(2, name.as_ptr() as i64, flags, 0o644, 0);
    if fd < 0 {
        eprintln!("other: {}", -fd);
        std::process::exit(1);
    }
    fd
}

fn read(fd: i64, piece: &mut [u8]) -> usize {
    call(0, fd, piece.as_mut_ptr() as i64, piece.len() as i64, 0).max(0) as usize
}

fn write(fd: i64, what: &[u8]) -> i64 {
    call(1, fd, what.as_ptr() as i64, what.len() as i64, 0)
}

fn write_at(fd: i64, what: &[u8], at: i64) -> i64 {
    call(18, fd, what.as_ptr() as i64, what.len() as i64, at)
}

fn seek(fd: i64, to: i64, whence: i64) -> i64 {
    call(8, fd, to, whence, 0)
}

fn digest(fd: i64) {
    let (mut hash, mut total, mut piece) = (14695981039346656037u64, 0, vec![0u8; 65536]);
    loop {
        let n = read(fd, &mut piece);
        if n == 0 {
            break;
        }
        total += n;
        for byte in &piece[..n] {
            hash = (hash ^ *byte as u64).wrapping_mul(1099511628211);
        }
    }
    println!("{} {:016x}", total, hash);
}

fn main() {
    let word: Vec<String> = env::args().collect();
    let (verb, path) = (word[1].as_str(), word[2].as_str());
    let (from, to) = (text(path), text(word.get(3).map_or("", |w| w.as_str())));
    match verb {
        "digest" => digest(open(path, 0)),
        "patch" => {
            let fd = open(path, 1);
            println!("{} {}", write_at(fd, b"patched", 100), seek(fd, 0, 2));
        }
        "append" => {
            let fd = open(path, 1 | 0o2000);
            println!("{} {}", write(fd, b"appended"), seek(fd, 0, 2));
        }
        "truncate" => println!("{}", call(76, from.as_ptr() as i64, 5000001, 0, 0)),
        "rename" => println!("{}", call(82, from.as_ptr() as i64, to.as_ptr() as i64, 0, 0)),
        "link" => println!("{}", call(86, from.as_ptr() as i64, to.as_ptr() as i64, 0, 0)),
        "unlink" => println!("{}", call(87, from.as_ptr() as i64, 0, 0, 0)),
        "inherited" => {
            let fd: i64 = path.parse().unwrap();
            println!("{} {} {}", seek(fd, 0, 1), write(fd, b"inherited"), write_at(fd, b"too", 1000));
            seek(fd, 0, 0);
            digest(fd);
        }
        "copy" => {
            let (from, to) = (open(path, 0), open(&word[3], 0o100 | 0o1000 | 1));
            let mut piece = vec![0u8; 65536];
            loop {
                let n = read(from, &mut piece);
                if n == 0 {
                    break;
                }
                write(to, &piece[..n]);
            }
            println!("{}", seek(to, 0, 1));
        }
        _ => (),
    }
}
