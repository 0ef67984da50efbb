//! The bytes of a stream that wait for its reader, in pages of equal size: whatever pieces a peer cuts them into, they
//! take no more memory than the part of the stream that they lie in, and a page.

use std::collections::VecDeque;

/// The bytes of a page.
pub const PAGE: usize = 4 << 10;

/// Bytes of a stream from where its reader is. Which of them have come is for its owner to know.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// The number of the first page.
    first: u64,
    pages: VecDeque<Option<Box<[u8; PAGE]>>>,
}

impl Pages {
    /// Keeps `bytes`, which begin at `at`: not before what was given up.
    pub fn write(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (page, within) = ((at / PAGE as u64).saturating_sub(self.first) as usize, at as usize % PAGE);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - within));
            if page >= self.pages.len() {
                self.pages.resize_with(page + 1, || None);
            }
            let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
            page[within..within + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len() as u64, later);
        }
    }

    /// The first of [`Pages::parts`], or nothing.
    pub fn front(&self, from: u64, to: u64) -> &[u8] {
        self.parts(from, to).next().unwrap_or_default()
    }

    /// All bytes from `from`, which lies in the first page, up to `to`, page by page. They have been written.
    pub fn parts(&self, from: u64, to: u64) -> impl Iterator<Item = &[u8]> {
        let begins = (self.first..).map(move |page| (page * PAGE as u64).max(from));
        let parts = begins.zip(&self.pages).map_while(move |(at, page)| {
            let within = at as usize % PAGE;
            let count = to.saturating_sub(at).min((PAGE - within) as u64) as usize;
            page.as_ref().map(|page| &page[within..within + count])
        });
        parts.take_while(|part| !part.is_empty())
    }

    /// Gives up everything before `at`; and all pages, if nothing is kept (`empty`).
    pub fn forget_below(&mut self, at: u64, empty: bool) {
        let first = at / PAGE as u64;
        if empty {
            self.pages.clear();
        } else {
            let gone = (first - self.first).min(self.pages.len() as u64) as usize;
            self.pages.drain(..gone);
        }
        self.first = first;
    }

    /// Bytes of memory that the pages take.
    pub fn memory(&self) -> usize {
        self.pages.iter().flatten().count() * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_order_whatever_order_they_came_in() {
        let data: Vec<u8> = (0..3 * PAGE + 100).map(|n| (n % 251) as u8).collect();
        let mut pages = Pages::default();
        for (from, to) in [(5000, 9000), (0, 10), (9000, data.len()), (10, 5000)] {
            pages.write(from as u64, &data[from..to]);
        }
        for (from, to) in [(0, 0), (0, 1), (4095, 4097), (100, 9000), (0, data.len())] {
            assert!(pages.parts(from as u64, to as u64).collect::<Vec<_>>().concat() == data[from..to]);
        }
        let (mut read, end) = (Vec::new(), data.len() as u64);
        while read.len() < data.len() {
            let at = read.len() as u64;
            read.extend_from_slice(pages.front(at, end));
            pages.forget_below(read.len() as u64, read.len() == data.len());
        }
        assert!(read == data);
        assert_eq!(pages.memory(), 0);
    }

    #[test]
    fn a_byte_far_ahead_takes_one_page() {
        let mut pages = Pages::default();
        pages.forget_below(10 * PAGE as u64 + 5, true);
        pages.write(5000 * PAGE as u64, &[1]);
        assert_eq!(pages.memory(), PAGE);
        assert!(pages.front(10 * PAGE as u64 + 5, 10 * PAGE as u64 + 5).is_empty());
    }
}
