//! HTML: a page that explains a run, in sentences and pictures; it needs nothing but itself.
//!
//! # Law
//! Well-formed as XML too; no scripts, no fonts, nothing from elsewhere; readable in light and dark.

use crate::chart;
use crate::draw::{Picture, style};
use crate::gantt;
use crate::matrix;
use crate::message::{all_arrows, seen};
use crate::svg::{machine, parameters};
use crate::text::xml;
use crate::view::View;
use std::io;

/// Writes what is seen of a trace.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let all = all_arrows(view);
    let arrows = seen(view, &all);
    let mut page = Page { out };
    page.opening(view)?;
    let mut chart = Picture::default();
    gantt::draw(view, &mut chart, 8.0);
    page.section("What each worker did", GANTT, Some(chart))?;
    page.section(
        "Where each worker's time went",
        SHARES,
        Some(chart::shares(view)),
    )?;
    page.section("Iterations", ITERATIONS, chart::iterations(view))?;
    page.section("Ready tasks", READY, chart::ready(view))?;
    page.section("Pending tasks", PENDING, chart::pending(view))?;
    page.section("Received data held", HELD, chart::held(view, &all))?;
    page.numbers(view)?;
    page.section("How long bodies took", HISTOGRAMS, chart::histograms(view))?;
    page.section(
        "Who ran what another made ready",
        STEALS,
        matrix::steals(view),
    )?;
    page.section(
        "Who sent how much to whom",
        MESSAGES,
        matrix::messages(view, &arrows),
    )?;
    page.text("</body>\n</html>\n")?;
    page.out.flush()
}

const GANTT: &str = "A row a worker. Full bars are bodies of tasks, thin ones idleness with its cause; the paper between is the runtime.";
const SHARES: &str = "A bar a worker (rank.worker), 100 % each: bodies by class, the runtime between them, and why there was nothing to do.";
const ITERATIONS: &str = "Downwards the iteration (the last parameter of a task), to the right time: from the first to the last task of each class. The slope is progress; what overlaps is looked ahead.";
const READY: &str =
    "Tasks that were ready and did not run yet. Where this is nothing for long, workers starve.";
const PENDING: &str =
    "Tasks that had some of their inputs and waited for others: as many records the engine kept.";
const HELD: &str = "Bytes from other ranks, from their arrival until their last reader had ended.";
const HISTOGRAMS: &str = "The times of each class's bodies, by where their data lay. A second hump to the right is what distance costs.";
const STEALS: &str = "From the worker whose task made another ready, as its last input, to the worker that ran it, on the same rank. The bar is the part that was taken from another's queue; what moved without that was queued where others take from.";
const MESSAGES: &str = "Messages and their bytes by pair of ranks.";

struct Page<'a> {
    out: &'a mut dyn io::Write,
}

impl Page<'_> {
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// The head, the title and the sentences.
    fn opening(&mut self, view: &View<'_>) -> io::Result<()> {
        let title = xml(&view.trace.name);
        let style = style(view.trace.classes.len().max(8));
        self.text(&format!(
            "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n<style>\n{PAGE}{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        ))?;
        for line in [parameters(view), machine(view)]
            .iter()
            .filter(|line| !line.is_empty())
        {
            self.text(&format!("<p class=\"about\">{}</p>\n", xml(line)))?;
        }
        let explanation = view.trace.explanation().to_string();
        self.text("<section class=\"told\">\n")?;
        for (index, line) in explanation.lines().enumerate() {
            let class = if index == 0 { " class=\"verdict\"" } else { "" };
            self.text(&format!("<p{class}>{}</p>\n", xml(line)))?;
        }
        self.text("</section>\n")
    }

    /// A picture with its sentence; nothing if there is nothing to see.
    fn section(&mut self, title: &str, about: &str, picture: Option<Picture>) -> io::Result<()> {
        let Some(picture) = picture else {
            return Ok(());
        };
        let (title, about) = (xml(title), xml(about));
        self.text(&format!("<section>\n<h2>{title}</h2>\n<p>{about}</p>\n"))?;
        self.text(&picture.within_a_page())?;
        self.text("</section>\n")
    }

    /// Classes in numbers.
    fn numbers(&mut self, view: &View<'_>) -> io::Result<()> {
        self.text("<section>\n<h2>Classes in numbers</h2>\n<table>\n<tr>")?;
        for head in [
            "class",
            "tasks",
            "in bodies",
            "mean",
            "longest",
            "ready, not run (mean)",
        ] {
            self.text(&format!("<th>{head}</th>"))?;
        }
        self.text("</tr>\n")?;
        for row in chart::numbers(view) {
            let cells: Vec<_> = row
                .iter()
                .map(|cell| format!("<td>{}</td>", xml(cell)))
                .collect();
            self.text(&format!("<tr>{}</tr>\n", cells.concat()))?;
        }
        self.text("</table>\n</section>\n")
    }
}

const PAGE: &str = "\
body{margin:2em auto;max-width:1240px;padding:0 1em;font-family:sans-serif;line-height:1.4;background:#ffffff;color:#24292f}
h1{margin-bottom:0.2em}
h2{margin-bottom:0.2em;font-size:1.2em}
p{margin:0.3em 0}
.about{color:#57606a}
.told{margin:1em 0;padding:0.6em 1em;border-left:4px solid #4e79a7;background:#f3f4f6}
.verdict{font-size:1.15em;font-weight:bold}
section{margin-top:1.6em}
svg{width:100%;height:auto}
table{border-collapse:collapse}
th,td{padding:0.2em 1em 0.2em 0;text-align:right}
th:first-child,td:first-child{text-align:left}
th{border-bottom:1px solid #8c959f}
@media (prefers-color-scheme:dark){
body{background:#16181c;color:#e6e8eb}
.about{color:#a9b1ba}
.told{background:#20242a}
}
";
