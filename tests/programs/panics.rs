// SPDX-License-Identifier: GPL-2.0-only
// Rust: recursion, closures, trait objects, panics through several frames caught by catch_unwind.
// Writes the log of truth.h itself.

use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_void};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

extern "C" {
    fn gettid() -> c_int;
    fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int;
    fn write(fd: c_int, data: *const c_void, size: usize) -> isize;
    fn close(fd: c_int) -> c_int;
}

const NAMES: [&str; 8] = [
    "panics::fib",
    "panics::leaf",
    "panics::apply",
    "panics::thrower",
    "panics::descend",
    "panics::catcher",
    "<panics::Square as panics::Shape>::area",
    "<panics::Twice as panics::Shape>::area",
];
const MAX: usize = 1 << 16;

#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    tid: u32,
    function: u16,
    op: u16,
}

static mut RECORDS: [Record; MAX] = [Record { tid: 0, function: 0, op: 0 }; MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static TID: AtomicUsize = AtomicUsize::new(0);

struct Scope(u16);

#[inline(always)]
fn add(function: u16, op: u16) {
    let i = COUNT.fetch_add(1, Ordering::Relaxed);
    if i < MAX {
        unsafe {
            RECORDS[i] = Record { tid: TID.load(Ordering::Relaxed) as u32, function, op };
        }
    }
}

#[inline(always)]
fn enter(function: u16) -> Scope {
    add(function, 1);
    Scope(function)
}

impl Drop for Scope {
    #[inline(always)]
    fn drop(&mut self) {
        add(self.0, 2);
    }
}

// A value the compiler knows nothing about.
#[inline(always)]
fn opaque<T>(value: T) -> T {
    let kept = std::mem::ManuallyDrop::new(value);
    unsafe { std::ptr::read_volatile(&*kept) }
}

#[inline(never)]
fn fib(n: u64) -> u64 {
    let _scope = enter(0);
    if n < 2 {
        n
    } else {
        fib(n - 1) + fib(n - 2)
    }
}

#[inline(never)]
fn leaf(n: u64) -> u64 {
    let _scope = enter(1);
    opaque(n) + 1
}

#[inline(never)]
fn apply(f: &dyn Fn(u64) -> u64, n: u64) -> u64 {
    let _scope = enter(2);
    f(n)
}

#[inline(never)]
fn thrower(n: u64) -> u64 {
    let _scope = enter(3);
    if opaque(n) < 1000 {
        panic!("expected");
    }
    n
}

#[inline(never)]
fn descend(n: u64, depth: u64) -> u64 {
    let _scope = enter(4);
    if depth == 0 {
        return thrower(n);
    }
    descend(n, depth - 1) + 1
}

#[inline(never)]
fn catcher(n: u64) -> u64 {
    let _scope = enter(5);
    match panic::catch_unwind(|| descend(n, 3)) {
        Ok(value) => value,
        Err(_) => leaf(n),
    }
}

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);
struct Twice(Square);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        let _scope = enter(6);
        self.0 * self.0
    }
}

impl Shape for Twice {
    #[inline(never)]
    fn area(&self) -> u64 {
        let _scope = enter(7);
        2 * self.0.area()
    }
}

fn put(fd: c_int, data: &[u8]) {
    let n = unsafe { write(fd, data.as_ptr() as *const c_void, data.len()) };
    assert_eq!(n, data.len() as isize);
}

fn truth_write() {
    let path = match std::env::var("PTBPF_TRUTH") {
        Ok(path) => path,
        Err(_) => return,
    };
    let n = COUNT.load(Ordering::Relaxed).min(MAX);
    let lost = COUNT.load(Ordering::Relaxed) - n;
    let name = CString::new(path).unwrap();
    let fd = unsafe { open(name.as_ptr(), 0o1101, 0o644) };
    let mut head = Vec::from(*b"pttruth1");
    for value in [std::process::id(), NAMES.len() as u32, n as u32, lost as u32] {
        head.extend_from_slice(&value.to_le_bytes());
    }
    for function in NAMES {
        let mut text = [0u8; 64];
        text[..function.len()].copy_from_slice(function.as_bytes());
        head.extend_from_slice(&text);
    }
    put(fd, &head);
    #[allow(unused_unsafe)]
    let records = unsafe { std::ptr::addr_of!(RECORDS) as *const u8 };
    put(fd, unsafe { std::slice::from_raw_parts(records, n * std::mem::size_of::<Record>()) });
    unsafe { close(fd) };
}

fn main() {
    TID.store(unsafe { gettid() } as usize, Ordering::Relaxed);
    panic::set_hook(Box::new(|_| {}));
    let mut sum = fib(8);
    let offset = opaque(5);
    for i in 0..2 {
        sum += apply(&|n| n + offset, i);
        sum += apply(&leaf, i);
        sum += catcher(i);
    }
    let shapes: [Box<dyn Shape>; 2] = [Box::new(Square(3)), Box::new(Twice(Square(4)))];
    for shape in opaque(&shapes) {
        sum += shape.area();
    }
    truth_write();
    std::process::exit(if sum == 0 { 1 } else { 0 });
}
