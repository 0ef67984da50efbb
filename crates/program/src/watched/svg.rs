//! A series as a line over time, in SVG: its scale, the unit of its numbers, and the lane in which it stands.

use std::fmt::Write;

/// Size of the picture, in units of its own.
pub const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;
/// Steps without a value that break a line.
const GAP: usize = 5;
/// Room above the largest value, as a part of it.
const PADDING: f64 = 0.04;
/// Marks that an axis has about.
const INTERVALS: f64 = 3.0;
const THIN_SPACE: &str = "\u{202f}";
/// Digits behind the point: no scale has a finer number than that to tell.
const MOST_DIGITS: i32 = 3;

/// A value for each step; none where nothing is known.
pub type Values = Vec<Option<f64>>;

/// The largest value of several series.
pub fn top<'a>(series: impl IntoIterator<Item = &'a Values>) -> f64 {
    series.into_iter().flatten().flatten().copied().reduce(f64::max).unwrap_or(0.0)
}

/// A linear axis from zero, with a mark every `step`.
pub struct Axis {
    /// Its upper end.
    pub high: f64,
    step: f64,
}

impl Axis {
    /// An axis from zero to a little above `top`.
    pub fn to(top: f64) -> Self {
        let high = if top > 0.0 { top * (1.0 + PADDING) } else { 1.0 };
        Self { high, step: nice_step(high / INTERVALS) }
    }

    /// The position of a value, from 0 to 1.
    fn at(&self, value: f64) -> f64 {
        (value / self.high).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let last = (self.high / self.step + 1e-9).floor() as u64;
        (0..=last).map(|tick| tick as f64 * self.step)
    }
}

/// The 1, 2 or 5 times a power of ten nearest above `rough` × 0.75.
fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|times| times * power).find(|&step| step >= rough * 0.75).unwrap_or(10.0 * power)
}

/// Quantity that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Milliseconds.
    Time,
    /// Mbit/s.
    Rate,
    /// A part of the whole.
    Share,
    /// Things.
    Count,
}

/// The unit of numbers that stand together: value × factor, `digits` behind the point, then the symbol.
pub struct Unit {
    kind: Kind,
    factor: f64,
    symbol: &'static str,
    digits: i32,
}

impl Unit {
    /// The unit in which a number as large as `typical` has three significant digits.
    pub fn new(kind: Kind, typical: f64) -> Self {
        // What rounds to 1000 of a unit is one of the next.
        let least = |least: f64| typical >= least * 0.9995;
        let (factor, symbol) = match kind {
            Kind::Time if least(1000.0) => (1e-3, "s"),
            Kind::Time => (1.0, "ms"),
            Kind::Rate if least(1000.0) => (1e-3, "Gbit/s"),
            Kind::Rate if least(1.0) => (1.0, "Mbit/s"),
            Kind::Rate => (1e3, "kbit/s"),
            Kind::Share => (100.0, "%"),
            Kind::Count => (1.0, ""),
        };
        let digits = if kind == Kind::Count { places(typical, 2).min(1) } else { places(typical * factor, 3).min(2) };
        Self { kind, factor, symbol, digits }
    }

    /// The number with its unit: a small one has as many digits as it needs beside larger ones.
    pub fn value(&self, value: f64) -> String {
        let wanted = places(value * self.factor, 3).min(self.digits + 2).max(self.digits).min(MOST_DIGITS);
        let digits = if self.kind == Kind::Count { self.digits } else { wanted };
        let unit = if self.symbol.is_empty() { String::new() } else { format!("{THIN_SPACE}{}", self.symbol) };
        self.number(value, digits) + &unit
    }

    /// The number alone, with thin spaces between thousands.
    fn number(&self, value: f64, digits: i32) -> String {
        let text = format!("{:.*}", digits.max(0) as usize, value * self.factor);
        let (whole, fraction) = text.find('.').map_or((&text[..], ""), |point| text.split_at(point));
        let mut spaced = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                spaced += THIN_SPACE;
            }
            spaced.push(digit);
        }
        spaced + fraction
    }
}

/// Digits behind the point that show so many significant ones.
fn places(value: f64, significant: i32) -> i32 {
    if value == 0.0 { 0 } else { (significant - 1 - value.abs().log10().floor() as i32).max(0) }
}

/// A lane with its title and a note; both are HTML, as is what is `drawn`.
pub fn lane(title: &str, note: &str, drawn: &str, axis: &Axis, unit: &Unit) -> String {
    let grid: String = axis.ticks().map(|tick| format!("M0 {:.0}H{WIDTH}", HEIGHT * (1.0 - axis.at(tick)))).collect();
    format!(
        "<div class=\"lane\"><span class=\"name\">{title}<small>{note}</small></span><div class=\"plot\">\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"grid\" d=\"{grid}\"/>{drawn}</svg>{}</div></div>",
        labels(axis, unit)
    )
}

/// The number of each mark above zero, with just the digits that tell marks apart.
fn labels(axis: &Axis, unit: &Unit) -> String {
    let digits = -((axis.step * unit.factor).log10() + 1e-9).floor() as i32;
    let mut labels = String::new();
    for tick in axis.ticks().skip(1) {
        let text = unit.number(tick, digits);
        let _ = write!(labels, "<i class=\"y\" style=\"bottom:{:.1}%\">{text}</i>", 100.0 * axis.at(tick));
    }
    labels
}

/// A line through the middle of each step, the last one at the right edge of a `window` of steps. It is broken where
/// values are missing for long.
pub fn line(values: &Values, window: usize, axis: &Axis, css: &str) -> String {
    let first = window.saturating_sub(values.len());
    let mut parts: Vec<Vec<String>> = Vec::new();
    let mut last = None;
    for (at, value) in values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
        if last.is_none_or(|last| at - last >= GAP) {
            parts.push(Vec::new());
        }
        last = Some(at);
        let x = WIDTH * ((first + at) as f64 + 0.5) / window as f64;
        let point = format!("{x:.0},{:.0}", HEIGHT * (1.0 - axis.at(value)));
        if let Some(part) = parts.last_mut() {
            part.push(point);
        }
    }
    let drawn = parts.iter().map(|part| {
        let points = if css.starts_with("area") { grounded(part) } else { part.join(" ") };
        format!("<polyline class=\"{css}\" points=\"{points}\"/>")
    });
    drawn.collect()
}

/// The points with both ends brought down to the axis.
fn grounded(points: &[String]) -> String {
    let foot = |point: Option<&String>| {
        let x = point.and_then(|point| point.split(',').next()).unwrap_or_default();
        format!("{x},{HEIGHT}")
    };
    format!("{} {} {}", foot(points.first()), points.join(" "), foot(points.last()))
}

/// Shades the steps whose value is zero: a link was down.
pub fn down(up: &Values, window: usize) -> String {
    let (first, width) = (window.saturating_sub(up.len()) as f64, WIDTH / window as f64);
    let at_zero = up.iter().enumerate().filter(|(_, value)| **value == Some(0.0));
    at_zero
        .map(|(at, _)| {
            let x = (first + at as f64) * width;
            format!("<rect class=\"down\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{HEIGHT}\"/>")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_numbers_and_a_unit_the_digits_that_are_needed() {
        let axis = Axis::to(50.0);
        assert_eq!((axis.high, axis.ticks().collect::<Vec<_>>()), (52.0, vec![0.0, 20.0, 40.0]));
        let unit = Unit::new(Kind::Rate, axis.high);
        assert_eq!(unit.value(47.25), "47.2\u{202f}Mbit/s");
        assert_eq!(unit.value(0.5), "0.500\u{202f}Mbit/s");
        assert_eq!(Unit::new(Kind::Rate, 2000.0).value(1500.0), "1.50\u{202f}Gbit/s");
        assert_eq!(Unit::new(Kind::Rate, 1e-3).value(0.0), "0.00\u{202f}kbit/s");
        assert_eq!(Unit::new(Kind::Share, 0.02).value(0.01), "1.00\u{202f}%");
        assert_eq!(Unit::new(Kind::Count, 12_345.0).value(12_345.0), "12\u{202f}345");
        assert_eq!(labels(&axis, &unit).matches("<i").count(), 2);
    }

    #[test]
    fn a_line_is_broken_where_nothing_is_known_for_long() {
        let mut values = vec![Some(1.0); 12];
        values[2..6].fill(None);
        assert_eq!(line(&values, 12, &Axis::to(1.0), "trace").matches("<polyline").count(), 2);
        values[3] = Some(1.0);
        assert_eq!(line(&values, 12, &Axis::to(1.0), "trace").matches("<polyline").count(), 1);
        assert_eq!(line(&vec![], 12, &Axis::to(1.0), "trace"), "");
        let area = line(&vec![Some(1.0)], 10, &Axis { high: 1.0, step: 1.0 }, "area p0");
        assert_eq!(area, "<polyline class=\"area p0\" points=\"950,100 950,0 950,100\"/>");
    }
}
