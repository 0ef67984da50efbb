//! `cargo +nightly fuzz run parsers`: the first byte says which parser reads the rest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weftway_fuzz::run(bytes));
