//! A dense layer: `y = x·W + b` with W of shape (in, out), row by row. The inner loop runs over outputs, which lie side
//! by side, so that it is vectorised without a change of order.

/// Outputs that are added up at once, in registers.
const BLOCK: usize = 16;

/// `out = x·W + b`; W is row-major, (x.len(), out.len()). Each sum runs over x in order.
#[inline]
pub(crate) fn dense(x: &[f32], w: &[f32], b: &[f32], out: &mut [f32]) {
    let width = out.len();
    let whole = width - width % BLOCK;
    for at in (0..whole).step_by(BLOCK) {
        let mut sums = [0.0; BLOCK];
        sums.copy_from_slice(&b[at..at + BLOCK]);
        for (x, row) in x.iter().zip(w.chunks_exact(width)) {
            for (sum, w) in sums.iter_mut().zip(&row[at..at + BLOCK]) {
                *sum += x * w;
            }
        }
        out[at..at + BLOCK].copy_from_slice(&sums);
    }
    let rest = &mut out[whole..];
    rest.copy_from_slice(&b[whole..]);
    if rest.is_empty() {
        return;
    }
    for (x, row) in x.iter().zip(w.chunks_exact(width)) {
        for (out, w) in rest.iter_mut().zip(&row[whole..]) {
            *out += x * w;
        }
    }
}

/// Rows that share what is read of W, and outputs of each that are added up at once.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// [`dense`] for each row of x, (rows, in), into `out`, (rows, b.len()). The sums are the same.
pub(crate) fn dense_rows(x: &[f32], w: &[f32], b: &[f32], out: &mut [f32]) {
    let (inputs, width) = (w.len() / b.len(), b.len());
    for (x, out) in x.chunks(ROWS * inputs).zip(out.chunks_mut(ROWS * width)) {
        if out.len() == ROWS * width && width.is_multiple_of(COLUMNS) {
            four_rows(x, w, b, out);
        } else {
            x.chunks_exact(inputs).zip(out.chunks_exact_mut(width)).for_each(|(x, out)| dense(x, w, b, out));
        }
    }
}

fn four_rows(x: &[f32], w: &[f32], b: &[f32], out: &mut [f32]) {
    let (inputs, width) = (w.len() / b.len(), b.len());
    let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &x[row * inputs..][..inputs]);
    for at in (0..width).step_by(COLUMNS) {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        sums.iter_mut().for_each(|sums| sums.copy_from_slice(&b[at..at + COLUMNS]));
        for (input, w) in w.chunks_exact(width).enumerate() {
            let w: &[f32; COLUMNS] = w[at..].first_chunk().expect("the width is whole blocks");
            for row in 0..ROWS {
                let x = rows[row][input];
                for column in 0..COLUMNS {
                    sums[row][column] += x * w[column];
                }
            }
        }
        for (sums, out) in sums.iter().zip(out.chunks_exact_mut(width)) {
            out[at..at + COLUMNS].copy_from_slice(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_rows_are_as_many_single_ones() {
        // 1 to 9 rows and widths that are and are not whole blocks; the numbers differ and are not exact.
        for (rows, width) in (1..=9).flat_map(|rows| [1, 7, 8, 16, 24, 33].map(|width| (rows, width))) {
            let inputs = 5;
            let numbers =
                |count: usize| (0..count).map(|n| ((n * 37 + 11) % 101) as f32 / 7.0 - 6.0).collect::<Vec<_>>();
            let (x, w, b) = (numbers(rows * inputs), numbers(inputs * width), numbers(width));
            let mut found = vec![0.0; rows * width];
            dense_rows(&x, &w, &b, &mut found);
            for (row, found) in found.chunks_exact(width).enumerate() {
                for (column, &found) in found.iter().enumerate() {
                    let term = |sum, input: usize| sum + x[row * inputs + input] * w[input * width + column];
                    assert_eq!(found, (0..inputs).fold(b[column], term));
                }
            }
        }
    }
}
