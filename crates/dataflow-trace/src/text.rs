//! Text: times, sizes and names as people read them.

/// A time with three digits and its unit.
pub(crate) fn time(ns: impl Into<u128>) -> String {
    scaled(ns.into() as f64, &["ns", "µs", "ms", "s"])
}

/// A size with three digits and its unit.
pub(crate) fn bytes(n: impl Into<u128>) -> String {
    scaled(n.into() as f64, &["B", "kB", "MB", "GB", "TB"])
}

/// A share of a whole.
pub(crate) fn percent(part: u128, whole: u128) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// In the first of these units, each a thousand times the one before, in which it has three digits.
fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    let digits = match value {
        _ if value.fract() == 0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// A text as XML holds it; signs that XML knows not become U+FFFD.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A text on one line, without double quotes: for formats that cannot escape.
pub(crate) fn plain(text: &str) -> String {
    let tame = |c: char| match c {
        '"' => '\'',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(tame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let times = [0_u64, 7, 999, 1_000, 1_234, 12_345, 999_949, 3_412_345_678];
        let expected = [
            "0 ns", "7 ns", "999 ns", "1 µs", "1.23 µs", "12.3 µs", "1.00 ms", "3.41 s",
        ];
        assert_eq!(times.map(time), expected.map(String::from));
        assert_eq!(bytes(30_720_000_u64), "30.7 MB");
    }

    #[test]
    fn names_do_not_break_the_file() {
        assert_eq!(
            xml("Vec<u8> & \"x\"\u{0}"),
            "Vec&lt;u8&gt; &amp; &quot;x&quot;\u{fffd}"
        );
        assert_eq!(plain("a \"b\"\nc"), "a 'b' c");
    }
}
