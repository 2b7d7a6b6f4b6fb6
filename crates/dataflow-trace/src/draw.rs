//! Draw: rectangles, lines, texts and axes of a picture in SVG.
//!
//! # Law
//! Well-formed XML that needs nothing else: names are escaped, colours stand in one style sheet that
//! knows light and dark. Coordinates have two digits after the point.

use crate::colour::Colours;
use crate::text::xml;
use dataflow_core::trace::{Cause, Span};
use std::fmt::Write;

/// Width of every picture.
pub(crate) const WIDTH: f64 = 1200.0;
/// From where to where plots go.
pub(crate) const LEFT: f64 = 96.0;
pub(crate) const RIGHT: f64 = WIDTH - 24.0;

/// A picture that is being drawn.
#[derive(Default)]
pub(crate) struct Picture {
    text: String,
    /// How far down it goes.
    pub height: f64,
}

/// The `d` of a path: many rectangles or lines of one colour.
#[derive(Default)]
pub(crate) struct PathData(pub String);

impl PathData {
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64) {
        for (letter, value) in [
            ("M", x),
            (" ", y),
            ("h", width),
            ("v", height),
            ("h", -width),
        ] {
            self.0.push_str(letter);
            push(&mut self.0, value);
        }
        self.0.push('z');
    }

    /// Begins a line.
    pub fn from(&mut self, x: f64, y: f64) {
        self.point("M", x, y);
    }

    /// Goes on with it.
    pub fn to(&mut self, x: f64, y: f64) {
        self.point("L", x, y);
    }

    fn point(&mut self, letter: &str, x: f64, y: f64) {
        self.0.push_str(letter);
        push(&mut self.0, x);
        self.0.push(' ');
        push(&mut self.0, y);
    }
}

impl Picture {
    /// A rectangle; with a title, that is what it says under the pointer.
    pub fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        self.element(
            "rect",
            class,
            &[("x", x), ("y", y), ("width", width), ("height", height)],
        );
        match title {
            "" => self.text.push_str("/>\n"),
            title => self.raw(&format!("><title>{}</title></rect>\n", xml(title))),
        }
    }

    pub fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        self.element(
            "line",
            class,
            &[("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)],
        );
        self.text.push_str("/>\n");
    }

    pub fn path(&mut self, class: &str, lines: &PathData) {
        if !lines.0.is_empty() {
            self.raw(&format!("<path class=\"{class}\" d=\"{}\"/>\n", lines.0));
        }
    }

    /// A text with its baseline at `y`; class `e` ends at `x`, class `m` has its middle there.
    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.element("text", class, &[("x", x), ("y", y)]);
        self.raw(&format!(">{}</text>\n", xml(text)));
    }

    pub fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn element(&mut self, name: &str, class: &str, values: &[(&str, f64)]) {
        self.raw(&format!("<{name} class=\"{class}\""));
        for (attribute, value) in values {
            self.raw(&format!(" {attribute}=\""));
            push(&mut self.text, *value);
            self.text.push('"');
        }
        let (_, y) = values
            .iter()
            .rfind(|(name, _)| name.starts_with('y'))
            .unwrap_or(&("", 0.0));
        let below = values
            .iter()
            .find(|(name, _)| *name == "height")
            .map_or(4.0, |(_, h)| *h);
        self.height = self.height.max(y + below);
    }

    /// A picture within a page, which has the style sheet.
    pub fn within_a_page(self) -> String {
        let (height, text) = (self.height.ceil() + 4.0, self.text);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n{text}</svg>\n"
        )
    }

    /// A picture that is a file.
    pub fn alone(self, style: &str) -> String {
        let (height, text) = (self.height.ceil() + 8.0, self.text);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n<style>\n{style}</style>\n<rect class=\"b\" x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\"/>\n{text}</svg>\n"
        )
    }
}

/// Where values of a range stand.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    /// Where both ends are drawn.
    begin: f64,
    end: f64,
}

impl Scale {
    pub fn new(from: f64, to: f64, begin: f64, end: f64) -> Scale {
        let to = if to > from { to } else { from + 1.0 };
        Scale {
            from,
            to,
            begin,
            end,
        }
    }

    /// Time, from left to right.
    pub fn of_time(span: Span) -> Scale {
        Scale::new(span.begin as f64, span.end as f64, LEFT, RIGHT)
    }

    /// Where a value stands; at the nearer end if it is beyond one.
    pub fn at(&self, value: f64) -> f64 {
        let part = (value - self.from) / (self.to - self.from);
        self.begin + part.clamp(0.0, 1.0) * (self.end - self.begin)
    }

    /// Where a time stands.
    pub fn of(&self, time: u64) -> f64 {
        self.at(time as f64)
    }

    /// Round values, about so many: one, two or five times a power of ten apart.
    fn ticks(&self, about: f64) -> (f64, Vec<f64>) {
        let rough = (self.to - self.from) / about;
        let power = 10_f64.powf(rough.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0].into_iter();
        let factor = factors
            .clone()
            .find(|factor| factor * power >= rough)
            .unwrap_or(10.0);
        let step = (factor * power).max(1.0);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (
            step,
            (first..=last).map(|tick| tick as f64 * step).collect(),
        )
    }
}

impl Picture {
    /// An axis of time below a plot, with lines through it.
    pub fn time_axis(&mut self, scale: &Scale, top: f64, bottom: f64) {
        self.across(scale, top, bottom, 10.0, |value, step| {
            in_unit(scale.to, value, step)
        });
        self.line("a", [scale.begin, bottom, scale.end, bottom]);
    }

    /// Lines through a plot at round values, with these texts below.
    pub fn across(
        &mut self,
        scale: &Scale,
        top: f64,
        bottom: f64,
        about: f64,
        shown: impl Fn(f64, f64) -> String,
    ) {
        let (step, ticks) = scale.ticks(about);
        for tick in ticks {
            let x = scale.at(tick);
            self.line("g", [x, top, x, bottom + 3.0]);
            self.text("s m", x, bottom + 15.0, &shown(tick, step));
        }
    }

    /// Lines through a plot at round values of its height, with these texts to the left.
    pub fn along(&mut self, scale: &Scale, left: f64, right: f64, shown: impl Fn(f64) -> String) {
        for tick in scale.ticks(4.0).1 {
            let y = scale.at(tick);
            self.line("g", [left - 3.0, y, right, y]);
            self.text("s e", left - 6.0, y + 4.0, &shown(tick));
        }
    }

    /// Swatches with names, in as many lines as they need; returns where the next thing may stand.
    pub fn legend(&mut self, left: f64, top: f64, entries: &[(String, String)]) -> f64 {
        let (mut x, mut y) = (left, top);
        for (class, name) in entries {
            let width = 30.0 + text_width(name);
            if x + width > RIGHT && x > left {
                (x, y) = (left, y + 18.0);
            }
            let (top, height) = if class.starts_with('i') {
                (y - 6.0, 5.0)
            } else {
                (y - 9.0, 11.0)
            };
            match class.as_str() {
                "p" | "w" => self.line(class, [x, y - 4.0, x + 12.0, y - 4.0]),
                class => self.rect(class, [x, top, 12.0, height], ""),
            }
            self.text("t", x + 17.0, y, name);
            x += width;
        }
        y + 18.0
    }
}

/// How wide a text of 12 pixels is, about.
pub(crate) fn text_width(text: &str) -> f64 {
    7.3 * text.chars().count() as f64
}

/// A text in lines of about so many letters.
pub(crate) fn lines(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// A time on an axis: all in one unit, with as many digits as the step has.
pub(crate) fn in_unit(longest: f64, value: f64, step: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let found = units.into_iter().find(|(size, _)| longest >= *size);
    let (size, unit) = found.unwrap_or((1.0, "ns"));
    let digits = (-(step / size).log10().floor()).max(0.0) as usize;
    format!("{:.digits$} {unit}", value / size)
}

/// A coordinate, with at most two digits after the point.
fn push(out: &mut String, value: f64) {
    let hundredths = (value * 100.0).round() as i64;
    let sign = if hundredths < 0 { "-" } else { "" };
    let (whole, rest) = (hundredths.abs() / 100, hundredths.abs() % 100);
    // Writing to a string cannot fail.
    let _ = match rest {
        0 => write!(out, "{sign}{whole}"),
        rest if rest % 10 == 0 => write!(out, "{sign}{whole}.{}", rest / 10),
        rest => write!(out, "{sign}{whole}.{rest:02}"),
    };
}

/// The style sheet of every picture with so many classes.
pub(crate) fn style(classes: usize) -> String {
    let mut style = String::from(LIGHT);
    let mut fill = |name: &str, colour: u32| {
        style.push_str(&format!(
            ".{name}{{fill:{0};stroke:{0};stroke-width:0}}\n",
            Colours::css(colour)
        ));
    };
    for class in 0..=classes {
        fill(&format!("c{class}"), Colours::of_class(class));
    }
    for cause in Cause::ALL {
        fill(&format!("i{}", cause as usize), Colours::of_cause(cause));
    }
    fill("r", Colours::RUNTIME);
    fill("k", Colours::SKIPPED);
    fill("f", Colours::FAILED);
    style.push_str(".l{fill:none;stroke-width:1.5}\n");
    style.push_str("@media (prefers-color-scheme:dark){\n");
    style.push_str(DARK);
    style.push_str("}\n");
    style
}

const LIGHT: &str = "\
.b{fill:#ffffff}
.t{fill:#24292f}
.s{fill:#57606a;font-size:11px}
.h{fill:#24292f;font-size:18px;font-weight:bold}
.e{text-anchor:end}
.m{text-anchor:middle}
.g{stroke:#d8dee4;stroke-width:1}
.a{stroke:#8c959f;stroke-width:1}
.q{fill:#f3f4f6}
.o{fill:none;stroke:#ffffff;stroke-width:4;stroke-opacity:0.75}
.p{fill:none;stroke:#111111;stroke-width:1.6}
.w{fill:none;stroke:#57606a;stroke-width:0.8;stroke-opacity:0.6}
.d{stroke:#d62728;stroke-width:1;stroke-dasharray:5 4}
.y{fill:#1f6fb4}
";

const DARK: &str = "\
.b{fill:#16181c}
.t{fill:#e6e8eb}
.s{fill:#a9b1ba}
.h{fill:#e6e8eb}
.g{stroke:#30363d}
.a{stroke:#6b7280}
.q{fill:#20242a}
.o{stroke:#16181c}
.p{stroke:#f5f5f5}
.w{stroke:#c3c8ce}
.y{fill:#58a6e6}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        let mut out = String::new();
        for value in [0.0, 1.5, -0.25, 12.345, 7.0, -0.001] {
            push(&mut out, value);
            out.push(' ');
        }
        assert_eq!(out, "0 1.5 -0.25 12.35 7 0 ");
    }

    #[test]
    fn ticks_are_round_and_within() {
        for (from, to) in [
            (0.0, 3.4e9),
            (0.0, 1.0),
            (1e6, 1.2e6),
            (0.0, 999.0),
            (5.0, 5.0),
        ] {
            let scale = Scale::new(from, to, LEFT, RIGHT);
            let (step, ticks) = scale.ticks(10.0);
            assert!(
                ticks.len() <= 12 && step >= 1.0,
                "{from} to {to}: {ticks:?}"
            );
            assert!(
                ticks
                    .iter()
                    .all(|tick| (scale.from..=scale.to).contains(tick))
            );
        }
        assert_eq!(in_unit(3.4e9, 5e8, 5e8), "0.5 s");
        assert_eq!(in_unit(999.0, 100.0, 100.0), "100 ns");
    }
}
